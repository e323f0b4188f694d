"""Matching of hooks to events, and the combined outcome with its effect on a decision.

This module does no I/O.
"""

import re
from functools import lru_cache
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from clew.core.json_object import Json
from clew.core.regex import lazy_pattern
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

# The `if` condition of a hook: one permission rule that a call must match.


EXPANDED = lazy_pattern(r"[$`]")


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
    # For safety, a deny rule matches more than it literally says, and an allow rule does not.
    # Neither overrides the built-in guards, so a guard is no evidence against a match.
    written = rule_of(condition, context.cwd, "allow")
    assert isinstance(written, PermissionRule)
    allowed = findings(written, request, context, resolve)
    return any(finding.rule is not None or finding.nature == "guard" for finding in allowed)


def findings(
    rule: PermissionRule, request: PermissionRequest, context: Context, resolve: Resolve
) -> list[Finding]:
    # Loaded lazily: hooks without `if` do not need the command parser.
    from clew.permissions.decide import judge
    from clew.permissions.files import Bench

    rules = RuleSet([rule], anchors=Anchors(cwd=context.cwd, home=context.home), resolve=resolve)
    return judge(Bench(rules=rules, context=context, resolve=resolve), request)


def is_unclear(rule: PermissionRule, request: PermissionRequest) -> bool:
    """Return whether a command's match with the rule depends on the shell's expansions.

    This is the case if the rule has more words than the program's name, and the command line
    contains expansions.
    """
    if rule.kind != "command":
        return False
    words = (rule.content or "").removesuffix("*").split()
    return len(words) > 1 and EXPANDED.search(subject_of(request) or "") is not None


# Matching of event subjects by name or pattern, according to the published rules.


EXACT = lazy_pattern(r"[A-Za-z0-9_\-, |]*")
NARROW_EXACT = lazy_pattern(r"[A-Za-z0-9_|]*")
# Another name by which matchers know a tool: Agent has two, and a hook for Edit must not miss the
# edits of MultiEdit.
SAME_NAME = {"Task": "Agent", "Agent": "Task", "MultiEdit": "Edit"}


def matches(matcher: str, value: str, *, narrow: bool = False) -> bool:
    """Return whether a matcher matches a value.

    Names must match entirely; patterns may match anywhere in the value.
    """
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
    """A transcript entry for a hook, and the part of the entry that the model reads."""

    payload: Json
    rendered: tuple[str, ...] = ()


class HookOutcome(Struct, frozen=True, kw_only=True):
    """The combined outcome of an event's hooks; usually, all fields are unset."""

    # PreToolUse: the permission, its reason, and replacement input.
    permission: Permission | None = None
    reason: str = ""
    input: Json | None = None
    # PermissionRequest: the answer given on behalf of the user.
    answer: Json | None = None
    # Why the event must not happen; for events that already happened, text for the model.
    block: str | None = None
    # Why the session must stop.
    halt: str | None = None
    # Text for the model that blocks nothing.
    context: tuple[str, ...] = ()
    # Replaces a tool call's output for the model.
    output: Any = UNSET
    # The session's title, the first prompt, replacement display text, and files to watch.
    title: str = ""
    first_prompt: str = ""
    shown: str | None = None
    watch: tuple[str, ...] | None = None
    # The hook installed skills or commands, so they must be loaded again.
    reloads_skills: bool = False
    # The folder of a worktree, and the answer to an MCP server's request.
    worktree: str = ""
    action: str = ""
    content: Json | None = None
    # The model may retry the denied call.
    may_retry: bool = False
    hides_prompt: bool = False
    # Transcript entries in order, and notices for the user.
    attached: tuple[HookAttachment, ...] = ()
    notices: tuple[str, ...] = ()
    # Terminal control sequences: titles, notifications, the bell.
    sequences: tuple[str, ...] = ()
    # At the end of a turn: the summary entry for the transcript.
    summary: Json | None = None


NOTHING = HookOutcome()


def with_hooks(decision: Decision, outcome: HookOutcome) -> Decision:
    """Return the decision after applying the hooks' outcome.

    Hooks can restrict anything. Like the user's approval, they can allow only what no rule or guard
    restricts.
    """
    match outcome.permission:
        case None:
            return decision
        case "deny":
            return Deny(findings=(*decision.findings, said_by_hook("deny", outcome.reason)))
        case "ask" | "defer":
            # If the call can't be deferred, ask now.
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
    why = f"allowed by a hook{f': {reason}' if reason else ''}"
    return make_decision(
        [
            replace(finding, verdict="allow", reason=why, effect="unknown")
            if finding.nature == "base" and finding.verdict in ("ask", "review")
            else finding
            for finding in decision.findings
        ]
    )


# The text of a tool result that a hook replaced.


def rewrite_result(raw: Any, new: Any, *, is_mcp: bool) -> str | list[dict[str, Any]] | None:
    """Return a hook's replacement as result content, or None if it does not fit this tool."""
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
    """Return the text of a structured result, or None if it has none.

    The text is in one of the fields that clew's tools use.
    """
    if "stdout" in new:
        return "\n".join(str(new[name]) for name in ("stdout", "stderr") if new.get(name))
    file = new.get("file")
    fields = file if isinstance(file, dict) else new
    content = fields.get("content")
    return content if isinstance(content, str) else None
