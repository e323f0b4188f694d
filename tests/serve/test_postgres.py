"""The server on PostgreSQL: two servers share it, and it may be killed."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.record.stores.base import HttpStore
from clew.serve import devices
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import Network
from clew.testing.conform_store import CASES
from tests.serve.served import Served, served
from tests.serve.test_server import CODE, PROMPT, QUESTION, SESSION, answer_to, begin

pytestmark = pytest.mark.e2e
PROGRAMS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), Path("/usr/bin")]


class Cluster:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._bin = next(path for path in PROGRAMS if (path / "initdb").exists())
        # PostgreSQL does not run as root.
        self._user = "nobody" if os.getuid() == 0 else None
        self._data = folder / "data"
        folder.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(folder, self._user)
            for parent in (*folder.parents,):
                if parent.stat().st_uid == os.getuid() and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o011)
        self._folder = folder
        about = ("-U", "clew", "--auth=trust", "-E", "UTF8", "--no-sync")
        self._run("initdb", "-D", str(self._data), *about)
        self.url = f"postgresql://clew@/postgres?host={folder}"
        self.start()

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._bin / program), *args]
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        subprocess.run(
            command, check=True, user=self._user, env=environ, cwd="/", stdout=subprocess.DEVNULL
        )

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses="
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-l", log, "-o", options, "start")

    def kill(self) -> None:
        pid = int((self._data / "postmaster.pid").read_text("utf-8").split()[0])
        os.kill(pid, signal.SIGQUIT)  # An immediate end, with recovery at the next start.
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            if Path(f"/proc/{pid}/stat").read_text("utf-8").split()[2] == "Z":
                return


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
            seen = group.create_task(two.frames(f"{CODE}/events/stream", 2))
            heard = group.create_task(one.frames(f"{CODE}/worker/events/stream", 2, **worker))
            upload = {"worker_epoch": epoch, "events": [{"payload": QUESTION}]}
            await one.ask("POST", f"{CODE}/worker/events", upload, token=token)
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
        assert seen.result()[0]["event_id"] == "c1"
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
