"""A session as bytes in another form: a page, Markdown, JSON, or its own lines; and as a file of them.

Decision: docs/decisions/110-keys-and-secrets.md
"""

import getpass
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import UserError
from clew.record.exchange.account import SECRETS, Redaction
from clew.record.exchange.gather import agent_files, messages_of
from clew.record.transcript import light
from clew.record.transcript.agents import read_metadata, written
from clew.record.transcript.load import load

# Sessions as JSON: every line as it is, or one object for the whole session. Reads, never writes.


VERSION = "2.0"
# The kind of the line that says what a subagent was, as hosts are told it.
METADATA = "agent_metadata"


def lines(path: Path, redaction: Redaction | None, *, subagents: bool) -> Iterator[bytes]:
    """Every line of the session, then every line of its subagents, each with its `agentId`; before
    those of one, what it was, as a line of its own.

    A line that loses nothing is the bytes that were written.
    """
    yield from _lines(path, redaction, "")
    if subagents:
        for agent in agent_files(path):
            name, said = agent.stem.removeprefix("agent-"), read_metadata(agent)
            if said is not None:
                told = {**written(said), "type": METADATA, "agentId": name, "isSidechain": True}
                yield encode(told if redaction is None else redaction.value(told)) + b"\n"
            yield from _lines(agent, redaction, name)


def _lines(path: Path, redaction: Redaction | None, agent: str) -> Iterator[bytes]:
    for raw in path.read_bytes().split(b"\n"):
        if not raw.strip():
            continue
        try:
            entry = decode(raw)
        except ValueError:
            entry = None
        if type(entry) is not dict:
            continue
        told = entry if redaction is None else redaction.value(entry)
        if agent and entry.get("agentId") != agent:
            told = told | {"agentId": agent, "isSidechain": True}
        yield (raw if told == entry else encode(told)) + b"\n"


def whole(path: Path, redaction: Redaction | None, *, subagents: bool, is_all: bool) -> Json:
    """The live conversation and what a list shows of it, in one object; `is_all`: from its beginning."""
    loaded = load(path, whole=True)
    messages = messages_of(path, is_all=True) if is_all else loaded.messages
    outline = light.outline(path)
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    stat = path.stat()
    found: Json = {
        "version": VERSION,
        "state": {
            "sessionId": path.stem,
            "title": outline.title if outline else None,
            "tag": outline.tag if outline else None,
            "leafUuid": loaded.leaf_uuid,
            "beside": loaded.side.current,
        },
        "messages": messages,
        "metadata": {
            "gitBranch": first.get("gitBranch"),
            "projectPath": first.get("cwd"),
            "created": outline.created_at if outline else None,
            "modified": datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(),
            "messageCount": len(messages),
        },
    }
    if subagents:
        found["agents"] = [_agent(agent, is_all=is_all) for agent in agent_files(path)]
    if redaction is not None:
        found = redaction.value(found)
    return found


def _agent(path: Path, *, is_all: bool) -> Json:
    metadata = read_metadata(path)
    return {
        "agentId": path.stem.removeprefix("agent-"),
        "agentType": metadata.agent_type if metadata else None,
        "description": metadata.description if metadata else None,
        "toolUseId": metadata.tool_use_id if metadata else None,
        "metadata": written(metadata) if metadata else None,
        "messages": messages_of(path, is_all=is_all),
    }


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
        return b"".join(lines(path, redaction, subagents=subagents))
    if form == "json":
        return encode(whole(path, redaction, subagents=subagents, is_all=is_all)) + b"\n"
    from clew.record.exchange.gather import account_of

    account = account_of(path, redaction, subagents=subagents, is_all=is_all)
    if form == "html":
        from clew.record.exchange.pages import html

        return html(account).encode("utf-8", "replace")
    from clew.record.exchange.pages import markdown

    return markdown(account).encode("utf-8", "replace")


def begins_late(path: Path, form: str, *, subagents: bool) -> bool:
    """Whether a form, without `is_all`, leaves out what stands before a summary, subagents' too."""
    if form == "jsonl":
        return False
    from clew.record.exchange.gather import agent_files
    from clew.record.transcript.links import ROOT
    from clew.record.transcript.load import load

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
