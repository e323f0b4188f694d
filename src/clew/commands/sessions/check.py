"""`clew sessions check`: holds files to the rules of the format."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.commands.sessions.output import (
    CANNOT,
    FINE,
    FOUND,
    NONE_HERE,
    Bar,
    SessionsWord,
    cwd,
    home,
    say,
    say_closed,
    say_json,
    say_unsaved,
    some_of_each,
    transcript,
)
from clew.core.messages.text import count_of
from clew.record.transcript import choose, light
from clew.record.transcript.check import RULES
from clew.record.transcript.examine import examine


def check_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", nargs="*", help="id, title or file (default: of this folder)")
    add("--all", action="store_true", help="every session of every folder")
    add("--rules", action="store_true", help="print the rules and end")
    add("--notes", action="store_true", help="say also what is no problem")


def run_check(options: argparse.Namespace) -> int:
    if options.rules:
        return _rules(as_json=options.json)
    files = [transcript(name) for name in options.session] or list(
        _of_folder(everywhere=options.all)
    )
    is_unread = not options.session and say_closed(everywhere=options.all)
    reports: list[dict[str, Any]] = []
    with Bar("checking") as bar:
        for number, path in enumerate(files, 1):
            bar.hide()
            say_unsaved(path)
            try:
                found = examine(path)
            except OSError as error:
                sys.stderr.write(f"clew sessions: {path} cannot be read: {error.strerror}\n")
                is_unread = True
                continue
            shown = found.findings if options.notes else found.problems
            is_empty = found.loaded.size_bytes == 0
            reports.append(
                {
                    "path": str(path),
                    "ok": not found.problems,
                    "isEmpty": is_empty,
                    "findings": shown,
                }
            )
            if not options.json:
                bar.hide()
                state = "ok" if not found.problems else count_of(len(found.problems), "problem")
                live = f"{state}, {len(found.loaded.messages)} live messages"
                say(f"{path}: {'empty: nothing of a conversation is in it' if is_empty else live}")
                for line in some_of_each((one.rule, f"  {one}") for one in shown):
                    say(line)
            bar(number, len(files))
    if options.json:
        say_json(reports)
    elif not files and not is_unread:
        say("there is no session to check" if options.all else NONE_HERE)
    if is_unread:
        return CANNOT
    return FINE if all(report["ok"] for report in reports) else FOUND


def _of_folder(*, everywhere: bool) -> Iterator[Path]:
    for folder in choose.folders(home(), cwd(), everywhere=everywhere):
        yield from light.session_files(folder)
    for outline in choose.unsaved(home(), cwd(), everywhere=everywhere):
        yield outline.path


def _rules(*, as_json: bool) -> int:
    if as_json:
        say_json(RULES)
        return FINE
    say("| rule | name | severity | broken when |\n|---|---|---|---|")
    for rule in RULES:
        say(f"| {rule.number} | {rule.name} | {rule.severity} | {rule.broken_when} |")
    return FINE


WORDS = {
    "check": SessionsWord(check_arguments, run_check),
}
