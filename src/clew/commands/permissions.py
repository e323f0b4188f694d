"""`clew permissions`: asks the pure functions the questions a person has, and edits rules.

Owns the words of the command line and how an answer is shown. It decides nothing itself.
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

from clew.core.messages.errors import CommandLineError, SettingsError, in_words
from clew.core.messages.text import count_of
from clew.permissions.decide import decide
from clew.permissions.decision import ORDER, Decision, Finding, reason, strictest, verdict
from clew.permissions.git_history import GitHistory
from clew.permissions.modes import MODES, RefusedMode, disabled_modes, enter_mode, unknown_tool
from clew.permissions.request import Context, Mode, PermissionRequest, tool_of
from clew.permissions.rules import LISTS, RejectedRule, RuleSource, parse_rule
from clew.permissions.session_rules import CurrentRules, given, in_vain, stand
from clew.permissions.suggest import suggestions
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config.environment import freeze
from clew.system.config.json_text import Path as KeyPath
from clew.system.config.json_text import with_value, without
from clew.system.config.layers import value_at
from clew.system.config.load import read, trusts
from clew.system.config.paths import Places, find_places
from clew.system.files import alone, is_there, replace
from clew.system.process.spawn import Launcher
from clew.system.process.walls import could_stand

# Writes a rule into a settings file, or takes one out; every other byte of the file stays.


def opened(places: Places, scope: str, name: str) -> tuple[Path, str, list[object]]:
    """The file of a scope, its text, and the list of rules in it."""
    path = places.settings_file(scope)
    if not is_there(path):
        return path, "", []
    layer = read("local", path, str(places.root))
    if layer.unreadable is not None:
        raise SettingsError(layer.unreadable)
    present, rules = value_at(layer.data, ("permissions", name))
    if present and not isinstance(rules, list):
        raise SettingsError(f"{path}: permissions.{name} is not an array")
    return path, layer.text, list(rules or ())


def add_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Adds a rule; says what was done."""
    rule = parse_rule(text, LISTS[name], root="/", source=RuleSource(scope="local"))
    if isinstance(rule, RejectedRule):
        raise SettingsError(f"{text}: {rule.what}")
    with alone(places.config_home):
        path, before, rules = opened(places, scope, name)
        if rule.text in rules:
            return f"{path}: {name} has {rule.text} already"
        where: KeyPath = ("permissions", name, len(rules))
        after = with_value(before, where, rule.text) if before else first_rule(name, rule.text)
        replace(path, after)
    return f"{path}: {name} {rule.text}"


def first_rule(name: str, text: str) -> str:
    return with_value("", ("permissions", name, 0), text)


def remove_rule(places: Places, scope: str, name: str, text: str) -> str:
    """Takes a rule out; says what was done."""
    with alone(places.config_home):
        path, before, rules = opened(places, scope, name)
        if text not in rules:
            raise SettingsError(f"{path}: {name} has no rule {text}")
        replace(path, without(before, ("permissions", name, rules.index(text))))
    return f"{path}: {name} no longer has {text}"


def main(argv: list[str]) -> int:
    as_json, mode = switch("--json", "print JSON"), f"one of {', '.join(MODES)}"
    settings = argument("--settings", help="further settings: a file, or JSON")
    shared = (as_json, argument("--mode", help=mode), settings)
    call = (
        argument("tool", help="the tool: Bash, Read, Edit, mcp__server__tool, ..."),
        argument(
            "input", nargs="?", default="{}", help="its input as JSON; for Bash a command will do"
        ),
        argument(
            "--untrusted", action="append", default=[], metavar="SOURCE", help="what stands before"
        ),
        *shared,
    )
    scopes = ("local", "project", "user")
    rule = (
        argument("rule", help="such as 'Bash(npm run test *)'"),
        argument("further", nargs="*", help=argparse.SUPPRESS),
        argument("--list", choices=LISTS, default="allow", help="which list (allow)"),
        argument("--scope", choices=scopes, default="local", help="which file"),
    )
    cases = argument("file", type=Path, help="a JSON array of {tool, input, expect}")
    parser = Group(
        prog="clew permissions", description="Ask what may run, and why; change the rules."
    )
    parser.add_words(
        {
            "check": GroupWord(run_check, *call, line="decide one call and say what decided it"),
            "explain": GroupWord(
                run_explain, *call, line="decide one call and say why each part was judged so"
            ),
            "test": GroupWord(run_test, cases, *shared, line="run a table of cases from a file"),
            "list": GroupWord(run_list, *shared, line="every rule, with its file and line"),
            "add": GroupWord(run_add, *rule, line="write a rule into a settings file"),
            "remove": GroupWord(run_remove, *rule, line="take a rule out of a settings file"),
        }
    )
    options = parser.parse_args(argv)
    code: int = options.run(options)
    return code


