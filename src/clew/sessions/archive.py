"""`clew sessions archive`: puts sessions aside instead of deleting them, and brings them back."""

import argparse
from collections.abc import Callable
from pathlib import Path

from clew.library.keeping import archive, archived, unarchive
from clew.sessions.output import (
    CANNOT,
    FINE,
    CannotError,
    home,
    say,
    say_json,
    say_waiting,
    transcript,
)
from clew.transcript import choose, light


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", nargs="*", help="id, title or file; none: what is in the archive")
    add("--restore", action="store_true", help="bring back")


def run(options: argparse.Namespace) -> int:
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
