"""Decide whether a tool call may run. Every call of every tool goes through `decide`.

Owns the order of the checks: first the rules for the entire tool, then what the tool touches
according to its row in `request.TOOLS`, then the mode. The same request under the same rules always
gets the same decision and the same reasons.

Decision: docs/decisions/060-permission-decisions.md
"""

from typing import assert_never

from clew.permissions.command_line import by_rule as command_by_rule
from clew.permissions.command_line import judge_command_line
from clew.permissions.decision import NO_RULE, Allow, Decision, Effect, Finding, make_decision
from clew.permissions.files import Bench, find_restraint, guard, judge_path
from clew.permissions.modes import apply_mode
from clew.permissions.protected import in_workspace, is_below, why_protected_read
from clew.permissions.reading import read_once
from clew.permissions.request import (
    Context,
    PermissionRequest,
    Resolve,
    ResolvedPath,
    ToolRow,
    domain_of,
    paths_of,
    resolve_tool_name,
    subject_of,
    tool_of,
)
from clew.permissions.rules import Kind, PermissionRule, RuleSet
from clew.permissions.uses import Access


def decide(
    request: PermissionRequest, rules: RuleSet, context: Context, resolve: Resolve
) -> Decision:
    bench = Bench(rules=rules, context=context, resolve=resolve, untrusted=bool(request.untrusted))
    findings = [apply_mode(context.mode, f) for f in judge(bench, request)]
    decision = make_decision(findings)
    if rules.unreadable and isinstance(decision, Allow):
        careful = Finding(
            subject="settings",
            verdict="deny" if context.mode == "dontAsk" else "ask",
            reason="the settings may contain a deny or ask rule that clew can't read: "
            f"{rules.unreadable[0]}",
            nature="guard",
        )
        return make_decision([*findings, careful])
    return decision


def judge(bench: Bench, request: PermissionRequest) -> list[Finding]:
    """Return the findings about a call, before the mode is applied.

    A rule that denies the whole tool is the only finding.
    """
    name = resolve_tool_name(request.tool)
    tool = tool_of(name)
    deny_rule = bench.rules.for_tool("deny", request.tool, untrusted=bench.untrusted)
    if deny_rule is not None:
        return [whole_tool(request, deny_rule)]
    findings: list[Finding] = []
    for behavior in ("deny", "ask"):
        input_rule = bench.rules.for_input(behavior, name, request.input, untrusted=bench.untrusted)
        if input_rule is not None:
            findings.append(whole_tool(request, input_rule))
    ask_rule = bench.rules.for_tool("ask", request.tool, untrusted=bench.untrusted)
    if ask_rule is not None:
        findings.append(whole_tool(request, ask_rule))
    allow = bench.rules.for_tool("allow", request.tool, untrusted=True)
    return [*findings, *by_family(bench, request, tool, allow)]


def whole_tool(request: PermissionRequest, rule: PermissionRule) -> Finding:
    return command_by_rule(request.tool, rule)


def by_family(
    bench: Bench, request: PermissionRequest, tool: ToolRow, allow: PermissionRule | None
) -> list[Finding]:
    match tool.family:
        case "read" | "edit":
            return files(bench, request, tool, allow)
        case "shell":
            command = subject_of(request)
            if command is None:
                return [unusable(request)]
            return judge_command_line(bench, read_once(request.line, command), allow)
        case "fetch":
            url = subject_of(request)
            domain = domain_of(url) if url is not None else None
            if domain is None:
                return [unusable(request)]
            return [subject(bench, request, "domain", domain, allow, looks=True)]
        case "agent" | "skill":
            subject_name = subject_of(request) or "general-purpose"
            subject_name = (
                subject_name.removeprefix("/") if tool.family == "skill" else subject_name
            )
            return [
                subject(
                    bench, request, "subject", subject_name, allow, looks=tool.family == "agent"
                )
            ]
        case "free":
            return [
                Finding(
                    subject=request.tool,
                    verdict="allow",
                    reason="changes only the session",
                    effect="look",
                )
            ]
        case "person":
            return [
                Finding(
                    subject=request.tool,
                    verdict="ask",
                    reason="needs your answer",
                    nature="guard",
                    effect="look",
                )
            ]
        case "mcp" | "other":
            return [plain_tool(request, allow)]
        case _ as never:
            assert_never(never)


