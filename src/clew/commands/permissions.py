"""`clew permissions`: query the permission rules and edit them.

Owns the command line and the display of decisions. The decisions are made by pure functions in
`clew.permissions`.
"""

import argparse
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from clew.core.messages.errors import CommandLineError, SettingsError, describe_error
from clew.core.messages.text import format_count
from clew.permissions.decide import decide
from clew.permissions.decision import (
    ORDER,
    Decision,
    Finding,
    describe_reason,
    find_strictest,
    merge_by_command,
    verdict,
)
from clew.permissions.git_history import GitHistory
from clew.permissions.modes import MODES, RefusedMode, enter_mode, find_disabled_modes, unknown_tool
from clew.permissions.request import Context, Mode, PermissionRequest, tool_of
from clew.permissions.rules import LISTS, RejectedRule, RuleSource, parse_rule
from clew.permissions.session_rules import (
    CurrentRules,
    find_unused_rules,
    load_current_rules,
    read_command_line,
)
from clew.permissions.suggest import suggest_rules
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config.environment import freeze
from clew.system.config.json_text import Path as KeyPath
from clew.system.config.json_text import remove_value, set_value
from clew.system.config.layers import find_value
from clew.system.config.load import read, trusts
from clew.system.config.paths import Places, find_places
from clew.system.files import hold_lock, is_there, replace
from clew.system.process.spawn import Launcher
from clew.system.process.walls import can_build_wall

# Adds a rule to a settings file or removes one; every other byte of the file is unchanged.


