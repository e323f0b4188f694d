"""The session server: acknowledgements, throughput, sessions for each core, viewers, memory, turns.

The server is a process of its own; the load comes from this one, on the same machine. Lines have
1.9 kB, like those of transcripts. Times are wall time, since they are waiting times.

A turn is measured with the bridge on and off, in pairs. With the bridge on, a viewer watches. The
server, the model service and clew share the machine's cores here; in use, they rarely do.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.serve.clusters import Cluster, find_programs

from benchmarks.measure import Figure, spent
from clew.testing.server import serving

LINE_BYTES = 1_900
VIEWERS = 50


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from asyncio.run(measure_server(folder / "sqlite", ""))
        if find_programs() and not find_spec("psycopg"):
            print("  PostgreSQL is not measured: its driver is not installed (clew[postgres])")
        elif find_programs():
            cluster = Cluster(folder / "pg")
            try:
                yield from asyncio.run(measure_database(folder / "postgres", cluster.url))
            finally:
                cluster.kill()
        yield from measure_resume(folder / "resume")
        yield from measure_turns(folder / "turns")


def read_cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    used_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        used_ns += int(path.read_text("utf-8").split()[0])
    return used_ns / 1e9


class ServerProcess:
    """`clew serve` as a process, with the token of its first device."""

    def __init__(self, folder: Path, db: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "CLAUDE_CONFIG_DIR": str(folder)}
        about = ["--db", db] if db else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clew", "serve", "--listen", "127.0.0.1:0", *about],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.token = self.process.stdout.readline().split()[-1]
        self.url = self.process.stdout.readline().split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)

    @property
    def cpu_s(self) -> float:
        return read_cpu_s(self.process.pid)

    @property
    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the server has ended")


class Client:
    """One connection to the server, with as little work for each request as possible."""

    def __init__(self, server: ServerProcess, token: str = "") -> None:
        self._server = server
        self._token = token or server.token

    async def open(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        return self

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self._token}"
            f"\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )

    async def ask(self, method: str, path: str, body: bytes = b"") -> Any:
        self.send(method, path, body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        data = await self.reader.readexactly(size)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head!r} {data!r}")
        return json.loads(data)

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def connected(server: ServerProcess, count: int) -> AsyncIterator[list[Client]]:
    clients = [await Client(server).open() for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def make_lines(count: int) -> bytes:
    head = '{"type":"user","uuid":"%s","message":{"role":"user","content":"'
    return b"".join(
        (line := (head % uuid.uuid4()).encode()) + b"x" * (LINE_BYTES - len(line) - 4) + b'"}}\n'
        for _ in range(count)
    )


class Writer:
    """A session that grows, over one connection."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.path = f"/v1/entries?session={uuid.uuid4()}"
        self.at = 0

    async def append(self, count: int) -> float:
        """Append lines and return the time until they were acknowledged."""
        body = make_lines(count)
        begin = time.perf_counter()
        await self.client.ask("POST", f"{self.path}&at={self.at}", body)
        self.at += count
        return time.perf_counter() - begin


