"""`clew sessions push`: sessions' lines to a store that has fewer of them."""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from clew.commands.sessions.output import (
    CANNOT,
    FINE,
    SESSION,
    Bar,
    CannotError,
    cwd,
    home,
    saved_part,
    say,
    say_json,
    say_waiting,
    transcript,
)
from clew.core.messages.errors import SessionError, in_words
from clew.core.messages.factories import written
from clew.core.messages.text import count_of, size_of
from clew.record.exchange.bring import ImportedSession, bring
from clew.record.exchange.export import (
    FORMATS,
    LEFT_OUT,
    begins_late,
    exported,
    form_of,
    redaction_of,
    write,
)
from clew.record.library.places import transcripts
from clew.record.stores.base import SETTING, StoreError, in_settings, store_of
from clew.record.stores.transfer import Diagnostic, hydrate, key_of, send
from clew.record.transcript.light import is_uuid
from clew.record.transcript.paths import SessionPlace, project_dir
from clew.system.command_groups import GroupWord, argument, switch
from clew.system.files import is_there

# The store that a word of `clew sessions` speaks to: the one it is given, or the one of the settings.


def named(given: str | None) -> str:
    if given:
        return given
    from clew.permissions.session_rules import stand

    found = stand(os.environ, Path.cwd())
    for line in found.complaints:
        sys.stderr.write(f"clew sessions: {line}\n")
    try:
        store = in_settings(found.settings)
    except ValueError as error:
        raise CannotError(str(error)) from None
    if not store:
        raise CannotError(f"no store: name one with --store, or set {SETTING} in settings.json")
    return store


# `clew sessions export`: a session as a page, as Markdown, as JSON, for other people and programs.


def run_export(options: argparse.Namespace) -> int:
    path = saved_part(options.session)
    target = None if options.output in (None, "-") else Path(options.output)
    named = options.format or form_of(target)
    redaction = redaction_of(redacts=options.redact, is_raw=options.raw)
    data = exported(path, named, redaction, subagents=not options.no_agents, is_all=options.all)
    if target is None:
        if options.json:
            raise CannotError("--json tells of a file that was written; name one")
        _say_left_out(path, named, options)
        if sys.stdout.isatty():
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            sys.stdout.buffer.write(data)
        return FINE
    if is_there(target) and not options.force:
        raise CannotError(f"{target} is there already; --force writes over it")
    write(target, data)
    _say_left_out(path, named, options)
    if options.json:
        say_json({"path": str(target.absolute()), "format": named, "sizeBytes": len(data)})
    else:
        say(f"{target}: {size_of(len(data))}")
    return FINE


def _say_left_out(path: Path, form: str, options: argparse.Namespace) -> None:
    if not options.all and begins_late(path, form, subagents=not options.no_agents):
        sys.stderr.write(f"clew sessions: {LEFT_OUT}\n")


# `clew sessions import`: files of clew, Claude Code, Codex and pi as sessions, and what was lost.


