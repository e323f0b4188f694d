"""The server on PostgreSQL: two servers share it, and it may be killed."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.record.stores.base import HttpStore
from clew.serve import devices
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.conform_store import CASES
from tests.serve.clusters import Cluster
from tests.serve.served import Served, served
from tests.serve.test_server import CODE, PROMPT, QUESTION, SESSION, answer_to, begin

pytestmark = pytest.mark.e2e


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path / "pg")
    yield found
    found.kill()


async def test_two_servers_share_a_database(tmp_path: Path, cluster: Cluster) -> None:
    # Only the environment for end-to-end tests has the driver.
    from clew.serve.postgres import PostgresDatabase

    async with AsyncExitStack() as opened:
        one: Served = await opened.enter_async_context(
            served(tmp_path, PostgresDatabase(cluster.url))
        )
        two: Served = await opened.enter_async_context(
            served(tmp_path, PostgresDatabase(cluster.url), token="second-token")
        )
        transport = HttpTransport(Network())
        for name, case in CASES.items():
            await one.add_device(f"{name}-token", *devices.SCOPES, owner=name)
            await case(HttpStore(f"{two.url}/v1", transport, token=f"{name}-token"))
        await transport.aclose()
        # Both append the same lines, in batches that overlap.
        lines = [b'{"uuid":"u%d"}\n' % number for number in range(40)]

        async def append(server: Served, at: int) -> None:
            path = f"/v1/entries?session={SESSION}&at={at}"
            while (await server.ask("POST", path, b"".join(lines[at : at + 10])))[0] == 409:
                pass  # The lines before are missing.

        async with asyncio.TaskGroup() as group:
            for at in (30, 15, 25, 5, 0, 10, 20):
                for server in (one, two):
                    group.create_task(append(server, at))
        status, kept = await two.ask("GET", f"/v1/entries?session={SESSION}")
        assert (status, kept) == (200, b"".join(lines))
        # A worker at one server, viewers at both: one answer wins.
        token, epoch = await begin(one)
        worker = {"authorization": f"Bearer {token}"}
        async with asyncio.TaskGroup() as group:
            seen = group.create_task(two.frames(f"{CODE}/events/stream", 1))
            heard = group.create_task(one.frames(f"{CODE}/worker/events/stream", 2, **worker))
            upload = {"worker_epoch": epoch, "events": [{"payload": QUESTION}]}
            await one.ask("POST", f"{CODE}/worker/events", upload, token=token)
            # A viewer that comes later is not asked what was answered.
            assert (await seen)[0]["event_id"] == "c1"
            answers = await asyncio.gather(
                *(
                    server.ask("POST", f"{CODE}/events", {"events": [{"payload": payload}]})
                    for server, payload in (
                        (one, answer_to("q1", "a1")),
                        (two, answer_to("q1", "a2")),
                    )
                )
            )
            await two.ask("POST", f"{CODE}/events", {"events": [{"payload": PROMPT}]})
        assert sum("answered_by" in said["results"][0] for _, said in answers) == 1
        assert heard.result()[1]["event_id"] == "p1"
        # The database is killed; what was acknowledged is there, and the rest can be sent again.
        cluster.kill()
        more = {"events": [{"payload": PROMPT | {"uuid": "p2"}}]}
        assert (await one.ask("POST", f"{CODE}/events", more))[0] == 503
        cluster.start()
        statuses = set()
        for server in (one, two, one):
            while (said := await server.ask("POST", f"{CODE}/events", more))[0] != 200:
                statuses.add(said[0])
            assert said[1]["results"][0]["event_id"] == "p2"
        assert statuses <= {503}
        frames = await two.frames(f"{CODE}/events/stream?from_sequence_num=1", 3)
        assert [frame["event_id"] for frame in frames][1:] == ["p1", "p2"]
