"""What all hooks of one event come to: one value, and what it does to a decision. Pure."""

import re
from functools import lru_cache
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from clew.core.json_object import Json
from clew.permissions.decision import Ask, Decision, Deny, Finding, NeedsReview, make_decision
from clew.permissions.request import Context, PermissionRequest, Resolve, subject_of, tool_of
from clew.permissions.rules import (
    Anchors,
    Behavior,
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
)

# The `if` of a hook: one permission rule that a call must meet. Pure.


EXPANDED = re.compile(r"[$`]")


FILES = frozenset({"read", "edit"})


def rule_of(
    condition: str, root: str, behavior: Behavior = "deny"
) -> PermissionRule | RejectedRule:
    return parse_rule(condition, behavior, root=root, source=RuleSource(scope="session"))


def meets(condition: str, request: PermissionRequest, context: Context, resolve: Resolve) -> bool:
    rule = rule_of(condition, context.cwd)
    if isinstance(rule, RejectedRule):
        return True
    family = tool_of(request.tool).family
    if tool_of(rule.tool).family != family:
        return False
    rule_findings = findings(rule, request, context, resolve)
    if not any(finding.rule is not None for finding in rule_findings):
        return is_unclear(rule, request)
    if family not in FILES:
        return True
    # A rule that denies reaches wider than it is written, to be safe; one that allows does not. What
    # is guarded whatever the rules say is not let through by either, and so says nothing here.
    written = rule_of(condition, context.cwd, "allow")
    assert isinstance(written, PermissionRule)
    allowed = findings(written, request, context, resolve)
    return any(finding.rule is not None or finding.nature == "guard" for finding in allowed)


def findings(
    rule: PermissionRule, request: PermissionRequest, context: Context, resolve: Resolve
) -> list[Finding]:
    # A session whose hooks have no `if` needs no reader of command lines for them.
    from clew.permissions.decide import judge
    from clew.permissions.files import Bench

    rules = RuleSet([rule], anchors=Anchors(cwd=context.cwd, home=context.home), resolve=resolve)
    return judge(Bench(rules=rules, context=context, resolve=resolve), request)


def is_unclear(rule: PermissionRule, request: PermissionRequest) -> bool:
    """Whether more of a command than its name is asked for, and the command is only known when run."""
    if rule.kind != "command":
        return False
    words = (rule.content or "").removesuffix("*").split()
    return len(words) > 1 and EXPANDED.search(subject_of(request) or "") is not None


# Which hooks an event calls: matchers over names, as the published rules read them. Pure.


EXACT = re.compile(r"[A-Za-z0-9_\-, |]*")
NARROW_EXACT = re.compile(r"[A-Za-z0-9_|]*")
# Two names of one tool: a matcher for either holds for both.
SAME_NAME = {"Task": "Agent", "Agent": "Task"}


def matches(matcher: str, value: str, *, narrow: bool = False) -> bool:
    """Whether a matcher holds for a value. Names are compared whole, patterns are found anywhere."""
    if matcher in ("", "*"):
        return True
    names = {value, SAME_NAME.get(value, value)}
    if narrow and NARROW_EXACT.fullmatch(matcher):
        return not names.isdisjoint(matcher.split("|"))
    if not narrow and EXACT.fullmatch(matcher):
        return not names.isdisjoint(part.strip() for part in re.split(r"[|,]", matcher))
    pattern = compiled(matcher)
    return pattern is not None and any(pattern.search(name) for name in names)


def is_readable(matcher: str) -> bool:
    return matcher == "*" or compiled(matcher) is not None


@lru_cache(maxsize=256)
def compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except re.error:
        return None


Permission: TypeAlias = Literal["allow", "ask", "defer", "deny"]


class HookAttachment(Struct, frozen=True, kw_only=True):
    """What the log keeps of a hook, and what of it the model reads."""

    payload: Json
    rendered: tuple[str, ...] = ()


class HookOutcome(Struct, frozen=True, kw_only=True):
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
    attached: tuple[HookAttachment, ...] = ()
    notices: tuple[str, ...] = ()
    # Signals for the person's terminal: titles, notifications, the bell.
    sequences: tuple[str, ...] = ()
    # For the end of a turn: what ran, in the written form of the log's line about it.
    summary: Json | None = None


NOTHING = HookOutcome()


def with_hooks(decision: Decision, outcome: HookOutcome) -> Decision:
    """The decision once hooks have spoken. They may restrain anything; they grant only what no rule
    and no guard holds back, as a person's yes would not lift those either."""
    match outcome.permission:
        case None:
            return decision
        case "deny":
            return Deny(findings=(*decision.findings, said_by_hook("deny", outcome.reason)))
        case "ask" | "defer":
            # Where nobody can be asked later, somebody is asked now.
            if isinstance(decision, Deny):
                return decision
            return Ask(findings=(*decision.findings, said_by_hook("ask", outcome.reason)))
        case "allow":
            return granted(decision, outcome.reason)
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
    return make_decision(
        [
            replace(finding, verdict="allow", reason=why, effect="unknown")
            if finding.nature == "base" and finding.verdict in ("ask", "review")
            else finding
            for finding in decision.findings
        ]
    )


# What the model reads of a result that a hook replaced. Pure.


def rewrite_result(raw: Any, new: Any, *, is_mcp: bool) -> str | list[dict[str, Any]] | None:
    """The replacement as the content of a result; None if it is no result of this tool."""
    if not is_mcp and not fits(raw, new):
        return None
    if isinstance(new, str):
        return new
    if isinstance(new, list) and all(isinstance(b, dict) and "type" in b for b in new):
        return new
    if isinstance(new, dict):
        text = words(new)
        if text is not None:
            return text
    return msgspec.json.encode(new).decode()


def fits(raw: Any, new: Any) -> bool:
    if isinstance(raw, dict):
        return isinstance(new, dict) and bool(new) and new.keys() <= raw.keys()
    return isinstance(new, str | list)


def words(new: dict[str, Any]) -> str | None:
    """The text in a structured result, where the tools of the house keep it."""
    if "stdout" in new:
        return "\n".join(str(new[name]) for name in ("stdout", "stderr") if new.get(name))
    file = new.get("file")
    fields = file if isinstance(file, dict) else new
    content = fields.get("content")
    return content if isinstance(content, str) else None
