"""`clew sessions archive`, `prune`, `erase` and `relocate`."""

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
    find_cwd,
    find_home,
    find_transcript,
    say,
    say_json,
    say_waiting,
)
from clew.core.messages.text import format_count, format_size
from clew.record.library.keeping import (
    Removable,
    archive,
    erase,
    find_erasures,
    find_gone,
    find_removable,
    list_archived,
    move_sessions,
    plan_moves,
    remove,
    size_session,
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
        path = _archived(name) if options.restore else find_transcript(name)
        if not options.restore and say_waiting(path):
            is_left_out = True
            continue
        moved.append((path, (unarchive if options.restore else archive)(find_home(), path)))
    if is_left_out and not moved:
        return CANNOT
    if options.json:
        say_json([{"sessionId": a.stem, "from": str(a), "to": str(b)} for a, b in moved])
    for _, target in [] if options.json else moved:
        say(f"{target.stem}: {target}")
    return CANNOT if is_left_out else FINE


def _list(options: argparse.Namespace) -> int:
    paths = list_archived(find_home())
    if options.json:
        say_json(
            [
                {
                    "sessionId": path.stem,
                    "path": str(path),
                    "title": _title(path),
                }
                for path in paths
            ]
        )
        return FINE
    for path in paths:
        say(f"{path.stem}  {_title(path) or ''}")
    return FINE


def _archived(name: str) -> Path:
    """Return the archived session with this ID, title, file or ID prefix, in this order."""
    word, paths = name.lower(), list_archived(find_home())
    ways: tuple[Callable[[Path], bool], ...] = (
        lambda path: word == path.stem.lower() or name == str(path),
        lambda path: name == _title(path),
        lambda path: choose.is_beginning(name) and path.stem.lower().startswith(word),
    )
    matches = next(filter(None, ([path for path in paths if way(path)] for way in ways)), [])
    if not matches:
        raise CannotError(
            f"session {name!r} not found in the archive; run `clew sessions archive` to list the archive"
        )
    if len(matches) > 1:
        listed = "\n  ".join(map(str, matches))
        raise CannotError(
            f"{name!r} matches several archived sessions; specify one of these files:\n  {listed}"
        )
    return matches[0]


def _title(path: Path) -> str | None:
    outline = light.read_outline(path)
    return outline.title if outline else None


# `clew sessions prune`: delete what the user names, after showing it, and nothing else.


KINDS = ("index", "contents", "backups", "archive", "others")


def run_prune(options: argparse.Namespace) -> int:
    items: list[Removable] = []
    is_left_out = False
    for what in options.what:
        if what in KINDS:
            with Bar("reading sessions") as bar:
                items += find_removable(find_home(), what, bar)
        elif say_waiting(path := find_transcript(what)):
            is_left_out = True
        else:
            items.append(size_session(path))
    if is_left_out and not items:
        return CANNOT
    if options.yes:
        for item in items:
            remove(find_home(), item)
    code = CANNOT if is_left_out else FINE
    total = sum(item.size_bytes for item in items)
    if options.json:
        say_json(
            {
                "removed": options.yes,
                "sizeBytes": total,
                "what": [
                    {"kind": r.kind, "name": r.name, "sizeBytes": r.size_bytes} for r in items
                ],
            }
        )
        return code
    for item in items:
        say(f"{format_size(item.size_bytes):>9}  {item.kind}  {item.name}")
    did = (
        "permanently deleted"
        if options.yes
        else "would be permanently deleted; run again with --yes to confirm"
    )
    say(f"{format_count(len(items), 'item')}, {format_size(total)}: {did}")
    return code


# `clew sessions erase`: permanently erase text from a session, after showing where it occurs.


def run_erase(options: argparse.Namespace) -> int:
    path = find_transcript(options.session)
    if say_waiting(path):
        return CANNOT
    text = options.text
    if text is None:
        if sys.stdin.isatty():
            raise CannotError("specify the text as an argument, or pipe it to standard input")
        text = sys.stdin.read().rstrip("\n")
    plan = list(find_erasures(path, text))
    if options.yes and plan:
        erase(find_home(), path, plan)
    if options.json:
        files = [{"path": str(erasure.path), "lines": erasure.lines} for erasure in plan]
        say_json({"sessionId": path.stem, "erased": options.yes, "files": files})
        return FINE if plan else FOUND
    for erasure in plan:
        say(f"{erasure.path}: {format_count(erasure.lines, 'line')}")
    if not plan:
        say("the text does not occur in this session")
        return FOUND
    if not options.yes:
        say("the text would be permanently erased; run again with --yes to confirm")
        return FINE
    say(
        "the text was permanently erased. It may remain in other sessions and forks (clew sessions search), in backups "
        "in clew/backups, in a store, in stored file contents (clew sessions prune contents), and in the "
        "prompt history (history.jsonl)"
    )
    return FINE


# `clew sessions relocate`: move the sessions of a project that was moved or renamed.


def run_relocate(options: argparse.Namespace) -> int:
    if options.old is None:
        return _gone(options)
    old, new = str(Path(find_cwd(), options.old)), str(Path(find_cwd(), options.new))
    if not is_folder(new):
        raise CannotError(f"{new}: folder not found")
    moves = plan_moves(find_home(), old.rstrip("/"), new)
    if not moves:
        raise CannotError(
            f"no sessions of {old} found; run `clew sessions relocate` to list missing folders"
        )
    if options.dry_run:
        moved, refusals = moves, []
    else:
        done = move_sessions(find_home(), moves)
        moved, refusals = done.moved, done.kept
    if options.json:
        say_json(
            {
                "moved": [
                    {"sessionId": m.session_id, "from": str(m.source), "to": str(m.target)}
                    for m in moved
                ],
                "kept": [{"sessionId": m.session_id, "reason": why} for m, why in refusals],
                "dryRun": options.dry_run,
            }
        )
    else:
        would = "would be moved" if options.dry_run else "moved"
        say(f"{format_count(len(moved), 'session')} of {old} {would} to {new}")
        for move, why in refusals:
            say(f"  {move.session_id} not moved: {why}")
    return FOUND if refusals else FINE


def _gone(options: argparse.Namespace) -> int:
    folders = list(find_gone(find_home()))
    if options.json:
        say_json([{"cwd": folder.cwd, "sessions": folder.sessions} for folder in folders])
        return FINE
    for folder in folders:
        say(f"{folder.cwd}: {format_count(folder.sessions, 'session')}")
    if not folders:
        say("no missing folders: every folder with sessions exists")
    return FINE


WORDS = {
    "archive": GroupWord(
        run_archive,
        argument("session", nargs="*", help="ID, title or file (default: list the archive)"),
        switch("--restore", "Restore from the archive"),
    ),
    "prune": GroupWord(
        run_prune,
        argument(
            "what",
            nargs="+",
            help="index, contents (file contents that no session needs), backups, archive, "
            "others (copies of other agents' sessions), or sessions by ID, title or file",
        ),
        switch("--yes", "Delete (default: show what would be deleted)"),
    ),
    "erase": GroupWord(
        run_erase,
        SESSION,
        argument(
            "text",
            nargs="?",
            help="Text to erase (default: standard input, which shell history does not record)",
        ),
        switch("--yes", "Erase (default: show where the text occurs)"),
    ),
    "relocate": GroupWord(
        run_relocate,
        argument("old", nargs="?", help="Previous folder (default: list missing folders)"),
        argument("new", nargs="?", default=".", help="Current folder (default: .)"),
        DRY_RUN,
    ),
}