def complain(line: str) -> int:
    sys.stderr.write(f"clew permissions: {line}\n")
    return 2


def standing(options: argparse.Namespace) -> CurrentRules:
    """The rules of this folder; what is wrong with the settings is told first."""
    found = stand(os.environ, Path.cwd(), mode=mode_of(options.mode), given=given(options.settings))
    if options.mode:
        settled = enter_mode(
            options.mode,
            is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
            is_sandboxed=freeze(found.environ).switch("sandboxed"),
            disabled=disabled_modes(found.settings),
        )
        if isinstance(settled, RefusedMode):
            raise CommandLineError(f"{settled.mode}: {settled.why}")
    for line in found.complaints:
        sys.stderr.write(f"{line}\n")
    return found


def mode_of(word: str | None) -> Mode | None:
    found = enter_mode(word, is_root=False, is_sandboxed=True) if word else None
    if isinstance(found, RefusedMode):
        raise CommandLineError(f"{found.mode}: {found.why}")
    return found


def example_of(tool: str) -> str:
    """An input of a tool, such as rules look at."""
    known = tool_of(tool)
    field = known.subject or (known.paths or ("name",))[0]
    return json.dumps({field: "..."})


def input_of(tool: str, text: str) -> dict[str, Any]:
    """The tool's name first: an input for no tool is wrong in any form."""
    wrong = unknown_tool(tool)
    try:
        data = json.loads(text)
    except ValueError as error:
        if tool == "Bash" and text.strip():
            return {"command": text}
        if wrong is not None:
            raise CommandLineError(wrong) from error
        if tool == "Bash":
            raise CommandLineError("the command is empty") from error
        hint = f"; {tool} takes an object, as {example_of(tool)}"
        raise CommandLineError(f"the input is not JSON{hint}") from error
    if wrong is not None:
        sys.stderr.write(f"{wrong}\n")
    if not isinstance(data, dict):
        raise CommandLineError("the input of a tool is an object")
    return data


def asked(options: argparse.Namespace) -> tuple[CurrentRules, PermissionRequest, Decision]:
    found = standing(options)
    request = PermissionRequest(
        tool=options.tool,
        input=input_of(options.tool, options.input),
        untrusted=tuple(options.untrusted),
    )
    context = structs.replace(found.context, has_walls=could_stand())
    return found, request, decided_here(found, request, context)


def decided_here(found: CurrentRules, request: PermissionRequest, context: Context) -> Decision:
    """The decision, made again where it needs to know what git keeps."""
    launcher = Launcher()
    history = GitHistory(launcher, found.environ)
    context = structs.replace(context, held_by_git=lambda folder: history.held(folder, found.rules))
    decision = decide(request, found.rules, context, found.resolve)
    if history.is_asked:
        asyncio.run(looked_up(history, launcher))
        decision = decide(request, found.rules, context, found.resolve)
    return decision


async def looked_up(history: GitHistory, launcher: Launcher) -> None:
    try:
        await history.look_up()
    finally:
        await launcher.aclose()


def run_check(options: argparse.Namespace) -> int:
    try:
        found, request, decision = asked(options)
    except (CommandLineError, SettingsError) as error:
        return complain(in_words(error))
    if options.json:
        show(json.dumps(described(found, request, decision), indent=2))
    else:
        show(f"{verdict(decision)}: {reason(decision)}{place(found, strictest(decision.findings))}")
    return 0 if verdict(decision) == "allow" else 1


def run_explain(options: argparse.Namespace) -> int:
    try:
        found, request, decision = asked(options)
    except (CommandLineError, SettingsError) as error:
        return complain(in_words(error))
    if options.json:
        show(json.dumps(described(found, request, decision), indent=2))
        return 0 if verdict(decision) == "allow" else 1
    show(f"{verdict(decision)} (mode {found.context.mode})")
    for finding in decision.findings:
        subject = f"{finding.subject}: " if finding.subject else ""
        show(f"  {finding.verdict:<6} {subject}{finding.reason}{place(found, finding)}")
    for rule in suggestions(request, decision):
        show(f"  would be allowed by: {rule}")
    return 0 if verdict(decision) == "allow" else 1


