"""Sessions that are not in the server's log: where the page gets them from, if anywhere."""

from typing import Protocol

from msgspec import Struct

from clew.core.json_object import Json


class ShelfNews(Struct, frozen=True, kw_only=True):
    """What is new in a session. With `is_other`, the reader must begin again from the end."""

    events: list[Json]
    last: int
    is_other: bool


class Shelf(Protocol):
    """Sessions of this machine, for the server of a single user."""

    async def list_sessions(self) -> list[Json]: ...

    def has(self, session: str) -> bool: ...

    async def show_session(self, session: str) -> Json: ...

    async def read_page(self, session: str, before: str, limit: int) -> Json:
        """Return a page of events, as the server's log would."""
        ...

    async def read_news(self, session: str, after: int) -> ShelfNews: ...

    async def search(self, words: str) -> list[Json]: ...

    async def read_branches(self, session: str) -> list[Json]: ...

    async def host(self, session: str) -> None:
        """Continue a session, so that it takes prompts."""
        ...

    async def start(self, folder: str) -> str: ...

    async def fork(self, session: str, uuid: str, *, is_before: bool) -> Json: ...
