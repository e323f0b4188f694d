"""The cost of the message types: definition, views over decoded lines, and scanning a chain."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks.measure import Figure, cpu_s
from clew.record.transcript.entries import Keys, TranscriptLine, parse, scan

LINES = 20_000
SCANNED_MB = 100
VOCABULARY = ("blocks", "messages", "records", "views", "errors", "factories", "history", "kinds")


def mixed_lines() -> list[bytes]:
    """Return lines of every kind in the proportions of a busy session, from a few hundred bytes to
    30 kB.
    """
    usage = {"input_tokens": 5, "output_tokens": 90, "cache_read_input_tokens": 81_234}
    place = {"parentUuid": "0" * 36, "isSidechain": False, "userType": "external", "cwd": "/home/p"}
    place |= {"sessionId": "1" * 36, "version": "0.1.0", "gitBranch": "main", "entrypoint": "cli"}
    stamp = {"uuid": "2" * 36, "timestamp": "2026-01-31T12:00:00.000Z"}
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    words = {"type": "text", "text": "I read the file and found the fault in its parser. " * 8}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/p/x.py"}}
    source = "    def feed(self, data: bytes) -> list[Event]:\n" * 60
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": source}
    patch = [{"oldStart": n, "lines": [" a", "-b", "+c"]} for n in range(20)]
    file = {"type": "text", "file": {"filePath": "/p/x.py", "content": source, "numLines": 60}}
    kinds: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "why does it fail?"}},
        {"type": "assistant", "message": answer | {"content": [words]}, "requestId": "r"},
        {"type": "assistant", "message": answer | {"content": [call]}, "requestId": "r"},
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": file},
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"structuredPatch": patch}},
        {"type": "attachment", "attachment": {"type": "date"}, "rendered": [{"content": "today"}]},
        {"type": "system", "subtype": "turn_duration", "durationMs": 5, "isMeta": True},
    ]  # fmt: skip
    lines = [msgspec.json.encode(place | kind | stamp) for kind in kinds]
    lines.append(b'{"type":"last-prompt","lastPrompt":"why?","sessionId":"1"}')
    return [lines[n % len(lines)] for n in range(LINES)]


def figures() -> Iterator[Figure]:
    yield from _import_figures()
    lines = mixed_lines()
    decode = msgspec.json.Decoder().decode
    bare = cpu_s(lambda: [decode(line) for line in lines])
    size_mb = sum(map(len, lines)) / 1e6
    yield Figure(
        name=f"msgspec to dicts, {LINES:,} lines, {size_mb:.0f} MB", value=bare * 1000, unit="ms"
    )
    viewed = cpu_s(lambda: [_viewed(line) for line in lines])
    yield Figure(
        name="entries with their views / msgspec", value=viewed / bare, unit="x", at_most=1.35
    )
    told = cpu_s(lambda: [_told(line) for line in lines])
    yield Figure(
        name="entries, views and every block's kind / msgspec", value=told / bare, unit="x"
    )
    changed = cpu_s(lambda: [TranscriptLine(line).replaced("sessionId", "3") for line in lines])
    yield Figure(name="one member of each line replaced / msgspec", value=changed / bare, unit="x")
    yield from _scan_figures(lines, size_mb)


def _viewed(line: bytes) -> object:
    entry = parse(line)
    return entry.view if isinstance(entry, TranscriptLine) else None


def _told(line: bytes) -> object:
    entry = parse(line)
    if not isinstance(entry, TranscriptLine):
        return None
    return entry, [block.type for block in getattr(entry.view, "blocks", ())]


def _scan_figures(lines: list[bytes], size_mb: float) -> Iterator[Figure]:
    text = b"\n".join(lines) + b"\n"
    text *= round(SCANNED_MB / size_mb)

    def iterate() -> int:
        return sum(1 for _ in text.splitlines())

    def scanned() -> int:
        return sum(1 for line in text.splitlines() if isinstance(scan(line), Keys))

    plain, keys = cpu_s(iterate, runs=3), cpu_s(scanned, runs=3)
    size = f"{len(text) / 1e6:.0f} MB"
    yield Figure(name=f"iterating over the lines of {size}", value=plain * 1000, unit="ms")
    yield Figure(
        name=f"the chain's keys of {size} / iterating", value=keys / plain, unit="x", at_most=3
    )


def _import_figures() -> Iterator[Figure]:
    """Measure the CPU time of importing the message types in a new interpreter with cached
    bytecode.
    """
    modules = ", ".join(f"clew.core.messages.{name}" for name in VOCABULARY)
    program = (
        f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", program]
        times = [
            float(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)
            for _ in range(11)
        ]
    yield Figure(name="importing the message types", value=min(times) * 1000, unit="ms", at_most=4)