def place(found: CurrentRules, finding: Finding) -> str:
    return f" ({found.where(finding.rule)})" if finding.rule is not None else ""


def described(
    found: CurrentRules, request: PermissionRequest, decision: Decision
) -> dict[str, Any]:
    return {
        "decision": verdict(decision),
        "reason": reason(decision),
        "mode": found.context.mode,
        "findings": [
            {
                "subject": f.subject,
                "verdict": f.verdict,
                "reason": f.reason,
                "rule": f.rule.text if f.rule is not None else None,
                "at": found.where(f.rule) if f.rule is not None else None,
            }
            for f in decision.findings
        ],
        "suggestions": suggestions(request, decision),
    }


def run_list(options: argparse.Namespace) -> int:
    try:
        found = standing(options)
    except (CommandLineError, SettingsError) as error:
        return complain(in_words(error))
    rows = [
        {
            "list": rule.source.path[1] if len(rule.source.path) > 1 else rule.behavior,
            "rule": rule.text,
            "scope": rule.source.scope,
            "at": found.where(rule),
        }
        for rule in found.rules.rules
    ]
    for rule in in_vain(found):
        sys.stderr.write(f"{rule.told}\n")
    if options.json:
        show(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        show(f"{row['list']:<6} {row['rule']}  {row['at']}")
    return 0


def run_test(options: argparse.Namespace) -> int:
    """Runs every case; the cases that turn out otherwise are shown, and the exit code says so."""
    try:
        found = standing(options)
        cases = json.loads(options.file.read_text("utf-8"))
        if not isinstance(cases, list):
            raise CommandLineError(f"{options.file}: expected an array of cases")
        results = [tested(found, i, case) for i, case in enumerate(cases)]
    except (CommandLineError, SettingsError, OSError, ValueError) as error:
        return complain(in_words(error))
    failed = [line for line in results if line is not None]
    if options.json:
        show(json.dumps({"cases": len(cases), "failed": failed}, indent=2))
    else:
        for line in failed:
            show(line)
        show(f"{count_of(len(cases), 'case')}, {len(failed)} otherwise")
    return 1 if failed else 0


def tested(found: CurrentRules, number: int, case: Any) -> str | None:
    """What a case came to, if it is not what the case expects."""
    if not isinstance(case, dict) or "expect" not in case:
        raise CommandLineError(f"case {number}: expected an object with tool, input and expect")
    if case["expect"] not in list(ORDER):
        known = ", ".join(ORDER)
        raise CommandLineError(
            f"case {number}: expect must be one of {known}, got {json.dumps(case['expect'])}"
        )
    tool = case.get("tool", "Bash")
    given_input = case.get("input", {"command": case.get("command", "")})
    request = PermissionRequest(
        tool=tool, input=given_input, untrusted=tuple(case.get("untrusted", ()))
    )
    mode = mode_of(case.get("mode")) or found.context.mode
    context = structs.replace(found.context, mode=mode)
    decision = decided_here(found, request, context)
    if verdict(decision) == case["expect"]:
        return None
    shown = case.get("name") or json.dumps(given_input)
    return f"case {number} ({tool} {shown}): expected {case['expect']}, {verdict(decision)}: {reason(decision)}"


def edited(options: argparse.Namespace, change: Callable[[Places, str, str, str], str]) -> int:
    places = find_places(os.environ, Path.cwd())
    try:
        one_rule(options)
        show(change(places, options.scope, options.list, options.rule))
        if options.list == "allow" and options.scope != "user" and not trusts(places):
            show("it does not count before the folder is trusted: clew config trust")
    except (CommandLineError, SettingsError, OSError) as error:
        return complain(in_words(error))
    return 0


def one_rule(options: argparse.Namespace) -> None:
    """Raises CommandLineError where more than a rule was said, with the form of it that is right."""
    if not options.further:
        return
    said = [options.rule, *options.further]
    name, rules = (said[0], said[1:]) if said[0] in LISTS else (options.list, said)
    form = f"clew permissions {options.word} --list {name} {shlex.quote(' '.join(rules))}"
    raise CommandLineError(f"it takes one rule, and its list by --list: {form}")


def run_add(options: argparse.Namespace) -> int:
    wrong = unknown_tool(options.rule) if not options.further else None
    if wrong is not None:
        return complain(
            f"{options.rule}: {wrong}; the rule was not written (edit the file to force it)"
        )
    return edited(options, add_rule)


def run_remove(options: argparse.Namespace) -> int:
    return edited(options, remove_rule)