def opened(places: Places, scope: str, name: str) -> tuple[Path, str, list[object]]:
    """Return the settings file of a scope, its text, and the rules in the given list."""
    path = places.settings_file(scope)
    if not is_there(path):
        return path, "", []
    layer = read("local", path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    present, rules = find_value(layer.data, ("permissions", name))
    if present and not isinstance(rules, list):
        raise SettingsError(f"{path}: permissions.{name} must be an array")
    return path, layer.text, list(rules or ())


def add_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Add a rule and return a message about the change."""
    rule = parse_rule(text, LISTS[name], root="/", source=RuleSource(scope="local"))
    if isinstance(rule, RejectedRule):
        raise SettingsError(f"{text}: {rule.what}")
    with hold_lock(places.config_home):
        path, before, rules = opened(places, scope, name)
        if rule.text in rules:
            return f"{path}: {name} already contains {rule.text}"
        where: KeyPath = ("permissions", name, len(rules))
        after = set_value(before, where, rule.text) if before else first_rule(name, rule.text)
        replace(path, after)
    return f"{path}: added {rule.text} to {name}"


def first_rule(name: str, text: str) -> str:
    return set_value("", ("permissions", name, 0), text)


def remove_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Remove a rule and return a message about the change."""
    with hold_lock(places.config_home):
        path, before, rules = opened(places, scope, name)
        if text not in rules:
            raise SettingsError(f'{path}: rule "{text}" not found in {name}')
        replace(path, remove_value(before, ("permissions", name, rules.index(text))))
    return f"{path}: removed {text} from {name}"


def main(argv: list[str]) -> int:
    as_json, mode = switch("--json", "Print JSON"), f"Permission mode: {', '.join(MODES)}"
    settings = argument("--settings", help="Additional settings: a file or JSON")
    shared = (as_json, argument("--mode", help=mode), settings)
    call = (
        argument("tool", help="Tool: Bash, Read, Edit, mcp__server__tool, ..."),
        argument(
            "input", nargs="?", default="{}", help="Input as JSON, or a plain command for Bash"
        ),
        argument(
            "--untrusted",
            action="append",
            default=[],
            metavar="SOURCE",
            help="Assume that the session contains untrusted content from SOURCE",
        ),
        *shared,
    )
    scopes = ("local", "project", "user")
    rule = (
        argument("rule", help="Rule, such as 'Bash(npm run test *)'"),
        argument("further", nargs="*", help=argparse.SUPPRESS),
        argument("--list", choices=LISTS, default="allow", help="List of rules (default: allow)"),
        argument("--scope", choices=scopes, default="local", help="Settings file (default: local)"),
    )
    cases = argument("file", type=Path, help="JSON array of {tool, input, expect}")
    parser = Group(
        prog="clew permissions",
        description="Show what the permission rules allow, and edit the rules.",
    )
    parser.add_words(
        {
            "check": GroupWord(
                run_check, *call, line="Show the decision on a tool call, and the deciding rule"
            ),
            "explain": GroupWord(
                run_explain, *call, line="Show the decision on a tool call, and explain each part"
            ),
            "test": GroupWord(run_test, cases, *shared, line="Run test cases from a file"),
            "list": GroupWord(run_list, *shared, line="List all rules with their file and line"),
            "add": GroupWord(run_add, *rule, line="Add a rule to a settings file"),
            "remove": GroupWord(run_remove, *rule, line="Remove a rule from a settings file"),
        }
    )
    options = parser.parse_args(argv)
    code: int = options.run(options)
    return code


def complain(line: str) -> int:
    sys.stderr.write(f"clew permissions: {line}\n")
    return 2


def standing(options: argparse.Namespace) -> CurrentRules:
    """Print problems with the settings, and return the rules that apply in this folder."""
    current = load_current_rules(
        os.environ,
        Path.cwd(),
        mode=mode_of(options.mode),
        command_line=read_command_line(options.settings),
    )
    if options.mode:
        settled = enter_mode(
            options.mode,
            is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
            is_sandboxed=freeze(current.environ).switch("sandboxed"),
            disabled=find_disabled_modes(current.settings),
        )
        if isinstance(settled, RefusedMode):
            raise CommandLineError(f"{settled.mode}: {settled.why}")
    for line in current.complaints:
        sys.stderr.write(f"{line}\n")
    return current


def mode_of(word: str | None) -> Mode | None:
    result = enter_mode(word, is_root=False, is_sandboxed=True) if word else None
    if isinstance(result, RefusedMode):
        raise CommandLineError(f"{result.mode}: {result.why}")
    return result


def example_of(tool: str) -> str:
    """Return an example input for a tool, with the field that rules match."""
    row = tool_of(tool)
    field = row.subject or (row.paths or ("name",))[0]
    return json.dumps({field: "..."})


def input_of(tool: str, text: str) -> dict[str, Any]:
    """Parse an input for a tool, after checking the tool's name."""
    tool_error = unknown_tool(tool)
    try:
        data = json.loads(text)
    except ValueError as error:
        if tool == "Bash" and text.strip():
            return {"command": text}
        if tool_error is not None:
            raise CommandLineError(tool_error) from error
        if tool == "Bash":
            raise CommandLineError("the command is empty") from error
        hint = f"; {tool} expects an object such as {example_of(tool)}"
        raise CommandLineError(f"the input is not valid JSON{hint}") from error
    if tool_error is not None:
        sys.stderr.write(f"{tool_error}\n")
    if not isinstance(data, dict):
        raise CommandLineError("the tool input must be a JSON object")
    return data


def asked(options: argparse.Namespace) -> tuple[CurrentRules, PermissionRequest, Decision]:
    current = standing(options)
    request = PermissionRequest(
        tool=options.tool,
        input=input_of(options.tool, options.input),
        untrusted=tuple(options.untrusted),
    )
    context = structs.replace(current.context, has_walls=can_build_wall())
    return current, request, decided_here(current, request, context)


def decided_here(current: CurrentRules, request: PermissionRequest, context: Context) -> Decision:
    """Return the decision on a request, after searching git's history if the decision needs it."""
    launcher = Launcher()
    history = GitHistory(launcher, current.environ)
    context = structs.replace(
        context, held_by_git=lambda folder: history.held(folder, current.rules)
    )
    decision = decide(request, current.rules, context, current.resolve)
    if history.is_asked:
        asyncio.run(looked_up(history, launcher))
        decision = decide(request, current.rules, context, current.resolve)
    return decision


async def looked_up(history: GitHistory, launcher: Launcher) -> None:
    try:
        await history.look_up()
    finally:
        await launcher.aclose()


def run_check(options: argparse.Namespace) -> int:
    try:
        current, request, decision = asked(options)
    except (CommandLineError, SettingsError) as error:
        return complain(describe_error(error))
    if options.json:
        show(json.dumps(described(current, request, decision), indent=2))
    else:
        show(
            f"{verdict(decision)}: {describe_reason(decision)}{place(current, find_strictest(decision.findings))}"
        )
    return 0 if verdict(decision) == "allow" else 1


def run_explain(options: argparse.Namespace) -> int:
    try:
        current, request, decision = asked(options)
    except (CommandLineError, SettingsError) as error:
        return complain(describe_error(error))
    if options.json:
        show(json.dumps(described(current, request, decision), indent=2))
        return 0 if verdict(decision) == "allow" else 1
    show(f"{verdict(decision)} (mode {current.context.mode})")
    for finding in merge_by_command(decision.findings):
        subject = f"{finding.subject}: " if finding.subject else ""
        show(f"  {finding.verdict:<6} {subject}{finding.reason}{place(current, finding)}")
    for rule in suggest_rules(request, decision):
        show(f"  suggested rule: {rule}")
    return 0 if verdict(decision) == "allow" else 1


def place(current: CurrentRules, finding: Finding) -> str:
    return f" ({current.where(finding.rule)})" if finding.rule is not None else ""


def described(
    current: CurrentRules, request: PermissionRequest, decision: Decision
) -> dict[str, Any]:
    return {
        "decision": verdict(decision),
        "reason": describe_reason(decision),
        "mode": current.context.mode,
        "findings": [
            {
                "subject": f.subject,
                "verdict": f.verdict,
                "reason": f.reason,
                "rule": f.rule.text if f.rule is not None else None,
                "at": current.where(f.rule) if f.rule is not None else None,
            }
            for f in decision.findings
        ],
        "suggestions": suggest_rules(request, decision),
    }


def run_list(options: argparse.Namespace) -> int:
    try:
        current = standing(options)
    except (CommandLineError, SettingsError) as error:
        return complain(describe_error(error))
    rows = [
        {
            "list": rule.source.path[1] if len(rule.source.path) > 1 else rule.behavior,
            "rule": rule.text,
            "scope": rule.source.scope,
            "at": current.where(rule),
        }
        for rule in current.rules.rules
    ]
    for rule in find_unused_rules(current):
        sys.stderr.write(f"{rule.message}\n")
    if options.json:
        show(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        show(f"{row['list']:<6} {row['rule']}  {row['at']}")
    return 0


def run_test(options: argparse.Namespace) -> int:
    """Run every case, print the failed ones, and return 1 if any failed."""
    try:
        current = standing(options)
        cases = json.loads(options.file.read_text("utf-8"))
        if not isinstance(cases, list):
            raise CommandLineError(f"{options.file}: expected a JSON array of test cases")
        results = [tested(current, i, case) for i, case in enumerate(cases)]
    except (CommandLineError, SettingsError, OSError, ValueError) as error:
        return complain(describe_error(error))
    failed = [line for line in results if line is not None]
    if options.json:
        show(json.dumps({"cases": len(cases), "failed": failed}, indent=2))
    else:
        for line in failed:
            show(line)
        show(f"{format_count(len(cases), 'case')}, {len(failed)} failed")
    return 1 if failed else 0


def tested(current: CurrentRules, number: int, case: Any) -> str | None:
    """Return a message if the decision differs from the one that a test case expects, else None."""
    if not isinstance(case, dict) or "expect" not in case:
        raise CommandLineError(
            f"case {number}: expected an object with expect, input and, optionally, tool"
        )
    if case["expect"] not in list(ORDER):
        choices = ", ".join(ORDER)
        raise CommandLineError(
            f"case {number}: expect must be one of {choices}, got {json.dumps(case['expect'])}"
        )
    tool = case.get("tool", "Bash")
    given_input = case.get("input", {"command": case.get("command", "")})
    request = PermissionRequest(
        tool=tool, input=given_input, untrusted=tuple(case.get("untrusted", ()))
    )
    mode = mode_of(case.get("mode")) or current.context.mode
    context = structs.replace(current.context, mode=mode)
    decision = decided_here(current, request, context)
    if verdict(decision) == case["expect"]:
        return None
    label = case.get("name") or json.dumps(given_input)
    return f"case {number} ({tool} {label}): expected {case['expect']}, got {verdict(decision)}: {describe_reason(decision)}"


def edited(options: argparse.Namespace, change: Callable[[Places, str, str, str], str]) -> int:
    places = find_places(os.environ, Path.cwd())
    try:
        one_rule(options)
        show(change(places, options.scope, options.list, options.rule))
        if options.list == "allow" and options.scope != "user" and not trusts(places):
            show("the rule is ignored until you trust this folder: clew config trust")
    except (CommandLineError, SettingsError, OSError) as error:
        return complain(describe_error(error))
    return 0


def one_rule(options: argparse.Namespace) -> None:
    """Raise CommandLineError if more than one rule is given, and suggest the correct command."""
    if not options.further:
        return
    words = [options.rule, *options.further]
    name, rules = (words[0], words[1:]) if words[0] in LISTS else (options.list, words)
    form = f"clew permissions {options.word} --list {name} {shlex.quote(' '.join(rules))}"
    raise CommandLineError(f"expected one rule; specify its list with --list: {form}")


def run_add(options: argparse.Namespace) -> int:
    error = unknown_tool(options.rule) if not options.further else None
    if error is not None:
        return complain(f"{options.rule}: {error}; rule not added (edit the file to add it anyway)")
    return edited(options, add_rule)


def run_remove(options: argparse.Namespace) -> int:
    return edited(options, remove_rule)
