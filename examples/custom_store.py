"""A session store in SQLite: a session begins on one machine and goes on at another."""

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import clew

Key = dict[str, str]
Entries = list[dict[str, Any]]


class SqliteStore:
    """The methods of the Agent SDK's `SessionStore`. Only `append` and `load` are required."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.execute(
            "create table if not exists entries (project, session, subpath, uuid, entry, "
            "unique (project, session, subpath, uuid))"
        )

    async def append(self, key: Key, entries: Entries) -> None:
        rows = [(*self.name(key), e.get("uuid"), json.dumps(e)) for e in entries]
        with self.database:
            self.database.executemany("insert or ignore into entries values (?, ?, ?, ?, ?)", rows)

    async def load(self, key: Key) -> Entries | None:
        rows = self.database.execute(
            "select entry from entries where project = ? and session = ? and subpath = ? "
            "order by rowid",
            self.name(key),
        )
        return [json.loads(entry) for (entry,) in rows] or None

    async def list_subkeys(self, key: Key) -> list[str]:
        rows = self.database.execute(
            "select distinct subpath from entries where project = ? and session = ? "
            "and subpath != ''",
            (key["project_key"], key["session_id"]),
        )
        return [subpath for (subpath,) in rows]

    @staticmethod
    def name(key: Key) -> tuple[str, str, str]:
        return key["project_key"], key["session_id"], key.get("subpath", "")


async def count(request: clew.ModelRequest) -> AsyncIterator[str]:
    yield f"I see {len(request.messages)} messages."


async def ask(prompt: str, folder: str, machine: str, resume: str | None = None) -> clew.Result:
    options = clew.ClewOptions(
        cwd=folder,
        home=f"{folder}/{machine}",
        setting_sources=[],
        session_store=SqliteStore(f"{folder}/store.db"),
        resume=resume,
        provider=count,
        model="example",
    )
    async with clew.ClewClient(options) as client, client.turn(prompt) as turn:
        return await turn.finish()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = await ask("Hello", folder, "laptop")
        print(first.text)
        print((await ask("Still there?", folder, "desktop", first.session_id)).text)
        print((await ask("And here?", folder, "laptop", first.session_id)).text)
        session = clew.Session.open(first.session_id, cwd=folder, home=f"{folder}/laptop")
        print(len(session.messages()) > 0, session.check())


if __name__ == "__main__":
    asyncio.run(main())

# -> I see 1 messages.
# -> I see 3 messages.
# -> I see 5 messages.
# -> True []
