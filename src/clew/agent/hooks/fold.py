"""Combine the replies of all hooks at one event into one outcome and its transcript entries.

The strictest reply wins, in the order deny, defer, ask, allow. If several hooks set the same field,
the hook listed last wins. The entries have the format that other transcript readers expect. This
module does no I/O.

Decision: docs/decisions/130-hooks.md
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, Struct

from clew.agent.hooks.events import Event, label_event, subject_of
from clew.agent.hooks.handlers import Hook
from clew.agent.hooks.outcome import NOTHING, HookAttachment, HookOutcome, Permission
from clew.agent.hooks.output import (
    HookOutput,
    HookPermissionAnswer,
    HookReply,
    Specific,
    read_sequence,
)
from clew.core.json_object import Json
from clew.core.messages.text import wrap_in_tag

Shorten: TypeAlias = Callable[[str], str]

STRICTEST: tuple[Permission, ...] = ("deny", "defer", "ask", "allow")
STOPPED = "a hook stopped the session"
# At these events, a hook's text becomes a separate message.
ENDS = frozenset({"Stop", "SubagentStop"})


class Occasion(Struct, frozen=True, kw_only=True):
    """One occurrence of an event."""

    event: Event
    fields: Json

    @property
    def name(self) -> str:
        return label_event(self.event.name, subject_of(self.event, self.fields))

    @property
    def tool_use_id(self) -> str:
        tool_use_id = self.fields.get("tool_use_id")
        return tool_use_id if isinstance(tool_use_id, str) else ""

    def spoken(self, words: str) -> str:
        """Return a hook's text for the model, labeled with its source."""
        return wrap_in_tag("system-reminder", f"\n{self.name} hook: {words}\n")


def fold(
    occasion: Occasion, replies: Sequence[tuple[Hook, HookReply]], shorten: Shorten = str
) -> HookOutcome:
    """Combine the hooks' replies; `shorten` moves long text to a file."""
    if not replies:
        return NOTHING
    event = occasion.event
    outputs = [reply.said for _, reply in replies]
    specifics = [output.specific for output in outputs if output.specific is not None]
    permission, reason = permitted(event, [reply for _, reply in replies])
    blocks = [why for _, reply in replies if (why := blocked(event, reply)) is not None]
    halts = [output.stop_reason or STOPPED for output in outputs if output.goes_on is False]
    context = tuple(shorten(text) for text in contexts(event, outputs))
    return HookOutcome(
        permission=permission,
        reason=reason,
        input=last([s.input for s in specifics]) if permission not in ("deny", "defer") else None,
        answer=answered([s.answer for s in specifics if s.answer is not None]),
        block="\n".join(blocks)
        if blocks and event.blocking in ("prevents", "remarks", "fails")
        else None,
        halt=halts[0] if halts and event.may_halt else None,
        context=context if event.name in ENDS else (),
        output=next(
            (o for o in reversed(list(map(output_of, specifics))) if o is not UNSET), UNSET
        ),
        title=last([s.title for s in specifics]) or "",
        first_prompt=last([s.first_prompt for s in specifics]) or "",
        shown=last([s.shown for s in specifics]),
        watch=watched(specifics),
        reloads_skills=any(s.reloads_skills for s in specifics),
        may_retry=any(s.retry for s in specifics),
        hides_prompt=any(s.hides_prompt for s in specifics),
        attached=tuple(a for hook, reply in replies for a in kept(occasion, hook, reply, shorten)),
        notices=tuple(n for hook, reply in replies for n in told(occasion, hook, reply)),
        sequences=tuple(filter(None, map(read_sequence, outputs))),
        summary=summary(occasion, replies, halts, blocks=bool(blocks))
        if event.name in ENDS
        else None,
        worktree=worktree(event, replies, specifics),
        action=last([s.action for s in specifics]) or "",
        content=last([s.content for s in specifics]),
    )


def last(values: Sequence[Any]) -> Any:
    return next((value for value in reversed(values) if value is not None), None)


def permitted(event: Event, replies: Sequence[HookReply]) -> tuple[Permission | None, str]:
    """Return the strictest permission (for a call or a model switch), and its reasons."""
    if event.name not in ("PreToolUse", "PreModelSwitch"):
        return None, ""
    answers = [word for reply in replies if (word := permission_of(reply)) is not None]
    for permission in STRICTEST:
        reasons = [why for word, why in answers if word == permission]
        if reasons:
            return permission, "\n".join(filter(None, reasons))
    return None, ""


def permission_of(reply: HookReply) -> tuple[Permission, str] | None:
    if reply.block is not None:
        return "deny", reply.block
    specific, old = reply.said.specific, reply.said.decision
    if specific is not None and specific.permission is not None:
        # A denial without a reason may give it in the message for the user.
        message = (reply.said.message or "no reason given") if specific.permission == "deny" else ""
        return specific.permission, specific.permission_reason or message
    if old is not None:
        # The reply uses the format that this event had before it got its own field.
        return ("deny" if old == "block" else "allow"), reply.said.reason or ""
    return None


def blocked(event: Event, reply: HookReply) -> str | None:
    """Return why one hook blocks the event, or None."""
    if event.blocking == "fails":
        failed = reply.error or reply.block or reply.ran.exit_code
        return (
            (reply.error or reply.block or f"exit code {reply.ran.exit_code}") if failed else None
        )
    if reply.block is not None:
        return reply.block
    if reply.said.decision == "block":
        return reply.said.reason or "no reason given"
    return None


