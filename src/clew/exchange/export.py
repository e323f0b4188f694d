"""A session as bytes in another form: a page, Markdown, JSON, or its own lines; and as a file of them.

Decision: docs/decisions/110-keys-and-secrets.md
"""

import getpass
import os
from pathlib import Path

from clew.exchange.redact import SECRETS, Redaction
from clew.messages.encoding import encode
from clew.messages.errors import UserError

FORMATS = {"html": ".html", "markdown": ".md", "json": ".json", "jsonl": ".jsonl"}
LEFT_OUT = "what stands before the last summary is left out; --all brings it"
_BY_SUFFIX = {suffix: name for name, suffix in FORMATS.items()} | {".htm": "html"}


def form_of(target: Path | None) -> str:
    """The form that a file's name says."""
    return _BY_SUFFIX.get(target.suffix.lower(), "markdown") if target else "markdown"


def exported(
    path: Path, form: str, redaction: Redaction | None, *, subagents: bool, is_all: bool = False
) -> bytes:
    """A session in a form; without redaction every byte of it is as it was written.

    `is_all` says also what stands before a summary; in lines it always does.
    """
    if form == "jsonl":
        from clew.exchange.entries import lines

        return b"".join(lines(path, redaction, subagents=subagents))
    if form == "json":
        from clew.exchange.entries import whole

        return encode(whole(path, redaction, subagents=subagents, is_all=is_all)) + b"\n"
    from clew.exchange.gather import account_of

    account = account_of(path, redaction, subagents=subagents, is_all=is_all)
    if form == "html":
        from clew.exchange.html import html

        return html(account).encode("utf-8", "replace")
    from clew.exchange.markdown import markdown

    return markdown(account).encode("utf-8", "replace")


def begins_late(path: Path, form: str, *, subagents: bool) -> bool:
    """Whether a form, without `is_all`, leaves out what stands before a summary, subagents' too."""
    if form == "jsonl":
        return False
    from clew.exchange.gather import agent_files
    from clew.transcript.links import ROOT
    from clew.transcript.load import load

    files = (path, *(agent_files(path) if subagents else ()))
    return any(load(file).chain.boundary != ROOT for file in files)


def redaction_of(*, redacts: bool, is_raw: bool) -> Redaction | None:
    """What is taken out: secrets, unless a person says otherwise; with `redacts` all that says who."""
    if redacts and is_raw:
        raise UserError("--redact takes out, --raw leaves everything: name one of them")
    if is_raw:
        return None
    return redaction_here() if redacts else SECRETS


def redaction_here() -> Redaction:
    """What says who and where this person is, besides secrets."""
    person = str(Path.home())
    folders = [(person, "~")] if len(person) > 1 else []
    name = getpass.getuser()
    return Redaction(folders=tuple(folders), names=(name,) if name not in ("root", "user") else ())


def write(target: Path, data: bytes) -> None:
    """Only the person's own: what was said is in it."""
    beside = target.with_name(f".{target.name}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    beside.replace(target)
