"""Ask a model one question outside the conversation: no history, one response in text.

The cost is charged to the session's ledger under the question's purpose and recorded as a
`request-cost` line, because no entry of the conversation shows it. Failures are values; only a
cancellation raises. The response is data, never a permission.
"""

from collections.abc import Callable

from clew.agent.charging import charge
from clew.agent.deps import AnswerDriver
from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.json_object import Json
from clew.core.ledger.ledger import Purpose
from clew.core.ledger.state import ApiTimed, SessionTracker
from clew.core.messages.messages import AssistantMessage
from clew.providers.answer_events import Answered, CompactionDue, DriverEvent, Ended, Incomplete
from clew.providers.base import Failure, ModelRequest, Off
from clew.record.transcript.record import Recorder

SMALL = "small"
MAX_ANSWER_TOKENS = 8_192


class SideQuestions:
    """Asks a model questions outside the conversation.

    `models` maps words like "small" to model IDs; any other word is itself a model name.
    """

    def __init__(
        self,
        *,
        answer: Callable[[], AnswerDriver],
        models: dict[str, str],
        session: SessionTracker,
        recorder: Recorder,
        now: Callable[[], str],
        monotonic_s: Callable[[], float],
        catalog: ModelCatalog = CATALOG,
    ) -> None:
        self._answer = answer
        self._models = models
        self._session = session
        self._recorder = recorder
        self._now = now
        self._monotonic_s = monotonic_s
        self._catalog = catalog

    async def ask_model(
        self,
        prompt: str,
        *,
        system: str = "",
        model: str = SMALL,
        purpose: Purpose = "other",
        max_tokens: int = MAX_ANSWER_TOKENS,
    ) -> str | Failure:
        """Ask the model `prompt` and return the response; an incomplete response is a failure."""
        ended = await self._ask(
            prompt, system=system, model=model, purpose=purpose, max_tokens=max_tokens, tools=None
        )
        return read_answer(ended)

    async def ask_service(
        self, prompt: str, *, tools: list[Json], model: str = SMALL, purpose: Purpose = "other"
    ) -> list[Json] | Failure:
        """Ask with the service's own tools available, and return the blocks of the response."""
        ended = await self._ask(
            prompt,
            system="",
            model=model,
            purpose=purpose,
            max_tokens=MAX_ANSWER_TOKENS,
            tools=tools,
        )
        if isinstance(ended, Answered):
            return list(ended.message.get("content") or [])
        words = read_answer(ended)
        return words if isinstance(words, Failure) else Failure(kind="content", message=words)

    async def _ask(
        self,
        prompt: str,
        *,
        system: str,
        model: str,
        purpose: Purpose,
        max_tokens: int,
        tools: list[Json] | None,
    ) -> Ended:
        request = ModelRequest(
            model=self._catalog.entry(self._models.get(model, model)).id,
            messages=[{"role": "user", "content": prompt}],
            system=system or None,
            max_tokens=max_tokens,
            tools=tools,
            thinking=Off(),
            cache=None,
            session_id=self._recorder.writer.session_id,
        )
        return await self.put(request, purpose)

    async def put(self, request: ModelRequest, purpose: Purpose) -> Ended:
        """Send a request unchanged and charge its cost."""
        begin_s, answer = self._monotonic_s(), self._answer()
        try:
            ended = await answer.run(request, _unheard)
            duration_ms = (self._monotonic_s() - begin_s) * 1000
            self._session.change(ApiTimed(duration_ms=duration_ms, without_retries_ms=duration_ms))
            if isinstance(ended, Answered | Incomplete):
                self._charge(ended.message, ended.request_id, purpose, duration_ms)
        finally:
            answer.release()
        return ended

    def _charge(
        self, message: Json, request_id: str | None, purpose: Purpose, duration_ms: float
    ) -> None:
        charge(
            self._session,
            self._recorder,
            message,
            request_id=request_id,
            purpose=purpose,
            duration_ms=duration_ms,
            at=self._now(),
            catalog=self._catalog,
        )


async def _unheard(_: DriverEvent) -> None:
    """Ignore the event, because only the complete response is used."""


def read_answer(ended: Ended) -> str | Failure:
    match ended:
        case Answered():
            words = AssistantMessage({"type": "assistant", "message": ended.message}).text
            return words or Failure(kind="content", message="the model returned an empty response")
        case CompactionDue():
            return ended.failure or Failure(
                kind="status",
                message=f"the question does not fit into {ended.model}'s context window",
            )
        case _:
            return ended.failure
