"""A store by what a person types: a folder, or a URL; the token for it comes from the environment."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clew.stores.base import SessionStore
from clew.stores.folder import FolderStore
from clew.transcript.examine import session_id_of
from clew.transcript.paths import Place

TOKEN = "CLEW_STORE_TOKEN"


@asynccontextmanager
async def store_of(text: str) -> AsyncIterator[SessionStore]:
    if not text.startswith(("http://", "https://")):
        yield FolderStore(Path(text))
        return
    from clew.config.environment import freeze
    from clew.stores.http import HttpStore
    from clew.transport.http import HttpTransport
    from clew.transport.network import network_from

    transport = HttpTransport(network_from(freeze(os.environ)))
    try:
        yield HttpStore(text, transport, token=os.environ.get(TOKEN, ""))
    finally:
        await transport.aclose()


def place_of(path: Path) -> Place:
    return Place(session_id=session_id_of(path), project_dir=path.parent)
