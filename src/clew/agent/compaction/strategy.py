"""The interface through which a host program can replace clew's compaction.

If a strategy fails, the failure is reported, and clew's own compaction is used.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from clew.core.json_object import Json


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """A conversation to compact.

    Fields:
        entries: The entries of the conversation, as stored. Do not change them.
        keep_from: The ID of the entry from which clew would keep everything; None to keep nothing.
        kept_tokens: How many tokens of entries may be kept.
        summary_tokens: How long the summary may be.
        trigger: `auto`, or `manual` for `/compact`.
        focus: The subject that the user or a hook wants the summary to focus on.
    """

    entries: list[Json]
    keep_from: str | None
    kept_tokens: int
    summary_tokens: int
    trigger: str
    focus: str


class CompactionSummary(Struct, frozen=True, kw_only=True):
    """The replacement for the beginning of a conversation.

    Fields:
        text: The summary. It must not be empty.
        keep_from: The ID of the first entry to keep. A call and its result stay together. None
            keeps nothing.
    """

    text: str
    keep_from: str | None = None


# Returns the summary, or None to let clew compact in its own way.
CompactFunction: TypeAlias = Callable[[CompactionRequest], Awaitable[CompactionSummary | None]]


async def ask_strategy(
    strategy: CompactFunction, request: CompactionRequest
) -> CompactionSummary | BaseException | None:
    """Call the strategy; return its summary or None. If it returns neither or fails, the error."""

    async def call() -> object:
        return await strategy(request)

    task = asyncio.create_task(call(), name="compaction")
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    if task.cancelled():
        return asyncio.CancelledError("the function was cancelled")
    if (error := task.exception()) is not None:
        return error
    answer = task.result()
    if answer is None or (isinstance(answer, CompactionSummary) and answer.text.strip()):
        return answer
    return TypeError(f"expected None or a CompactionSummary with text, got {answer!r:.80}")
