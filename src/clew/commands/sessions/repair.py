"""`clew sessions check`, `repair` and `index`: check and repair sessions, update the index."""

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
    find_cwd,
    find_home,
    find_saved_part,
    find_transcript,
    format_groups,
    say,
    say_closed,
    say_json,
    say_unsaved,
)
from clew.core.messages.text import format_count, format_size
from clew.record.library.database import find_database
from clew.record.library.indexing import update
from clew.record.transcript import choose, light, paths
from clew.record.transcript.check import RULES
from clew.record.transcript.examine import examine
from clew.record.transcript.light import read_outline
from clew.record.transcript.repair import (
    HeldError,
    WouldLoseError,
    carry_out,
    plan,
    rehearse_repair,
    why_it_stays,
)
from clew.system.command_groups import GroupWord, argument, switch


def run_check(options: argparse.Namespace) -> int:
    if options.rules:
        return _rules(as_json=options.json)
    files = [find_transcript(name) for name in options.session] or list(
        _of_folder(everywhere=options.all)
    )
    is_unread = not options.session and say_closed(everywhere=options.all)
    reports: list[dict[str, Any]] = []
    with Bar("checking") as bar:
        for number, path in enumerate(files, 1):
            bar.hide()
            say_unsaved(path)
            try:
                examination = examine(path)
            except OSError as error:
                sys.stderr.write(f"clew sessions: {path} is not readable: {error.strerror}\n")
                is_unread = True
                continue
            problems = examination.findings if options.notes else examination.problems
            is_empty = examination.loaded.size_bytes == 0
            reports.append(
                {
                    "path": str(path),
                    "ok": not examination.problems,
                    "isEmpty": is_empty,
                    "findings": problems,
                }
            )
            if not options.json:
                bar.hide()
                state = (
                    "ok"
                    if not examination.problems
                    else format_count(len(examination.problems), "problem")
                )
                live = f"{state}, {len(examination.loaded.messages)} live messages"
                say(f"{path}: {'empty, no conversation' if is_empty else live}")
                for line in format_groups((problem.rule, f"  {problem}") for problem in problems):
                    say(line)
            bar(number, len(files))
    if options.json:
        say_json(reports)
    elif not files and not is_unread:
        say("no sessions to check" if options.all else NONE_HERE)
    if is_unread:
        return CANNOT
    return FINE if all(report["ok"] for report in reports) else FOUND


def _of_folder(*, everywhere: bool) -> Iterator[Path]:
    for folder in choose.list_folders(find_home(), find_cwd(), everywhere=everywhere):
        yield from light.list_session_files(folder)
    yield from (
        session_outline.path
        for session_outline in choose.list_unsaved(find_home(), find_cwd(), everywhere=everywhere)
    )


def _rules(*, as_json: bool) -> int:
    if as_json:
        say_json(RULES)
        return FINE
    say("| rule | name | severity | broken when |\n|---|---|---|---|")
    for rule in RULES:
        say(f"| {rule.number} | {rule.name} | {rule.severity} | {rule.broken_when} |")
    return FINE


def run_repair(options: argparse.Namespace) -> int:
    planned = plan(find_saved_part(options.session), warnings=options.warnings)
    try:
        if options.dry_run:
            done = rehearse_repair(planned)
        else:
            done = carry_out(planned, paths.get_own_dir(find_home()) / "backups")
    except HeldError as error:
        raise CannotError(f"{error}; close it first") from None
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
            stay = f"; {format_count(len(remaining), 'problem remains', 'problems remain')}"
            yield f"{path}: no repair needed{stay if remaining else ''}"
        case "nothing to rescue":
            yield f"{path}: nothing to recover, because the file has no conversation entries; no copy was made"
            yield f"  archive it with clew sessions archive {path.stem}"
            return
        case "append":
            yield f"{format_count(report['lines'], 'line')} {would}appended to {target}"
        case "repaired already":
            yield f"{path} was already repaired; the copy is {target}"
        case _:
            along = (
                f", with {format_count(report['agents'], 'subagent')}" if report["agents"] else ""
            )
            yield f"a repaired copy {would}written to {target}{along}; the original is unchanged"
    if target != path and read_outline(target) is not None:
        yield f"  resume the copy with clew --resume {target.stem}"
        yield f"  archive the original with clew sessions archive {path.stem}"
    if report["backup"]:
        yield f"Backup: {report['backup']}"
    yield from format_groups(
        (
            problem["rule"],
            f"  remains: line {problem['line']}: {problem['rule']} {problem['name']}: {problem['why']}",
        )
        for problem in remaining
    )


# `clew sessions index`: update or rebuild the search index.


def run_index(options: argparse.Namespace) -> int:
    with Bar("reading sessions") as bar:
        read_bytes = update(find_home(), bar, rebuilds=options.rebuild)
    path = find_database(find_home())
    if options.json:
        say_json({"path": str(path), "readBytes": read_bytes, "sizeBytes": path.stat().st_size})
    else:
        say(
            f"read {format_size(read_bytes)}; the index is {format_size(path.stat().st_size)}: {path}"
        )
    return FINE


WORDS = {
    "check": GroupWord(
        run_check,
        argument("session", nargs="*", help="ID, title or file (default: all of this folder)"),
        switch("--all", "Check every session of every folder"),
        switch("--rules", "Print the rules and exit"),
        switch("--notes", "Include notes, which are not problems"),
    ),
    "repair": GroupWord(
        run_repair, SESSION, DRY_RUN, switch("--warnings", "Repair warnings too, in a copy")
    ),
    "index": GroupWord(run_index, (switch("--rebuild", "Delete the index first"),)),
}
