"""Export a session as an HTML page, as Markdown, as JSON, or as its transcript lines (JSONL).

Decision: docs/decisions/110-keys-and-secrets.md
"""

import getpass
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.core.json_object import Json, text_of
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import UserError
from clew.record.exchange.account import (
    SECRETS,
    Account,
    ConversationAccount,
    Piece,
    Redaction,
    pieces_of,
)
from clew.record.exchange.targets.registry import TARGETS
from clew.record.exchange.targets.turns import ExportedSession, make_turns
from clew.record.transcript import light
from clew.record.transcript.agents import encode_metadata, list_agents, read_metadata
from clew.record.transcript.links import ROOT, Node
from clew.record.transcript.load import load
from clew.record.transcript.paths import SessionPlace
from clew.record.transcript.siblings import with_siblings
from clew.record.transcript.source import TranscriptSource

# The account of a session: the live conversation and its subagents. Never writes.


# The conversation including compacted history, with each entry once and in its original place.
# Never writes.


def from_the_beginning(path: Path) -> list[dict[str, Any]]:
    """Return the messages of a session, including compacted history.

    Each boundary and its summary are in their original place; entries that a compaction kept
    precede them.
    """
    loaded = load(path, reads_all=True)
    chain, links = loaded.chain, loaded.chain.links
    if chain.boundary == ROOT:
        return loaded.messages
    with path.open("rb", buffering=0) as file:
        source = TranscriptSource(file.fileno())

        def body(node: Node) -> dict[str, Any]:
            data: dict[str, Any] = node.data or decode(source.part(node.at, node.size))
            return data if node.keys.uuid is not None else data | {"uuid": node.uuid}

        stretches, boundary, seen = [chain.live], chain.boundary, set[int]()
        while boundary != ROOT and boundary not in seen:
            seen.add(boundary)
            closed = links.past_boundary(boundary)
            way, boundary = chain.ways.walk(closed, links.nodes[boundary].at - 1, [])
            stretches.append(with_siblings(links, way, body))
        positions = dict.fromkeys(i for stretch in reversed(stretches) for i in stretch)
        return [body(links.nodes[i]) for i in positions]


def account_of(
    path: Path,
    redaction: Redaction | None = None,
    *,
    subagents: bool = True,
    is_all: bool = False,
) -> Account:
    """Return the account of a session; with `is_all`, including the history before a summary.

    Raise `OSError` only if the session's own file is unreadable.
    """
    messages = messages_of(path, is_all=is_all)
    outline = light.read_outline(path)
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    talks = [_talk("", messages, redaction)]
    if subagents:
        talks += [_agent(agent, redaction, is_all=is_all) for agent in list_agent_files(path)]
    title = outline.title if outline else path.stem
    cwd, branch = str(first.get("cwd", "")), str(first.get("gitBranch") or "")
    if redaction is not None:
        title, cwd, branch = map(redaction.text, (title, cwd, branch))
    return Account(
        session_id=path.stem,
        title=title,
        cwd=cwd,
        branch="" if branch == "HEAD" else branch,
        created_at=str((messages or [{}])[0].get("timestamp", "")),
        models=tuple(dict.fromkeys(_models(messages))),
        talks=tuple(talks),
    )


def messages_of(path: Path, *, is_all: bool) -> list[Json]:
    # Exporting only what the model sees is smaller and more common, so the rest is an option.
    return from_the_beginning(path) if is_all else load(path, reads_all=True).messages


def list_agent_files(path: Path) -> list[Path]:
    if not light.is_uuid(path.stem):
        return []
    return list_agents(SessionPlace(session_id=path.stem, project_dir=path.parent))


def _agent(path: Path, redaction: Redaction | None, *, is_all: bool) -> ConversationAccount:
    metadata = read_metadata(path)
    name = path.stem.removeprefix("agent-")
    title = (metadata.description or metadata.agent_type) if metadata else name
    talk = _talk(title, messages_of(path, is_all=is_all), redaction)
    return ConversationAccount(
        title=talk.title,
        pieces=talk.pieces,
        agent=name,
        call_id=(metadata.tool_use_id or "") if metadata else "",
    )


def _talk(title: str, messages: list[Json], redaction: Redaction | None) -> ConversationAccount:
    pieces = tuple(pieces_of(messages))
    if redaction is not None:
        pieces = tuple(_redacted(piece, redaction) for piece in pieces)
        title = redaction.text(title)
    return ConversationAccount(title=title, pieces=pieces)


def _redacted(piece: Piece, redaction: Redaction) -> Piece:
    return Piece(
        voice=piece.voice,
        text=redaction.text(piece.text),
        uuid=piece.uuid,
        timestamp=piece.timestamp,
        name=piece.name,
        call_id=piece.call_id,
        is_error=piece.is_error,
        media=piece.media,
        data=piece.data if redaction.only_secrets else "",  # Pictures are not redacted but removed.
    )


