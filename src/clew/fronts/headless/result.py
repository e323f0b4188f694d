"""The result of a headless run: the object programs read, and the exit code.

The fields and their spelling are those that hosts of this protocol already read.
"""

import time

import msgspec
from msgspec import Struct

from clew.agent.events import EndReason, ToolFinished, TurnEnded
from clew.agent.hooked import DEFERRED_KIND
from clew.agent.tools.base import STRUCTURED_OUTPUT
from clew.core.input import Show
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import RECORD as CACHE_MISS
from clew.core.ledger.ledger import Spend
from clew.core.ledger.totals import sum_usage_by_model
from clew.core.messages.messages import AssistantMessage
from clew.fronts.ends import INTERRUPTED
from clew.session.session import Session
from clew.system.clock import make_id

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
            message = AssistantMessage(entry)
            if isinstance(miss := entry.get(CACHE_MISS), dict):
                self.cache_misses[entry["uuid"]] = miss
            if message.text and self.structured is None:
                self.text = message.text

    def finished(self, event: ToolFinished) -> None:
        """Takes note of a call that has its result."""
        self.turns += 1
        if event.block["name"] == STRUCTURED_OUTPUT and not event.is_error:
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


def end_without_turn(reply: Show, tally: Tally) -> TurnEnded:
    """A line that the model was not asked about, as the end of a turn without rounds."""
    tally.turns = 0
    if reply.is_error:
        return TurnEnded(reason="failed", message=reply.text)
    tally.text = reply.text
    return TurnEnded(reason="completed")


def end_compaction(ended: TurnEnded, tally: Tally) -> TurnEnded:
    """A conversation that was shortened, as the end of a turn without rounds."""
    tally.turns = 0
    tally.text = "" if ended.is_error else ended.message
    return ended


def exit_code(ended: TurnEnded) -> int:
    if ended.reason in ("aborted_streaming", "aborted_tools"):
        return INTERRUPTED
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


def result_of(
    session: Session, ended: TurnEnded, tally: Tally, *, began_s: float, before: Spend
) -> Json:
    """The result of a turn that began at `began_s`, by the monotonic clock, with `before` spent."""
    ledger = session.ledger()
    tally.api_ms = round(session.costs.spending.state.api_ms)
    return make_result(
        ended,
        tally,
        uuid=make_id(),
        duration_ms=round((time.monotonic() - began_s) * 1000),
        usage=usage_of(ledger.total - before),
        cost_usd=cost_of(ledger.total),
        model_usage=sum_usage_by_model(ledger),
    )


def make_result(
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
    fields: Json = (
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
        **fields,
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
