"""clew in a terminal: start until the first letter is shown, idle, opening a long session, an answer.

Measured in a pseudo-terminal as wall time; CPU time is that of the process itself.
"""

import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.bench_render import DELTA, answer, session
from benchmarks.measure import Figure
from clew.record.transcript.paths import get_project_dir
from clew.testing.server import serving

READS = 1 << 16
ASK_ATTRIBUTES, ATTRIBUTES = b"\x1b[c", b"\x1b[?62;22c"
TICKS = os.sysconf("SC_CLK_TCK")


class Typist:
    """A process with its own terminal; `wrote` is its output since the last read."""

    def __init__(self, argv: list[str], home: Path, url: str, replies: bytes = ATTRIBUTES) -> None:
        self._replies = replies
        # Without this folder, clew would first ask whether to use a sandbox.
        (home / "config" / "clew").mkdir(parents=True, exist_ok=True)
        self._fd, theirs = pty.openpty()
        self.began_s = time.perf_counter()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm-256color",
            "CLEW_CONFIG_DIR": str(home / "config"),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "test-key",
        }
        self.child = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=home,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)
        self.wrote = b""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def read(self, within_s: float) -> bool:
        if not select.select([self._fd], [], [], within_s)[0]:
            return False
        try:
            received = os.read(self._fd, READS)
        except OSError:
            return False
        if ASK_ATTRIBUTES in received:
            os.write(self._fd, self._replies)
        self.wrote += received
        return True

    def until(self, *words: bytes, within_s: float = 20) -> float:
        """Return the time from the start of the process until all words were written."""
        deadline_s = time.perf_counter() + within_s
        while not all(word in self.wrote for word in words):
            if time.perf_counter() > deadline_s:
                raise RuntimeError(f"{words!r} did not come: {self.wrote[-2000:]!r}")
            self.read(0.05)
        self.wrote = self.wrote[max(self.wrote.index(word) + len(word) for word in words) :]
        return time.perf_counter() - self.began_s

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.child.pid}/stat").read_text("utf-8").rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def rss_mb(self) -> float:
        pages = Path(f"/proc/{self.child.pid}/statm").read_text("utf-8").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self._fd)


def clew() -> list[str]:
    return [sys.executable, "-I", "-m", "clew"]


def launch(argv: list[str], home: Path, url: str) -> tuple[float, float]:
    """Return seconds and CPU seconds until the first letter is displayed, typed as soon as the
    prompt is.
    """
    typist = Typist(argv, home, url)
    try:
        typist.until(b">")
        typist.type("q")
        return typist.until(b"q"), typist.cpu_s
    finally:
        typist.close()


PROMPT = "from prompt_toolkit import PromptSession; PromptSession('> ').prompt()"  # the peer


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder, serving({"scenario": 1, "answers": []}) as server:
        home = Path(folder)
        runs = [launch(clew(), home, server.url) for _ in range(6)][1:]
        bare = [launch([sys.executable, "-I", "-c", PROMPT], home, server.url) for _ in range(4)][
            1:
        ]
        wall_s, cpu_s = (min(run[i] for run in runs) for i in (0, 1))
        note = f"a bare prompt_toolkit session: {min(run[0] for run in bare):.3f} s"
        yield Figure(
            name="launch to the first letter shown", value=wall_s, unit="s", at_most=0.2, note=note
        )
        yield Figure(name="launch, CPU", value=cpu_s, unit="s", at_most=0.2)
        yield from at_rest(home, server.url)
    yield from opening()
    yield from keys()
    yield longest_step()
    yield from streaming()


def at_rest(home: Path, url: str) -> Iterator[Figure]:
    typist = Typist(clew(), home, url)
    try:
        typist.until(b"default")
        time.sleep(2)
        before_s, begin_s = typist.cpu_s, time.perf_counter()
        time.sleep(10)
        share = (typist.cpu_s - before_s) / (time.perf_counter() - begin_s) * 100
        yield Figure(name="at rest, CPU", value=share, unit="%", at_most=0.3)
        yield Figure(name="at rest, memory", value=typist.rss_mb, unit="MB", at_most=50)
    finally:
        typist.close()


