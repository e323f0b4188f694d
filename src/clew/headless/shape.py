"""Answers of a given shape: asks once more where none came, and gives up where none will.

The model gives such an answer by calling StructuredOutput, which checks it. What never fits is an error
of the run, not an answer without its data.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from clew.engine.conversation import Conversation, Speaker
from clew.engine.deps import Emit
from clew.engine.events import EngineEvent, ToolFinished, TurnEnded
from clew.headless.result import Tally
from clew.tools.structured_output import StructuredOutput

Json: TypeAlias = dict[str, Any]

MAX_FAILURES = 5
REMINDER = (
    "Give the result now by calling StructuredOutput; nothing else that you say is read by the program "
    "that asked."
)
NEVER = TurnEnded(
    reason="unshaped", message="the model gave no answer that fits the schema of --json-schema"
)


class Shaped:
    """Runs turns like the conversation does; without a schema it is nothing but a way through."""

    def __init__(self, conversation: Conversation, emit: Emit, *, is_wanted: bool) -> None:
        self._conversation = conversation
        self._emit = emit
        self._is_wanted = is_wanted
        self._failures = 0

    async def submit(
        self,
        prompt: str | Sequence[Json],
        tally: Tally,
        *,
        said_by: Speaker,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> TurnEnded:
        self._failures = 0
        ended = await self._conversation.submit(
            prompt, self._heard, said_by=said_by, uuid=uuid, context=context
        )
        if self._is_wanted and not ended.is_error and tally.structured is None:
            system = Speaker(source="system", mode=said_by.mode)
            ended = await self._conversation.submit(REMINDER, self._heard, said_by=system)
        if self._failures >= MAX_FAILURES:
            return NEVER
        if self._is_wanted and not ended.is_error and tally.structured is None:
            return NEVER
        return ended

    async def _heard(self, event: EngineEvent) -> None:
        await self._emit(event)
        if isinstance(event, ToolFinished) and event.block["name"] == StructuredOutput.name:
            self._failures += event.is_error
            if self._failures >= MAX_FAILURES:
                self._conversation.interrupt()
