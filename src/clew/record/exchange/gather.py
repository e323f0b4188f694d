"""A session's files as an account: the live conversation and its subagents'. Reads, never writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.encoding import decode
from clew.record.exchange.account import Account, ConversationAccount, Piece, Redaction, pieces_of
from clew.record.transcript import light
from clew.record.transcript.agents import agents, read_metadata
from clew.record.transcript.links import ROOT, Node
from clew.record.transcript.load import load
from clew.record.transcript.paths import SessionPlace
from clew.record.transcript.siblings import with_siblings
from clew.record.transcript.source import TranscriptSource

# The conversation with what its compactions closed: each entry once, where it was said. Reads, never writes.


def from_the_beginning(path: Path) -> list[dict[str, Any]]:
    """Each compaction and its summary stand where they were made; what was kept stands before them."""
    loaded = load(path, whole=True)
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
        told = dict.fromkeys(i for stretch in reversed(stretches) for i in stretch)
        return [body(links.nodes[i]) for i in told]


def account_of(
    path: Path,
    redaction: Redaction | None = None,
    *,
    subagents: bool = True,
    is_all: bool = False,
) -> Account:
    """`is_all`: with what stands before a summary. Raises `OSError` only if the session's own file cannot
    be read."""
    messages = messages_of(path, is_all=is_all)
    outline = light.outline(path)
    first = next((m for m in messages if type(m.get("cwd")) is str), {})
    talks = [_talk("", messages, redaction)]
    if subagents:
        talks += [_agent(agent, redaction, is_all=is_all) for agent in agent_files(path)]
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
    # What the model knows is the smaller and more common wish, so the rest is an option.
    return from_the_beginning(path) if is_all else load(path, whole=True).messages


def agent_files(path: Path) -> list[Path]:
    if not light.is_uuid(path.stem):
        return []
    return agents(SessionPlace(session_id=path.stem, project_dir=path.parent))


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
        data=piece.data if redaction.only_secrets else "",  # nobody looks into a picture
    )


def _models(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        said = message.get("message")
        model = said.get("model") if type(said) is dict else None
        if type(model) is str and not model.startswith("<"):
            yield model
