"""The cost of clew for a host: the handshake, a hello on the wire and on disk; compared with codex.

codex is installed from npm into a separate folder the first time. Without npm, it is skipped.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.bench_peers import Contestant, Workload
from benchmarks.measure import Figure, Spent, from_npm, process, spent
from clew.testing.server import serving

RUNS = 7
HELLO = {"scenario": 1, "answers": [{"text": "Hello.", "times": "always"}]}
HOST = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
INITIALIZE = {
    "type": "control_request",
    "request_id": "1",
    "request": {"subtype": "initialize", "hooks": None},
}
SAYS_HI = Workload(name="hello", answers=[{"text": "Hello.", "times": "always"}], cpu=1.0)
CODEX = "@openai/codex@0.169.0"
ANSWER = (
    {"type": "response.created", "response": {"id": "r"}},
    {
        "type": "response.output_item.done",
        "item": {
            "type": "message", "role": "assistant", "id": "m",
            "content": [{"type": "output_text", "text": "Hello."}],
        },
    },
    {
        "type": "response.completed",
        "response": {
            "id": "r", "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        },
    },
)  # fmt: skip


def figures() -> Iterator[Figure]:
    clew = str(Path(sys.executable).parent / "clew")
    with tempfile.TemporaryDirectory() as folder:
        ours = Contestant(clew, Path(folder, "clew"))
        yield from handshake(ours)
        yield from hello(ours)
        program = from_npm(CODEX, "codex")
        if program is None:
            yield Figure(
                name="codex skipped: npm or the package is not available", value=0, unit=""
            )
        else:
            yield from beside_codex(ours, Codex(program, Path(folder, "codex")))


def handshake(ours: Contestant) -> Iterator[Figure]:
    """Measure the time until the answer, and the CPU of a process that receives no other request."""
    walls, cpus = [], []
    with serving(HELLO) as server:
        for _ in range(RUNS):
            begin = time.perf_counter()
            child = subprocess.Popen(
                [ours.program, *HOST],
                cwd=ours.work,
                env=ours.environment(server),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            child.stdin.flush()
            assert json.loads(child.stdout.readline())["response"]["subtype"] == "success"
            walls.append(time.perf_counter() - begin)
            child.stdin.close()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            child.stdout.close()
            cpus.append(usage.ru_utime + usage.ru_stime)
    yield Figure(
        name="initialize answered, from the start",
        value=min(walls),
        unit="s",
        at_most=0.15,
        note=f"median {statistics.median(walls):.2f} s",
    )
    floor = process([sys.executable, "-c", "import asyncio"]).cpu_s
    yield Figure(
        name="a process that answers it, over import asyncio, CPU",
        value=min(cpus) / floor,
        unit="x",
        note=f"{min(cpus):.3g} s to {floor:.3g} s",
    )


def hello(ours: Contestant) -> Iterator[Figure]:
    """Measure the bytes sent and stored for a first prompt."""
    with serving(HELLO) as server:
        ours.run(SAYS_HI, server)
        body = json.dumps(server.requests[0].body, ensure_ascii=False, separators=(",", ":"))
    (transcript,) = ours.home.rglob("projects/*/*.jsonl")
    sizes = (("request", len(body.encode()), 25), ("transcript", transcript.stat().st_size, 5))
    for name, size, goal_kb in sizes:
        yield Figure(name=f"{name} of a hello", value=size / 1000, unit="KB", at_most=goal_kb)


class Codex:
    """codex's compiled binary, with a local server in place of its service."""

    def __init__(self, program: str, home: Path) -> None:
        self._program = program
        self._home = home
        (home / "work").mkdir(parents=True)

    def run(self, port: int) -> Spent:
        (self._home / "config.toml").write_text(
            'model = "m"\nmodel_provider = "here"\n[model_providers.here]\nname = "here"\n'
            f'base_url = "http://127.0.0.1:{port}/v1"\nwire_api = "responses"\nenv_key = "HERE"\n',
            "utf-8",
        )
        return spent(
            [self._program, "exec", "--skip-git-repo-check", "hi"],
            cwd=self._home / "work",
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self._home),
                "CODEX_HOME": str(self._home),
                "HERE": "x",
            },
            stderr=subprocess.DEVNULL,  # its progress messages
        )


class Responses(BaseHTTPRequestHandler):
    """A Responses API that answers hello."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._say(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        events = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in ANSWER)
        self._say("".join(events).encode(), "text/event-stream")

    def _say(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def beside_codex(ours: Contestant, codex: Codex) -> Iterator[Figure]:
    service = ThreadingHTTPServer(("127.0.0.1", 0), Responses)
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    mine: list[Spent] = []
    other: list[Spent] = []
    try:
        with serving(HELLO) as server:
            for number in range(RUNS + 1):
                spent = ours.run(SAYS_HI, server), codex.run(service.server_address[1])
                if number:  # the first runs are warm-up
                    mine.append(spent[0])
                    other.append(spent[1])
    finally:
        service.shutdown()
        service.server_close()
        thread.join()
    for what, of in (("CPU", lambda one: one.cpu_s), ("wall", lambda one: one.wall_s)):
        a, b = (statistics.median(map(of, kept)) for kept in (mine, other))
        yield Figure(
            name=f"clew -p hi, {what} / codex",
            value=a / b,
            unit="x",
            at_most=1.0,
            note=f"{a:.3g} s to {b:.3g} s",
        )
