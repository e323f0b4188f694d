"""The cost of a session: resuming at any size, making lines durable, listing.

A session is ready when every live message is decoded, in order. The peer reads the same file in the
same run.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.agent.compaction.window import SUMMARY, is_summary_request
from tests.fronts.headless.clew_process import command as clew
from tests.fronts.headless.clew_process import environment

from benchmarks.measure import Figure, cpu_s, from_npm, peak_rss_mb, process, spent
from clew.core.messages import factories
from clew.record.transcript.files import Files
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.logfile import LogFile
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.testing.server import serving

SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
CCUSAGE = "ccusage@18"
INPUT_TOKENS = 5
AT = "2026-01-02T03:04:05.678Z"
LOAD = "import sys; from pathlib import Path; from clew.record.transcript.load import load; x = load(Path(sys.argv[1]))"
INSIDE = 'cd "$0" && exec "$@" 2>/dev/null'
BARE = "import sys; from pathlib import Path; from clew.record.transcript.load import load"


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        yield from _linear(base)
        yield from _resumed(base)
        yield from _compacted(base)
        yield from _writing(base)


def _linear(base: Path) -> Iterator[Figure]:
    bare_mb = peak_rss_mb([sys.executable, "-c", BARE])
    for size_mb, goal_s in ((10, None), (100, 0.6), (300, 1.5)):
        path = _session(base, size_mb)
        spent = cpu_s(partial(load, path), runs=3)
        yield Figure(name=f"ready, {size_mb} MB linear, CPU", value=spent, unit="s", at_most=goal_s)
        used_mb = peak_rss_mb([sys.executable, "-c", LOAD, str(path)]) - bare_mb
        yield Figure(
            name=f"ready, {size_mb} MB linear, memory above the program / live bytes",
            value=used_mb * (1 << 20) / path.stat().st_size,
            unit="x",
            at_most=2.3,
        )
        if size_mb == 100:
            yield from _peer(path, spent)
        path.unlink()


def _resumed(base: Path) -> Iterator[Figure]:
    """Resume a history of many windows, which is compacted, up to the answer."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"text": SUMMARY if is_summary_request(body) else "Fine."}

    cpus, peaks = [], []
    with serving(answer) as server:
        for number in range(3):
            home = base / str(number)
            work = home / "work"
            work.mkdir(parents=True)
            # A compaction changes the file.
            path = _session(home / "config", 100)
            command = ["sh", "-c", INSIDE, str(work), *clew("-p", "go on", "--resume", str(path))]
            environ = environment(home, server.url)
            measured = spent(command, env=environ)
            cpus.append(measured.cpu_s)
            path = _session(home / "config", 100)
            peaks.append(peak_rss_mb(command, env=environ))
            path.unlink()
    yield Figure(
        name="resume of 100 MB without a boundary, CPU", value=min(cpus), unit="s", at_most=0.8
    )
    yield Figure(
        name="resume of 100 MB without a boundary, memory",
        value=min(peaks),
        unit="MB",
        at_most=200,
    )


def _peer(path: Path, ours_s: float) -> Iterator[Figure]:
    from claude_agent_sdk import get_session_messages

    os.environ["CLAUDE_CONFIG_DIR"] = str(path.parents[2])
    count = len(load(path).messages)
    seen: list[int] = []
    spent = cpu_s(lambda: seen.append(len(get_session_messages(SESSION))), runs=1)
    if seen != [count]:
        raise RuntimeError(f"the peer read {seen[0]} messages, we read {count}")
    yield Figure(
        name="the same by claude-agent-sdk get_session_messages, CPU", value=spent, unit="s"
    )
    yield Figure(name="claude-agent-sdk / clew", value=spent / ours_s, unit="x")
    yield from _ccusage(path, ours_s)


def _ccusage(path: Path, ours_s: float) -> Iterator[Figure]:
    """Compare with a process that only counts tokens; the start of node is subtracted."""
    program = from_npm(CCUSAGE, "ccusage")
    if program is None:
        yield Figure(name="no ccusage: npm is not here, or has it not", value=0, unit="")
        return
    env = os.environ | {"CLAUDE_CONFIG_DIR": str(path.parents[2])}
    count = [program, "session", "--json", "--offline"]
    told = subprocess.run(count, env=env, capture_output=True, check=True, timeout=600).stdout
    answers = sum(message["type"] == "assistant" for message in load(path).messages)
    seen = msgspec.json.decode(told)["totals"]["inputTokens"]
    if seen != answers * INPUT_TOKENS:
        raise RuntimeError(f"ccusage counted {seen} tokens of {answers} answers")
    nothing = process([program, "--version"], runs=1, env=env).cpu_s
    spent = process(count, runs=1, env=env).cpu_s - nothing
    yield Figure(name="the same by ccusage, which only counts tokens, CPU", value=spent, unit="s")
    yield Figure(name="ccusage / clew", value=spent / ours_s, unit="x")


