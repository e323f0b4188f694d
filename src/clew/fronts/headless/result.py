"""The result of a headless run: the object that programs read, and the exit code.

The names of the fields are those that hosts of this protocol already read.
"""

import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from clew.agent.events import EndReason, ToolFinished, TurnEnded
from clew.agent.hooked import DEFERRED_KIND
from clew.agent.tools.base import STRUCTURED_OUTPUT
from clew.core.input import Show
from clew.core.json_object import Json
from clew.core.ledger.cache_miss import RECORD as CACHE_MISS
from clew.core.ledger.ledger import Spend
from clew.core.ledger.totals import describe_model_usage
from clew.core.messages.messages import AssistantMessage, UserMessage
from clew.core.messages.text import INTERRUPTED as INTERRUPTED_TURN
from clew.core.messages.text import INTERRUPTED_FOR_TOOL_USE, NOBODY_TO_ASK
from clew.fronts.ends import INTERRUPTED
from clew.permissions.modes import NEVER_ASKS
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
# The names under which hosts know clew's end reasons.
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
# The errors of turns that ended without a message.
ENDED_EARLY: dict[EndReason, str] = {
    "aborted_streaming": "the turn was interrupted",
    "aborted_tools": "the turn was interrupted while tools were running",
    "denied_and_stopped": "the turn was stopped because a tool call was rejected",
}
# The reason that programs receive if a hook deferred a call.
INTERRUPTIONS = (INTERRUPTED_TURN, INTERRUPTED_FOR_TOOL_USE)
DEFERRED_REASON = "tool_deferred"


class Tally(Struct, kw_only=True):
    """The data for a result, collected while a turn runs."""

    session_id: str
    # Returns a call's input as hosts receive it, with an absolute file path.
    describe_input: Callable[[Json], Json] = dict
    text: str = ""
    # As in the Agent SDK, this counts the prompt, each tool result, and an interruption.
    turns: int = 1
    # The end reason of the last response, also if the turn was interrupted afterwards.
    stop_reason: str | None = None
    # The service's name for the error that the last response reports.
    api_error_type: str | None = None
    # Whether the turn has a message that says so.
    is_interrupted: bool = False
    # The entries of the counted results.
    counted: set[str] = set()
    api_ms: int = 0
    denials: list[Json] = []
    # Their inputs as hosts receive them.
    denied_inputs: list[Json] = []
    # Denials that no approval could have prevented, by a rule or a hook, with the reason.
    firm_denials: list[tuple[Json, str]] = []
    # Why the API's prompt cache missed, by entry.
    cache_misses: dict[str, Json] = {}
    # The structured result, if a schema was given.
    structured: Json | None = None
    # The call that a hook deferred, which ended the turn.
    deferred: Json | None = None

    def entry(self, entry: Json) -> None:
        """Record an entry that was added to the conversation, for the result."""
        if entry.get("type") == "assistant":
            message = AssistantMessage(entry)
            self.stop_reason = message.stop_reason
            self.api_error_type = entry.get("apiErrorType")
            if isinstance(miss := entry.get(CACHE_MISS), dict):
                self.cache_misses[entry["uuid"]] = miss
            if message.text and self.structured is None:
                self.text = message.text
        elif entry.get("type") == "user":
            said = UserMessage(entry)
            self.is_interrupted |= said.is_synthetic and said.text in INTERRUPTIONS
            if said.tool_results:
                self._count(entry)

    def _count(self, entry: Json) -> None:
        if entry["uuid"] not in self.counted:
            self.counted.add(entry["uuid"])
            self.turns += 1

    def finished(self, event: ToolFinished) -> None:
        """Record a finished tool call."""
        self._count(event.entry)
        if event.block["name"] == STRUCTURED_OUTPUT and not event.is_error:
            self.structured = event.block["input"]
            self.text = msgspec.json.encode(self.structured).decode()
        if event.entry.get("toolDenialKind") == DEFERRED_KIND:
            block = event.block
            self.deferred = {"id": block["id"], "name": block["name"], "input": block["input"]}
        elif "toolDenialKind" in event.entry:
            denial = {
                "tool_name": event.block["name"],
                "tool_use_id": event.block["id"],
                "tool_input": event.block["input"],
            }
            self.denials.append(denial)
            self.denied_inputs.append(self.describe_input(event.block["input"]))
            if not (event.display.startswith(NOBODY_TO_ASK) or NEVER_ASKS in event.display):
                self.firm_denials.append((denial, event.display))