def contexts(event: Event, outputs: Sequence[HookOutput]) -> list[str]:
    if not event.takes_context:
        return []
    texts = [o.specific.context for o in outputs if o.specific is not None]
    return [text for text in texts if text]


def answered(answers: Sequence[HookPermissionAnswer]) -> Json | None:
    """Return the answer to a permission request, or None if no hook answered.

    Deny takes precedence over allow.
    """
    chosen = next((a for a in answers if a.behavior == "deny"), last(answers))
    if chosen is None:
        return None
    return {
        "behavior": chosen.behavior,
        "updatedInput": chosen.input,
        "updatedPermissions": chosen.updates,
        "message": chosen.message,
        "interrupt": chosen.interrupt,
    }


def output_of(specific: Specific) -> Any:
    return specific.mcp_output if specific.output is UNSET else specific.output


def watched(specifics: Sequence[Specific]) -> tuple[str, ...] | None:
    lists = [s.watch for s in specifics if s.watch is not None]
    return tuple(path for paths in lists for path in paths) if lists else None


def worktree(
    event: Event, replies: Sequence[tuple[Hook, HookReply]], specifics: Sequence[Specific]
) -> str:
    """Return the folder that a WorktreeCreate hook created.

    The reply may name the folder; otherwise the last line of the hook's output names it.
    """
    if event.name != "WorktreeCreate":
        return ""
    lines = [line.strip() for _, r in replies for line in r.words.split("\n") if line.strip()]
    return last([s.worktree for s in specifics]) or (lines[-1] if lines else "")


# -- messages for the user


def told(occasion: Occasion, hook: Hook, reply: HookReply) -> list[str]:
    event = occasion.event
    if not event.may_tell:
        return []
    lines = [reply.said.message] if reply.said.message else []
    complaint = reply.error
    if reply.block is not None and event.blocking == "shown":
        complaint = reply.block
    if complaint:
        where = f" ({hook.where})" if hook.where else ""
        lines.append(f"{occasion.name} hook error: {complaint}{where}")
    return lines


# -- transcript entries


def kept(
    occasion: Occasion, hook: Hook, reply: HookReply, shorten: Shorten
) -> list[HookAttachment]:
    """Return the transcript entries of one hook, in a fixed order."""
    event, ran, hook_output = occasion.event, reply.ran, reply.said
    if not event.may_tell and not event.takes_context:
        return []
    base: Json = {
        "hookName": occasion.name,
        "toolUseID": occasion.tool_use_id,
        "hookEvent": event.name,
    }
    run = base | {"command": hook.handler.title, "durationMs": ran.duration_ms}
    output = {
        "stdout": shorten(ran.stdout),
        "stderr": shorten(ran.stderr),
        "exitCode": ran.exit_code,
    }
    attachments: list[HookAttachment] = []

    def keep(kind: str, payload: Json, words: str = "") -> None:
        rendered = (occasion.spoken(words),) if words else ()
        attachments.append(HookAttachment(payload={"type": kind} | payload, rendered=rendered))

    why = blocked(event, reply)
    if ran.is_timeout:
        keep("hook_cancelled", run)
    elif ran.trouble:
        keep("hook_error_during_execution", run | {"content": ran.trouble})
    elif reply.error:
        keep("hook_non_blocking_error", run | output | {"stderr": reply.error})
    elif why is not None and event.blocking != "shown":
        error = {"blockingError": shorten(why), "command": hook.handler.title}
        keep(
            "hook_blocking_error",
            base | {"blockingError": error},
            shorten(why) if event.blocking == "remarks" else "",
        )
    else:
        heard = shorten(reply.words) if event.hears else ""
        keep("hook_success", run | output | {"content": heard}, heard)
    # At the end of a turn, this text is the next message and is recorded there.
    for text in contexts(event, [hook_output]) if event.name not in ENDS else ():
        context = shorten(text)
        keep("hook_additional_context", base | {"content": [context]}, context)
    if hook_output.message and event.may_tell:
        keep("hook_system_message", base | {"content": shorten(hook_output.message)})
    word = permission_of(reply)
    if word is not None and event.name == "PreToolUse":
        keep("hook_permission_decision", base | {"decision": word[0]})
    if hook_output.goes_on is False and event.may_halt:
        words = hook_output.stop_reason or STOPPED
        keep("hook_stopped_continuation", base | {"message": words}, words)
    return attachments


def summary(
    occasion: Occasion,
    replies: Sequence[tuple[Hook, HookReply]],
    halts: Sequence[str],
    *,
    blocks: bool,
) -> Json:
    """Return the transcript entry that summarizes the hooks run at the end of a turn."""
    return {
        "hookCount": len(replies),
        "hookInfos": [
            {"command": hook.handler.title, "durationMs": reply.ran.duration_ms}
            for hook, reply in replies
        ],
        "hookErrors": [reply.error for _, reply in replies if reply.error],
        "preventedContinuation": bool(halts),
        "stopReason": halts[0] if halts else "",
        "hasOutput": blocks
        or any(r.ran.stdout.strip() or r.ran.stderr.strip() for _, r in replies),
        "toolUseID": occasion.tool_use_id,
    }
