"""The `if` of a hook: one permission rule that a call must meet. Pure.

Owns nothing of how rules match; it asks the judge with that one rule. Made for saving a start, not for
holding anything back: where it cannot be told what a command runs, the hook runs.
"""

import re
from typing import Any, TypeAlias

from clew.permissions.decision import Finding
from clew.permissions.request import Context, Request, Resolve, subject_of, tool_of
from clew.permissions.rules import Anchors, Behavior, Rejected, Rule, RuleSet, Source, parse_rule

Json: TypeAlias = dict[str, Any]

EXPANDED = re.compile(r"[$`]")


FILES = frozenset({"read", "edit"})


def rule_of(condition: str, root: str, behavior: Behavior = "deny") -> Rule | Rejected:
    return parse_rule(condition, behavior, root=root, source=Source(scope="session"))


def meets(condition: str, request: Request, context: Context, resolve: Resolve) -> bool:
    rule = rule_of(condition, context.cwd)
    if isinstance(rule, Rejected):
        return True
    family = tool_of(request.tool).family
    if tool_of(rule.tool).family != family:
        return False
    found = findings(rule, request, context, resolve)
    if not any(finding.rule is not None for finding in found):
        return is_unclear(rule, request)
    if family not in FILES:
        return True
    # A rule that denies reaches wider than it is written, to be safe; one that allows does not. What
    # is guarded whatever the rules say is not let through by either, and so says nothing here.
    written = rule_of(condition, context.cwd, "allow")
    assert isinstance(written, Rule)
    allowed = findings(written, request, context, resolve)
    return any(finding.rule is not None or finding.nature == "guard" for finding in allowed)


def findings(rule: Rule, request: Request, context: Context, resolve: Resolve) -> list[Finding]:
    # A session whose hooks have no `if` needs no reader of command lines for them.
    from clew.permissions.decide import judge
    from clew.permissions.files import Bench

    rules = RuleSet([rule], anchors=Anchors(cwd=context.cwd, home=context.home), resolve=resolve)
    return judge(Bench(rules=rules, context=context, resolve=resolve), request)


def is_unclear(rule: Rule, request: Request) -> bool:
    """Whether more of a command than its name is asked for, and the command is only known when run."""
    if rule.kind != "command":
        return False
    words = (rule.content or "").removesuffix("*").split()
    return len(words) > 1 and EXPANDED.search(subject_of(request) or "") is not None
