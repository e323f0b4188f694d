"""Read the conversation up to any message, on any branch, and the tree of all branches."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from clew.core.input import name_prompt
from clew.core.json_object import Json
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import format_count
from clew.record.transcript import light
from clew.record.transcript.chain import build
from clew.record.transcript.header import read_header
from clew.record.transcript.leaf import Marker
from clew.record.transcript.links import ROOT, Links, Node
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.source import TranscriptSource

# The types that count as messages, unlike notes and attachments.
SAID = ("user", "assistant")


class Branch(Struct, frozen=True, kw_only=True):
    """A conversation from its beginning to one message, oldest first, with the messages' nodes."""

    nodes: list[Node]
    messages: list[Json]
    loaded: LoadedSession


def read_branch(path: Path, uuid: str | None = None) -> Branch:
    """Return the branch up to the message `uuid`, or to the leaf.

    Raise `SessionError` if the message is unknown.
    """
    loaded = load(path, reads_all=True)
    if uuid is None:
        nodes = list(loaded.chain.nodes())
        return Branch(nodes=nodes, messages=loaded.messages, loaded=loaded)
    if uuid not in loaded.chain.links.index:
        raise SessionError(
            f"message {uuid} not found in session {path.stem}; "
            "`clew sessions tree` lists the prompts"
        )
    marker = Marker(leaf_uuid=uuid, is_explicit=True, at=loaded.size_bytes + 1)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        source = TranscriptSource(fd)

        def body(node: Node) -> Json:
            data: Json = node.data or decode(source.read(node.at, node.size))
            return data if node.keys.uuid is not None else data | {"uuid": node.uuid}

        chain = build(
            loaded.chain.links.nodes,
            markers=[*loaded.side.markers, marker],
            withdrawn=loaded.side.withdrawn,
            body=body,
            is_agent_file=path.name.startswith("agent-"),
        )
        nodes = list(chain.nodes())
        messages = [body(node) for node in nodes]
    finally:
        os.close(fd)
    return Branch(nodes=nodes, messages=messages, loaded=loaded)


class BranchPrompt(Struct, frozen=True, kw_only=True):
    """A prompt and its place in the tree.

    `end` is the last message that belongs to the prompt, and `messages` is the number of
    messages before the next prompt. `live` means that the prompt is on the session's current
    branch; `is_summarized` means that a compaction on that branch replaced it by a summary.

    Fields:
        uuid: The prompt's ID.
        text: The prompt's text.
        timestamp: The time at which the prompt was sent, in ISO form.
        depth: The number of forks above it.
        is_leaf: Whether no prompt follows it on its branch.
    """

    uuid: str
    end: str
    text: str
    timestamp: str
    depth: int
    messages: int
    live: bool
    is_summarized: bool
    is_leaf: bool


def prompts(path: Path) -> Iterator[BranchPrompt]:
    """Yield every prompt of every branch, each branch after the branch from which it forks.

    A prompt's depth is the number of forks above it.
    """
    yield from _of(load(path, reads_all=True))


def find_end_before(path: Path, uuid: str) -> str | None:
    """Return the entry before a prompt of the live branch, or None for the first prompt."""
    before = None
    for prompt in read_tree(path).prompts:
        if prompt.uuid == uuid:
            return before
        if prompt.live:
            before = prompt.end
    return None


def find_prompt_above(path: Path, uuid: str) -> BranchPrompt | None:
    """Return the prompt that a message is or belongs to, on any branch, or None."""
    loaded = load(path, reads_all=True)
    links = loaded.chain.links
    prompts = {links.index[prompt.uuid]: prompt for prompt in _of(loaded)}
    i, seen = links.index.get(uuid, ROOT), set[int]()
    while i != ROOT and i not in prompts and i not in seen:
        seen.add(i)
        i = links.parents[i]
    return prompts.get(i)


