"""`clew sessions export`: a session as a page, as Markdown, as JSON, for other people and programs."""

import argparse
import getpass
import os
import sys
from pathlib import Path

from clew.exchange.redact import Redaction
from clew.messages.encoding import encode
from clew.sessions.output import FINE, CannotError, say, say_json, size, transcript

FORMATS = {"html": ".html", "markdown": ".md", "json": ".json", "jsonl": ".jsonl"}
_BY_SUFFIX = {suffix: name for name, suffix in FORMATS.items()} | {".htm": "html"}


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
    add("--no-agents", action="store_true", help="without the subagents")
    add("--force", action="store_true", help="over a file that is there")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    target = None if options.output in (None, "-") else Path(options.output)
    named = options.format or (_BY_SUFFIX.get(target.suffix.lower()) if target else None)
    redaction = _redaction() if options.redact else None
    data = exported(path, named or "markdown", redaction, subagents=not options.no_agents)
    if target is None:
        if options.json:
            raise CannotError("--json tells of a file that was written; name one")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return FINE
    if target.exists() and not options.force:
        raise CannotError(f"{target} is there already; --force writes over it")
    _write(target, data)
    if options.json:
        say_json({"path": str(target.absolute()), "format": named, "sizeBytes": len(data)})
    else:
        say(f"{target}: {size(len(data))}")
    return FINE


def exported(path: Path, form: str, redaction: Redaction | None, *, subagents: bool) -> bytes:
    if form == "jsonl":
        from clew.exchange.entries import lines

        return b"".join(lines(path, redaction, subagents=subagents))
    if form == "json":
        from clew.exchange.entries import whole

        return encode(whole(path, redaction, subagents=subagents)) + b"\n"
    from clew.exchange.gather import account_of

    account = account_of(path, redaction, subagents=subagents)
    if form == "html":
        from clew.exchange.html import html

        return html(account).encode("utf-8", "replace")
    from clew.exchange.markdown import markdown

    return markdown(account).encode("utf-8", "replace")


def _redaction() -> Redaction:
    person = str(Path.home())
    folders = [(person, "~")] if len(person) > 1 else []
    name = getpass.getuser()
    return Redaction(folders=tuple(folders), names=(name,) if name not in ("root", "user") else ())


def _write(target: Path, data: bytes) -> None:
    """Only the person's own: what was said is in it."""
    beside = target.with_name(f".{target.name}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    beside.replace(target)
