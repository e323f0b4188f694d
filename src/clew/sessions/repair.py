"""`clew sessions repair`: makes a damaged session whole; what was there stays."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from clew.messages.counts import count_of
from clew.sessions.output import FINE, FOUND, CannotError, home, saved_part, say, say_json
from clew.transcript import paths
from clew.transcript.repair import HeldError, WouldLoseError, carry_out, plan, why_it_stays


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="id, title or file")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--warnings", action="store_true", help="mend warnings too, in a copy")


def run(options: argparse.Namespace) -> int:
    planned = plan(saved_part(options.session), warnings=options.warnings)
    report: dict[str, Any] = {
        "path": str(planned.source),
        "action": planned.kind,
        "target": str(planned.target),
        "lines": len(planned.lines),
        "agents": planned.agents,
        "findings": planned.findings,
        "dryRun": options.dry_run,
    }
    if not options.dry_run:
        try:
            done = carry_out(planned, paths.own_dir(home()) / "backups")
        except HeldError as error:
            raise CannotError(f"{error}; end it first") from None
        except WouldLoseError as error:
            raise CannotError(str(error)) from None
        backup = str(done.backup) if done.backup else None
        remaining = [
            {**to_builtins(finding), "why": why_it_stays(finding, planned.target.stem)}
            for finding in done.remaining
        ]
        report |= {"backup": backup, "remaining": remaining}
    if options.json:
        say_json(report)
    else:
        for line in _told(report):
            say(line)
    return FOUND if report.get("remaining") else FINE


def _told(report: dict[str, Any]) -> Iterator[str]:
    would = "would be " if report["dryRun"] else ""
    match report["action"]:
        case "nothing":
            yield f"{report['path']}: nothing needs repair"
        case "append":
            yield f"{count_of(report['lines'], 'line')} {would}appended to {report['target']}"
        case "repaired already":
            yield f"{report['path']} was repaired already; the copy is {report['target']}"
        case _:
            along = f", with {count_of(report['agents'], 'subagent')}" if report["agents"] else ""
            yield f"a repaired copy {would}written to {report['target']}{along}; the original stays"
    if "remaining" in report and report["target"] != report["path"]:
        yield f"  clew --resume {Path(report['target']).stem} goes on with the copy"
        yield f"  clew sessions archive {Path(report['path']).stem} puts the original aside"
    if report.get("backup"):
        yield f"a copy of what was there before is in {report['backup']}"
    for one in report.get("remaining", ()):
        yield f"  stays: line {one['line']}: {one['rule']} {one['name']}: {one['why']}"
