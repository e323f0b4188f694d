"""`clew sessions archive`: puts sessions aside instead of deleting them, and brings them back."""

import argparse
from pathlib import Path

from clew.library.keeping import archive, archived, unarchive
from clew.messages.counts import count_of
from clew.sessions.output import FINE, CannotError, home, say, say_json, transcript
from clew.transcript import light


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("session", nargs="*", help="id, title or file; none: what is in the archive")
    add("--restore", action="store_true", help="bring back")


def run(options: argparse.Namespace) -> int:
    if not options.session:
        return _list(options)
    moved: list[tuple[Path, Path]] = []
    for name in options.session:
        path = _archived(name) if options.restore else transcript(name)
        moved.append((path, (unarchive if options.restore else archive)(home(), path)))
    if options.json:
        say_json([{"sessionId": a.stem, "from": str(a), "to": str(b)} for a, b in moved])
    for _, target in [] if options.json else moved:
        say(f"{target.stem}: {target}")
    return FINE


def _list(options: argparse.Namespace) -> int:
    found = [(path, light.outline(path)) for path in archived(home())]
    if options.json:
        say_json(
            [
                {
                    "sessionId": path.stem,
                    "path": str(path),
                    "title": outline.title if outline else None,
                }
                for path, outline in found
            ]
        )
        return FINE
    for path, outline in found:
        say(f"{path.stem}  {outline.title if outline else ''}")
    return FINE


def _archived(name: str) -> Path:
    found = [
        path
        for path in archived(home())
        if path.stem == name.lower()
        or str(path) == name
        or ((outline := light.outline(path)) is not None and outline.title == name)
    ]
    if len(found) != 1:
        what = "no session" if not found else count_of(len(found), "session")
        raise CannotError(f"{what} {name!r} in the archive; `clew sessions archive` lists it")
    return found[0]
