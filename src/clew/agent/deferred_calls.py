"""Repeat the tool calls that a hook deferred, once the session continues.

The result that reports the deferral stays in the conversation until the call is decided. Then it is
withdrawn, and the call runs or gets another result.
"""

from clew.agent.deps import Deps, Emit
from clew.agent.events import TurnEnded
from clew.agent.executor import ToolExecutor
from clew.agent.hooked import DEFERRED_KIND
from clew.agent.transitions import Repetition
from clew.core.json_object import Json
from clew.core.messages.history import History
from clew.core.messages.messages import AssistantMessage, UserMessage


def find_deferred(history: History) -> list[Json]:
    """Return the results of the deferred calls at the end of a conversation."""
    results: list[Json] = []
    for place in range(len(history) - 1, -1, -1):
        entry = history[place]
        if entry.get("type") == "assistant":
            break
        if entry.get("toolDenialKind") == DEFERRED_KIND:
            results.append(entry)
    return results[::-1]


def find_call(history: History, identity: str | None) -> tuple[Json, Json] | None:
    """Return a call's block and the entry that contains it, or None if there is no such call."""
    for place in range(len(history) - 1, -1, -1):
        entry = history[place]
        if entry.get("type") == "assistant":
            for use in AssistantMessage(entry).tool_uses:
                if use.id == identity:
                    return use.data, entry
    return None


async def repeat_deferred_calls(deps: Deps, emit: Emit) -> TurnEnded | None:
    """Repeat deferred calls; return the end of the turn if one of them ends it, else None."""
    history = deps.story.history
    results = find_deferred(history)
    if not results:
        return None
    running = ToolExecutor(deps, emit, Repetition())
    running.release()
    async with running:
        for entry in results:
            for result in UserMessage(entry).tool_results:
                found = find_call(history, result.tool_use_id)
                if found is not None:
                    block, call_entry = found
                    await running.start(
                        block, [call_entry], call_entry["uuid"], deferral=entry["uuid"]
                    )
    if running.halt is not None:
        return TurnEnded(reason="stopped_by_hook", message=running.halt)
    return TurnEnded(reason="denied_and_stopped") if running.is_stopped else None
