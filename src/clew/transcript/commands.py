"""`clew sessions`: list, show, check and repair what lies on the disk. Needs no model and no key.

Every word has `--json`. What a session says is shown without the control characters in it.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.messages.errors import ClewError, in_words
from clew.transcript import choose, light, paths

# Exit codes: fine, something found, cannot do what was asked.
FINE, FOUND, CANNOT = 0, 1, 2


class CannotError(Exception):
    """What was asked cannot be done; the text says why and what to do."""


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (CannotError, ClewError, OSError) as error:
        sys.stderr.write(f"clew sessions: {in_words(error)}\n")
        return CANNOT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="clew sessions", description="Look at sessions, check them, repair them."
    )
    words = parser.add_subparsers(required=True, metavar="WORD")

    listing = words.add_parser("list", help="the sessions of this folder, newest first")
    listing.add_argument("--all", action="store_true", help="of every folder")
    listing.add_argument("--limit", type=int, default=0, metavar="N", help="at most N")
    _finish(listing, _list)

    show = words.add_parser("show", help="the conversation as it would be resumed")
    show.add_argument("session", help="id, title or file")
    _finish(show, _show)

    check = words.add_parser("check", help="hold files to the rules; exit 1 if one is broken")
    check.add_argument("session", nargs="*", help="id, title or file (default: of this folder)")
    check.add_argument("--all", action="store_true", help="every session of every folder")
    check.add_argument("--rules", action="store_true", help="print the rules and end")
    check.add_argument("--notes", action="store_true", help="say also what is no problem")
    _finish(check, _check)

    repair = words.add_parser("repair", help="make a damaged session whole; the original stays")
    repair.add_argument("session", help="id, title or file")
    repair.add_argument("--dry-run", action="store_true", help="say what would be done")
    _finish(repair, _repair)
    return parser


def _finish(word: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    word.add_argument("--json", action="store_true", help="as JSON")
    word.set_defaults(run=run)


# -- the words


def _list(options: argparse.Namespace) -> int:
    found = sorted(
        choose.of_folder(_home(), str(Path.cwd()), everywhere=options.all),
        key=lambda o: o.modified_at,
        reverse=True,
    )
    found = found[: options.limit] if options.limit > 0 else found
    if options.json:
        _say_json([_outline(outline) for outline in found])
        return FINE
    for outline in found:
        when = _moment(outline.modified_at)
        _say(f"{outline.session_id}  {when}  {_size(outline.size_bytes):>8}  {outline.title}")
    return FINE


def _show(options: argparse.Namespace) -> int:
    from clew.transcript.load import load

    loaded = load(_file(options.session))
    if options.json:
        _say_json(
            {
                "path": str(loaded.path),
                "leafUuid": loaded.leaf_uuid,
                "messages": loaded.messages,
                "beside": loaded.side.current,
            }
        )
        return FINE
    for message in loaded.messages:
        for line in _shown(message):
            _say(line)
    return FINE


def _check(options: argparse.Namespace) -> int:
    from clew.transcript.examine import examine

    if options.rules:
        return _rules(as_json=options.json)
    files = [_file(name) for name in options.session] or [
        path
        for folder in choose.folders(_home(), str(Path.cwd()), everywhere=options.all)
        for path in light.session_files(folder)
    ]
    reports: list[dict[str, Any]] = []
    is_fine = True
    for path in files:
        found = examine(path)
        is_fine = is_fine and not found.problems
        shown = found.findings if options.notes else found.problems
        reports.append({"path": str(path), "ok": not found.problems, "findings": shown})
        if not options.json:
            state = "ok" if not found.problems else f"{len(found.problems)} problems"
            _say(f"{path}: {state}, {len(found.loaded.messages)} live messages")
            for finding in shown:
                _say(f"  {finding}")
    if options.json:
        _say_json(reports)
    return FINE if is_fine else FOUND


def _rules(*, as_json: bool) -> int:
    from clew.transcript.check import RULES

    if as_json:
        _say_json(RULES)
        return FINE
    _say("| rule | name | severity | broken when |\n|---|---|---|---|")
    for rule in RULES:
        _say(f"| {rule.number} | {rule.name} | {rule.severity} | {rule.broken_when} |")
    return FINE


def _repair(options: argparse.Namespace) -> int:
    from clew.transcript.repair import HeldError, WouldLoseError, carry_out, plan

    planned = plan(_file(options.session))
    report: dict[str, Any] = {
        "path": str(planned.source),
        "action": planned.kind,
        "target": str(planned.target),
        "lines": len(planned.lines),
        "findings": planned.findings,
        "dryRun": options.dry_run,
    }
    if not options.dry_run:
        try:
            done = carry_out(planned, paths.own_dir(_home()) / "backups")
        except HeldError as error:
            raise CannotError(f"{error}; end it first") from None
        except WouldLoseError as error:
            raise CannotError(str(error)) from None
        backup = str(done.backup) if done.backup else None
        report |= {"backup": backup, "remaining": done.remaining}
    if options.json:
        _say_json(report)
    else:
        for line in _told(report):
            _say(line)
    return FOUND if report.get("remaining") else FINE


def _told(report: dict[str, Any]) -> Iterator[str]:
    would = "would be " if report["dryRun"] else ""
    match report["action"]:
        case "nothing":
            yield f"{report['path']}: nothing to repair"
        case "append":
            yield f"{report['lines']} lines {would}appended to {report['target']}"
        case _:
            yield f"a repaired copy {would}written to {report['target']}; the original stays"
    if report.get("backup"):
        yield f"a copy of what was there before is in {report['backup']}"
    for finding in report.get("remaining", ()):
        yield f"  remains: {finding}"


# -- which sessions


def _home() -> Path:
    return paths.config_home(os.environ)


def _file(name: str) -> Path:
    return choose.named(_home(), str(Path.cwd()), name)


# -- how it is shown


def _outline(outline: light.Outline) -> dict[str, Any]:
    return {
        "sessionId": outline.session_id,
        "title": outline.title,
        "customTitle": outline.custom_title,
        "firstPrompt": outline.first_prompt,
        "cwd": outline.cwd,
        "gitBranch": outline.git_branch,
        "tag": outline.tag,
        "createdAt": outline.created_at,
        "modifiedAt": _moment(outline.modified_at),
        "sizeBytes": outline.size_bytes,
        "path": str(outline.path),
    }


def _shown(message: dict[str, Any]) -> Iterator[str]:
    said = message.get("message")
    content = said.get("content") if isinstance(said, dict) else message.get("content")
    blocks: Sequence[Any] = content if isinstance(content, list) else [content]
    for block in blocks:
        if isinstance(block, str):
            yield f"{message['type']}: {block}"
        elif isinstance(block, dict):
            words = block.get("text") or block.get("thinking") or block.get("content")
            name = block.get("name") or block.get("type")
            shown = (
                words
                if isinstance(words, str)
                else msgspec.json.encode(block.get("input", words)).decode()
            )
            yield f"{message['type']} [{name}]: {shown}"


def _moment(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.1f} kB"


def _say(line: str) -> None:
    """A line for people; a session's text cannot move the cursor or colour the rest."""
    clean = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in line)
    sys.stdout.write(clean.encode("utf-8", "replace").decode("utf-8") + "\n")


def _say_json(value: Any) -> None:
    from clew.messages.encoding import encode

    sys.stdout.write(encode(msgspec.to_builtins(value)).decode() + "\n")
