"""`clew sessions repair`: makes a damaged session whole; what was there stays."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from clew.commands.sessions.output import (
    FINE,
    FOUND,
    Bar,
    CannotError,
    SessionsWord,
    home,
    saved_part,
    say,
    say_json,
    some_of_each,
)
from clew.core.messages.text import count_of, size_of
from clew.record.library.database import database_path
from clew.record.library.indexing import update
from clew.record.transcript import paths
from clew.record.transcript.light import outline
from clew.record.transcript.repair import (
    HeldError,
    WouldLoseError,
    carry_out,
    plan,
    rehearsed,
    why_it_stays,
)


def repair_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--warnings", action="store_true", help="mend warnings too, in a copy")


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


def index_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rebuild", action="store_true", help="throw it away first")


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
    "repair": SessionsWord(repair_arguments, run_repair),
    "index": SessionsWord(index_arguments, run_index),
}
