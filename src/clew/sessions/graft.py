"""`clew sessions graft`: a part of one session brought to the end of another."""

import argparse

from clew.library.copies import graft
from clew.messages.counts import count_of
from clew.sessions.messages import uuid_of
from clew.sessions.output import CANNOT, FINE, say, say_json, say_waiting, transcript


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", help="the session that gets the part: id, title or file")
    add("source", help="the session it comes from: id, title or file")
    add("first", help="the prompt it begins with, its uuid or the uuid's beginning")
    add("last", nargs="?", help="its last message (default: where the source stands)")


def run(options: argparse.Namespace) -> int:
    target, source = transcript(options.session), transcript(options.source)
    if say_waiting(target) or say_waiting(source):
        return CANNOT
    first = uuid_of(source, options.first)
    last = uuid_of(source, options.last) if options.last else None
    made = graft(target, source, first, last)
    if options.json:
        brought = {"messages": made.messages, "agents": made.agents}
        say_json({"sessionId": target.stem, "from": source.stem, **brought})
    else:
        agents = f" with {count_of(made.agents, 'subagent')}" if made.agents else ""
        say(
            f"{count_of(made.messages, 'message')}{agents} of {source.stem} brought to {target.stem}"
        )
    return FINE
