"""Modes: what holds where no rule speaks, who may enter which, and the reviewer of mode auto.

Owns the seven words a person may write and what each does to a finding. A mode softens only what
came from nobody's rule; it hardens everything.
"""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Literal, assert_never

from msgspec import Struct, structs

from clew.permissions.decision import Allow, Ask, Decision, Deny, Finding, NeedsReview
from clew.permissions.request import MCP_PREFIX, TOOLS, Mode
from clew.permissions.rules import RULE
from clew.system.config.settings import read_text

# Tools that rules name and nobody has. Such a rule stands and holds nothing, and whoever wrote it is told.


ELSEWHERE = frozenset({
    "AgentOutputTool", "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree",
    "KillBash", "MCPSearch", "PushNotification", "REPL", "ReadMcpResource", "ListMcpResources",
    "RemoteTrigger", "Sleep", "TeamCreate", "TeamDelete", "Workflow",
})  # fmt: skip


def names_tool(word: str) -> bool:
    """Whether a word is a rule, and of a tool that somebody has."""
    read = RULE.fullmatch(word)
    return read is not None and (
        read[1] in TOOLS or read[1] in ELSEWHERE or read[1].startswith(MCP_PREFIX)
    )


def unknown_tool(rule: str, offered: Collection[str] = ()) -> str | None:
    """What to say of the tool of a rule, if nobody has it; `offered` are those of a session.

    A rule that cannot be read is complained of where rules are read."""
    read = RULE.fullmatch(rule)
    if read is None or read[1].startswith(MCP_PREFIX) or "*" in read[1]:
        return None
    known_names = {*TOOLS, *offered}
    if read[1] in known_names or read[1] in ELSEWHERE:
        return None
    by_letters = {name.lower(): name for name in sorted(known_names)}
    near = get_close_matches(read[1].lower(), by_letters, n=1)
    hint = f"; did you mean {by_letters[near[0]]}?" if near else ""
    return f"there is no tool {read[1]}{hint}"


MODES: tuple[Mode, ...] = (
    "default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions",
)  # fmt: skip
ALIASES: dict[str, Mode] = {"manual": "default"}


class RefusedMode(Struct, frozen=True, kw_only=True):
    """A mode that may not be entered, and why."""

    mode: str
    why: str


def enter_mode(
    word: str,
    *,
    is_root: bool,
    is_sandboxed: bool,
    disabled: frozenset[Mode] = frozenset(),
) -> Mode | RefusedMode:
    """The mode a word names, if this process may run in it."""
    mode = next((m for m in MODES if m == word), ALIASES.get(word))
    if mode is None:
        return RefusedMode(mode=word, why=f"no such mode; there are {', '.join(MODES)}")
    if mode in disabled:
        return RefusedMode(mode=mode, why="settings have taken this mode away")
    if mode == "bypassPermissions" and is_root and not is_sandboxed:
        return RefusedMode(
            mode=mode, why="not as root, unless the whole program runs in a sandbox (IS_SANDBOX=1)"
        )
    return mode


def find_disabled_modes(settings: dict[str, object]) -> frozenset[Mode]:
    """The modes that settings, whoever wrote them, take away."""
    disabled: set[Mode] = set()
    if read_text(settings, "permissions.disableBypassPermissionsMode") == "disable":
        disabled.add("bypassPermissions")
    in_permissions = read_text(settings, "permissions.disableAutoMode")
    if "disable" in (in_permissions, read_text(settings, "disableAutoMode")):
        disabled.add("auto")
    return frozenset(disabled)


def apply_mode(mode: Mode, finding: Finding) -> Finding:
    """A finding as the mode has it."""
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
                why = f"{finding.reason} (nobody is asked in mode dontAsk)"
                return structs.replace(finding, verdict="deny", reason=why)
            return finding
        case "bypassPermissions":
            if finding.nature != "base":
                return finding
            # Whoever chose this mode wants no wall around what it lets through.
            freed = structs.replace(finding, effect="unknown")
            if finding.verdict == "ask":
                return structs.replace(freed, verdict="allow", reason="mode bypassPermissions")
            return freed
        case _ as never:
            assert_never(never)


def planned(finding: Finding) -> Finding:
    """Plan mode looks and does not touch, whatever is allowed."""
    if finding.verdict == "deny" or finding.effect == "look":
        return finding
    return structs.replace(
        finding, verdict="deny", nature="base", rule=None, reason="plan mode only looks"
    )


Review = Literal["safe", "unsafe"]


def apply_review(needed: NeedsReview, review: Review | None, why: str = "") -> Decision:
    """The decision once the reviewer has spoken. No reviewer, or one that failed: a person decides.

    The review stands among the findings, so that it is recorded with them.
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
            f, verdict="allow", reason=f"{f.reason}; the reviewer passed it", effect="unknown"
        )
        if f.verdict == "review"
        else f
        for f in needed.findings
    ]
    return Allow(findings=tuple(passed))
