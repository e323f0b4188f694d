"""A clew session as a `Session` of openai-agents: `Runner.run(agent, prompt, session=...)`.

The transcript is an ordinary clew session, which both programs can continue.
"""

import asyncio
import os
import threading
from collections.abc import Iterable
from typing import Any

from clew.adapters.api_messages import identify
from clew.adapters.openai_responses import read, write
from clew.core.json_object import Json
from clew.core.messages.errors import SessionError
from clew.fronts.sdk.stored_session import StoredSession


class AgentsSession:
    """Stores the items of a conversation in the transcript of a clew session.

    `session_id` is the ID of a clew session, or any other name. A name becomes the session's title,
    and the session's ID is derived from it. `cwd` and `home` are as in `clew.Session.open`.
    """

    def __init__(
        self,
        session_id: str,
        *,
        cwd: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: Any = None
        self.clew_id = identify(session_id)
        self._cwd = cwd
        self._home = home
        # Held while the transcript is changed: only one writer may have it open.
        self._writing = threading.Lock()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the conversation, or its last `limit` items."""
        items = await asyncio.to_thread(self._items)
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[Any]) -> None:
        """Append items to the conversation."""
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> Any | None:
        """Remove the last item from the conversation and return it; None if there is none.

        The file still contains it.
        """
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Start an empty conversation. The file keeps the previous one."""
        await asyncio.to_thread(self._clear)

    def _open(self) -> StoredSession | None:
        try:
            return StoredSession.open(self.clew_id, cwd=self._cwd, home=self._home)
        except SessionError:
            return None

    def _items(self) -> list[Json]:
        session = self._open()
        entries = [] if session is None else session.entries()
        return write(entries)

    def _add(self, items: Iterable[Any]) -> None:
        messages = read(items)
        if messages:
            with self._writing:
                self._append(messages)

    def _append(self, messages: list[Json]) -> None:
        session = self._open()
        if session is not None:
            session.append(messages)
            return
        title = "" if self.clew_id == self.session_id else self.session_id
        StoredSession.create(
            messages, session_id=self.clew_id, title=title, cwd=self._cwd, home=self._home
        )

    def _pop(self) -> Json | None:
        with self._writing:
            return self._remove_last()

    def _remove_last(self) -> Json | None:
        session, items = self._open(), self._items()
        if session is None or not items:
            return None
        entries = session.entries()
        # An entry may contain several items: it is removed entirely, and the other items are added
        # again. An item may also consist of several entries.
        remaining = [entry for entry in entries if entry.get("type") in ("user", "assistant")]
        while len(write(remaining)) == len(items):
            remaining.pop()
        session.rewind(remaining[-1]["uuid"] if remaining else None)
        lost = items[len(write(remaining)) : -1]
        if lost:
            session.append(read(lost))
        return items[-1]

    def _clear(self) -> None:
        session = self._open()
        if session is not None:
            with self._writing:
                session.rewind(None)
