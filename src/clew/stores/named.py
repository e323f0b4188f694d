"""A store by what a person writes: a folder, or a URL; the token for it comes from the environment."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from clew.stores.base import SessionStore
from clew.stores.folder import FolderStore

TOKEN = "CLEW_STORE_TOKEN"
SETTING = "sessionStore"


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _folder(text: str) -> Path:
    return Path(text).expanduser()


@asynccontextmanager
async def store_of(text: str, environ: Mapping[str, str]) -> AsyncIterator[SessionStore]:
    """The store is good for as long as the context lasts."""
    if not is_url(text):
        yield FolderStore(_folder(text))
        return
    from clew.config.environment import freeze
    from clew.stores.http import HttpStore
    from clew.transport.http import HttpTransport
    from clew.transport.network import network_from

    transport = HttpTransport(network_from(freeze(environ)))
    try:
        yield HttpStore(text, transport, token=environ.get(TOKEN, ""))
    finally:
        await transport.aclose()


def in_settings(settings: Mapping[str, object]) -> str:
    """The store that the settings name, or none. Raises `ValueError` for a folder that is not the
    same from every working folder."""
    text = settings.get(SETTING)
    if not isinstance(text, str) or not text:
        return ""
    if not is_url(text) and not _folder(text).is_absolute():
        raise ValueError(f"{SETTING}: {text!r} is no URL and no folder from / or ~ on")
    return text
