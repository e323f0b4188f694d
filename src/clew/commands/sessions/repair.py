"""`clew sessions check`, `repair` and `index`: check and repair sessions, update the index."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
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
    find_transcript,
    format_groups,
    say,
    say_closed,
    say_json,
    say_unsaved,
)
from clew.commands.styled import print_pieces
from clew.core.messages.text import format_count, format_size
from clew.record.library.database import find_database
from clew.record.library.indexing import update
from clew.record.transcript import choose, light, paths
from clew.record.transcript.check import BY_NAME, ORDER, RULES, BrokenRule, Severity
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
                if is_empty:
                    say(f"{path}: empty, no conversation")
                else:
                    style = "bad" if examination.problems else "good"
                    live = f", {len(examination.loaded.messages)} live messages"
                    print_pieces(f"{path}: ", (style, _count_by_severity(problems)), live)
                _say_groups(problems)
            bar(number, len(files))
    if options.json:
        say_json(reports)
    elif not files and not is_unread:
        say("no sessions to check" if options.all else NONE_HERE)
    elif len(reports) > 1:
        broken = sum(not report["ok"] for report in reports)
        words = f"{broken} with problems" if broken else "no problems"
        counted = format_count(len(reports), "session")
        print_pieces(f"{counted} checked: ", ("bad" if broken else "good", words))
    if is_unread:
        return CANNOT
    return FINE if all(report["ok"] for report in reports) else FOUND


# The style of each severity, the worst first.
_STYLES: dict[Severity, str] = {"error": "bad", "warning": "warning", "note": "quiet"}
_WORST = list(_STYLES)
# The most details shown for a rule, and line ranges for a detail.
MOST_DETAILS, MOST_RANGES = 5, 8


def _count_by_severity(problems: Sequence[BrokenRule]) -> str:
    counts = Counter(problem.severity for problem in problems)
    counted = ", ".join(format_count(counts[s], s) for s in _WORST if counts[s])
    return counted if counts.keys() - {"note"} else f"ok, {counted}".removesuffix(", ")


def _say_groups(problems: Sequence[BrokenRule]) -> None:
    """Print the problems by rule: the worst first, and the rarest first among equally bad ones."""
    groups: dict[str, list[BrokenRule]] = {}
    for problem in problems:
        groups.setdefault(problem.name, []).append(problem)

    def place(group: list[BrokenRule]) -> tuple[int, int, int]:
        return _WORST.index(group[0].severity), len(group), ORDER[group[0].name]

    for group in sorted(groups.values(), key=place):
        first = group[0]
        times = f" ({len(group):,} times)" if len(group) > 1 else ""
        label = _STYLES[first.severity], f"{first.rule} {first.severity}"
        print_pieces("  ", label, f": {BY_NAME[first.name].broken_when}{times}")
        details: dict[str, list[int]] = {}
        for problem in group:
            details.setdefault(problem.detail, []).append(problem.line)
        for detail, lines in list(details.items())[:MOST_DETAILS]:
            print_pieces(f"    {format_lines(lines)}", ("quiet", f": {detail}" if detail else ""))
        rest = sum(map(len, list(details.values())[MOST_DETAILS:]))
        if rest:
            print_pieces(("quiet", f"    and {rest:,} more; --json lists all"))


def format_lines(numbers: Sequence[int]) -> str:
    """Return line numbers in order, with consecutive ones as a range: `lines 2, 4-9`."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:MOST_RANGES]]
    rest = sum(b - a + 1 for a, b in ranges[MOST_RANGES:])
    more = f" and {rest:,} more" if rest else ""
    return f"{'line' if len(set(numbers)) == 1 else 'lines'} {', '.join(texts)}{more}"


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
    path = find_transcript(options.session)
    say_unsaved(path)
    planned = plan(path, warnings=options.warnings)
    try:
        if options.dry_run:
            done = rehearse_repair(planned)
        else:
            done = carry_out(planned, paths.get_own_dir(find_home()) / "backups")
    except HeldError as error:
        raise CannotError(f"{error}; try again after that process has finished") from None
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
            f"  remaining problem: line {problem['line']}: {problem['rule']} "
            f"{problem['name']}: {problem['why']}",
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
            f"read {format_size(read_bytes)}; index size: {format_size(path.stat().st_size)} ({path})"
        )
    return FINE


WORDS = {
    "check": GroupWord(
        run_check,
        argument(
            "session", nargs="*", help="ID, title or file (default: all sessions in this folder)"
        ),
        switch("--all", "Check the sessions of all folders"),
        switch("--rules", "Print the rules and exit"),
        switch("--notes", "Include notes, which are not problems"),
    ),
    "repair": GroupWord(
        run_repair, SESSION, DRY_RUN, switch("--warnings", "Also repair warnings, in a copy")
    ),
    "index": GroupWord(run_index, (switch("--rebuild", "Delete the index and rebuild it"),)),
}
