"""`clew sessions push`: sessions' lines to a store that has fewer of them."""

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from clew.library.places import transcripts
from clew.messages.counts import count_of
from clew.sessions.output import (
    CANNOT,
    FINE,
    Bar,
    CannotError,
    home,
    say,
    say_json,
    say_waiting,
    transcript,
)
from clew.sessions.store import named
from clew.stores.base import StoreError
from clew.stores.hydrate import send
from clew.stores.named import store_of
from clew.stores.sending import key_of
from clew.transcript.paths import Place


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="*", help="id, title or file")
    parser.add_argument("--all", action="store_true", help="every session of every folder")
    parser.add_argument("--store", help="a folder or a URL (default: the setting sessionStore)")


def run(options: argparse.Namespace) -> int:
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
                sent = await send(Place(session_id=session_id, project_dir=path.parent), store)
            except StoreError as error:
                failed = str(error)
            lines, agents = sum(sent.values()), max(0, len(sent) - 1)
            done.append(
                {"sessionId": session_id, "lines": lines, "agents": agents, "failed": failed}
            )
            bar(number + 1, len(paths))
    return done
