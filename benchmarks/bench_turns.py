"""One session of many turns in the real program: a late turn compared with an early one.

A host sends stream-json to `clew -p`. In every turn the model reads a file and then answers. The
figures are the program's own CPU time and memory. With summaries, as in normal sessions, a late turn
costs the same as an early one. Without them, each request contains the complete history, because the
API requires it; the growth is then measured per MB of request, compared with a bare socket.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from clew.testing.server import RecordedRequest, serving

TURNS = 10_000
WHOLE_TURNS = 1_500
SETTLED = 500
SPAN = 250
WINDOW = 40_000
PROMPT = "Read the note, and tell me of line {number}. " * 3
SAID = "The answer is some sentences long, as answers are. " * 6
SUMMARY = "<summary>The person asks for one reading after another.</summary>"
MESSAGE_TOKENS = 60


def model(body: dict[str, Any]) -> dict[str, Any]:
    """Read a file, then answer; count tokens by the number of messages."""
    messages = body["messages"]
    used = {"input_tokens": MESSAGE_TOKENS * len(messages), "output_tokens": 90}
    last = messages[-1]["content"]
    blocks = [{"type": "text", "text": last}] if isinstance(last, str) else last
    if any(block["type"] == "tool_result" for block in blocks):
        return {"text": SAID, "usage": used}
    if "</summary>" in blocks[-1].get("text", ""):
        return {"text": SUMMARY, "usage": used}
    return {"content": [{"tool": "Read", "input": {"file_path": "note.txt"}}], "usage": used}


class Sitting:
    """A running clew and the host's end of its pipes; `sent_bytes` counts its requests."""

    def __init__(self, folder: Path, *, shortens: bool) -> None:
        self.sent_bytes = 0
        self._folder = folder
        self._server = serving(model, on_request=self._note)
        self._shortens = shortens

    def _note(self, record: RecordedRequest) -> None:
        self.sent_bytes += int(record.header("content-length") or 0)
        self._kept.clear()

    def __enter__(self) -> "Sitting":
        server = self._server.__enter__()
        self._kept = server.requests
        work = self._folder / "work"
        work.mkdir(parents=True)
        (work / "note.txt").write_text("a note of one line\n", "utf-8")
        models = {"bench": {"contextWindow": WINDOW, "maxOutput": 4000}} if self._shortens else {}
        settings = json.dumps({"models": models, "autoCompactEnabled": self._shortens})
        words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "clew",
                "-p",
                *words,
                "--model",
                "bench",
                "--settings",
                settings,
            ],
            cwd=work,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self._folder),
                "CLEW_CONFIG_DIR": str(self._folder / "config"),
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": "sk-ant-test-0000",
                "LANG": "C.UTF-8",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(self, *told: Any) -> None:
        self._process.kill()
        self._process.communicate()
        self._server.__exit__(*told)

    def turns(self, first: int, last: int) -> float:
        """Run these turns; return the CPU time of one, in ms."""
        before = self._cpu_s()
        for number in range(first, last):
            self._turn(number)
        return (self._cpu_s() - before) * 1000 / (last - first)

    def _turn(self, number: int) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        message = {"role": "user", "content": PROMPT.format(number=number)}
        stdin.write(json.dumps({"type": "user", "message": message}).encode() + b"\n")
        stdin.flush()
        for frame in stdout:
            if frame.startswith(b'{"type":"result"'):
                if json.loads(frame)["is_error"]:
                    raise RuntimeError(frame.decode())
                return
        raise RuntimeError("clew ended")

    def _cpu_s(self) -> float:
        text = Path(f"/proc/{self._process.pid}/stat").read_text("ascii")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        text = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from shortened(Path(folder) / "shortened")
        yield from whole(Path(folder) / "whole")


def shortened(folder: Path) -> Iterator[Figure]:
    with Sitting(folder, shortens=True) as sitting:
        sitting.turns(0, SETTLED)
        settled_mb = sitting.memory_mb()
        early = sitting.turns(SETTLED, 2 * SETTLED)
        sitting.turns(2 * SETTLED, TURNS - SETTLED)
        late = sitting.turns(TURNS - SETTLED, TURNS)
        grown_mb = sitting.memory_mb()
    yield Figure(
        name=f"{TURNS} turns: CPU of a late turn / an early one",
        value=late / early, unit="x", at_most=1.2, note=f"{early:.1f} ms to {late:.1f} ms",
    )  # fmt: skip
    yield Figure(
        name=f"{TURNS} turns: memory / memory after turn {SETTLED}",
        value=grown_mb / settled_mb, unit="x", at_most=1.2,
        note=f"{settled_mb:.0f} MB to {grown_mb:.0f} MB",
    )  # fmt: skip


def whole(folder: Path) -> Iterator[Figure]:
    """Measure without summaries, so that requests grow."""
    with Sitting(folder, shortens=False) as sitting:
        sitting.turns(0, SPAN)
        spans = []
        for first in (SPAN, WHOLE_TURNS - SPAN):
            before = sitting.sent_bytes
            cpu_ms = sitting.turns(first, first + SPAN)
            spans.append((cpu_ms, (sitting.sent_bytes - before) / SPAN / 1e6))
            if first == SPAN:
                sitting.turns(first + SPAN, WHOLE_TURNS - SPAN)
    (early_ms, early_mb), (late_ms, late_mb) = spans
    more = (late_ms - early_ms) / (late_mb - early_mb)
    yield Figure(
        name=f"{WHOLE_TURNS} turns, no summary: CPU for a MB more to send",
        value=more, unit="ms", note=f"{early_ms:.1f} ms to {late_ms:.1f} ms a turn",
    )  # fmt: skip
