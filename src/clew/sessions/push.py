"""`clew sessions push`: a session's lines to a store that has fewer of them."""

import argparse
import asyncio
from pathlib import Path

from clew.messages.counts import count_of
from clew.sessions.output import FINE, CannotError, say, say_json, transcript
from clew.sessions.remote import place_of, store_of
from clew.stores.base import StoreError
from clew.stores.hydrate import send


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", help="a folder or a URL; its token is read from CLEW_STORE_TOKEN")
    parser.add_argument("session", help="id, title or file")


def run(options: argparse.Namespace) -> int:
    path = transcript(options.session)
    try:
        sent = asyncio.run(_send(options.store, path))
    except StoreError as error:
        raise CannotError(str(error)) from None
    if options.json:
        say_json({"sessionId": path.stem, "lines": sent[""], "agents": len(sent) - 1})
    else:
        say(f"{path.stem}: {count_of(sum(sent.values()), 'line')} sent")
    return FINE


async def _send(name: str, path: Path) -> dict[str, int]:
    async with store_of(name) as store:
        return await send(place_of(path), store)