def _compacted(base: Path) -> Iterator[Figure]:
    empty = _session(base, 0)
    nothing = cpu_s(lambda: load(empty))
    empty.unlink()
    for size_mb in (10, 300):
        path = _session(base, size_mb, is_compacted=True)
        if load(path).read_from == 0:
            raise RuntimeError("the file was not read from its boundary on")
        spent = cpu_s(partial(load, path))
        yield Figure(
            name=f"ready, {size_mb} MB with a boundary near the end, above an empty session",
            value=(spent - nothing) * 1000,
            unit="ms",
            at_most=10,
        )
        path.unlink()


def _writing(base: Path) -> Iterator[Figure]:
    line = _entry(1, None, "x" * 2000) + b"\n"
    ours, floor = _durable_s(base, line)
    yield Figure(name="write + fdatasync, bare, median", value=floor * 1e6, unit="µs")
    yield Figure(
        name="durable append / write + fdatasync", value=ours / floor, unit="x", at_most=1.2
    )
    yield Figure(
        name="hand-over of a 2 kB message to the log, median",
        value=_hand_over_s(base) * 1e6,
        unit="µs",
        at_most=80,
    )


def _durable_s(base: Path, line: bytes, rounds: int = 600) -> tuple[float, float]:
    """Return the median seconds of our append and of the bare calls, taken alternately.

    Ours is the bare median plus the median difference of each pair, because a busy disk affects both.
    """
    file = LogFile(base / "ours.jsonl", files=Files())
    fd = os.open(base / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def ours_once() -> float:
        begin = time.perf_counter()
        file.write([line])
        file.sync()
        return time.perf_counter() - begin

    def bare_once() -> float:
        begin = time.perf_counter()
        os.write(fd, line)
        os.fdatasync(fd)
        return time.perf_counter() - begin

    more: list[float] = []
    bare: list[float] = []
    for n in range(rounds):
        if n % 2:
            bare.append(bare_once())
            more.append(ours_once() - bare[-1])
        else:
            ours = ours_once()
            bare.append(bare_once())
            more.append(ours - bare[-1])
    os.close(fd)
    file.close()
    floor = statistics.median(bare)
    return floor + statistics.median(more), floor


def _hand_over_s(base: Path, rounds: int = 2000) -> float:
    log = Log()
    recorder = Recorder(
        paths=SessionPaths(home=base / "home", cwd="/w", session_id=SESSION),
        log=log,
        writer=Writer(session_id=SESSION, cwd="/w", version="0.1.0"),
        now=lambda: AT,
    )
    spent: list[float] = []
    for n in range(rounds):
        message = factories.make_user("x" * 2000, uuid=uuid_of(n), at=AT)
        begin = time.perf_counter()
        recorder.record([message])
        spent.append(time.perf_counter() - begin)
    log.close()
    return statistics.median(spent)


def uuid_of(n: int) -> str:
    return f"00000000-0000-4000-8000-{n:012x}"


def _entry(n: int, parent: int | None, text: str, **more: object) -> bytes:
    is_answer = n % 2 == 1
    message: dict[str, object] = {"role": "assistant" if is_answer else "user", "content": text}
    if is_answer:
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 7}
        block = [{"type": "text", "text": text}]
        named = {"id": f"msg_{n}", "type": "message", "model": "claude-opus-5-5", "usage": usage}
        message |= {**named, "content": block, "stop_reason": "end_turn", "stop_sequence": None}
    entry = {
        "parentUuid": None if parent is None else uuid_of(parent),
        "isSidechain": False,
        "userType": "external",
        "entrypoint": "cli",
        "cwd": "/home/ada/project",
        "sessionId": SESSION,
        "version": "0.1.0",
        "gitBranch": "main",
        "type": "assistant" if is_answer else "user",
        "message": message,
        "uuid": uuid_of(n),
        "timestamp": AT,
        **({"requestId": f"req_{n}"} if is_answer else {}),
        **more,
    }
    return msgspec.json.encode(entry)


def _session(base: Path, size_mb: int, *, is_compacted: bool = False) -> Path:
    """Create a linear session of source text with 2.5 kB per line, as measured in real sessions."""
    source = Path(random.__file__).read_text("utf-8")
    chance = random.Random(1)
    path = base / "projects" / "-home-ada-project" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    n, written = 0, 0
    with path.open("wb", buffering=1 << 20) as file:
        while written < size_mb * 1_000_000:
            size = chance.choice((400, 1000, 2000, 2000, 4500))
            start = chance.randrange(len(source) - size)
            written += file.write(
                _entry(n, n - 1 if n else None, source[start : start + size]) + b"\n"
            )
            n += 1
        if is_compacted:
            boundary = {"type": "system", "subtype": "compact_boundary", "content": "Compacted"}
            meta = {"compactMetadata": {"trigger": "auto", "preTokens": 9}}
            file.write(_entry(2 * n, None, "", **boundary, **meta) + b"\n")
            file.write(_entry(2 * n + 2, 2 * n, "summary", isCompactSummary=True) + b"\n")
            for k in range(2, 10):
                file.write(_entry(2 * n + 2 * k, 2 * n + 2 * k - 2, "after") + b"\n")
    return path
