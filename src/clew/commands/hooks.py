"""`clew hooks`: list the hooks in effect and test them without a session.

Owns the command line and the display of outcomes. The hooks of an untrusted folder are neither
listed as active nor tested.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from msgspec import json

from clew.agent.events import HookFinished, HookStarted
from clew.agent.hooks.alone import open_hooks
from clew.agent.hooks.events import BY_NAME, EVENTS, Event, find_nearest_event, label_event
from clew.agent.hooks.fold import Occasion
from clew.agent.hooks.handlers import HookListing, read_layers
from clew.agent.hooks.outcome import HookOutcome
from clew.core.json_object import Json
from clew.core.messages.errors import CommandLineError, SettingsError
from clew.permissions.session_rules import CurrentRules, load_current_rules, read_command_line
from clew.system.command_groups import Group, GroupWord, argument, show, switch
from clew.system.config.json_text import join_path


def main(argv: list[str]) -> int:
    settings = argument("--settings", help="Additional settings: a file or JSON")
    example = "Event fields as JSON (default: example values)"
    parser = Group(
        prog="clew hooks", description="List and test hooks; list the events that trigger them."
    )
    parser.add_words(
        {
            "list": GroupWord(
                run_list,
                settings,
                line="List the hooks that are active in this folder, and any problems",
            ),
            "events": GroupWord(
                run_events, line="List all events: when they fire, what they match and block"
            ),
            "test": GroupWord(
                run_test,
                argument("event", help="Event, such as PreToolUse"),
                argument("input", nargs="?", default="{}", help=example),
                settings,
                switch("--json", "Print JSON"),
                line="Run the hooks of an event and show the outcome",
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
    current = load_current_rules(
        os.environ, Path.cwd(), command_line=read_command_line(options.settings)
    )
    hooks = read_layers(current.layers)
    warn(hooks.faults)
    return current, hooks


def run_list(options: argparse.Namespace) -> int:
    stood, listing = standing(options)
    for inert in stood.inert:
        if inert.path[0] == "hooks":
            show(f"{inert.layer.file}: {join_path(inert.path)}: ignored because {inert.why}")
    if listing.off:
        show(f"off: {listing.off}")
    for hook in listing.hooks:
        when = label_event(hook.event.name, hook.matcher or None)
        only = f" if {hook.handler.condition}" if hook.handler.condition else ""
        show(f"{when}{only}  {hook.kind}: {hook.handler.title}  [{hook.where}]")
    if not (listing.hooks or listing.off or listing.faults):
        show("no active hooks; run clew hooks events to see the events")
    return 1 if listing.faults else 0


def run_events(_options: argparse.Namespace) -> int:
    for event in EVENTS:
        matched = event.subject or "-"
        show(f"{event.name:<20} {matched:<17} {event.blocking:<9} {event.when}")
    return 0


def run_test(options: argparse.Namespace) -> int:
    event = BY_NAME.get(options.event)
    if event is None:
        near = find_nearest_event(options.event)
        hint = f' (did you mean "{near}"?)' if near else ' (run "clew hooks events" for a list)'
        raise CommandLineError(f'unknown event "{options.event}"{hint}')
    fields = fields_of(event, options)
    stood, listing = standing(options)
    for inert in stood.inert:
        if inert.path[0] == "hooks":
            warn((f"{inert.layer.file}: hooks: not run because {inert.why}",))
    ended, outcome = asyncio.run(tried(event, fields, stood, listing))
    if options.json:
        show(json.encode(as_json(ended, outcome)).decode())
    else:
        tell(Occasion(event=event, fields=fields), ended, outcome)
    return 0


def fields_of(event: Event, options: argparse.Namespace) -> Json:
    text = sys.stdin.read() if options.input == "-" else options.input
    try:
        decode = json.decode(text)
    except ValueError as error:
        raise CommandLineError(f"the input is not valid JSON: {error}") from None
    if not isinstance(decode, dict):
        raise CommandLineError("the input must be a JSON object")
    fields = event.example | decode
    if event.has_tool and not (
        isinstance(fields["tool_name"], str) and isinstance(fields["tool_input"], dict)
    ):
        raise CommandLineError("tool_name must be a string and tool_input an object")
    return fields


async def tried(
    event: Event, fields: Json, stood: CurrentRules, listing: HookListing
) -> tuple[list[HookFinished], HookOutcome]:
    ended: list[HookFinished] = []

    async def note(event: HookStarted | HookFinished) -> None:
        if isinstance(event, HookFinished):
            ended.append(event)

    async with open_hooks(stood, listing) as hooks:
        return ended, await hooks.fire(event.name, fields, note)


def tell(occasion: Occasion, ended: list[HookFinished], outcome: HookOutcome) -> None:
    if not ended:
        show(f"{occasion.name}: no matching hook")
        return
    for run in ended:
        ran = run.ran
        how = ran.trouble or f"exit code {ran.exit_code}"
        show(f"{run.title}: {how}, {ran.duration_ms} ms")
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr)):
            for line in text.splitlines():
                show(f"  {name}: {line}")
    for name, value in effects(outcome).items():
        text = value if isinstance(value, str) else json.encode(value).decode()
        show(f"{LABELS.get(name, name)}: {text}")


# Labels in the text output for names that JSON output has too.
LABELS = {"model reads": "for the model", "people read": "for the user"}


def effects(outcome: HookOutcome) -> Json:
    """Return the effects of a hook's outcome by name, omitting those that are not set."""
    heard = [words for attachment in outcome.attached for words in attachment.rendered]
    fields = {
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
    return {name: value for name, value in fields.items() if value is not None}


def as_json(ended: list[HookFinished], outcome: HookOutcome) -> Json:
    return {
        "hooks": [
            {
                "hook": run.title,
                "exit_code": run.ran.exit_code,
                "stdout": run.ran.stdout,
                "stderr": run.ran.stderr,
                "trouble": run.ran.trouble,
                "duration_ms": run.ran.duration_ms,
            }
            for run in ended
        ],
        "outcome": effects(outcome),
    }
