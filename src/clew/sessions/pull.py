"""`clew sessions pull`: sessions home from a store; what is here and not there stays."""

import argparse
import asyncio
import os
from pathlib import Path

from clew.messages.errors import SessionError
from clew.sessions.output import CANNOT, FINE, Bar, cwd, home, say, say_json, transcript
from clew.sessions.store import named
from clew.stores.hydrate import Diagnostic, hydrate
from clew.stores.named import store_of
from clew.stores.sending import key_of
from clew.transcript.light import is_uuid
from clew.transcript.paths import Place, project_dir


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", nargs="+", help="id (also of a session that is not here yet), title or file"
    )
    parser.add_argument("--store", help="a folder or a URL (default: the setting sessionStore)")


def run(options: argparse.Namespace) -> int:
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


def _place(name: str) -> Place:
    try:
        path = transcript(name)
    except SessionError:
        if not is_uuid(name):
            raise
        return Place(session_id=name.lower(), project_dir=project_dir(Path(home()), cwd()))
    return Place(session_id=key_of(path).session_id, project_dir=path.parent)


async def _hydrate(
    name: str, places: list[Place], bar: Bar
) -> list[tuple[Place, bool, list[Diagnostic]]]:
    found = []
    async with store_of(name, os.environ) as store:
        for number, place in enumerate(places):
            notes: list[Diagnostic] = []
            done = await hydrate(place, home(), store, notes.append)
            found.append((place, done, notes))
            bar(number + 1, len(places))
    return found
