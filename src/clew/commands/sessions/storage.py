"""`clew sessions archive`: puts sessions aside instead of deleting them, and brings them back."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from clew.commands.sessions.output import (
    CANNOT,
    DRY_RUN,
    FINE,
    FOUND,
    SESSION,
    Bar,
    CannotError,
    cwd,
    home,
    say,
    say_json,
    say_waiting,
    transcript,
)
from clew.core.messages.text import count_of, size_of
from clew.record.library.keeping import (
    Removable,
    archive,
    archived,
    erase,
    erasures,
    gone,
    move_sessions,
    plan_moves,
    removable,
    remove,
    session,
    unarchive,
)
from clew.record.transcript import choose, light
from clew.system.command_groups import GroupWord, argument, switch
from clew.system.files import is_folder


def run_archive(options: argparse.Namespace) -> int:
    if not options.session:
        return _list(options)
    moved: list[tuple[Path, Path]] = []
    is_left_out = False
    for name in options.session:
        path = _archived(name) if options.restore else transcript(name)
        if not options.restore and say_waiting(path):
            is_left_out = True
            continue
        moved.append((path, (unarchive if options.restore else archive)(home(), path)))
    if is_left_out and not moved:
        return CANNOT
    if options.json:
        say_json([{"sessionId": a.stem, "from": str(a), "to": str(b)} for a, b in moved])
    for _, target in [] if options.json else moved:
        say(f"{target.stem}: {target}")
    return CANNOT if is_left_out else FINE


def _list(options: argparse.Namespace) -> int:
    found = archived(home())
    if options.json:
        say_json(
            [
                {
                    "sessionId": path.stem,
                    "path": str(path),
                    "title": _title(path),
                }
                for path in found
            ]
        )
        return FINE
    for path in found:
        say(f"{path.stem}  {_title(path) or ''}")
    return FINE


def _archived(name: str) -> Path:
    """The one in the archive that an id, a title, a file or how an id begins means, in this order."""
    word, there = name.lower(), archived(home())
    ways: tuple[Callable[[Path], bool], ...] = (
        lambda path: word == path.stem.lower() or name == str(path),
        lambda path: name == _title(path),
        lambda path: choose.is_beginning(name) and path.stem.lower().startswith(word),
    )
    found = next(filter(None, ([path for path in there if way(path)] for way in ways)), [])
    if not found:
        raise CannotError(f"no session {name!r} in the archive; `clew sessions archive` lists it")
    if len(found) > 1:
        listed = "\n  ".join(map(str, found))
        raise CannotError(f"{name!r} means several in the archive; name one file:\n  {listed}")
    return found[0]


def _title(path: Path) -> str | None:
    outline = light.outline(path)
    return outline.title if outline else None


# `clew sessions prune`: takes away what a person names, after showing it; never anything else.


KINDS = ("index", "contents", "backups", "archive")


def run_prune(options: argparse.Namespace) -> int:
    found: list[Removable] = []
    is_left_out = False
    for what in options.what:
        if what in KINDS:
            with Bar("reading sessions") as bar:
                found += removable(home(), what, bar)
        elif say_waiting(path := transcript(what)):
            is_left_out = True
        else:
            found.append(session(path))
    if is_left_out and not found:
        return CANNOT
    if options.yes:
        for one in found:
            remove(home(), one)
    code = CANNOT if is_left_out else FINE
    total = sum(one.size_bytes for one in found)
    if options.json:
        say_json(
            {
                "removed": options.yes,
                "sizeBytes": total,
                "what": [
                    {"kind": r.kind, "name": r.name, "sizeBytes": r.size_bytes} for r in found
                ],
            }
        )
        return code
    for one in found:
        say(f"{size_of(one.size_bytes):>9}  {one.kind}  {one.name}")
    did = "removed for good" if options.yes else "would be removed for good; --yes does it"
    say(f"{count_of(len(found), 'thing')}, {size_of(total)}: {did}")
    return code


# `clew sessions erase`: takes a text out of a session for good, after showing where it stands.


def run_erase(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    if say_waiting(path):
        return CANNOT
    text = options.text
    if text is None:
        if sys.stdin.isatty():
            raise CannotError("type the text behind the session, or pipe it in")
        text = sys.stdin.read().rstrip("\n")
    found = list(erasures(path, text))
    if options.yes and found:
        erase(home(), path, found)
    if options.json:
        files = [{"path": str(one.path), "lines": one.lines} for one in found]
        say_json({"sessionId": path.stem, "erased": options.yes, "files": files})
        return FINE if found else FOUND
    for one in found:
        say(f"{one.path}: {count_of(one.lines, 'line')}")
    if not found:
        say("the text stands nowhere in this session")
        return FOUND
    if not options.yes:
        say("would be erased for good; --yes does it")
        return FINE
    say(
        "erased for good. It may still stand in other sessions and forks (clew sessions search), in copies "
        "in clew/backups and in a store, in contents of files (clew sessions prune contents), and in the "
        "history of prompts (history.jsonl)"
    )
    return FINE


# `clew sessions relocate`: a project was moved or renamed; its sessions come along.


def run_relocate(options: argparse.Namespace) -> int:
    if options.old is None:
        return _gone(options)
    old, new = str(Path(cwd(), options.old)), str(Path(cwd(), options.new))
    if not is_folder(new):
        raise CannotError(f"{new}: there is no such folder")
    moves = plan_moves(home(), old.rstrip("/"), new)
    if not moves:
        raise CannotError(
            f"no session of {old}; `clew sessions relocate` names folders that are gone"
        )
    if options.dry_run:
        moved, kept = moves, []
    else:
        done = move_sessions(home(), moves)
        moved, kept = done.moved, done.kept
    if options.json:
        say_json(
            {
                "moved": [
                    {"sessionId": m.session_id, "from": str(m.source), "to": str(m.target)}
                    for m in moved
                ],
                "kept": [{"sessionId": m.session_id, "reason": why} for m, why in kept],
                "dryRun": options.dry_run,
            }
        )
    else:
        would = "would be moved" if options.dry_run else "moved"
        say(f"{count_of(len(moved), 'session')} of {old} {would} to {new}")
        for move, why in kept:
            say(f"  {move.session_id} stays: {why}")
    return FOUND if kept else FINE


def _gone(options: argparse.Namespace) -> int:
    found = list(gone(home()))
    if options.json:
        say_json([{"cwd": one.cwd, "sessions": one.sessions} for one in found])
        return FINE
    for one in found:
        say(f"{one.cwd}: {count_of(one.sessions, 'session')}")
    if not found:
        say("every folder that has sessions is there")
    return FINE


WORDS = {
    "archive": GroupWord(
        run_archive,
        argument("session", nargs="*", help="id, title or file; none: what is in the archive"),
        switch("--restore", "bring back"),
    ),
    "prune": GroupWord(
        run_prune,
        argument(
            "what",
            nargs="+",
            help="index; contents (of files that no session can go back to any more); backups; archive; "
            "or sessions: id, title or file",
        ),
        switch("--yes", "do it; without it, it is only shown"),
    ),
    "erase": GroupWord(
        run_erase,
        SESSION,
        argument(
            "text",
            nargs="?",
            help="the text (default: standard input, so that no shell remembers it)",
        ),
        switch("--yes", "do it; without it, it is only shown"),
    ),
    "relocate": GroupWord(
        run_relocate,
        argument(
            "old", nargs="?", help="where the project was; without it: the folders that are gone"
        ),
        argument("new", nargs="?", default=".", help="where it is now (this folder)"),
        DRY_RUN,
    ),
}
