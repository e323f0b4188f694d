"""Decisions about tool calls, and the findings that lead to them.

Owns `Finding` and the four decisions. A decision depends on the strictest of its findings and
nothing else, so a compound command is never treated more leniently than its strictest part.

Decision: docs/decisions/060-permission-decisions.md
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import Struct, structs

from clew.permissions.request import tool_of
from clew.permissions.rules import PermissionRule

Verdict = Literal["allow", "review", "ask", "deny"]
ORDER: dict[Verdict, int] = {"allow": 0, "review": 1, "ask": 2, "deny": 3}

# The origin of a verdict. A mode softens only `base` findings; rules and guards apply in every
# mode.
Nature = Literal["rule", "guard", "base"]

# The reason for asking about a call that no rule covers.
NO_RULE = "not covered by an allow rule"
# Why a read-only program needs approval: an option is not in its row, or clew cannot tell what the
# program would do in this context.
BEYOND_READING = "not known to be read-only with these arguments"
OTHER_REPOSITORY = "runs git in another folder, whose configuration can start programs"
GENERIC_REASONS = frozenset({NO_RULE, BEYOND_READING})
# A reason names at most this many files.
MOST_NAMED = 3

# What the part of the call does: it only reads, it makes a known change, or clew cannot determine
# what it does.
Effect = Literal["look", "change", "unknown"]


class Finding(Struct, frozen=True, kw_only=True):
    """The verdict on one part of a call, with its reason."""

    subject: str
    verdict: Verdict
    reason: str
    nature: Nature = "base"
    effect: Effect = "unknown"
    rule: PermissionRule | None = None
    # The simple command that uses the file or text in `subject`, if that is not the command itself.
    command: str = ""
    # The part needs approval because it could read a denied file, which the read-only sandbox would
    # hide.
    is_hidden: bool = False
    # A rule for exactly this command line would allow the part.
    is_of_line: bool = False


class Allow(Struct, frozen=True, kw_only=True, tag="allow"):
    """The call may run."""

    findings: tuple[Finding, ...]


class Ask(Struct, frozen=True, kw_only=True, tag="ask"):
    """The user decides. Where no user can be asked, the call does not run."""

    findings: tuple[Finding, ...]


class Deny(Struct, frozen=True, kw_only=True, tag="deny"):
    """The call does not run, and the user is not asked."""

    findings: tuple[Finding, ...]


class NeedsReview(Struct, frozen=True, kw_only=True, tag="review"):
    """The reviewer of auto mode decides (see `modes.apply_review`).

    If there is no reviewer, the user decides.
    """

    findings: tuple[Finding, ...]


Decision = Allow | Ask | Deny | NeedsReview


def make_decision(findings: Sequence[Finding]) -> Decision:
    """Return the decision that follows from the findings of a call."""
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
    """Return the strictest finding, which decides; among equals, prefer one from a rule."""
    return max(findings, key=lambda f: (ORDER[f.verdict], f.nature == "rule"))


def runs_confined(decision: Decision) -> bool:
    """Return whether an allowed shell call must run in the read-only sandbox.

    True if every finding says that its part only reads. The user did not approve such a call, and
    no rule names a program that writes. A rule for files (`Read`) does not approve a program. If
    clew misread the line, the sandbox makes the mistake harmless.
    """
    return isinstance(decision, Allow) and all(
        f.effect == "look" and not (f.rule is not None and frees_command(f.rule))
        for f in decision.findings
    )


def relies_on_sandbox(decision: Decision) -> bool:
    """Return whether part of an allowed shell call runs without a prompt and without a rule.

    Only a short list of harmless programs does so where no sandbox is available.
    """
    return isinstance(decision, Allow) and any(
        f.rule is None and f.effect in ("look", "change") for f in decision.findings
    )


def frees_command(rule: PermissionRule) -> bool:
    """Return whether an allow rule lets a command run outside the read-only sandbox.

    True if the rule covers every command, or exactly one command line.
    """
    return rule.is_broad and tool_of(rule.tool).family == "shell"


def stays_confined(decision: Decision) -> bool:
    """Return whether a shell call must run in the read-only sandbox even if the user approves it.

    True for a call that only reads, and that needs approval because it could reach a file that a
    rule denies: approving the call does not grant access to that file. A call that needs approval
    for another reason is not confined, because the sandbox could block what the user approved.
    """
    findings = [f for f in decision.findings if f.verdict != "allow"]
    return (
        isinstance(decision, Ask)
        and all(f.effect == "look" for f in decision.findings)
        and any(f.is_hidden for f in findings)
        and all(f.is_hidden or f.nature == "base" for f in findings)
    )


def merge_by_command(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding for each command or other part, each to be shown as one row.

    The reason of a merged finding lists the distinct reasons of the part's strictest findings.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.command or finding.subject, []).append(finding)
    return [merge(subject, group) for subject, group in groups.items()]


def merge(subject: str, group: list[Finding]) -> Finding:
    strictest = find_strictest(group)
    equal = [f for f in group if f.verdict == strictest.verdict]
    if strictest.verdict == "allow":
        # Why a command needs approval is more informative than where its files are.
        equal = [f for f in equal if not f.command] or equal
    files: dict[str, list[str]] = {}
    # Reasons that a mode cannot soften come first.
    for finding in sorted(equal, key=lambda f: f.nature == "base"):
        names = files.setdefault(finding.reason, [])
        if finding.command and finding.subject not in names:
            names.append(finding.subject)
    reasons = [reason for reason in files if reason not in GENERIC_REASONS] or list(files)
    words = subject.split()[1:]
    operands = " ".join(word for word in words if not word.startswith("-"))
    # Files are named only if the reason is not about every operand of the command.
    texts = [
        reason
        if " ".join(files[reason]) in ("", operands, " ".join(words))
        else f"{reason}: {name_files(files[reason])}"
        for reason in reasons
    ]
    return structs.replace(strictest, subject=subject, command="", reason="; ".join(texts))


def name_files(names: list[str]) -> str:
    left = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def describe_reason(decision: Decision) -> str:
    """Return the deciding reason as one line for the user."""
    finding = find_strictest(merge_by_command(decision.findings))
    return f"{finding.subject}: {finding.reason}" if finding.subject else finding.reason


def verdict(decision: Decision) -> Verdict:
    return find_strictest(decision.findings).verdict
