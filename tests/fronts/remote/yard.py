"""A session server, workers and viewers as processes, each of which can be killed."""

import json
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.forked import Forked

Json = dict[str, Any]
WAIT_S = 30


class Running:
    """One `clew ARGS`. Its output is read as it comes."""

    def __init__(self, cwd: Path, environ: dict[str, str], *args: str) -> None:
        self.process = Forked(
            args,
            cwd=cwd,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(line.decode("utf-8").rstrip("\n"))
        self._queue.put(None)

    def until(self, holds: Callable[[str], Any]) -> str:
        """Return the next line for which the condition is true."""
        while True:
            line = self._queue.get(timeout=WAIT_S)
            assert line is not None, f"ended first: {self.lines[-20:]}"
            self.lines.append(line)
            if holds(line):
                return line

    def rest(self) -> list[str]:
        """Return the last lines of the output, also those that nothing waited for."""
        while not self._queue.empty():
            if (line := self._queue.get()) is not None:
                self.lines.append(line)
        return self.lines[-5:]

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=WAIT_S)
        while (line := self._queue.get(timeout=WAIT_S)) is not None:
            self.lines.append(line)
        return code


class Watching(Running):
    """A `clew attach --json`. `events` are all that came so far."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.events: list[Json] = []

    def event(self, holds: Callable[[Json], Any]) -> Json:
        """Return the payload of the next event for which the condition is true."""

        def matches(line: str) -> bool:
            about = json.loads(line)
            self.events.append(about)
            return bool("payload" in about and holds(about["payload"]))

        payload: Json = json.loads(self.until(matches))["payload"]
        return payload

    @property
    def last(self) -> int:
        """The number of the last event."""
        return max(int(event.get("sequence_num", 0)) for event in self.events)

    def result(self) -> Json:
        return self.event(lambda p: p["type"] == "result")

    def question(self) -> Json:
        return self.event(
            lambda p: p["type"] == "control_request" and p["request"]["subtype"] == "can_use_tool"
        )


class Yard:
    """The folder of a test, the address of its server, and what runs there."""

    def __init__(
        self,
        home: Path,
        model_url: str,
        *,
        db: str = "",
        serve: Sequence[str] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start a server. `serve` are more options of `clew serve`."""
        self._serve = serve
        self.home = home
        self._db = db or f"sqlite:{home / 'serve.db'}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self._environ = environment(home, model_url) | {"CLEW_REMOTE_URL": self.url, **environ}
        self._running: list[Running] = []
        self.work = home / "work"
        self.work.mkdir()
        self.session = ""
        self.server = self.serve()

    @property
    def token(self) -> str:
        return self._environ["CLEW_REMOTE_TOKEN"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running:
            running.kill()
            for pipe in (running.process.stdin, running.process.stdout):
                assert pipe is not None
                pipe.close()

    def run(self, *args: str, **environ: str) -> Running:
        """Start `clew ARGS` on this machine, or on another if `CLEW_CONFIG_DIR` is given."""
        return self._start(Running, *args, **environ)

    def _start(self, kind: Callable[..., Running], *args: str, **environ: str) -> Running:
        running = kind(self.work, self._environ | environ, *args)
        self._running.append(running)
        return running

    def use(self, url: str) -> None:
        """Let everything that starts from now on reach the server at this URL."""
        self._environ |= {"CLEW_REMOTE_URL": url, "CLEW_STORE_TOKEN": self.token}

    def serve(self) -> Running:
        words = ("--listen", self.address, "--db", self._db, *self._serve)
        server = self._start(Running, "serve", *words)
        server.until(lambda line: line.startswith("listening"))
        for line in server.lines:
            if line.startswith("token"):
                self._environ["CLEW_REMOTE_TOKEN"] = line.split()[-1]
        return server

    def worker(self, *args: str) -> Running:
        worker = self._start(Running, "--remote", *args)
        self.session = worker.until(lambda line: "clew attach" in line).split()[-1]
        return worker

    def viewer(self, *args: str, **environ: str) -> Watching:
        viewer = self._start(Watching, "attach", self.session, "--json", *args, **environ)
        assert isinstance(viewer, Watching)
        return viewer

    def entries(self) -> list[Json]:
        """Return the lines of the session's transcript."""
        data = self.transcript.read_bytes()
        # The last line may be incomplete while a worker writes.
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    @property
    def has_transcript(self) -> bool:
        return any((self.home / "config" / "projects").glob(f"*/{self.session}.jsonl"))

    @property
    def transcript(self) -> Path:
        [path] = (self.home / "config" / "projects").glob(f"*/{self.session}.jsonl")
        return path
