"""Permission modes: what they do, when they are available, and the reviewer of auto mode.

Owns the seven mode names and what each does to a finding. A mode softens only findings that no rule
caused; it can make any finding stricter.
"""

from collections.abc import Collection
from typing import Literal, assert_never

from msgspec import Struct, structs

from clew.core.nearest import find_nearest
from clew.permissions.decision import Allow, Ask, Decision, Deny, Finding, NeedsReview
from clew.permissions.request import MCP_PREFIX, TOOLS, Mode
from clew.permissions.rules import RULE
from clew.system.config.settings import read_text

# The reason for a denial where another mode would have asked.
NEVER_ASKS = "dontAsk mode never asks"

# Tools of other programs that a rule may name without causing a warning. clew has no such tools, so
# the rule has no effect.


ELSEWHERE = frozenset({
    "AgentOutputTool", "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree",
    "KillBash", "MCPSearch", "PushNotification", "REPL", "ReadMcpResource", "ListMcpResources",
    "RemoteTrigger", "Sleep", "TeamCreate", "TeamDelete", "Workflow",
})  # fmt: skip


def names_tool(word: str) -> bool:
    """Return whether a word is a rule that names a known tool."""
    read = RULE.fullmatch(word)
    return read is not None and (
        read[1] in TOOLS or read[1] in ELSEWHERE or read[1].startswith(MCP_PREFIX)
    )


def unknown_tool(rule: str, offered: Collection[str] = ()) -> str | None:
    """Return a message if a rule names an unknown tool, otherwise None.

    `offered` lists the tools of a session. Invalid rules are not reported here but by the parser of
    rules.
    """
    read = RULE.fullmatch(rule)
    if read is None or read[1].startswith(MCP_PREFIX) or "*" in read[1]:
        return None
    known_names = {*TOOLS, *offered}
    if read[1] in known_names or read[1] in ELSEWHERE:
        return None
    by_letters = {name.lower(): name for name in sorted(known_names)}
    near = find_nearest(read[1].lower(), by_letters)
    hint = f' (did you mean "{by_letters[near]}"?)' if near else ""
    return f'unknown tool "{read[1]}"{hint}'


MODES: tuple[Mode, ...] = (
    "default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions",
)  # fmt: skip
ALIASES: dict[str, Mode] = {"manual": "default"}
# What users read; settings and options use the mode's own spelling.
MODE_NAMES: dict[str, str] = {
    "default": "default mode",
    "acceptEdits": "accept edits",
    "plan": "plan mode",
    "auto": "auto mode",
    "dontAsk": "don't ask",
    "bypassPermissions": "bypass permissions",
}


def describe_mode(mode: str) -> str:
    """Return the name under which front ends show a permission mode."""
    return MODE_NAMES.get(mode, mode)


class RefusedMode(Struct, frozen=True, kw_only=True):
    """A mode that this process may not use, and why."""

    mode: str
    why: str


def enter_mode(
    word: str,
    *,
    is_root: bool,
    is_sandboxed: bool,
    disabled: frozenset[Mode] = frozenset(),
) -> Mode | RefusedMode:
    """Return the mode that a word names, or why this process may not use it."""
    mode = next((m for m in MODES if m == word), ALIASES.get(word))
    if mode is None:
        return RefusedMode(mode=word, why=f"unknown mode (expected one of {', '.join(MODES)})")
    if mode in disabled:
        return RefusedMode(mode=mode, why="disabled in settings")
    if mode == "bypassPermissions" and is_root and not is_sandboxed:
        return RefusedMode(
            mode=mode, why="not allowed as root (set IS_SANDBOX=1 inside a container)"
        )
    return mode


def find_disabled_modes(settings: dict[str, object]) -> frozenset[Mode]:
    """Return the modes that any settings file disables."""
    disabled: set[Mode] = set()
    if read_text(settings, "permissions.disableBypassPermissionsMode") == "disable":
        disabled.add("bypassPermissions")
    in_permissions = read_text(settings, "permissions.disableAutoMode")
    if "disable" in (in_permissions, read_text(settings, "disableAutoMode")):
        disabled.add("auto")
    return frozenset(disabled)


def apply_mode(mode: Mode, finding: Finding) -> Finding:
    """Return the finding after applying the mode to it."""
    match mode:
        case "default" | "acceptEdits":
            return finding
        case "plan":
            return planned(finding)
        case "auto":
            if finding.verdict == "ask" and finding.nature == "base":
                return structs.replace(finding, verdict="review")
            return finding
        case "dontAsk":
            if finding.verdict == "ask":
                why = f"{finding.reason} (denied: {NEVER_ASKS})"
                return structs.replace(finding, verdict="deny", reason=why)
            return finding
        case "bypassPermissions":
            if finding.nature != "base":
                return finding
            # A user of this mode wants no sandbox around the commands that the mode allows.
            freed = structs.replace(finding, effect="unknown")
            if finding.verdict == "ask":
                return structs.replace(
                    freed, verdict="allow", reason="allowed in bypassPermissions mode"
                )
            return freed
        case _ as never:
            assert_never(never)


def planned(finding: Finding) -> Finding:
    """Apply plan mode: deny whatever does more than read, even if a rule allows it."""
    if finding.verdict == "deny" or finding.effect == "look":
        return finding
    return structs.replace(
        finding, verdict="deny", nature="base", rule=None, reason="not allowed in plan mode"
    )


Review = Literal["safe", "unsafe"]


def apply_review(needed: NeedsReview, review: Review | None, why: str = "") -> Decision:
    """Return the decision after the review. If there was no review, the user decides.

    The review becomes one of the findings, so that it is recorded with the others.
    """
    subject = needed.findings[0].subject if needed.findings else ""
    if review is None:
        note = Finding(
            subject=subject, verdict="ask", reason=f"not reviewed: {why or 'no reviewer'}"
        )
        return Ask(findings=(*needed.findings, note))
    if review == "unsafe":
        note = Finding(subject=subject, verdict="deny", reason=why or "no reason given")
        return Deny(findings=(*needed.findings, note))
    passed = [
        structs.replace(
            f, verdict="allow", reason=f"{f.reason}; approved by the reviewer", effect="unknown"
        )
        if f.verdict == "review"
        else f
        for f in needed.findings
    ]
    return Allow(findings=tuple(passed))
