"""Headless runs with a fault in each: every run ends by itself and leaves no process.

It ends with a result, or with a documented exit code. A short run is part of the quick suite; `make
crash` does five hundred.
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct

from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import command, environment, until

MOST_S = 60.0
TEXT = "A long answer, word by word. " * 40
SLEEPS = {"tool": "Bash", "input": {"command": "sleep 300"}}
WORKS = {"tool": "Bash", "input": {"command": "echo worked; seq 500"}}
FINE = {"text": "Fine.", "times": "always"}
# What the service does, and how often: a second attempt finds it well again.
NETWORK: tuple[dict[str, Any], ...] = (
    {"text": TEXT},
    {"content": [WORKS]},
    {"text": TEXT, "faults": [{"after_events": 5, "cut": "close"}]},
    {"text": TEXT, "faults": [{"after_events": 20, "cut": "reset"}]},
    {"text": TEXT, "faults": [{"after_bytes": 900, "cut": "end"}]},
    {"text": TEXT, "faults": [{"at": "headers", "cut": "reset"}]},
    {"text": TEXT, "faults": [{"after_events": 9, "insert": "event: nonsense\ndata: {\n\n"}]},
    {"text": TEXT, "faults": [{"after_events": 4, "error": {"type": "overloaded_error"}}]},
    {"status": 529, "headers": {"retry-after": 0}},
    {"status": 500, "headers": {"retry-after": 0}},
    {"status": 400},
    {"status": 401},
    {"http": "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>"},
    {"events": []},
)
FORMATS = (
    ("--output-format", "text"),
    ("--output-format", "json"),
    ("--output-format", "stream-json", "--verbose"),
)
# No file may grow beyond a few kilobytes: as on a disk that is full.
NO_ROOM = ("sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "sh")
SIGNALLED = {signal.SIGINT: (0, 130), signal.SIGTERM: (143,), signal.SIGHUP: (129,)}
# What whoever runs the tests ignores (under nohup, in the background of a script) their programs ignore too
# until they say otherwise.
HEARD = tuple(each for each in SIGNALLED if signal.getsignal(each) is not signal.SIG_IGN)


HARMS = ("signal",) if HEARD else ()


class Tally(Struct, kw_only=True):
    """How runs ended.

    With a result, or after a signal or a closed pipe with the matching exit code.
    """

    results: int = 0
    documented: int = 0
    wrong: list[str] = []


def one(rng: random.Random, folder: Path, tally: Tally) -> None:
    mark = uuid4().hex
    form = rng.choice(FORMATS)
    harm = rng.choice(("none", "none", "none", "pipe", "disk", *HARMS))
    # A turn that would go on for long is for those that are stopped in it.
    answer = {"content": [SLEEPS]} if harm == "signal" and rng.random() < 0.5 else None
    answers = [answer or rng.choice(NETWORK), FINE]
    with serving({"scenario": 1, "answers": answers}) as server:
        started = Started(folder, server, form, mark, is_full=harm == "disk")
        told = f"{harm}, {form[1]}, {json.dumps(answers[0])[:120]}"
        try:
            if harm == "signal":
                number = rng.choice(HEARD)
                wait(rng.random() * 0.8)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(started.child.pid, number)
                out = started.ended()
                allowed: tuple[int, ...] = SIGNALLED[number]
            elif harm == "pipe":
                out = started.ended(after_bytes=rng.randrange(200))
                allowed = (0, 141)
            else:
                out, allowed = started.ended(), ()
        except subprocess.TimeoutExpired:
            tally.wrong.append(f"did not end: {told}")
            started.child.kill()
            started.child.communicate()
            return
        code = started.child.returncode
        if code in (0, 1) and (harm == "pipe" or has_result(form[1], out, code)):
            tally.results += 1
        elif code in allowed or (harm == "signal" and code in (0, 1, -number)):
            # Before the program knows signals, the system's own way to end is all there is.
            tally.documented += 1
        elif harm == "disk" and code == 1 and "the data is lost" in started.errors():
            tally.documented += 1
        else:
            tally.wrong.append(f"exit {code}: {told}: {out[-300:]!r} {started.errors()[-300:]!r}")
    until(lambda: not left(mark), within_s=20)


class Started:
    """A running `clew -p`, with a mark in the environment that its children inherit."""

    def __init__(
        self,
        folder: Path,
        server: LoopbackServer,
        form: tuple[str, ...],
        mark: str,
        *,
        is_full: bool,
    ) -> None:
        self._errors = folder / f"{mark}.err"
        words = command("-p", "go", "--allowedTools", "Bash", *form)
        with self._errors.open("wb") as errors:
            self.child = subprocess.Popen(
                [*NO_ROOM, *words] if is_full else words,
                cwd=folder,
                env=environment(folder, server.url) | {"SOAK": mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def ended(self, *, after_bytes: int | None = None) -> bytes:
        """Return the output until the end; after a number of bytes, reading stops."""
        assert self.child.stdout is not None
        if after_bytes is None:
            return self.child.communicate(timeout=MOST_S)[0]
        fd, seen = self.child.stdout.fileno(), b""
        while len(seen) < after_bytes and select.select([fd], [], [], MOST_S)[0]:
            piece = os.read(fd, 64)
            if not piece:
                break
            seen += piece
        self.child.stdout.close()
        self.child.wait(MOST_S)
        return seen

    def errors(self) -> str:
        return self._errors.read_text("utf-8", "replace")


def wait(seconds: float) -> None:
    select.select([], [], [], seconds)


def has_result(form: str, out: bytes, code: int) -> bool:
    if form == "text":
        return bool(out.strip()) or code == 1
    try:
        said = json.loads(out.splitlines()[-1] if form == "stream-json" else out)
    except (ValueError, IndexError):
        return False
    return said["type"] == "result" and bool(said["is_error"]) == (code == 1)


def left(mark: str) -> list[int]:
    """Return the processes that a run has left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"SOAK={mark}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def soak(folder: Path, runs: int, seed: int, tell: Callable[[str], None]) -> Tally:
    rng, tally = random.Random(seed), Tally()
    began_s = time.monotonic()
    for _ in range(runs):
        one(rng, folder, tally)
    took_s = time.monotonic() - began_s
    tell(f"{runs} runs in {took_s:.0f} s: {tally}")
    return tally


def test_a_few_runs_with_faults_all_end_with_a_result(tmp_path: Path) -> None:
    tally = soak(tmp_path, 8, 8, print)
    assert tally.wrong == []
    assert tally.results + tally.documented == 8


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, 2])
def test_five_hundred_runs_with_faults_end_with_a_result_and_leave_nothing(
    tmp_path: Path, seed: int
) -> None:
    tally = soak(tmp_path, 250, seed, print)
    assert tally.wrong == []
    assert tally.results + tally.documented == 250