def run_import(options: argparse.Namespace) -> int:
    brought: list[ImportedSession] = []
    refused: list[tuple[str, str]] = []
    with Bar("importing") as bar:
        for number, name in enumerate(options.file, 1):
            try:
                found = bring(
                    home(),
                    Path(name),
                    cwd(),
                    now=lambda: written(time.time_ns() // 1_000_000),
                    anew=options.new_id,
                )
                brought.append(found)
            except (SessionError, OSError) as error:
                refused.append((name, in_words(error)))
            bar(number, len(options.file))
    if options.json:
        say_json(
            {
                "imported": [
                    {
                        "sessionId": one.session_id,
                        "path": str(one.path),
                        "kind": one.kind,
                        "title": one.title,
                        "messages": one.messages,
                        "agents": one.agents,
                        "lost": one.losses,
                    }
                    for one in brought
                ],
                "refused": [{"file": name, "reason": why} for name, why in refused],
            }
        )
    else:
        _tell(brought, refused)
    return CANNOT if refused else FINE


def _tell(brought: list[ImportedSession], refused: list[tuple[str, str]]) -> None:
    for one in brought:
        say(f"{one.session_id}: {one.kind}, {count_of(one.messages, 'message')}, {one.title!r}")
        for reason, times in sorted(one.losses.items()):
            say(f"  lost: {reason}: {times:,}")
    for name, why in refused:
        say(why if why.startswith(f"{name}: ") else f"{name}: {why}")


def run_push(options: argparse.Namespace) -> int:
    if options.all == bool(options.session):
        raise CannotError("name sessions, or --all")
    paths = [transcript(name) for name in options.session]
    if options.all:
        paths = [Path(found.path) for found in transcripts(home()) if not found.agent]
    store = named(options.store)
    whole = [path for path in paths if not say_waiting(path)]
    is_left_out = len(whole) < len(paths)
    if is_left_out and not whole:
        return CANNOT
    with Bar("sending") as bar:
        sent = asyncio.run(_send(store, whole, bar))
    if options.json:
        say_json(sent)
    else:
        for one in sent:
            why = f": {one['failed']}" if one["failed"] else ""
            said = f"{one['sessionId']}: {count_of(one['lines'], 'line')} sent{why}"
            if one["lines"] or why or not options.all:
                say(said)
        if options.all:
            say(
                f"{count_of(sum(one['lines'] for one in sent), 'line')} sent of {count_of(len(sent), 'session')}"
            )
    return CANNOT if is_left_out or any(one["failed"] for one in sent) else FINE


async def _send(name: str, paths: list[Path], bar: Bar) -> list[dict[str, Any]]:
    done = []
    async with store_of(name, os.environ) as store:
        for number, path in enumerate(paths):
            session_id = key_of(path).session_id
            sent: dict[str, int] = {}
            failed = None
            try:
                sent = await send(
                    SessionPlace(session_id=session_id, project_dir=path.parent), store
                )
            except StoreError as error:
                failed = str(error)
            lines, agents = sum(sent.values()), max(0, len(sent) - 1)
            done.append(
                {"sessionId": session_id, "lines": lines, "agents": agents, "failed": failed}
            )
            bar(number + 1, len(paths))
    return done


# `clew sessions pull`: sessions home from a store; what is here and not there stays.


def run_pull(options: argparse.Namespace) -> int:
    places = [_place(name) for name in options.session]
    with Bar("fetching") as bar:
        found = asyncio.run(_hydrate(named(options.store), places, bar))
    if options.json:
        say_json(
            [
                {
                    "sessionId": place.session_id,
                    "done": done,
                    "diagnostics": [str(n) for n in notes],
                }
                for place, done, notes in found
            ]
        )
    else:
        for place, _, notes in found:
            for note in notes:
                say(f"{place.session_id}: {note}")
    return FINE if all(done for _, done, _ in found) else CANNOT


def _place(name: str) -> SessionPlace:
    try:
        path = transcript(name)
    except SessionError:
        if not is_uuid(name):
            raise
        return SessionPlace(session_id=name.lower(), project_dir=project_dir(Path(home()), cwd()))
    return SessionPlace(session_id=key_of(path).session_id, project_dir=path.parent)


async def _hydrate(
    name: str, places: list[SessionPlace], bar: Bar
) -> list[tuple[SessionPlace, bool, list[Diagnostic]]]:
    found = []
    async with store_of(name, os.environ) as store:
        for number, place in enumerate(places):
            notes: list[Diagnostic] = []
            done = await hydrate(place, home(), store, notes.append)
            found.append((place, done, notes))
            bar(number + 1, len(places))
    return found


WORDS = {
    "export": GroupWord(
        run_export,
        SESSION,
        argument("output", nargs="?", help="the file to write (default: standard output)"),
        argument(
            "--format",
            choices=tuple(FORMATS),
            help="by default what the file's name says, else markdown",
        ),
        switch("--redact", "without secrets, folders, names, addresses, pictures"),
        switch("--raw", "every byte as it was written, secrets too"),
        switch("--all", "also what stands before a summary (JSONL: always)"),
        switch("--no-agents", "without the subagents"),
        switch("--force", "over a file that is there"),
    ),
    "import": GroupWord(
        run_import,
        argument(
            "file", nargs="+", help="transcripts, one-file JSON, Codex rollouts, sessions of pi"
        ),
        switch("--new-id", "with an id of its own: a copy of what may be there"),
    ),
    "push": GroupWord(
        run_push,
        argument("session", nargs="*", help="id, title or file"),
        switch("--all", "every session of every folder"),
        argument("--store", help="a folder or a URL (default: the setting sessionStore)"),
    ),
    "pull": GroupWord(
        run_pull,
        argument(
            "session", nargs="+", help="id (also of a session that is not here yet), title or file"
        ),
        argument("--store", help="a folder or a URL (default: the setting sessionStore)"),
    ),
}