def end_without_turn(reply: Show, tally: Tally) -> TurnEnded:
    """Record the output of a line that did not go to the model; return the end of an empty turn."""
    tally.turns = 0
    if reply.is_error:
        return TurnEnded(reason="failed", message=reply.text)
    tally.text = reply.text
    return TurnEnded(reason="completed")


def end_compaction(ended: TurnEnded, tally: Tally) -> TurnEnded:
    """Record the result of a compaction, and return its end as the end of an empty turn."""
    tally.turns = 0
    tally.text = "" if ended.is_error else ended.message
    return ended


def exit_code(ended: TurnEnded) -> int:
    if ended.reason in ("aborted_streaming", "aborted_tools"):
        return INTERRUPTED
    return 1 if ended.is_error or ended.is_blocked else 0


def cost_of(spend: Spend) -> float | None:
    """Return the cost as a number for programs, or None if a price is unknown."""
    return float(spend.usd) if spend.is_complete else None


def result_of(
    session: Session, ended: TurnEnded, tally: Tally, *, began_s: float, before: Spend
) -> Json:
    """Return the result of a turn.

    `began_s` is the start of the turn on the monotonic clock; `before` is the cost of earlier
    turns.
    """
    ledger = session.ledger()
    tally.api_ms = round(session.costs.spending.state.api_ms)
    return make_result(
        ended,
        tally,
        uuid=make_id(),
        duration_ms=round((time.monotonic() - began_s) * 1000),
        usage=(ledger.in_turns - before).tokens.as_usage(),
        cost_usd=cost_of(ledger.total),
        model_usage=describe_model_usage(ledger, session.model_access.speaking.catalog),
    ) | describe_shipped(session)


def describe_shipped(session: Session) -> Json:
    """Return the commits and pull requests of the entire session, if any."""
    state, past = session.costs.spending.state, session.costs.past
    counts = {
        "commits": past.commits + state.commits,
        "pull_requests": past.pull_requests + state.pull_requests,
    }
    return {name: count for name, count in counts.items() if count}


def find_error(ended: TurnEnded) -> str:
    """Return why a turn failed, as a sentence."""
    return ended.message or ENDED_EARLY.get(ended.reason, ended.reason)


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
    """Return the result object. Each turn has exactly one."""
    subtype = SUBTYPES.get(ended.reason, "success")
    fields: Json = {"result": tally.text or ended.message} if subtype == "success" else {}
    if ended.is_error:
        fields["errors"] = [find_error(ended)]
    is_interrupted = tally.is_interrupted or ended.reason in ("aborted_streaming", "aborted_tools")
    # If the model was never asked, there is no end reason from the model.
    is_beside = ended.reason == "failed" and not tally.turns
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": ended.is_error,
        **fields,
        "num_turns": 0 if ended.is_blocked else tally.turns + is_interrupted,
        "duration_ms": duration_ms,
        "duration_api_ms": tally.api_ms,
        "stop_reason": ended.stop_reason or tally.stop_reason,
        "terminal_reason": None if is_beside else TERMINAL_REASONS.get(ended.reason, ended.reason),
        "api_error_status": ended.status,
        "session_id": tally.session_id,
        "total_cost_usd": cost_usd,
        "usage": usage,
        "modelUsage": model_usage,
        "permission_denials": [
            denial | {"tool_input": tool_input}
            for denial, tool_input in zip(tally.denials, tally.denied_inputs, strict=True)
        ],
        "uuid": uuid,
        **({"cache_misses": list(tally.cache_misses.values())} if tally.cache_misses else {}),
        **({"api_error_type": tally.api_error_type} if tally.api_error_type else {}),
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
