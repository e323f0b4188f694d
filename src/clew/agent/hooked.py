"""Apply the outcomes of hooks to a turn: entries for the conversation, notices for the user.

After an outcome, the caller decides whether the turn continues.
"""

from copy import deepcopy
from typing import Any

from msgspec import UNSET

from clew.agent.calls import BoundCall
from clew.agent.deps import Deps, Emit
from clew.agent.events import Noticed, Recorded, Signalled
from clew.agent.hooks.outcome import HookOutcome as Said
from clew.agent.hooks.outcome import rewrite_result
from clew.agent.tools.base import ToolOutcome
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.messages.history import History
from clew.core.messages.messages import AssistantMessage

BLOCKED_PROMPT = "Prompt blocked by UserPromptSubmit hook: {why}"
STOP_FEEDBACK = "Stop hook feedback:\n{words}"
PUT_OFF = "A hook deferred {tool}; resume the session to continue"
PUT_OFF_BY_HOST = "The approval of {tool} was deferred; resume the session to continue"
DEFERRED = "This call was deferred: it has not run yet."
DEFERRED_KIND = "hook-deferred"
BY_HOOK = "{event}:{tool} hook error: {why}"


async def fire_event(deps: Deps, emit: Emit, event: str, **fields: Any) -> Said:
    """Run the hooks for an event, report their notices and return the outcome."""
    return await report_notices(deps, emit, await deps.hooks.fire(event, fields, emit))


async def fire_for(deps: Deps, emit: Emit, event: str, call: BoundCall, **fields: Any) -> Said:
    """Run the hooks for an event that is about a call; return the outcome."""
    fields = describe_call(call.block) | fields
    if event == "PermissionRequest":
        del fields["tool_use_id"]
    return await report_notices(deps, emit, await deps.hooks.fire(event, fields, emit, call))


async def report_notices(deps: Deps, emit: Emit, outcome: Said) -> Said:
    if outcome.notices:
        await emit(Noticed(messages=outcome.notices))
    for sequence in outcome.sequences:
        await emit(Signalled(sequence=sequence))
    if outcome.title:
        deps.story.recorder.title(outcome.title)
    return outcome


def make_hook_entries(deps: Deps, outcome: Said) -> list[Json]:
    """Return the transcript entries of an outcome.

    They belong after the entry that the event is about.
    """
    new_entries = [
        factories.make_attachment(
            attachment.payload,
            uuid=deps.clock.new_id(),
            at=deps.clock.now(),
            rendered=attachment.rendered,
        )
        for attachment in outcome.attached
    ]
    if outcome.summary is not None:
        new_entries.append(
            factories.make_system(
                "stop_hook_summary",
                uuid=deps.clock.new_id(),
                at=deps.clock.now(),
                **outcome.summary,
            )
        )
    return new_entries


async def join_outcome(deps: Deps, emit: Emit, outcome: Said) -> None:
    """Add the entries of an outcome to the conversation."""
    new_entries = make_hook_entries(deps, outcome)
    if new_entries:
        deps.story.add(new_entries)
        await emit(Recorded(entries=new_entries))


def describe_call(block: Json) -> Json:
    """Return the fields that every event about a call has.

    The input is a copy, because a callback may modify it.
    """
    return {
        "tool_name": block["name"],
        "tool_input": deepcopy(block["input"]),
        "tool_use_id": block["id"],
    }


def describe_end(outcome: ToolOutcome, duration_ms: float) -> tuple[str, Json]:
    """Return the name and the fields of the event that reports the end of a call."""
    fields = {"duration_ms": round(duration_ms)}
    if outcome.is_error:
        return "PostToolUseFailure", fields | {
            "error": plain(outcome.content),
            "is_interrupt": False,
        }
    raw = outcome.tool_use_result
    return "PostToolUse", fields | {"tool_response": outcome.content if raw is None else raw}


def plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(b["text"] for b in content if b.get("type") == "text")


def replace_result(block: Json, outcome: ToolOutcome, hook_outcome: Said) -> Any:
    """Return the content of the result, or the content that a hook replaced it with."""
    if hook_outcome.output is UNSET or outcome.is_error:
        return outcome.content
    new = rewrite_result(
        outcome.tool_use_result, hook_outcome.output, is_mcp=block["name"].startswith("mcp__")
    )
    return outcome.content if new is None else new


def find_last_words(messages: History) -> str:
    """Return the text of the response at the end of the conversation."""
    texts: list[str] = []
    answer_id: str | None = None
    for message in reversed(messages):
        if message.get("type") != "assistant":
            continue
        view = AssistantMessage(message)
        if answer_id is not None and view.message_id != answer_id:
            break
        answer_id = view.message_id
        texts.insert(0, view.text)
    return "\n\n".join(filter(None, texts))


def calls_of(history: History) -> list[Json]:
    """Return the calls of the last response, each with the content of its result."""
    results: dict[str, Any] = {}
    calls: list[Json] = []
    answer_id: Any = None
    for message in reversed(history):
        body = message.get("message")
        content = body.get("content") if isinstance(body, dict) else None
        blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
        if message.get("type") == "assistant":
            this_id = AssistantMessage(message).message_id
            if answer_id not in (None, this_id):
                break
            answer_id = this_id
            calls[:0] = [describe_call(b) for b in blocks if b.get("type") == "tool_use"]
        elif answer_id is None:
            results |= {
                b["tool_use_id"]: b.get("content") for b in blocks if b.get("type") == "tool_result"
            }
    return [c | {"tool_response": results.get(c["tool_use_id"])} for c in calls]
