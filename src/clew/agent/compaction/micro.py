"""Replacement of individual old tool results in a conversation by references to files.

An entry in the chain records the replacement text for each removed result, so that a resumed
session sends the same request. The text of the result remains in a file. This module does no I/O.

Decision: docs/decisions/160-compaction.md
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.normalize import select
from clew.core.normalize.tokens import estimate_block_tokens

# The latest results are kept regardless of size, because the model is working with them.
RECENT = 6
LEAST_TOKENS = 400
# After an overflow, even the newest results are removed if they have more tokens than this.
LARGE_TOKENS = 2_000
# Characters still shown: the beginning of an old result, both ends of a recent one.
BEGIN_CHARS = 120
SEEN_CHARS = 1_600


class Old(Struct, frozen=True, kw_only=True):
    """A removable result, with its text and the approximate number of tokens it would free."""

    tool_use_id: str
    tool: str
    text: str
    tokens: int
    # Whether the result is so recent that the model has barely used it yet.
    is_recent: bool = False


def removable(entries: Sequence[Json], *, recent: int, least_tokens: int) -> list[Old]:
    """Return the removable results, oldest first.

    Results that contain anything other than text are kept, because the model could not read them
    again.
    """
    gone = select.find_references(entries)
    tools: dict[str, str] = {}
    candidates: list[Old | None] = []
    for entry in entries:
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if type(content) is list else ():
            if type(block) is not dict:
                continue
            if block.get("type") == "tool_use":
                tools[str(block.get("id"))] = str(block.get("name"))
            elif block.get("type") == "tool_result":
                candidates.append(_old(block, tools, gone, least_tokens))
    return [old for old in candidates[: max(0, len(candidates) - recent)] if old is not None]


def _old(block: Json, tools: dict[str, str], gone: dict[str, str], least: int) -> Old | None:
    call = block.get("tool_use_id")
    text = _text(block.get("content"))
    if type(call) is not str or call in gone or text is None or block.get("is_error") is True:
        return None
    tokens = estimate_block_tokens(block)
    return (
        Old(tool_use_id=call, tool=tools.get(call, "tool"), text=text, tokens=tokens)
        if (tokens >= least)
        else None
    )


def _text(content: Any) -> str | None:
    """Return the text of a result, or None if the result contains anything else."""
    if type(content) is str:
        return content
    blocks = content if type(content) is list else [None]
    texts = [b.get("text") for b in blocks if type(b) is dict and b.get("type") == "text"]
    if len(texts) < len(blocks) or not all(type(text) is str for text in texts):
        return None
    return "\n\n".join(str(text) for text in texts)


def describe_reference(old: Old, path: str) -> str:
    """Return the text that replaces a result: where the full text is, its size, and an excerpt."""
    half = SEEN_CHARS // 2 if old.is_recent else BEGIN_CHARS
    begin, end = old.text[:half].strip(), old.text[-half:].strip()
    words = (
        f"[This {old.tool} result was removed to save space. Its {len(old.text):,} characters are in {path}; "
        f"read them there if needed. It began: {begin}"
    )
    return f"{words}\n...\nIt ended: {end}]" if old.is_recent else f"{words}]"


def select_results(entries: Sequence[Json], over_tokens: int) -> list[Old]:
    """Return the results to remove from a conversation that is too long by `over_tokens`.

    These are the old results. If removing them is not enough, large results of the latest rounds
    are included, provided that they make up the difference.
    """
    old = removable(entries, recent=RECENT, least_tokens=LEAST_TOKENS)
    if sum(result.tokens for result in old) > over_tokens:
        return old
    old_ids = {result.tool_use_id for result in old}
    large = removable(entries, recent=0, least_tokens=LARGE_TOKENS)
    extra = [
        Old(
            tool_use_id=result.tool_use_id,
            tool=result.tool,
            text=result.text,
            tokens=result.tokens,
            is_recent=True,
        )
        for result in large
        if result.tool_use_id not in old_ids
    ]
    return [*old, *extra] if sum(result.tokens for result in [*old, *extra]) > over_tokens else old


def make_entry(
    references: dict[str, str], *, uuid: str, at: str, trigger: str, pre_tokens: int, saved: int
) -> Json:
    """Return the entry that records which results later requests omit."""
    words = f"old tool results removed: {len(references)}"
    metadata = {
        "trigger": trigger,
        "preTokens": pre_tokens,
        "tokensSaved": saved,
        "compactedToolIds": list(references),
        "clearedAttachmentUUIDs": [],
        "references": references,
    }
    note = factories.make_system(select.MICRO, words, uuid=uuid, at=at)
    return note | {"microcompactMetadata": metadata}
