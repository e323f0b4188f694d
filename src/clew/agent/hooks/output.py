"""Parsing of one hook's reply (its exit code and output) by the published contract.

The parser handles both reply formats (exit codes, and a JSON object on standard output) and their
validation. An invalid reply is reported and otherwise ignored. Exit code 2 blocks, regardless of
the output. This module does no I/O.
"""

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, field

from clew.agent.hooks.events import Event
from clew.core.json_object import Json
from clew.core.nearest import suggest_nearest
from clew.core.regex import lazy_pattern

BLOCKS = 2
# Titles, notifications and the bell; nothing that moves the cursor, sets colors, or reads the
# clipboard.
SEQUENCES = lazy_pattern(
    r"(?:\x07|\x1b\](?:0|1|2|9|99|777);[^\x00-\x06\x08-\x1f\x7f\x1b]*(?:\x07|\x1b\\))+"
)


class Ran(Struct, frozen=True, kw_only=True):
    """The result of running a handler.

    `trouble` is set if the handler could not run or was stopped; its output is then ignored.
    """

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    duration_ms: int = 0
    trouble: str = ""
    is_timeout: bool = False
    # The handler must reply in JSON.
    is_structured: bool = False
    # The host requested that a failure or an invalid reply of this handler blocks the event.
    blocks_on_trouble: bool = False


class HookPermissionAnswer(Struct, frozen=True, kw_only=True):
    """The `decision` in a reply to a PermissionRequest event."""

    behavior: Literal["allow", "deny"]
    input: Json | None = field(name="updatedInput", default=None)
    updates: list[Json] | None = field(name="updatedPermissions", default=None)
    message: str | None = None
    interrupt: bool | None = None


class Specific(Struct, frozen=True, kw_only=True):
    """The `hookSpecificOutput` of a reply: fields of all events; each event uses only its own."""

    event: str = field(name="hookEventName")
    permission: Literal["allow", "deny", "ask", "defer"] | None = field(
        name="permissionDecision", default=None
    )
    permission_reason: str | None = field(name="permissionDecisionReason", default=None)
    input: Json | None = field(name="updatedInput", default=None)
    context: str | None = field(name="additionalContext", default=None)
    answer: HookPermissionAnswer | None = field(name="decision", default=None)
    output: Any = field(name="updatedToolOutput", default=UNSET)
    mcp_output: Any = field(name="updatedMCPToolOutput", default=UNSET)
    retry: bool | None = None
    shown: str | None = field(name="displayContent", default=None)
    first_prompt: str | None = field(name="initialUserMessage", default=None)
    title: str | None = field(name="sessionTitle", default=None)
    watch: list[str] | None = field(name="watchPaths", default=None)
    reloads_skills: bool | None = field(name="reloadSkills", default=None)
    hides_prompt: bool | None = field(name="suppressOriginalPrompt", default=None)
    worktree: str | None = field(name="worktreePath", default=None)
    action: Literal["accept", "decline", "cancel"] | None = None
    content: Json | None = None


class HookOutput(Struct, frozen=True, kw_only=True):
    """The JSON object that a hook prints."""

    goes_on: bool | None = field(name="continue", default=None)
    stop_reason: str | None = field(name="stopReason", default=None)
    message: str | None = field(name="systemMessage", default=None)
    sequence: str | None = field(name="terminalSequence", default=None)
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    specific: Specific | None = field(name="hookSpecificOutput", default=None)


class HookReply(Struct, frozen=True, kw_only=True):
    """The parsed reply of one hook; the exit code sets at most one of `error` and `block`."""

    ran: Ran
    said: HookOutput = HookOutput()
    # Plain text on standard output.
    words: str = ""
    # An error in the hook or its reply that does not block the event.
    error: str = ""
    # The reason if the hook's exit code blocks the event.
    block: str | None = None


def read(event: Event, ran: Ran) -> HookReply:
    """Parse a handler's reply to an event."""
    if ran.trouble:
        return HookReply(
            ran=ran, error=ran.trouble, block=ran.trouble if ran.blocks_on_trouble else None
        )
    reply = parsed(event, ran)
    if ran.exit_code == BLOCKS:
        output = reply if isinstance(reply, HookOutput) else HookOutput()
        why = blocking_reason(output) or ran.stderr.strip() or "no reason given"
        return HookReply(ran=ran, said=output, block=why)
    if isinstance(reply, HookOutput):
        return HookReply(ran=ran, said=reply)
    if isinstance(reply, Wrong):
        return HookReply(
            ran=ran, error=reply.what, block=reply.what if ran.blocks_on_trouble else None
        )
    if ran.exit_code != 0:
        reason = first_line(ran.stderr) or f"exit code {ran.exit_code}"
        return HookReply(ran=ran, error=f"Failed with non-blocking status code: {reason}")
    return HookReply(ran=ran, words=reply)


