"""The interface to sessions that are not in the server's log."""

from typing import Protocol

from msgspec import Struct

from clew.core.json_object import Json


class ShelfNews(Struct, frozen=True, kw_only=True):
    """The new events of a session.

    If `is_other`, the reader must reload the session from the end.
    """

    events: list[Json]
    last: int
    is_other: bool


class Shelf(Protocol):
    """The sessions on this machine, for a single user's server."""

    async def list_sessions(self) -> list[Json]: ...

    async def list_folders(self) -> list[str]:
        """Return the folders in which sessions may start, the most likely first."""
        ...

    def has(self, session: str) -> bool: ...

    async def show_session(self, session: str) -> Json: ...

    async def read_page(self, session: str, before: str, limit: int) -> Json:
        """Return a page of events in the format of the server's log."""
        ...

    async def read_news(self, session: str, after: int) -> ShelfNews: ...

    async def search(self, words: str) -> list[Json]: ...

    async def read_branches(self, session: str) -> list[Json]: ...

    async def host(self, session: str) -> None:
        """Continue a session in a worker, so that it accepts prompts."""
        ...

    async def start(self, folder: str) -> str: ...

    async def fork(self, session: str, uuid: str, *, is_before: bool) -> Json: ...
