"""`clew sessions erase`: takes a text out of a session for good, after showing where it stands."""

import argparse
import sys

from clew.library.erasing import erase, erasures
from clew.messages.counts import count_of
from clew.sessions.output import (
    CANNOT,
    FINE,
    FOUND,
    CannotError,
    home,
    say,
    say_json,
    say_waiting,
    transcript,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", help="id, title or file")
    add("text", nargs="?", help="the text (default: standard input, so that no shell remembers it)")
    add("--yes", action="store_true", help="do it; without it, it is only shown")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    if say_waiting(path):
        return CANNOT
    text = options.text
    if text is None:
        if sys.stdin.isatty():
            raise CannotError("type the text behind the session, or pipe it in")
        text = sys.stdin.read().rstrip("\n")
    found = list(erasures(path, text))
    if options.yes and found:
        erase(home(), path, found)
    if options.json:
        files = [{"path": str(one.path), "lines": one.lines} for one in found]
        say_json({"sessionId": path.stem, "erased": options.yes, "files": files})
        return FINE if found else FOUND
    for one in found:
        say(f"{one.path}: {count_of(one.lines, 'line')}")
    if not found:
        say("the text stands nowhere in this session")
        return FOUND
    if not options.yes:
        say("would be erased for good; --yes does it")
        return FINE
    say(
        "erased for good. It may still stand in other sessions and forks (clew sessions search), in copies "
        "in clew/backups and in a store, in contents of files (clew sessions prune contents), and in the "
        "history of prompts (history.jsonl)"
    )
    return FINE
