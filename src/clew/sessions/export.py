"""`clew sessions export`: a session as a page, as Markdown, as JSON, for other people and programs."""

import argparse
import sys
from pathlib import Path

from clew.config.there import is_there
from clew.exchange.export import (
    FORMATS,
    LEFT_OUT,
    begins_late,
    exported,
    form_of,
    redaction_of,
    write,
)
from clew.messages.counts import size_of
from clew.sessions.output import FINE, CannotError, saved_part, say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", help="id, title or file")
    add("output", nargs="?", help="the file to write (default: standard output)")
    add(
        "--format",
        choices=tuple(FORMATS),
        help="by default what the file's name says, else markdown",
    )
    add(
        "--redact", action="store_true", help="without secrets, folders, names, addresses, pictures"
    )
    add("--raw", action="store_true", help="every byte as it was written, secrets too")
    add("--all", action="store_true", help="also what stands before a summary (JSONL: always)")
    add("--no-agents", action="store_true", help="without the subagents")
    add("--force", action="store_true", help="over a file that is there")


def run(options: argparse.Namespace) -> int:
    path = saved_part(options.session)
    target = None if options.output in (None, "-") else Path(options.output)
    named = options.format or form_of(target)
    redaction = redaction_of(redacts=options.redact, is_raw=options.raw)
    data = exported(path, named, redaction, subagents=not options.no_agents, is_all=options.all)
    if target is None:
        if options.json:
            raise CannotError("--json tells of a file that was written; name one")
        _say_left_out(path, named, options)
        if sys.stdout.isatty():
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            sys.stdout.buffer.write(data)
        return FINE
    if is_there(target) and not options.force:
        raise CannotError(f"{target} is there already; --force writes over it")
    write(target, data)
    _say_left_out(path, named, options)
    if options.json:
        say_json({"path": str(target.absolute()), "format": named, "sizeBytes": len(data)})
    else:
        say(f"{target}: {size_of(len(data))}")
    return FINE


def _say_left_out(path: Path, form: str, options: argparse.Namespace) -> None:
    if not options.all and begins_late(path, form, subagents=not options.no_agents):
        sys.stderr.write(f"clew sessions: {LEFT_OUT}\n")
