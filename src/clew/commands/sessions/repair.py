"""`clew sessions check`, `repair` and `index`: hold files to the rules of the format, make them whole again."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from clew.commands.sessions.output import (
    CANNOT,
    DRY_RUN,
    FINE,
    FOUND,
    NONE_HERE,
    SESSION,
    Bar,
    CannotError,
    cwd,
    home,
    saved_part,
    say,
    say_closed,
    say_json,
    say_unsaved,
    some_of_each,
    transcript,
)
from clew.core.messages.text import count_of, size_of
from clew.record.library.database import database_path
from clew.record.library.indexing import update
from clew.record.transcript import choose, light, paths
from clew.record.transcript.check import RULES
from clew.record.transcript.examine import examine
from clew.record.transcript.light import outline
from clew.record.transcript.repair import (
    HeldError,
    WouldLoseError,
    carry_out,
    plan,
    rehearsed,
    why_it_stays,
)
from clew.system.command_groups import GroupWord, argument, switch


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
    yield from (one.path for one in choose.unsaved(home(), cwd(), everywhere=everywhere))


def _rules(*, as_json: bool) -> int:
    if as_json:
        say_json(RULES)
        return FINE
    say("| rule | name | severity | broken when |\n|---|---|---|---|")
    for rule in RULES:
        say(f"| {rule.number} | {rule.name} | {rule.severity} | {rule.broken_when} |")
    return FINE


def run_repair(options: argparse.Namespace) -> int:
    planned = plan(saved_part(options.session), warnings=options.warnings)
    try:
        if options.dry_run:
            done = rehearsed(planned)
        else:
            done = carry_out(planned, paths.own_dir(home()) / "backups")
    except HeldError as error:
        raise CannotError(f"{error}; end it first") from None
    except WouldLoseError as error:
        raise CannotError(str(error)) from None
    planned = done.plan
    is_there = planned.kind != "new session" or not options.dry_run
    session = (planned.target if is_there else planned.source).stem
    report: dict[str, Any] = {
        "path": str(planned.source),
        "action": planned.kind,
        "target": str(planned.target),
        "lines": len(planned.lines),
        "agents": planned.agents,
        "findings": planned.findings,
        "dryRun": options.dry_run,
        "backup": str(done.backup) if done.backup else None,
        "remaining": [
            {**to_builtins(finding), "why": why_it_stays(finding, session)}
            for finding in done.remaining
        ],
    }
    if options.json:
        say_json(report)
    else:
        for line in _told(report):
            say(line)
    return FOUND if done.remaining else FINE


def _told(report: dict[str, Any]) -> Iterator[str]:
    path, target = Path(report["path"]), Path(report["target"])
    remaining, is_dry = report["remaining"], report["dryRun"]
    would = "would be " if is_dry else ""
    match report["action"]:
        case "nothing":
            stay = f"; {count_of(len(remaining), 'problem stays', 'problems stay')}"
            yield f"{path}: nothing needs repair{stay if remaining else ''}"
        case "nothing to rescue":
            yield f"{path}: no entry of a conversation is left in it: nothing to rescue, no copy is made"
            yield f"  clew sessions archive {path.stem} puts it aside"
            return
        case "append":
            yield f"{count_of(report['lines'], 'line')} {would}appended to {target}"
        case "repaired already":
            yield f"{path} was repaired already; the copy is {target}"
        case _:
            along = f", with {count_of(report['agents'], 'subagent')}" if report["agents"] else ""
            yield f"a repaired copy {would}written to {target}{along}; the original stays"
    if target != path and outline(target) is not None:
        yield f"  clew --resume {target.stem} goes on with the copy"
        yield f"  clew sessions archive {path.stem} puts the original aside"
    if report["backup"]:
        yield f"a copy of what was there before is in {report['backup']}"
    yield from some_of_each(
        (one["rule"], f"  stays: line {one['line']}: {one['rule']} {one['name']}: {one['why']}")
        for one in remaining
    )


# `clew sessions index`: brings the search index up to date, or makes it anew.


def run_index(options: argparse.Namespace) -> int:
    with Bar("reading sessions") as bar:
        read_bytes = update(home(), bar, anew=options.rebuild)
    path = database_path(home())
    if options.json:
        say_json({"path": str(path), "readBytes": read_bytes, "sizeBytes": path.stat().st_size})
    else:
        say(f"read {size_of(read_bytes)}; the index is {size_of(path.stat().st_size)}: {path}")
    return FINE


WORDS = {
    "check": GroupWord(
        run_check,
        argument("session", nargs="*", help="id, title or file (default: of this folder)"),
        switch("--all", "every session of every folder"),
        switch("--rules", "print the rules and end"),
        switch("--notes", "say also what is no problem"),
    ),
    "repair": GroupWord(
        run_repair, SESSION, DRY_RUN, switch("--warnings", "mend warnings too, in a copy")
    ),
    "index": GroupWord(run_index, (switch("--rebuild", "throw it away first"),)),
}
