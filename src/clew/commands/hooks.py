"""`clew hooks`: which hooks there are, where from, and what they would do, tried without a session.

Owns the words of the command line and how an outcome is shown. What may run is decided where it always
is: the hooks of a folder that is not trusted are neither listed as active nor tried.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from msgspec import json

from clew.agent.events import HookFinished, HookStarted
from clew.agent.hooks.alone import hooks_alone
from clew.agent.hooks.events import BY_NAME, EVENTS, Event, label, nearest
from clew.agent.hooks.fold import Occasion
from clew.agent.hooks.handlers import HookListing, read_layers
from clew.agent.hooks.outcome import HookOutcome
from clew.core.json_object import Json
from clew.core.messages.errors import CommandLineError, SettingsError
from clew.permissions.session_rules import CurrentRules, given, stand
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config.json_text import dotted


def main(argv: list[str]) -> int:
    settings = argument("--settings", help="further settings: a file, or JSON")
    example = "fields of the event as JSON; the rest is an example"
    parser = Group(prog="clew hooks", description="Which hooks run when, and what they would say.")
    parser.add_words(
        {
            "list": GroupWord(
                run_list, settings, line="every hook of this folder's settings, and what is wrong"
            ),
            "events": GroupWord(
                run_events, line="every event: when, what matchers see, what blocks"
            ),
            "test": GroupWord(
                run_test,
                argument("event", help="such as PreToolUse"),
                argument("input", nargs="?", default="{}", help=example),
                settings,
                switch("--json", "print JSON"),
                line="run the hooks of an event dry, and say what they come to",
            ),
        }
    )
    options = parser.parse_args(argv)
    try:
        code: int = options.run(options)
    except (CommandLineError, SettingsError) as error:
        sys.stderr.write(f"clew hooks: {error}\n")
        return 2
    return code


def warn(lines: tuple[str, ...]) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")


def standing(options: argparse.Namespace) -> tuple[CurrentRules, HookListing]:
    found = stand(os.environ, Path.cwd(), given=given(options.settings))
    hooks = read_layers(found.layers)
    warn(hooks.faults)
    return found, hooks


def run_list(options: argparse.Namespace) -> int:
    stood, found = standing(options)
    for inert in stood.inert:
        if inert.path[0] == "hooks":
            show(f"{inert.layer.file}: {dotted(inert.path)}: does not count, {inert.why}")
    if found.off:
        show(f"off: {found.off}")
    for hook in found.hooks:
        when = label(hook.event.name, hook.matcher or None)
        only = f" if {hook.handler.condition}" if hook.handler.condition else ""
        show(f"{when}{only}  {hook.kind}: {hook.handler.title}  [{hook.where}]")
    if not (found.hooks or found.off or found.faults):
        show("no hook is in force; clew hooks events says when one could run")
    return 1 if found.faults else 0


def run_events(_options: argparse.Namespace) -> int:
    for event in EVENTS:
        matched = event.subject or "-"
        show(f"{event.name:<20} {matched:<17} {event.blocking:<9} {event.when}")
    return 0


def run_test(options: argparse.Namespace) -> int:
    event = BY_NAME.get(options.event)
    if event is None:
        near = nearest(options.event)
        hint = f"; did you mean {near}?" if near else "; see clew hooks events"
        raise CommandLineError(f"no event {options.event!r}{hint}")
    fields = fields_of(event, options)
    stood, found = standing(options)
    for inert in stood.inert:
        if inert.path[0] == "hooks":
            warn((f"{inert.layer.file}: hooks: not run, {inert.why}",))
    ended, outcome = asyncio.run(tried(event, fields, stood, found))
    if options.json:
        show(json.encode(as_json(ended, outcome)).decode())
    else:
        tell(Occasion(event=event, fields=fields), ended, outcome)
    return 0


def fields_of(event: Event, options: argparse.Namespace) -> Json:
    text = sys.stdin.read() if options.input == "-" else options.input
    try:
        said = json.decode(text)
    except ValueError as error:
        raise CommandLineError(f"the input is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise CommandLineError("the input is no JSON object")
    fields = event.example | said
    if event.has_tool and not (
        isinstance(fields["tool_name"], str) and isinstance(fields["tool_input"], dict)
    ):
        raise CommandLineError("tool_name is a string and tool_input an object")
    return fields


async def tried(
    event: Event, fields: Json, stood: CurrentRules, found: HookListing
) -> tuple[list[HookFinished], HookOutcome]:
    ended: list[HookFinished] = []

    async def note(told: HookStarted | HookFinished) -> None:
        if isinstance(told, HookFinished):
            ended.append(told)

    async with hooks_alone(stood, found) as hooks:
        return ended, await hooks.fire(event.name, fields, note)


def tell(occasion: Occasion, ended: list[HookFinished], outcome: HookOutcome) -> None:
    if not ended:
        show(f"{occasion.name}: no hook is called")
        return
    for each in ended:
        ran = each.ran
        how = ran.trouble or f"exit code {ran.exit_code}"
        show(f"{each.title}: {how}, {ran.duration_ms} ms")
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
            for line in text.splitlines():
                show(f"  {name}: {line}")
    for name, value in effects(outcome).items():
        show(f"{name}: {value if isinstance(value, str) else json.encode(value).decode()}")


def effects(outcome: HookOutcome) -> Json:
    """What an outcome would do, by name; nothing that was not said."""
    heard = [words for each in outcome.attached for words in each.rendered]
    said = {
        "permission": outcome.permission,
        "reason": outcome.reason or None,
        "input": outcome.input,
        "answer": outcome.answer,
        "blocks": outcome.block if outcome.permission is None else None,
        "stops": outcome.halt,
        "model reads": [*heard, *outcome.context] or None,
        "people read": list(outcome.notices) or None,
        "title": outcome.title or None,
        "worktree": outcome.worktree or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def as_json(ended: list[HookFinished], outcome: HookOutcome) -> Json:
    return {
        "hooks": [
            {
                "hook": each.title,
                "exit_code": each.ran.exit_code,
                "stdout": each.ran.stdout,
                "stderr": each.ran.stderr,
                "trouble": each.ran.trouble,
                "duration_ms": each.ran.duration_ms,
            }
            for each in ended
        ],
        "outcome": effects(outcome),
    }
