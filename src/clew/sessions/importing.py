"""`clew sessions import`: files of clew, Claude Code, Codex and pi as sessions, and what was lost."""

import argparse
import time
from pathlib import Path

from clew.exchange.bring import Brought, bring
from clew.messages.counts import count_of
from clew.messages.errors import SessionError, in_words
from clew.messages.moments import written
from clew.sessions.output import CANNOT, FINE, Bar, cwd, home, say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", nargs="+", help="transcripts, one-file JSON, Codex rollouts, sessions of pi")
    add("--new-id", action="store_true", help="with an id of its own: a copy of what may be there")


def run(options: argparse.Namespace) -> int:
    brought: list[Brought] = []
    refused: list[tuple[str, str]] = []
    with Bar("importing") as bar:
        for number, name in enumerate(options.file, 1):
            try:
                found = bring(
                    home(),
                    Path(name),
                    cwd(),
                    now=lambda: written(time.time_ns() // 1_000_000),
                    anew=options.new_id,
                )
                brought.append(found)
            except (SessionError, OSError) as error:
                refused.append((name, in_words(error)))
            bar(number, len(options.file))
    if options.json:
        say_json(
            {
                "imported": [
                    {
                        "sessionId": one.session_id,
                        "path": str(one.path),
                        "kind": one.kind,
                        "title": one.title,
                        "messages": one.messages,
                        "agents": one.agents,
                        "lost": one.losses,
                    }
                    for one in brought
                ],
                "refused": [{"file": name, "reason": why} for name, why in refused],
            }
        )
    else:
        _tell(brought, refused)
    return CANNOT if refused else FINE


def _tell(brought: list[Brought], refused: list[tuple[str, str]]) -> None:
    for one in brought:
        say(f"{one.session_id}: {one.kind}, {count_of(one.messages, 'message')}, {one.title!r}")
        for reason, times in sorted(one.losses.items()):
            say(f"  lost: {reason}: {times:,}")
    for name, why in refused:
        say(why if why.startswith(f"{name}: ") else f"{name}: {why}")
