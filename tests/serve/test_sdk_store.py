"""The Agent SDK's own suite passes on a store at the server."""

import itertools
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import SessionStore
from claude_agent_sdk.testing import run_session_store_conformance

from clew.record.stores.sdk import ServedSessions
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from tests.serve.served import served


class Apart(ServedSessions):
    """A store whose projects no other store has: the suite expects each store to be empty."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._own = f"{next(self.numbers)}:"

    def _named(self, key: Any) -> Any:
        return {**key, "project_key": self._own + key["project_key"]}

    async def append(self, key: Any, entries: Any) -> None:
        await super().append(self._named(key), entries)

    async def load(self, key: Any) -> Any:
        return await super().load(self._named(key))

    async def list_sessions(self, project_key: str) -> Any:
        return await super().list_sessions(self._own + project_key)

    async def list_subkeys(self, key: Any) -> list[str]:
        return await super().list_subkeys(self._named(key))

    async def delete(self, key: Any) -> None:
        await super().delete(self._named(key))


async def test_the_published_suite_passes(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        transport = HttpTransport(Network())

        def make() -> SessionStore:
            return cast(SessionStore, Apart(server.url, token=server.token, transport=transport))

        await run_session_store_conformance(make)
        store = make()
        key: Any = {"project_key": "p", "session_id": "s"}
        batch: Any = [{"type": "user", "uuid": "1"}, {"type": "title", "n": 1}]
        for _ in range(2):  # the answer to the first request was lost
            await store.append(key, batch)
        assert await store.load(key) == [*batch, batch[1]]
        await transport.aclose()