def _models(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        body = message.get("message")
        model = body.get("model") if type(body) is dict else None
        if type(model) is str and not model.startswith("<"):
            yield model


# Sessions as JSON: every transcript line (JSONL), or one object for the session. Never writes.


VERSION = "2.0"
# The type of the line with a subagent's metadata, as hosts receive it.
METADATA = "agent_metadata"


def lines(path: Path, redaction: Redaction | None, *, subagents: bool) -> Iterator[bytes]:
    """Yield every line of the session, then every line of each subagent with its `agentId`.

    A metadata line precedes the lines of each subagent. A line that needs no change is written
    exactly as it is in the transcript.
    """
    yield from _lines(path, redaction, "")
    if subagents:
        for agent in list_agent_files(path):
            name, metadata = agent.stem.removeprefix("agent-"), read_metadata(agent)
            if metadata is not None:
                record = {
                    **encode_metadata(metadata),
                    "type": METADATA,
                    "agentId": name,
                    "isSidechain": True,
                }
                yield encode(record if redaction is None else redaction.value(record)) + b"\n"
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
        record = entry if redaction is None else redaction.value(entry)
        if agent and entry.get("agentId") != agent:
            record = record | {"agentId": agent, "isSidechain": True}
        yield (raw if record == entry else encode(record)) + b"\n"


def whole(path: Path, redaction: Redaction | None, *, subagents: bool, is_all: bool) -> Json:
    """Return the live conversation and its metadata as one object.

    With `is_all`, the conversation includes compacted history.
    """
    loaded = load(path, reads_all=True)
    messages = messages_of(path, is_all=True) if is_all else loaded.messages
    outline = light.read_outline(path)
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    stat = path.stat()
    document: Json = {
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
        document["agents"] = [
            _agent_object(agent, is_all=is_all) for agent in list_agent_files(path)
        ]
    if redaction is not None:
        document = redaction.value(document)
    return document


def _agent_object(path: Path, *, is_all: bool) -> Json:
    metadata = read_metadata(path)
    return {
        "agentId": path.stem.removeprefix("agent-"),
        "agentType": metadata.agent_type if metadata else None,
        "description": metadata.description if metadata else None,
        "toolUseId": metadata.tool_use_id if metadata else None,
        "metadata": encode_metadata(metadata) if metadata else None,
        "messages": messages_of(path, is_all=is_all),
    }


_OWN_FORMATS = {"html": ".html", "markdown": ".md", "json": ".json", "jsonl": ".jsonl"}
FORMATS = (*_OWN_FORMATS, *TARGETS)
LEFT_OUT = "history before the last summary is omitted; add --all to include it"
_BY_SUFFIX = {suffix: name for name, suffix in _OWN_FORMATS.items()} | {".htm": "html"}


def form_of(target: Path | None) -> str:
    """Return the format for a file's suffix; the default is Markdown."""
    return _BY_SUFFIX.get(target.suffix.lower(), "markdown") if target else "markdown"


def export_session(
    path: Path, form: str, redaction: Redaction | None, *, subagents: bool, is_all: bool = False
) -> bytes:
    """Return a session in a format. If there is no redaction, all values are as recorded.

    `is_all` includes the history before a summary; JSONL always includes it.
    """
    if form == "jsonl":
        return b"".join(lines(path, redaction, subagents=subagents))
    if form == "json":
        return encode(whole(path, redaction, subagents=subagents, is_all=is_all)) + b"\n"
    if form in TARGETS:
        return TARGETS[form](session_of(path, redaction, is_all=is_all))
    account = account_of(path, redaction, subagents=subagents, is_all=is_all)
    if form == "html":
        from clew.record.exchange.pages import render_html

        return render_html(account).encode("utf-8", "replace")
    from clew.record.exchange.pages import render_markdown

    return render_markdown(account).encode("utf-8", "replace")


def session_of(path: Path, redaction: Redaction | None, *, is_all: bool = False) -> ExportedSession:
    """Return a session's conversation for exports to other programs."""
    messages = messages_of(path, is_all=is_all)
    if redaction is not None:
        messages = [redaction.value(message) for message in messages]
    outline = light.read_outline(path)
    title = outline.title if outline else ""
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    branch = text_of(first.get("gitBranch"))
    return ExportedSession(
        session_id=path.stem,
        title=title if redaction is None else redaction.text(title),
        cwd=text_of(first.get("cwd")),
        branch="" if branch == "HEAD" else branch,
        turns=tuple(make_turns(messages)),
    )


def begins_late(path: Path, form: str, *, subagents: bool) -> bool:
    """Return whether an export without `is_all` would omit history before a summary.

    With `subagents`, the subagents' transcripts are checked too.
    """
    if form == "jsonl":
        return False
    from clew.record.transcript.links import ROOT
    from clew.record.transcript.load import load

    files = (path, *(list_agent_files(path) if subagents else ()))
    return any(load(file).chain.boundary != ROOT for file in files)


def redaction_of(*, redacts: bool, is_raw: bool) -> Redaction | None:
    """Return the redaction for an export, or None if nothing is redacted.

    Secrets are redacted by default, personal data too with `redacts`, and nothing with `is_raw`.
    """
    if redacts and is_raw:
        raise UserError("--redact and --raw can't be combined")
    if is_raw:
        return None
    return redaction_here() if redacts else SECRETS


def redaction_here() -> Redaction:
    """Return a redaction of secrets and of this user's name and home folder."""
    person = str(Path.home())
    folders = [(person, "~")] if len(person) > 1 else []
    name = getpass.getuser()
    return Redaction(folders=tuple(folders), names=(name,) if name not in ("root", "user") else ())


def write(target: Path, data: bytes) -> None:
    """Write a file that only its owner can read, because it contains a conversation."""
    beside = target.with_name(f".{target.name}.new")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    beside.replace(target)