def _of(loaded: LoadedSession) -> Iterator[BranchPrompt]:
    fd = os.open(loaded.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from _prompts(loaded.chain.links, loaded.chain.live, TranscriptSource(fd))
    finally:
        os.close(fd)


def _prompts(links: Links, live: Sequence[int], source: TranscriptSource) -> Iterator[BranchPrompt]:
    bodies: dict[int, Json] = {}
    for i, node in enumerate(links.nodes):
        if links.is_shown(i) and node.keys.type == "user" and not node.keys.is_meta:
            entry = node.data or decode(source.read(node.at, node.size))
            message = UserMessage(entry)
            # The output of a shell command line belongs to that line.
            if message.face == "typed" and not message.text.startswith("<bash-stdout>"):
                bodies[i] = entry
    above: dict[int, int] = {}
    counts: dict[int, int] = {}
    ends: dict[int, int] = {}
    parents = _parents(links)
    owners = _owners(parents, bodies)
    current = set(_back_from(live[-1], parents)) if live else set[int]()
    for i in range(len(links.nodes)):
        if links.is_shown(i):
            owner = owners[i]
            keys = links.nodes[i].keys
            is_said = i not in bodies and keys.type in SAID and not keys.is_compact_summary
            if is_said or i in bodies:
                ends[owner] = i
            counts[owner] = counts.get(owner, 0) + is_said
            if i in bodies:
                above[i] = owners[parents[i]]
    below: dict[int, list[int]] = {}
    for i, parent in above.items():
        below.setdefault(parent, []).append(i)
    kept = set(live)
    waiting = [(i, 0) for i in reversed(below.get(ROOT, []))]
    while waiting:
        i, depth = waiting.pop()
        children = below.get(i, [])
        yield BranchPrompt(
            uuid=links.nodes[i].uuid,
            end=links.nodes[ends[i]].uuid,
            text=_text(bodies[i]),
            timestamp=links.nodes[i].keys.timestamp or "",
            depth=depth,
            messages=counts.get(i, 0),
            live=i in current or i in kept,
            is_summarized=i in current and i not in kept,
            is_leaf=not children,
        )
        # The most recent branch continues at the same depth; the others precede it, indented.
        waiting += [(child, depth) for child in children[-1:]]
        waiting += [(child, depth + 1) for child in reversed(children[:-1])]


def _parents(links: Links) -> Sequence[int]:
    """Return each entry's parent; for a compaction boundary, the last entry that it summarizes."""
    if any(parent > i for i, parent in enumerate(links.parents)):
        return links.parents  # out of order, so that a boundary could close a circle
    parents = list(links.parents)
    for i, node in enumerate(links.nodes):
        if node.is_boundary and (parent := links.past_boundary(i)) < i:
            parents[i] = parent
    return parents


def _back_from(i: int, parents: Sequence[int]) -> Iterator[int]:
    while i != ROOT:
        yield i
        i = parents[i]


def _owners(parents: Sequence[int], prompts: dict[int, Json]) -> dict[int, int]:
    """Map each entry to the prompt it belongs to.

    That is the entry itself if it is a prompt, otherwise the nearest prompt above it.
    """
    owners = {ROOT: ROOT} | {i: i for i in prompts}
    for i in range(len(parents)):
        way: list[int] = []
        while i not in owners:
            way.append(i)
            i = parents[i]
        owners |= dict.fromkeys(way, owners[i])
    return owners


def _text(entry: Json) -> str:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    if type(content) is list:
        content = " ".join(
            b["text"] for b in content if type(b) is dict and type(b.get("text")) is str
        )
    return " ".join(name_prompt(content).split()) if type(content) is str else ""


# A session as a tree: its prompts on all branches, its origin, and its forks.


SHOWN_WORDS = 90


class SessionTree(Struct, frozen=True, kw_only=True):
    """The prompts of a session on all branches, its origin and its forks.

    `forked_from` names the session and the message that this session was forked from. Each of
    `forks` names a session that was forked from this one, and the message at which it was forked.
    Both have the other session's title.

    Fields:
        prompts: All prompts, each branch after the branch from which it forks.
    """

    forked_from: Json | None
    prompts: list[BranchPrompt]
    forks: list[Json]


def read_tree(path: Path) -> SessionTree:
    origin = _lineage(path)
    return SessionTree(
        forked_from=origin
        and origin | {"title": _title(path.with_name(f"{origin['sessionId']}.jsonl"))},
        prompts=list(prompts(path)),
        forks=[
            {
                "sessionId": other.stem,
                "messageUuid": origin["messageUuid"],
                "title": _title(other),
            }
            for other in light.list_session_files(path.parent)
            if (origin := _lineage(other)) is not None and origin["sessionId"] == path.stem
        ],
    )


def _title(path: Path) -> str:
    """Return the title of a session, or the start of its ID if it has none."""
    outline = light.read_outline(path)
    return path.stem[:8] if outline is None else outline.title


def find_live_leaf(session_tree: SessionTree) -> int:
    """Return the index of the prompt at the current leaf, or 0 if there is none."""
    return next(
        (n for n, prompt in enumerate(session_tree.prompts) if prompt.live and prompt.is_leaf), 0
    )


def format_tree(session_tree: SessionTree) -> Iterator[str]:
    """Yield the tree as text, one line per prompt."""
    if session_tree.forked_from:
        yield f"forked from {session_tree.forked_from['sessionId']} at {session_tree.forked_from['messageUuid']}"
    for prompt in session_tree.prompts:
        yield format_prompt(prompt, f"{prompt.uuid[:8]}  ")
    for fork in session_tree.forks:
        yield f"forked at {fork['messageUuid'][:8]}: {fork['sessionId']}"


def format_prompt(prompt: BranchPrompt, name: str = "") -> str:
    """Format a prompt with its depth; a filled circle marks the current branch."""
    mark = "●" if prompt.live else "○"
    long = len(prompt.text) > SHOWN_WORDS
    text = f"{prompt.text[: SHOWN_WORDS - 1]}…" if long else prompt.text
    counted = format_count(prompt.messages, "message")
    note = f"{counted}, summarized" if prompt.is_summarized else counted
    return f"{'│ ' * prompt.depth}{mark} {name}{text}  ({note})"


def _lineage(path: Path) -> Json | None:
    """Return the session and the message that a session was forked from, from its first line.

    Return None if it is not a fork.
    """
    origin = read_header(path).get("forkedFrom")
    is_whole = type(origin) is dict and all(
        type(origin.get(key)) is str for key in ("sessionId", "messageUuid")
    )
    return origin if is_whole else None
