"""`clew sessions fork`: a session that begins as another does, up to any message of it."""

import argparse
import time

from clew.library.copies import fork
from clew.messages.counts import count_of
from clew.messages.moments import written
from clew.sessions.messages import uuid_of
from clew.sessions.output import CANNOT, FINE, say, say_json, say_waiting, transcript


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", help="id, title or file")
    add("message", nargs="?", help="the last message of the copy, its uuid or the uuid's beginning")
    add("--title", default="", help="the copy's title")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    if say_waiting(path):
        return CANNOT
    uuid = uuid_of(path, options.message) if options.message else None
    made = fork(path, uuid, title=options.title, at=written(time.time_ns() // 1_000_000))
    if options.json:
        say_json(
            {
                "sessionId": made.path.stem,
                "path": str(made.path),
                "messages": made.messages,
                "agents": made.agents,
                "title": made.title,
            }
        )
    else:
        agents = f" with {count_of(made.agents, 'subagent')}" if made.agents else ""
        say(f"{made.path.stem}: {count_of(made.messages, 'message')}{agents}, {made.title!r}")
    return FINE
