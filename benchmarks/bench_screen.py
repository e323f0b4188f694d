"""clew on a terminal: from its start to the first letter shown, at rest, and a key while an answer streams.

Measured in a pseudo-terminal, where waiting is the point; CPU is that of the process itself.
"""

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure
from clew.testing.server import serving

READS = 1 << 16
TICKS = os.sysconf("SC_CLK_TCK")


class Typist:
    """One process at a terminal of its own; `wrote` is what came since the last look."""

    def __init__(self, argv: list[str], home: Path, url: str) -> None:
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
            self.wrote += os.read(self._fd, READS)
        except OSError:
            return False
        return True

    def until(self, words: bytes, within_s: float = 20) -> float:
        """How long it took until words were written, counted from the process's start."""
        deadline_s = time.perf_counter() + within_s
        while words not in self.wrote:
            if time.perf_counter() > deadline_s:
                raise RuntimeError(f"{words!r} did not come: {self.wrote[-2000:]!r}")
            self.read(0.05)
        self.wrote = self.wrote[self.wrote.index(words) + len(words) :]
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
    """Seconds and CPU seconds until the first letter is seen, typed as soon as something stands there."""
    typist = Typist(argv, home, url)
    try:
        typist.until(b">")
        typist.type("q")
        return typist.until(b"q"), typist.cpu_s
    finally:
        typist.close()


PROMPT = "from prompt_toolkit import PromptSession; PromptSession('> ').prompt()"  # what it is held against


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
    yield from keys()


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
    """Letters one by one while an answer streams at full speed."""
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
            typist.until(b"stopped")
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
