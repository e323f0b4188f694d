"""What was decided and why, as values: one finding for each part, the strictest counts.

Owns `Finding` and the four decisions. A compound is never weaker than its strictest part because a
decision is the maximum of its findings and nothing else.

Decision: docs/decisions/060-permission-decisions.md
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct

from clew.permissions.request import tool_of
from clew.permissions.rules import PermissionRule

Verdict = Literal["allow", "review", "ask", "deny"]
ORDER: dict[Verdict, int] = {"allow": 0, "review": 1, "ask": 2, "deny": 3}

# Where a verdict came from. A mode softens what is `base` only; rules and guards stand in each.
Nature = Literal["rule", "guard", "base"]

# What the part would do: look, change something known, or something nobody knows.
Effect = Literal["look", "change", "unknown"]


class Finding(Struct, frozen=True, kw_only=True):
    """The judgement of one part of a call."""

    subject: str
    verdict: Verdict
    reason: str
    nature: Nature = "base"
    effect: Effect = "unknown"
    rule: PermissionRule | None = None
    # It asks because a denied file could be read, which the read-only wall hides.
    is_hidden: bool = False
    # A rule for exactly this command line would answer it.
    is_of_line: bool = False


class Allow(Struct, frozen=True, kw_only=True, tag="allow"):
    """It may run."""

    findings: tuple[Finding, ...]


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """A person decides; where nobody can be asked, it does not run."""

    findings: tuple[Finding, ...]


class Deny(Struct, frozen=True, kw_only=True, tag="deny"):
    """It does not run, and nobody is asked."""

    findings: tuple[Finding, ...]


class NeedsReview(Struct, frozen=True, kw_only=True, tag="review"):
    """Mode auto: a reviewer decides (see `modes.after_review`); without one, a person does."""

    findings: tuple[Finding, ...]


Decision = Allow | Ask | Deny | NeedsReview


def make_decision(findings: Sequence[Finding]) -> Decision:
    """The decision that a call's findings come to."""
    every = tuple(findings)
    match find_strictest(every).verdict:
        case "allow":
            return Allow(findings=every)
        case "review":
            return NeedsReview(findings=every)
        case "ask":
            return Ask(findings=every)
        case "deny":
            return Deny(findings=every)
        case _ as never:
            assert_never(never)


def find_strictest(findings: Sequence[Finding]) -> Finding:
    """The finding that decides: the strictest, a rule before other reasons."""
    return max(findings, key=lambda f: (ORDER[f.verdict], f.nature == "rule"))


def runs_confined(decision: Decision) -> bool:
    """Return whether an allowed shell call must run behind the read-only wall.

    True where every finding says that its part only looks: no user approved the call, and no rule
    names a program that writes. A rule for files (`Read`) says nothing of programs. If clew misread
    the line, the wall makes the mistake harmless.
    """
    return isinstance(decision, Allow) and all(
        f.effect == "look" and not (f.rule is not None and frees_command(f.rule))
        for f in decision.findings
    )


def frees_command(rule: PermissionRule) -> bool:
    """Return whether an allow rule lets a command run outside of the read-only wall: one for every
    command, or for exactly this one."""
    return rule.is_broad and tool_of(rule.tool).family == "shell"


def stays_confined(decision: Decision) -> bool:
    """Return whether a shell call that a user approves must run behind the read-only wall all the same.

    True for a call that only looks and asks because it could reach a file that a rule denies: a yes
    is no word about that file. What asks for another reason the wall could take away again.
    """
    findings = [f for f in decision.findings if f.verdict != "allow"]
    return (
        isinstance(decision, Ask)
        and all(f.effect == "look" for f in decision.findings)
        and any(f.is_hidden for f in findings)
        and all(f.is_hidden or f.nature == "base" for f in findings)
    )


def describe_reason(decision: Decision) -> str:
    """One line for people: what decided."""
    finding = find_strictest(decision.findings)
    return f"{finding.subject}: {finding.reason}" if finding.subject else finding.reason


def verdict(decision: Decision) -> Verdict:
    return find_strictest(decision.findings).verdict