def unusable(request: PermissionRequest) -> Finding:
    """Return the finding for a call whose input does not specify what the call would touch."""
    return Finding(
        subject=request.tool,
        verdict="ask",
        reason="the input does not say what the call would access",
        nature="guard",
    )


def files(
    bench: Bench, request: PermissionRequest, tool: ToolRow, allow: PermissionRule | None
) -> list[Finding]:
    paths = paths_of(request)
    if paths is None:
        return [unusable(request)]
    access: Access = "read" if tool.family == "read" else "write"
    findings = [judge_path(bench, path, access, request.tool, allow) for path in paths]
    pattern = request.input.get("pattern")
    if request.tool == "Glob" and isinstance(pattern, str):
        if ".." in pattern.split("/"):
            findings.append(guard(pattern, "the pattern leaves the search folder", "read"))
        elif pattern.startswith(("/", "~")):
            # An absolute pattern searches the folder that it names, not a folder below `path`.
            place = pattern.partition("*")[0].rpartition("/")[0] or "/"
            findings.append(judge_path(bench, place, "read", request.tool, allow))
    return findings


def subject(
    bench: Bench,
    request: PermissionRequest,
    kind: Kind,
    value: str,
    allow: PermissionRule | None,
    *,
    looks: bool,
) -> Finding:
    """Judge a call by the domain, agent or skill in its input."""
    name = resolve_tool_name(request.tool)
    for behavior in ("deny", "ask", "allow"):
        rule = bench.rules.for_value(
            behavior, name, kind, value, untrusted=bench.untrusted or behavior == "allow"
        )
        if rule is not None:
            finding = command_by_rule(value, rule)
            return looking(finding) if looks else finding
    if allow is not None:
        finding = command_by_rule(value, allow)
        return looking(finding) if looks else finding
    if tool_of(name).family == "agent":
        return Finding(
            subject=value,
            verdict="allow",
            reason="each of its tool calls is checked",
            effect="look",
        )
    effect: Effect = "look" if looks else "unknown"
    return Finding(subject=value, verdict="ask", reason=NO_RULE, effect=effect)


def looking(finding: Finding) -> Finding:
    return Finding(
        subject=finding.subject,
        verdict=finding.verdict,
        reason=finding.reason,
        nature=finding.nature,
        effect="look",
        rule=finding.rule,
    )


def plain_tool(request: PermissionRequest, allow: PermissionRule | None) -> Finding:
    """Judge a call of an MCP tool or of a tool without a row in `TOOLS`."""
    looks = request.read_only or request.tool == "WebSearch"
    if allow is not None:
        finding = command_by_rule(request.tool, allow)
        return looking(finding) if looks else finding
    return Finding(
        subject=request.tool,
        verdict="ask",
        reason=NO_RULE,
        effect="look" if looks else "unknown",
    )


def may_read(
    rules: RuleSet,
    path: ResolvedPath,
    context: Context,
    resolve: Resolve,
    *,
    searched: ResolvedPath,
) -> bool:
    """Return whether a search tool may show a file that it found below `searched`.

    The search of `searched` itself has already been permitted. A file is not shown if clew would
    have asked before reading it by name, because the user was not asked about that file. The files
    in a credential folder are shown if the search of that folder was permitted.
    """
    bench = Bench(rules=rules, context=context, resolve=resolve)
    if find_restraint(bench, "deny", path, "read") or find_restraint(bench, "ask", path, "read"):
        return False
    if why_protected_read(path) is not None and why_protected_read(searched) is None:
        return False
    return in_workspace(path, context) or is_below(path.real, searched.real)
