"""A session as a tree: its prompts on all branches, where it comes from, and what was forked from it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.library.branches import Prompt, prompts
from clew.messages.counts import count_of
from clew.transcript import light
from clew.transcript.lineage import header_of

Json = dict[str, Any]
SHOWN_WORDS = 90


class Tree(Struct, frozen=True, kw_only=True):
    """`forked_from` names a session and a message of it; so does each fork, of this one."""

    forked_from: Json | None
    prompts: list[Prompt]
    forks: list[Json]


def tree(path: Path) -> Tree:
    return Tree(
        forked_from=_lineage(path),
        prompts=list(prompts(path)),
        forks=[
            {"sessionId": other.stem, "messageUuid": said["messageUuid"]}
            for other in light.session_files(path.parent)
            if (said := _lineage(other)) is not None and said["sessionId"] == path.stem
        ],
    )


def live_leaf(found: Tree) -> int:
    """The number of the prompt where the session stands."""
    return next((n for n, one in enumerate(found.prompts) if one.live and one.is_leaf), 0)


def told(found: Tree) -> Iterator[str]:
    """The tree for people, a line for each prompt."""
    if found.forked_from:
        yield f"a fork of {found.forked_from['sessionId']} at {found.forked_from['messageUuid']}"
    for one in found.prompts:
        yield prompt_line(one, f"{one.uuid[:8]}  ")
    for fork in found.forks:
        yield f"forked at {fork['messageUuid'][:8]}: {fork['sessionId']}"


def prompt_line(one: Prompt, name: str = "") -> str:
    """Where a prompt stands in the tree, and how it begins; filled is where the session stands."""
    mark = "●" if one.live else "○"
    long = len(one.text) > SHOWN_WORDS
    text = f"{one.text[: SHOWN_WORDS - 1]}…" if long else one.text
    return f"{'│ ' * one.depth}{mark} {name}{text}  ({count_of(one.messages, 'message')})"


def _lineage(path: Path) -> Json | None:
    """Where a session was forked from, by its first line."""
    said = header_of(path).get("forkedFrom")
    is_whole = type(said) is dict and all(
        type(said.get(key)) is str for key in ("sessionId", "messageUuid")
    )
    return said if is_whole else None
