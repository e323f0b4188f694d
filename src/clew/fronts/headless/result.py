"""The result of a headless run: the object programs read, and the exit code. Pure.

The fields and their spelling are those that hosts of this protocol already read.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from clew.agent.conversation import Conversation, Speaker
from clew.agent.deps import Emit
from clew.agent.events import EndReason, EngineEvent, ToolFinished, TurnEnded
from clew.agent.hooked import DEFERRED_KIND
from clew.agent.intake import Taken
from clew.agent.tools.session_tools import StructuredOutput
from clew.core.input import Pick, Rewound, Show, as_list
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import RECORD as CACHE_MISS
from clew.core.ledger.ledger import Spend
from clew.core.messages.messages import AssistantMessage

SUBTYPES: dict[EndReason, str] = {
    "max_turns": "error_max_turns",
    "budget_exhausted": "error_max_budget_usd",
    "aborted_streaming": "error_during_execution",
    "aborted_tools": "error_during_execution",
    "denied_and_stopped": "error_during_execution",
    "loop_stopped": "error_during_execution",
    "failed": "error_during_execution",
    "unshaped": "error_max_structured_output_retries",
}
# Hosts know these words for the reasons that clew calls otherwise.
TERMINAL_REASONS: dict[EndReason, str] = {
    "denied_and_stopped": "aborted_tools",
    "stopped_by_hook": "hook_stopped",
    "left": "completed",
    "refused": "completed",
    "no_answer": "completed",
    "loop_stopped": "aborted_tools",
    "failed": "model_error",
    "unshaped": "structured_output_retry_exhausted",
}
# How programs are told that a hook put a call off.
DEFERRED_REASON = "tool_deferred"
EXIT_INTERRUPTED = 130


class Tally(Struct, kw_only=True):
    """What a turn came to, gathered while it ran."""

    session_id: str
    text: str = ""
    turns: int = 1
    api_ms: int = 0
    denials: list[Json] = []
    # Why the service's prompt cache missed, by the entry that says so.
    cache_misses: dict[str, Json] = {}
    # The answer in the shape that was asked for, where one was.
    structured: Json | None = None
    # The call that a hook put off, and with it the turn's end.
    deferred: Json | None = None

    def entry(self, entry: Json) -> None:
        """Takes note of an entry that joined the conversation."""
        if entry.get("type") == "assistant":
            said = AssistantMessage(entry)
            if isinstance(miss := entry.get(CACHE_MISS), dict):
                self.cache_misses[entry["uuid"]] = miss
            if said.text and self.structured is None:
                self.text = said.text

    def finished(self, event: ToolFinished) -> None:
        """Takes note of a call that has its result."""
        self.turns += 1
        if event.block["name"] == StructuredOutput.name and not event.is_error:
            self.structured = event.block["input"]
            self.text = msgspec.json.encode(self.structured).decode()
        if event.entry.get("toolDenialKind") == DEFERRED_KIND:
            block = event.block
            self.deferred = {"id": block["id"], "name": block["name"], "input": block["input"]}
        elif "toolDenialKind" in event.entry:
            self.denials.append(
                {
                    "tool_name": event.block["name"],
                    "tool_use_id": event.block["id"],
                    "tool_input": event.block["input"],
                }
            )


def done_beside(taken: Taken, tally: Tally) -> TurnEnded:
    """A line that the model was not asked about, as the end of a turn without rounds."""
    shown = beside(taken)
    tally.turns = 0
    if shown.is_error:
        return TurnEnded(reason="failed", message=shown.text)
    tally.text = shown.text
    return TurnEnded(reason="completed")


def beside(taken: Taken) -> Show:
    """The words of what was done or is to be chosen, where nobody chooses."""
    match taken:
        case Show():
            return taken
        case Pick():
            return as_list(taken)
        case Rewound():
            return Show(text=taken.text)
        case _:
            return Show(text="")


def compacted(ended: TurnEnded, tally: Tally) -> TurnEnded:
    """A conversation that was shortened, as the end of a turn without rounds."""
    tally.turns = 0
    tally.text = "" if ended.is_error else ended.message
    return ended


def exit_code(ended: TurnEnded) -> int:
    if ended.reason in ("aborted_streaming", "aborted_tools"):
        return EXIT_INTERRUPTED
    return 1 if ended.is_error else 0


def is_kept_back(ended: TurnEnded) -> bool:
    """Whether a hook kept the prompt from the model."""
    return ended.reason == "stopped_by_hook" and ended.rounds == 0


def cost_of(spend: Spend) -> float | None:
    """What is known of the cost, as programs read it; None when a price is not known."""
    return float(spend.usd) if spend.is_complete else None


def usage_of(spend: Spend) -> Json:
    tokens = spend.tokens
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write_5m,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "server_tool_use": {"web_search_requests": tokens.web_searches},
    }


def result(
    ended: TurnEnded,
    tally: Tally,
    *,
    uuid: str,
    duration_ms: int,
    usage: Json,
    cost_usd: float | None,
    model_usage: Json,
) -> Json:
    """The result object; exactly one a run, whatever happened."""
    subtype = SUBTYPES.get(ended.reason, "success")
    said: Json = (
        {"result": tally.text or ended.message}
        if subtype == "success"
        else {"errors": [ended.message or ended.reason]}
    )
    # What failed beside the conversation is no end of the model's: nothing was asked.
    is_beside = ended.reason == "failed" and not tally.turns
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": ended.is_error,
        **said,
        "num_turns": 0 if is_kept_back(ended) else tally.turns,
        "duration_ms": duration_ms,
        "duration_api_ms": tally.api_ms,
        "stop_reason": ended.stop_reason,
        "terminal_reason": None if is_beside else TERMINAL_REASONS.get(ended.reason, ended.reason),
        "api_error_status": ended.status,
        "session_id": tally.session_id,
        "total_cost_usd": cost_usd,
        "usage": usage,
        "modelUsage": model_usage,
        "permission_denials": tally.denials,
        "uuid": uuid,
        **({"cache_misses": list(tally.cache_misses.values())} if tally.cache_misses else {}),
        **({} if tally.structured is None else {"structured_output": tally.structured}),
        **(
            {}
            if tally.deferred is None
            else {
                "stop_reason": DEFERRED_REASON,
                "terminal_reason": DEFERRED_REASON,
                "deferred_tool_use": tally.deferred,
            }
        ),
    }


# Answers of a given shape: asks once more where none came, and gives up where none will.


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
