"""What all hooks of one event come to: one value, and what it does to a decision. Pure."""

from typing import Any, Literal, TypeAlias, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from clew.permissions.decision import Ask, Decision, Deny, Finding, NeedsReview, decided

Json: TypeAlias = dict[str, Any]
Permission: TypeAlias = Literal["allow", "ask", "defer", "deny"]


class Attached(Struct, frozen=True, kw_only=True):
    """What the log keeps of a hook, and what of it the model reads."""

    payload: Json
    rendered: tuple[str, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """Nothing is set where no hook said anything, which is what most events come to."""

    # PreToolUse: may the call run, why, and with which input instead.
    permission: Permission | None = None
    reason: str = ""
    input: Json | None = None
    # PermissionRequest: the answer given in a person's stead.
    answer: Json | None = None
    # What the event stands for shall not happen, and why; after the event, words for the model.
    block: str | None = None
    # The session shall stop here, and why.
    halt: str | None = None
    # Words for the model that forbid nothing.
    context: tuple[str, ...] = ()
    # What the model shall read instead of a call's output.
    output: Any = UNSET
    # The session's title; the first prompt; texts shown in place of others; files to watch.
    title: str = ""
    first_prompt: str = ""
    shown: str | None = None
    watch: tuple[str, ...] | None = None
    # The hook brought skills or commands: they are to be looked for again.
    reloads_skills: bool = False
    # The folder of a worktree; the answer to a server's question.
    worktree: str = ""
    action: str = ""
    content: Json | None = None
    # A refused call may be tried again.
    may_retry: bool = False
    hides_prompt: bool = False
    # What the log keeps, in order, and what people should know.
    attached: tuple[Attached, ...] = ()
    notices: tuple[str, ...] = ()
    # Signals for the person's terminal: titles, notifications, the bell.
    sequences: tuple[str, ...] = ()
    # For the end of a turn: what ran, in the written form of the log's line about it.
    summary: Json | None = None


NOTHING = Outcome()


def with_hooks(decision: Decision, said: Outcome) -> Decision:
    """The decision once hooks have spoken. They may restrain anything; they grant only what no rule
    and no guard holds back, as a person's yes would not lift those either."""
    match said.permission:
        case None:
            return decision
        case "deny":
            return Deny(findings=(*decision.findings, said_by_hook("deny", said.reason)))
        case "ask" | "defer":
            # Where nobody can be asked later, somebody is asked now.
            if isinstance(decision, Deny):
                return decision
            return Ask(findings=(*decision.findings, said_by_hook("ask", said.reason)))
        case "allow":
            return granted(decision, said.reason)
        case _ as never:
            assert_never(never)


def said_by_hook(verdict: Literal["ask", "deny"], reason: str) -> Finding:
    return Finding(
        subject="hook", verdict=verdict, reason=reason or "no reason given", nature="rule"
    )


def granted(decision: Decision, reason: str) -> Decision:
    if not isinstance(decision, Ask | NeedsReview):
        return decision
    why = f"a hook allows it{f': {reason}' if reason else ''}"
    return decided(
        [
            replace(finding, verdict="allow", reason=why, effect="unknown")
            if finding.nature == "base" and finding.verdict in ("ask", "review")
            else finding
            for finding in decision.findings
        ]
    )
