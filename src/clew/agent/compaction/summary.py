"""Request a summary in the cheapest way that works.

The first attempt uses the cached conversation as the prompt. Later attempts use a plain-text record
of the conversation, which is shortened each time it does not fit.

The cost is charged to the session under the purpose of compaction. A failure is returned as text;
only a cancellation is raised.

Decision: docs/decisions/160-compaction.md
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.compaction import retelling
from clew.agent.compaction.boundary import Selection
from clew.agent.compaction.budget import Room
from clew.agent.side_question import read_answer
from clew.core.json_object import Json
from clew.core.messages.messages import AssistantMessage
from clew.core.normalize.prefix import is_bound_elsewhere
from clew.providers.answer_events import Answered, CompactionDue, Ended, GaveUp
from clew.providers.base import Failure, ModelRequest, Off

MAX_SHORTER = 4
# How often the model is asked for the summary of a record before a fallback is used.
MAX_ASKED = 2
NO_SUMMARY = "the model wrote no summary"


class SummaryResult(Struct, frozen=True, kw_only=True):
    """A summary, its author, and what the author did not see."""

    words: str
    by: str
    left_out: tuple[str, ...] = ()
    duration_ms: float = 0.0


class Summaries:
    def __init__(self, put: Callable[[ModelRequest], Awaitable[Ended]]) -> None:
        self._put = put

    async def ask(
        self,
        selection: Selection,
        focus: str,
        request: ModelRequest,
        *,
        room: Room,
        size: int,
        is_full: bool,
    ) -> SummaryResult | str:
        """Ask the model for a summary of the selection; return it, or an error message.

        With `is_full`, the conversation itself may be the prompt.
        """
        if not retelling.is_answered(selection.covered):
            return "the conversation has no answer yet"
        words = retelling.compose_instruction(focus, keeps=bool(selection.kept))
        if is_full and fits(size + room.summary, room):
            ended = await self._put(with_question(request, words, room.summary, size))
            summary = summary_of(ended)
            if summary is not None:
                return SummaryResult(words=summary, by=request.model)
            if not isinstance(ended, Answered | CompactionDue) and not is_of_thoughts(ended):
                return failure_of(ended)
        return await self._from_record(selection.covered, words, request, room)

    async def _from_record(
        self, covered: Sequence[Json], words: str, request: ModelRequest, room: Room
    ) -> SummaryResult | str:
        limit, why, unanswered = room.question, "", 0
        for _ in range(MAX_SHORTER):
            record, lost = retelling.record_of(covered, limit)
            prompt = retelling.FROM_RECORD.format(record=record, instruction=words)
            ended = await self._put(
                ModelRequest(
                    model=request.model,
                    messages=[{"role": "user", "content": prompt}],
                    max_tokens=room.summary,
                    thinking=Off(),
                    cache=None,
                    session_id=request.session_id,
                )
            )
            summary = summary_of(ended, is_last=True)
            if summary is not None:
                return SummaryResult(words=summary, by=request.model, left_out=tuple(lost))
            why = failure_of(ended)
            if isinstance(ended, CompactionDue):
                limit //= 3
                continue
            unanswered += 1
            if not isinstance(ended, Answered) or unanswered == MAX_ASKED:
                return why
        return why


def fits(size: int, room: Room) -> bool:
    """Return whether a request and its response fit, with a margin for estimation errors."""
    return room.window is None or size + room.window // 50 <= room.window


def with_question(request: ModelRequest, words: str, max_tokens: int, size: int) -> ModelRequest:
    """Return the request with the question appended, so that its cached prefix stays valid."""
    messages, unshared = retelling.with_question(request.messages, words)
    return replace(
        request,
        messages=messages,
        unshared_tail=unshared,
        compares_with=None,
        max_tokens=max_tokens,
        input_tokens=size,
    )


def summary_of(ended: Ended, *, is_last: bool = False) -> str | None:
    """Return the summary in a response, or None.

    The last attempt also accepts text without tags if it is long enough.
    """
    if not isinstance(ended, Answered):
        return None
    text = AssistantMessage({"type": "assistant", "message": ended.message}).text
    summary = retelling.extract_summary(text)
    if summary is None and is_last and len(text.strip()) >= retelling.LEAST_CHARS:
        return text.strip()
    return summary


def is_of_thoughts(ended: Ended) -> bool:
    """Return whether the request was refused because of incompatible thinking blocks.

    The plain-text record contains none, so it can be tried next.
    """
    return isinstance(ended, GaveUp) and is_bound_elsewhere(ended.failure.message)


def failure_of(ended: Ended) -> str:
    words = read_answer(ended)
    return words.message if isinstance(words, Failure) else NO_SUMMARY
