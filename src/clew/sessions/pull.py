"""`clew sessions pull`: a session home from a store; what is here and not there stays."""

import argparse
import asyncio
from pathlib import Path

from clew.messages.errors import SessionError
from clew.sessions.output import CANNOT, FINE, cwd, home, say, say_json, transcript
from clew.sessions.remote import place_of, store_of
from clew.stores.hydrate import Diagnostic, hydrate
from clew.transcript.light import is_uuid
from clew.transcript.paths import Place, project_dir


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", help="a folder or a URL; its token is read from CLEW_STORE_TOKEN")
    parser.add_argument(
        "session", help="id (also of a session that is not here yet), title or file"
    )


def run(options: argparse.Namespace) -> int:
    place = _place(options.session)
    notes: list[Diagnostic] = []
    done = asyncio.run(_hydrate(options.store, place, notes))
    if options.json:
        say_json(
            {"sessionId": place.session_id, "done": done, "diagnostics": [str(n) for n in notes]}
        )
    else:
        for note in notes:
            say(str(note))
    return FINE if done else CANNOT


def _place(name: str) -> Place:
    try:
        return place_of(transcript(name))
    except SessionError:
        if not is_uuid(name):
            raise
        return Place(session_id=name.lower(), project_dir=project_dir(Path(home()), cwd()))


async def _hydrate(name: str, place: Place, notes: list[Diagnostic]) -> bool:
    async with store_of(name) as store:
        return await hydrate(place, home(), store, notes.append)
