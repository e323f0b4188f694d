"""`clew sessions export`, `import`, `push` and `pull`."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from clew.commands.sessions.everything import describe_session, import_everything
from clew.commands.sessions.output import (
    CANNOT,
    FINE,
    SESSION,
    Bar,
    CannotError,
    find_cwd,
    find_home,
    find_saved_part,
    find_transcript,
    say,
    say_json,
    say_waiting,
)
from clew.core.messages.errors import SessionError, describe_error
from clew.core.messages.text import format_count, format_size
from clew.record.exchange.bring import ImportedSession, RefusedSession, bring_all, keep_export
from clew.record.exchange.export import (
    FORMATS,
    LEFT_OUT,
    begins_late,
    export_session,
    form_of,
    redaction_of,
    write,
)
from clew.record.exchange.others import require_importers
from clew.record.library.places import list_transcripts
from clew.record.stores.base import SETTING, SessionStore, StoreError, in_settings
from clew.record.stores.sealed import open_store
from clew.record.stores.transfer import Diagnostic, hydrate, key_of, send
from clew.record.transcript.light import is_uuid
from clew.record.transcript.paths import SessionPlace, get_project_dir
from clew.system.clock import get_timestamp
from clew.system.command_groups import GroupWord, argument, switch
from clew.system.files import is_there

# The store of a `clew sessions` command: from its option or from the settings.


def open_named_store(name: str | None) -> AbstractAsyncContextManager[SessionStore]:
    """Return a context manager that opens the store with this name, or the one in the settings."""
    from clew.permissions.session_rules import load_current_rules

    current = load_current_rules(os.environ, Path.cwd())
    for line in current.complaints:
        sys.stderr.write(f"clew sessions: {line}\n")
    try:
        store = name or in_settings(current.settings)
    except ValueError as error:
        raise CannotError(str(error)) from None
    if not store:
        raise CannotError(f"no store: use --store, or set {SETTING} in settings.json")
    return open_store(store, os.environ, find_home(), current.settings)


# `clew sessions export`: write a session as HTML, Markdown, JSON or JSONL.


def run_export(options: argparse.Namespace) -> int:
    path = find_saved_part(options.session)
    target = None if options.output in (None, "-") else Path(options.output)
    form = options.format or form_of(target)
    redaction = redaction_of(redacts=options.redact, is_raw=options.raw)
    data = export_session(
        path, form, redaction, subagents=not options.no_agents, is_all=options.all
    )
    if target is None:
        if options.json:
            raise CannotError("--json requires an output file")
        _say_left_out(path, form, options)
        if sys.stdout.isatty():
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            sys.stdout.buffer.write(data)
        return FINE
    if is_there(target) and not options.force:
        raise CannotError(f"{target} already exists; use --force to overwrite it")
    write(target, data)
    keep_export(Path(find_home()), path, form, data, target=target)
    _say_left_out(path, form, options)
    if options.json:
        say_json({"path": str(target.absolute()), "format": form, "sizeBytes": len(data)})
    else:
        say(f"{target}: {format_size(len(data))}")
    return FINE


def _say_left_out(path: Path, form: str, options: argparse.Namespace) -> None:
    if not options.all and begins_late(path, form, subagents=not options.no_agents):
        sys.stderr.write(f"clew sessions: {LEFT_OUT}\n")


# `clew sessions import`: import files from clew and other programs, and report their items.


def run_import(options: argparse.Namespace) -> int:
    require_importers(os.environ, Path(find_cwd()))
    if options.all == bool(options.file):
        raise CannotError("specify files or use --all")
    if options.all:
        return import_everything(options)
    if options.dry_run:
        raise CannotError("--dry-run requires --all")
    brought: list[ImportedSession] = []
    refused: list[tuple[str, str]] = []
    with Bar("importing") as bar:
        for number, name in enumerate(options.file, 1):
            try:
                imported, rejected = bring_all(
                    find_home(),
                    Path(name),
                    find_cwd(),
                    now=get_timestamp,
                    has_new_id=options.new_id,
                )
                brought += imported
                refused += _reasons(name, rejected, is_alone=len(imported) + len(rejected) == 1)
            except (SessionError, OSError) as error:
                refused.append((name, describe_error(error)))
            bar(number, len(options.file))
    if options.json:
        say_json(
            {
                "imported": [describe_session(session) for session in brought],
                "refused": [{"file": name, "reason": why} for name, why in refused],
            }
        )
    else:
        _tell(brought, refused)
    return CANNOT if refused else FINE


def _reasons(
    name: str, rejected: list[RefusedSession], *, is_alone: bool
) -> Iterator[tuple[str, str]]:
    for session in rejected:
        prefix = "" if is_alone else f"{session.source_id or 'a session'}: "
        yield name, f"{prefix}{session.reason}"


def _tell(brought: list[ImportedSession], refused: list[tuple[str, str]]) -> None:
    for session in brought:
        say(
            f"{session.session_id}: {session.kind}, {format_count(session.messages, 'message')}, {session.title!r}"
        )
        tally = session.tally
        if session.losses:
            changed, left_out = sum(tally.changed.values()), sum(tally.left_out.values())
            say(
                f"  {format_count(tally.items, 'item')}: {tally.kept:,} kept, {changed:,} changed, {left_out:,} left out"
            )
        if session.restored:
            say(f"  {format_count(session.restored, 'message')} restored from the exported session")
        for name, reasons in (("changed", tally.changed), ("left out", tally.left_out)):
            for reason, times in sorted(reasons.items()):
                say(f"  {name}: {reason}: {times:,}")
    for name, why in refused:
        say(why if why.startswith(f"{name}: ") else f"{name}: {why}")


def run_push(options: argparse.Namespace) -> int:
    if options.all == bool(options.session):
        raise CannotError("specify sessions or use --all")
    paths = [find_transcript(name) for name in options.session]
    if options.all:
        paths = [
            Path(session_file.path)
            for session_file in list_transcripts(find_home())
            if not session_file.agent
        ]
    store = open_named_store(options.store)
    ready_paths = [path for path in paths if not say_waiting(path)]
    is_left_out = len(ready_paths) < len(paths)
    if is_left_out and not ready_paths:
        return CANNOT
    with Bar("sending") as bar:
        sent = asyncio.run(_send(store, ready_paths, bar))
    if options.json:
        say_json(sent)
    else:
        for report in sent:
            why = f": {report['failed']}" if report["failed"] else ""
            line = f"{report['sessionId']}: {format_count(report['lines'], 'line')} sent{why}"
            if report["lines"] or why or not options.all:
                say(line)
        if options.all:
            say(
                f"{format_count(sum(report['lines'] for report in sent), 'line')} of {format_count(len(sent), 'session')} sent"
            )
    return CANNOT if is_left_out or any(report["failed"] for report in sent) else FINE


async def _send(
    opening: AbstractAsyncContextManager[SessionStore], paths: list[Path], bar: Bar
) -> list[dict[str, Any]]:
    done = []
    async with opening as store:
        for number, path in enumerate(paths):
            session_id = key_of(path).session_id
            sent: dict[str, int] = {}
            failed = None
            try:
                sent = await send(
                    SessionPlace(session_id=session_id, project_dir=path.parent),
                    find_home(),
                    store,
                )
            except StoreError as error:
                failed = str(error)
            lines, agents = sum(sent.values()), max(0, len(sent) - 1)
            done.append(
                {"sessionId": session_id, "lines": lines, "agents": agents, "failed": failed}
            )
            bar(number + 1, len(paths))
    return done


# `clew sessions pull`: download sessions from a store; local data is never deleted.


def run_pull(options: argparse.Namespace) -> int:
    places = [_place(name) for name in options.session]
    with Bar("fetching") as bar:
        results = asyncio.run(_hydrate(open_named_store(options.store), places, bar))
    if options.json:
        say_json(
            [
                {
                    "sessionId": place.session_id,
                    "done": done,
                    "diagnostics": [str(n) for n in notes],
                }
                for place, done, notes in results
            ]
        )
    else:
        for place, _, notes in results:
            for note in notes:
                say(f"{place.session_id}: {note}")
    return FINE if all(done for _, done, _ in results) else CANNOT


def _place(name: str) -> SessionPlace:
    try:
        path = find_transcript(name)
    except SessionError:
        if not is_uuid(name):
            raise
        return SessionPlace(
            session_id=name.lower(), project_dir=get_project_dir(Path(find_home()), find_cwd())
        )
    return SessionPlace(session_id=key_of(path).session_id, project_dir=path.parent)


async def _hydrate(
    opening: AbstractAsyncContextManager[SessionStore], places: list[SessionPlace], bar: Bar
) -> list[tuple[SessionPlace, bool, list[Diagnostic]]]:
    results = []
    async with opening as store:
        for number, place in enumerate(places):
            notes: list[Diagnostic] = []
            done = await hydrate(place, find_home(), store, notes.append)
            results.append((place, done, notes))
            bar(number + 1, len(places))
    return results


WORDS = {
    "export": GroupWord(
        run_export,
        SESSION,
        argument("output", nargs="?", help="File to write (default: standard output)"),
        argument(
            "--format",
            choices=FORMATS,
            help="Format (default: from the file extension, else Markdown)",
        ),
        switch("--redact", "Remove secrets, folders, names, addresses and pictures"),
        switch("--raw", "Export every byte unchanged, including secrets"),
        switch("--all", "Include messages before the last summary (JSONL always has them)"),
        switch("--no-agents", "Exclude subagents"),
        switch("--force", "Overwrite an existing file"),
    ),
    "import": GroupWord(
        run_import,
        argument("file", nargs="*", help="File or database of clew or another agent"),
        switch("--all", "Import the sessions of every agent on this machine"),
        switch("--dry-run", "With --all: only show what would be imported"),
        switch("--new-id", "Import as a copy with a new ID"),
    ),
    "push": GroupWord(
        run_push,
        argument("session", nargs="*", help="ID, title or file"),
        switch("--all", "Upload the sessions of all folders"),
        argument("--store", help="Folder or URL (default: the sessionStore setting)"),
    ),
    "pull": GroupWord(
        run_pull,
        argument(
            "session",
            nargs="+",
            help="ID (also of a session that is only in the store), title or file",
        ),
        argument("--store", help="Folder or URL (default: the sessionStore setting)"),
    ),
}