class Wrong(Struct, frozen=True):
    what: str


def parsed(event: Event, ran: Ran) -> HookOutput | Wrong | str:
    """Return the standard output as an object, as plain text, or as an error."""
    text = ran.stdout.strip()
    if not (text.startswith("{") and text.endswith("}")):
        if ran.is_structured and text:
            return Wrong("the reply is not a JSON object")
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if is_log(text):
            return text
        return Wrong(f"the output is not valid JSON: {error}")
    return validated(event, value)


def is_log(text: str) -> bool:
    """Return whether the output is a JSON Lines log without any reply object."""
    lines = [line for line in text.split("\n") if line.strip()]
    values: list[Any] = []
    for line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            return False
    return len(values) > 1 and not any(isinstance(v, dict) and v.keys() & FIELDS for v in values)


def describe_unknown_field(names: Iterable[object]) -> str:
    """Return the first name that is not a field of hook output, with a suggestion; empty if none.

    Use this only for functions: unknown fields in the output of commands are ignored.
    """
    for name in names:
        if name not in FIELDS:
            near = suggest_nearest(str(name), FIELDS)
            return f"{name!r}{near or '; expected one of ' + ', '.join(sorted(FIELDS))}"
    return ""


FIELDS = {f.encode_name for f in msgspec.structs.fields(HookOutput)} | {"suppressOutput", "async"}


def validated(event: Event, value: Json) -> HookOutput | Wrong:
    try:
        output = msgspec.convert(value, HookOutput)
    except msgspec.ValidationError as error:
        return Wrong(f"the reply is invalid: {str(error).replace('$.', '')}")
    specific = output.specific
    if specific is not None and specific.event != event.name:
        return Wrong(f"the reply is for {specific.event}, not for {event.name}")
    return output


def blocking_reason(output: HookOutput) -> str | None:
    """Return the reason if the JSON reply blocks the event, else None."""
    specific = output.specific
    if specific is not None and specific.permission == "deny":
        return specific.permission_reason
    return output.reason if output.decision == "block" else None


def read_sequence(output: HookOutput) -> str:
    """Return the reply's terminal control sequences if all are allowed, else an empty string."""
    sequence = output.sequence or ""
    return sequence if SEQUENCES.fullmatch(sequence) else ""


# How long a hook may run that asks in its first line to continue in the background.
ASYNC_S = 15.0


def read_async_s(line: str) -> float | None:
    """Return the time limit in `{"async": true, "asyncTimeout": MS}`; None for any other line."""
    if '"async"' not in line:
        return None
    try:
        value = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return None
    if not isinstance(value, dict) or value.get("async") is not True:
        return None
    limit_ms = value.get("asyncTimeout")
    if isinstance(limit_ms, int | float) and not isinstance(limit_ms, bool) and limit_ms > 0:
        return limit_ms / 1000
    return ASYNC_S


def without_async_line(stdout: str) -> str:
    """Return a hook's output without a first line that only asked to run in the background."""
    line, _, rest = stdout.lstrip().partition("\n")
    return stdout if read_async_s(line) is None else rest


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]


def make_verdict(event: str, verdict: Json, *, continues: bool) -> Json:
    """Return a model's verdict as a hook reply.

    With `continues`, a "no" does not end the turn.
    """
    if verdict.get("ok") is not False:
        return {}
    why = str(verdict.get("reason") or "no reason given")
    match event:
        case "PermissionRequest" | "PermissionDenied":
            return {}
        case "Stop" | "SubagentStop" if verdict.get("impossible") is True:
            return {}
        case "PreToolUse":
            denied = {
                "hookEventName": event,
                "permissionDecision": "deny",
                "permissionDecisionReason": why,
            }
            end = {} if continues else {"continue": False, "stopReason": why}
            return {"hookSpecificOutput": denied} | end
        case "PostToolUse" | "TeammateIdle" if not continues:
            return {"continue": False, "stopReason": why}
        case _:
            return {"decision": "block", "reason": why}