def keys() -> Iterator[Figure]:
    """Measure single letters while an answer streams at full speed."""
    text = "".join(
        f"A sentence with `code` and number {i} in it, and more.\n\n" for i in range(4_000)
    )
    plan = {
        "scenario": 1,
        "answers": [{"text": text, "delta_chars": 12, "send": {"bytes_per_s": 40_000}}],
    }
    with tempfile.TemporaryDirectory() as folder, serving(plan) as server:
        typist = Typist(clew(), Path(folder), server.url)
        try:
            typist.until(b"default")
            typist.type("go\r")
            typist.until(b"sentence")
            waits = []
            for number in range(300):
                letter = "abcdefghij"[number % 10] if number % 40 else "\x15"
                typist.wrote = b""
                begin_s = time.perf_counter()
                typist.type(letter)
                while letter.encode() not in typist.wrote and letter != "\x15":
                    typist.read(1)
                waits.append(time.perf_counter() - begin_s)
                while time.perf_counter() - begin_s < 0.02:
                    typist.read(0.005)
            typist.wrote = b""
            begin_s = time.perf_counter()
            typist.type("\x03")
            typist.until(b"Interrupted")
            stopped_ms = (time.perf_counter() - begin_s) * 1000
            yield Figure(name="a key that stops, shown", value=stopped_ms, unit="ms", at_most=100)
            waits.sort()
            yield Figure(
                name="key to screen while streaming, p50", value=waits[150] * 1000, unit="ms"
            )
            yield Figure(
                name="key to screen while streaming, p99",
                value=waits[297] * 1000,
                unit="ms",
                at_most=10,
            )
        finally:
            typist.close()


STEPS = """
import asyncio.events, sys, time
took, run = [], asyncio.events.Handle._run
def measured(step):
    begin_s = time.thread_time()
    run(step)
    took.append((time.monotonic(), time.thread_time() - begin_s))
asyncio.events.Handle._run = measured
from clew.cli import main
report = sys.argv.pop()
try:
    main()
finally:
    open(report, "w").writelines(f"{at} {long}\\n" for at, long in took)
"""


def longest_step() -> Figure:
    """Measure the longest step of the event loop, which is the longest delay of a key.

    All steps from the prompt's Enter on count, in CPU time, so that other load doesn't matter.
    """
    text = "".join(f"A sentence with `code` and number {i} in it.\n\n" for i in range(1_500))
    plan = {
        "scenario": 1,
        "answers": [{"text": text, "delta_chars": 12, "send": {"bytes_per_s": 100_000}}],
    }
    with tempfile.TemporaryDirectory() as folder, serving(plan) as server:
        home = Path(folder)
        report = home / "steps"
        typist = Typist([sys.executable, "-I", "-c", STEPS, str(report)], home, server.url)
        try:
            typist.until(b"default")
            begin_s = time.monotonic()
            typist.type("go\r")
            typist.until(b"number 1499", within_s=60)
            typist.type("\x04")
            while typist.read(5):
                pass
            typist.child.wait(30)
        finally:
            typist.close()
        steps = [tuple(map(float, row.split())) for row in report.read_text("utf-8").splitlines()]
    longest_ms = max(long for at, long in steps if at > begin_s) * 1000
    name = "the longest step of a turn that streams, CPU"
    return Figure(name=name, value=longest_ms, unit="ms", at_most=10, note=f"of {len(steps):,}")


# -- a long session


MESSAGES = 10_000


def kept(home: Path) -> None:
    """Create a session with this number of messages to resume."""
    name, parent = "00000000-0000-4000-8000-000000000001", None
    path = get_project_dir(home / "config", str(home)) / f"{name}.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        for number, said in enumerate(session(MESSAGES)):
            identity = f"00000000-0000-4000-8000-{number + 2:012x}"
            message = said["message"]
            if said["type"] == "assistant":
                message |= {
                    "id": f"msg_{number}",
                    "type": "message",
                    "model": "claude-sonnet-5-5",
                    "stop_reason": "tool_use" if number % 4 == 1 else "end_turn",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 5, "output_tokens": 7},
                }
            entry = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": str(home),
                "sessionId": name,
                "version": "0.1.0",
                "gitBranch": "",
                "type": said["type"],
                "message": message,
                "uuid": identity,
                "timestamp": "2026-01-02T03:04:05.678Z",
            }
            file.write(json.dumps(entry) + "\n")
            parent = identity


def opening() -> Iterator[Figure]:
    """Measure from the start of the program until the last prompt and the status line are
    displayed.
    """
    last = f"question {MESSAGES // 4 - 1}".encode()
    with tempfile.TemporaryDirectory() as folder, serving({"scenario": 1, "answers": []}) as server:
        home = Path(folder)
        empty_s = min(opened(home, server.url, [], b"default")[0] for _ in range(4))
        kept(home)
        runs = [opened(home, server.url, ["--continue"], last, b"default") for _ in range(6)][1:]
    wall_s, cpu_s = (min(run[i] for run in runs) for i in (0, 1))
    yield Figure(
        name="opening a session of 10,000 messages, wall",
        value=wall_s,
        unit="s",
        at_most=0.4,
        note=f"{cpu_s:.2f} s of CPU; a new session: {empty_s:.3f} s",
    )


