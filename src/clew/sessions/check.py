"""`clew sessions check`: holds files to the rules of the format."""

import argparse
from typing import Any

from clew.messages.counts import count_of
from clew.sessions.output import FINE, FOUND, Bar, cwd, home, say, say_json, say_unsaved, transcript
from clew.transcript import choose, light
from clew.transcript.check import RULES
from clew.transcript.examine import examine


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", nargs="*", help="id, title or file (default: of this folder)")
    add("--all", action="store_true", help="every session of every folder")
    add("--rules", action="store_true", help="print the rules and end")
    add("--notes", action="store_true", help="say also what is no problem")


def run(options: argparse.Namespace) -> int:
    if options.rules:
        return _rules(as_json=options.json)
    files = [transcript(name) for name in options.session] or [
        path
        for folder in choose.folders(home(), cwd(), everywhere=options.all)
        for path in light.session_files(folder)
    ]
    reports: list[dict[str, Any]] = []
    with Bar("checking") as bar:
        for number, path in enumerate(files, 1):
            bar.hide()
            say_unsaved(path)
            found = examine(path)
            shown = found.findings if options.notes else found.problems
            is_empty = path.stat().st_size == 0
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
                for finding in shown:
                    say(f"  {finding}")
            bar(number, len(files))
    if options.json:
        say_json(reports)
    return FINE if all(report["ok"] for report in reports) else FOUND


def _rules(*, as_json: bool) -> int:
    if as_json:
        say_json(RULES)
        return FINE
    say("| rule | name | severity | broken when |\n|---|---|---|---|")
    for rule in RULES:
        say(f"| {rule.number} | {rule.name} | {rule.severity} | {rule.broken_when} |")
    return FINE