def at_share(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


async def measure_server(folder: Path, db: str) -> list[Figure]:
    found = await measure_database(folder, db)
    server = ServerProcess(folder / "views", db)
    try:
        found += await measure_many(server)
        found += await measure_views(server)
    finally:
        server.end()
    return found


async def measure_database(folder: Path, db: str) -> list[Figure]:
    name = "PostgreSQL" if db else "SQLite"
    goals = (3, 10) if db else (1, 6)
    server = ServerProcess(folder, db)
    try:
        async with connected(server, 1) as [client]:
            writer = Writer(client)
            await writer.append(1)
            times = [await writer.append(1) for _ in range(2_000)]
        async with connected(server, 8) as clients:
            writers = [Writer(client) for client in clients]
            begin = time.perf_counter()

            async def fill(writer: Writer) -> None:
                for _ in range(100):
                    await writer.append(20)

            await asyncio.gather(*map(fill, writers))
            speed = 8 * 100 * 20 / (time.perf_counter() - begin)
    finally:
        server.end()
    return [
        Figure(
            name=f"{name}: line durable at the server, p50",
            value=at_share(times, 0.5) * 1000,
            unit="ms",
            at_most=goals[0],
        ),
        Figure(
            name=f"{name}: line durable at the server, p99",
            value=at_share(times, 0.99) * 1000,
            unit="ms",
            at_most=goals[1],
        ),
        Figure(
            name=f"{name}: lines/s of 8 sessions in batches of 20",
            value=speed,
            unit="lines/s",
            at_least=10_000,
        ),
    ]


async def measure_many(server: ServerProcess, *, sessions: int = 1_000) -> list[Figure]:
    """1,000 sessions of which each appends a line a second, for ten seconds."""
    rounds = 10
    async with connected(server, sessions) as clients:
        writers = [Writer(client) for client in clients]
        times: list[float] = []

        async def write(number: int, writer: Writer) -> None:
            for turn in range(rounds):
                due = begin + turn + number / sessions
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                times.append(await writer.append(1))

        begin, used = time.perf_counter() + 0.5, server.cpu_s
        await asyncio.gather(*(write(n, writer) for n, writer in enumerate(writers)))
        share = (server.cpu_s - used) / (time.perf_counter() - begin)
    return [
        Figure(
            name="sessions for each core, at a line a second each",
            value=sessions / share,
            unit="",
            at_least=1_000,
            note=f"{sessions} sessions used {share:.2f} of a core",
        ),
        Figure(
            name="their lines durable at the server, p99",
            value=at_share(times, 0.99) * 1000,
            unit="ms",
            at_most=100,
        ),
    ]


async def begin_session(client: Client) -> tuple[str, str, int]:
    """Create a session; return its path, and a worker's token and epoch."""
    made = await client.ask("POST", "/v1/code/sessions", b'{"title":"t"}')
    path = f"/v1/code/sessions/{made['session']['id']}"
    given = await client.ask("POST", f"{path}/bridge", b"{}")
    return path, given["worker_jwt"], given["worker_epoch"]


async def measure_views(server: ServerProcess) -> list[Figure]:
    """One session with 50 viewers, on a server with 199 others."""
    async with connected(server, 1) as [owner]:
        for _ in range(200):
            path, token, epoch = await begin_session(owner)
    worker = await Client(server, token).open()
    sent: dict[str, float] = {}
    delays: list[float] = []
    count = 200

    async def view() -> None:
        viewer = await Client(server).open()
        viewer.send("GET", f"{path}/events/stream")
        seen = 0
        while seen < count:
            line = await viewer.reader.readline()
            if line.startswith(b"data: "):
                now = time.perf_counter()
                delays.append(now - sent[json.loads(line[6:])["event_id"]])
                seen += 1
        viewer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(VIEWERS):
            group.create_task(view())
        await asyncio.sleep(1)
        for _ in range(count):
            name = str(uuid.uuid4())
            payload = {"type": "assistant", "uuid": name, "text": "x" * LINE_BYTES}
            body = json.dumps({"worker_epoch": epoch, "events": [{"payload": payload}]}).encode()
            sent[name] = time.perf_counter()
            await worker.ask("POST", f"{path}/worker/events", body)
            await asyncio.sleep(0.05)
        rss_mb = server.rss_mb
    worker.close()
    return [
        Figure(
            name=f"line from a worker to {VIEWERS} viewers, p99",
            value=at_share(delays, 0.99) * 1000,
            unit="ms",
            at_most=100,
            note=f"p50 {at_share(delays, 0.5) * 1000:.1f} ms, {len(delays)} of {count * VIEWERS}",
        ),
        Figure(
            name=f"memory of the server with 200 sessions, {VIEWERS} viewers",
            value=rss_mb,
            unit="MB",
            at_most=60,
        ),
    ]


def measure_resume(folder: Path) -> Iterator[Figure]:
    """A session of 100 MB on another machine: all that `clew --resume` does before the prompt."""
    server = ServerProcess(folder / "server", "")
    session = str(uuid.uuid4())
    here, there = folder / "here", folder / "there"
    work = folder / "work"
    work.mkdir(parents=True)
    with serving({"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}) as model:

        def run(home: Path, *args: str) -> float:
            environ = {
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "CLEW_CONFIG_DIR": str(home),
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "sk-ant-bench",
                "CLEW_STORE_TOKEN": server.token,
            }
            command = [sys.executable, "-m", "clew", *args]
            return spent(command, env=environ, cwd=work).wall_s

        try:
            run(here, "-p", "hello", "--session-id", session)
            [transcript] = (here / "projects").glob(f"*/{session}.jsonl")
            grow(transcript, 100_000_000)
            store = ("--store", f"{server.url}/v1")
            run(here, "sessions", "push", session, *store)
            pulled_s = run(there, "sessions", "pull", session, *store)
        finally:
            server.end()
    [copy] = (there / "projects").glob(f"*/{session}.jsonl")
    if copy.read_bytes() != transcript.read_bytes():
        raise RuntimeError("the copy differs")
    yield Figure(
        name="a session of 100 MB pulled to another machine",
        value=pulled_s,
        unit="s",
        at_most=5,
    )


TEXT = "The answer is some sentences long. " * 8
# A model service that answers at once, and one that takes as long as real ones.
AT_ONCE: dict[str, Any] = {}
IN_TIME: dict[str, Any] = {"delta_chars": 8, "send": {"bytes_per_s": 8_000}}


class Steps:
    """A model service whose answers each read another file; a turn of `STEPS` such answers."""

    def __init__(self, pace: dict[str, Any], steps: int) -> None:
        self._pace = pace
        self.steps = steps
        self.times: list[float] = []

    def __call__(self, _body: dict[str, Any]) -> dict[str, Any]:
        self.times.append(time.perf_counter())
        if len(self.times) > self.steps:
            return {"text": "Done."}
        call = {"tool": "Read", "input": {"file_path": f"{len(self.times)}.txt"}}
        return self._pace | {"content": [{"text": TEXT}, call]}


class Step(NamedTuple):
    """What one step of a turn took: an answer of the model and the call in it."""

    wall_ms: float
    cpu_ms: float


def run_turn(folder: Path, pace: dict[str, Any], steps: int, server: ServerProcess | None) -> Step:
    """Run a turn, with the bridge on if there is a server, and measure all but its first steps."""
    work, settled = folder / "work", 3
    work.mkdir(parents=True)
    for number in range(steps + 1):
        (work / f"{number}.txt").write_text(f"note {number}\n" * 20, "utf-8")
    played = Steps(pace, steps)
    with serving(played) as model:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CLEW_CONFIG_DIR": str(folder / "config"),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "sk-ant-bench",
        }
        words = ["-p", "go", "--output-format", "stream-json", "--verbose"]
        words += ["--include-partial-messages"]
        if server is not None:
            environ["CLEW_REMOTE_TOKEN"] = server.token
            words = ["--remote", server.url, "go"]
        process = subprocess.Popen(
            [sys.executable, "-m", "clew", *words],
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with ExitStack() as stack:
                wait_for(lambda: len(played.times) >= settled)
                if server is not None:
                    stack.enter_context(watched(server))
                first, used = len(played.times), read_cpu_s(process.pid)
                wait_for(lambda: len(played.times) > steps)
                count = steps - first + 1
                return Step(
                    wall_ms=(played.times[steps] - played.times[first - 1]) * 1000 / count,
                    cpu_ms=(read_cpu_s(process.pid) - used) * 1000 / count,
                )
        finally:
            process.kill()
            process.communicate()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError("the turn has not ended")
        time.sleep(0.002)


@contextmanager
def watched(server: ServerProcess) -> Iterator[None]:
    """Let a viewer follow the newest session."""
    headers = {"authorization": f"Bearer {server.token}"}
    url = f"{server.url}/v1/code/sessions"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
        newest = json.load(response)["data"][0]["session_id"]
    stream = urllib.request.Request(f"{url}/{newest}/events/stream", headers=headers)
    with urllib.request.urlopen(stream) as response:
        reader = threading.Thread(target=drain, args=(response,), daemon=True)
        reader.start()
        yield
        response.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        reader.join()


def drain(response: Any) -> None:
    with suppress(HTTPException):  # The connection is closed in the middle of the stream.
        while response.read1(1 << 16):
            pass


def measure_turns(folder: Path) -> Iterator[Figure]:
    server = ServerProcess(folder / "server", "")
    try:
        for name, pace, steps, pairs in (
            ("whose answers take a second", IN_TIME, 10, 5),
            ("whose answers take no time", AT_ONCE, 100, 9),
        ):
            on, off = [], []
            for pair in range(pairs):
                begun = folder / f"{steps}-{pair}"
                off.append(run_turn(begun / "off", pace, steps, None))
                on.append(run_turn(begun / "on", pace, steps, server))
            yield from compare_turns(name, on, off)
    finally:
        server.end()


def compare_turns(name: str, on: list[Step], off: list[Step]) -> Iterator[Figure]:
    """Return the median ratio of the pairs."""
    for what, index in (("time", 0), ("CPU", 1)):
        ratios = [one[index] / other[index] for one, other in zip(on, off, strict=True)]
        extra = [one[index] - other[index] for one, other in zip(on, off, strict=True)]
        yield Figure(
            name=f"{what} of a step {name}, bridge on",
            value=median(ratios),
            unit="x",
            at_most=1.03,
            note=f"{median(extra):+.2f} ms of {median([one[index] for one in off]):.1f} ms",
        )


def grow(transcript: Path, size: int) -> None:
    """Let a transcript have this size: long tool results and answers after each other."""
    entries = [json.loads(line) for line in transcript.read_bytes().splitlines()]
    last = next(entry for entry in reversed(entries) if entry["type"] == "assistant")
    parent, total = last["uuid"], transcript.stat().st_size
    with transcript.open("a", encoding="utf-8") as file:
        while total < size:
            for kind in ("user", "assistant"):
                entry = dict(last) | {"type": kind, "uuid": str(uuid.uuid4()), "parentUuid": parent}
                text = [{"type": "text", "text": "y" * 10_000}]
                entry["message"] = dict(last["message"]) | {"role": kind, "content": text}
                parent = entry["uuid"]
                total += file.write(json.dumps(entry) + "\n")