def opened(home: Path, url: str, options: list[str], *words: bytes) -> tuple[float, float]:
    typist = Typist([*clew(), *options], home, url)
    try:
        return typist.until(*words), typist.cpu_s
    finally:
        typist.close()


# -- an answer at the speed of a model


DELTAS_PER_S = 100


class Paced(ThreadingHTTPServer):
    """A server that sends each delta of `text` once, when it is due; `sent_s` records the times."""

    daemon_threads = True

    def __init__(self, text: str) -> None:
        super().__init__(("127.0.0.1", 0), Saying)
        self.text = text
        self.sent_s: list[float] = []


class Saying(BaseHTTPRequestHandler):
    server: Paced

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.server.sent_s:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        usage = {"input_tokens": 5, "output_tokens": 1}
        head: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
        head |= {
            "content": [],
            "model": "claude-sonnet-5-5",
            "stop_reason": None,
            "stop_sequence": None,
        }
        self._event("message_start", message=head | {"usage": usage})
        self._event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        self._deltas(self.server.text, self.server.sent_s)
        self._event("content_block_stop", index=0)
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        self._event("message_delta", delta=end, usage={"output_tokens": len(self.server.text) // 4})
        self._event("message_stop")

    def _deltas(self, text: str, sent_s: list[float]) -> None:
        begin_s = time.perf_counter()
        for number, at in enumerate(range(0, len(text), DELTA)):
            time.sleep(max(0.0, begin_s + number / DELTAS_PER_S - time.perf_counter()))
            delta = {"type": "text_delta", "text": text[at : at + DELTA]}
            sent_s.append(time.perf_counter())
            self._event("content_block_delta", index=0, delta=delta)

    def _event(self, kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, **fields})
        self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing, because the terminal is being measured."""


@contextmanager
def saying(text: str) -> Iterator[Paced]:
    with Paced(text) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def marks(text: str) -> dict[bytes, int]:
    """Return words that occur once in the text and unchanged on the screen, with the delta that
    completes each.
    """
    words = [f"Section {n}:" for n in range(1_000)] + [f"a_{n}.py" for n in range(1_000)]
    return {
        word.encode(): (text.index(word) + len(word) - 1) // DELTA for word in words if word in text
    }


def streaming() -> Iterator[Figure]:
    """Measure 100 KB of Markdown, 12 characters at a time, until the turn has ended."""
    text = answer() + "\n\nThat was the-very-end.\n"
    with tempfile.TemporaryDirectory() as folder, saying(text) as server:
        typist = Typist(clew(), Path(folder), f"http://127.0.0.1:{server.server_port}")
        try:
            typist.until(b"default")
            before_mb = typist.rss_mb
            typist.type("go\r")
            seen_s, wrote = watched(typist, marks(text), b"the-very-end.")
            spent_s, grown_mb = typist.cpu_s, typist.rss_mb - before_mb
        finally:
            typist.close()
        late_s = max(at_s - server.sent_s[marks(text)[word]] for word, at_s in seen_s.items())
        paced_s = server.sent_s[-1] - server.sent_s[0]
    many = len(server.sent_s)
    name = "100 KB of Markdown in 12-character deltas, 100/s"
    note = f"{many} deltas in {paced_s:.0f} s, from the program's start on"
    yield Figure(name=f"{name}: CPU in all", value=spent_s, unit="s", at_most=3.5, note=note)
    yield Figure(
        name=f"{name}: largest lateness",
        value=late_s,
        unit="s",
        at_most=0.3,
        note=f"from a delta sent to its words on the terminal, at {len(seen_s)} places",
    )
    yield Figure(name=f"{name}: memory growth", value=grown_mb, unit="MB", at_most=30)
    yield Figure(name=f"{name}: written per delta", value=wrote / many, unit="bytes")


def watched(
    typist: Typist, waited: dict[bytes, int], last: bytes
) -> tuple[dict[bytes, float], int]:
    """Return when each word appeared, and the number of bytes until two seconds after the last
    word.
    """
    seen_s: dict[bytes, float] = {}
    wrote, left = 0, set(waited)
    typist.wrote = b""
    deadline_s, is_last = time.perf_counter() + 300, False
    while time.perf_counter() < deadline_s:
        typist.read(0.5)
        now_s = time.perf_counter()
        came = {word for word in left if word in typist.wrote}
        left -= came
        seen_s |= dict.fromkeys(came, now_s)
        if last in typist.wrote and not is_last:
            deadline_s, is_last = now_s + 2, True
        wrote += max(0, len(typist.wrote) - 100)
        typist.wrote = typist.wrote[-100:]
    if left or not is_last:
        raise RuntimeError(f"never seen: {sorted(left)}, {typist.wrote!r}")
    return seen_s, wrote
