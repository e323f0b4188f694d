"""Compaction without the request to the model: selecting, repeating context, writing, and moving old
results out of ten thousand messages; and its cost for a turn that is far from the limit.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, cpu_s
from clew.agent.compaction import boundary, micro, retelling
from clew.agent.compaction import boundary as receipt
from clew.agent.requests import anchored
from clew.agent.story import Story
from clew.core.messages import factories
from clew.core.messages.history import History
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from clew.record.transcript.log import Log
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder

Json = dict[str, Any]
AT = "2026-01-01T00:00:00.000Z"
SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a"
MESSAGES = 10_000
_IDS = count()


def new_id() -> str:
    return f"00000000-0000-4000-8000-{next(_IDS):012x}"


def turn(number: int) -> list[Json]:
    """Return a prompt, an answer with a call, its result, and an answer: four messages."""
    call_id, answer_id = f"toolu_{number}", f"msg_{number}"
    call = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls -la src"}}
    raw = {"file": {"filePath": f"/w/{number % 300}.py"}}
    return [
        factories.make_user(f"do thing {number} with care " * 6, uuid=new_id(), at=AT),
        said([call], answer_id),
        factories.make_tool_answer(
            call_id, "line of output\n" * 60, uuid=new_id(), at=AT, source_uuid=None, raw=raw
        ),
        said([{"type": "text", "text": "It is done. " * 24}], f"{answer_id}b"),
    ]


def said(content: list[Json], answer_id: str) -> Json:
    message = {
        "id": answer_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 900, "output_tokens": 100},
    }
    (entry,) = factories.make_assistant(
        message, uuids=[new_id()], at=AT, request_id=f"req_{answer_id}"
    )
    return entry


def compacted(entries: list[Json]) -> tuple[Json, list[Json], boundary.Selection]:
    """Run a compaction without the request and the writing."""
    selection = boundary.with_tail(entries, 20_000)
    covers = receipt.covers(selection.covered, todos=[], by="model")
    told = [receipt.make_summary_entry(["summary"], uuid=new_id(), at=AT)]
    entry = boundary.make_boundary(
        selection,
        uuid=new_id(),
        summary_uuid=told[0]["uuid"],
        at=AT,
        trigger="auto",
        pre_tokens=9,
        post_tokens=3,
        dropped_before=0,
        duration_ms=1,
        covers=covers,
    )
    return entry, told, selection


class Written:
    """A session of ten thousand messages in a log, to be compacted once."""

    def __init__(self, home: Path, entries: list[Json]) -> None:
        self.log = Log(rescue_dirs=[])
        recorder = Recorder(
            paths=SessionPaths(home=home, cwd="/w", session_id=SESSION),
            log=self.log,
            writer=Writer(session_id="", cwd="/w", version="0.1.0"),
            now=lambda: AT,
        )
        self.story = Story(recorder)
        self.story.add(entries)
        asyncio.run(self.story.durable())

    def compact(self) -> None:
        entry, told, selection = compacted(list(self.story.history))
        self.story.compact(entry, told, selection.kept, kept_first=False)
        asyncio.run(self.story.durable())
        for_api(self.story.history, Target())


def figures() -> Iterator[Figure]:
    entries = [entry for number in range(MESSAGES // 4) for entry in turn(number)]
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for number in range(5):
            written = Written(Path(folder) / str(number), entries)
            runs.append(cpu_s(written.compact, runs=1))
            written.log.close()
    yield Figure(
        name="compaction of 10,000 messages, without the model's call",
        value=min(runs) * 1e3,
        unit="ms",
        at_most=50,
    )
    record = cpu_s(lambda: retelling.record_of(entries, 100_000), runs=5)
    yield Figure(name="its record as text, 100,000 tokens", value=record * 1e3, unit="ms")
    freed = cpu_s(lambda: micro.select_results(entries, 50_000), runs=5)
    yield Figure(name="finding its old results", value=freed * 1e3, unit="ms", at_most=50)
    history = History(entries)
    short = History(entries[:40])
    far = cpu_s(lambda: [anchored(history) for _ in range(1_000)], runs=9)
    near = cpu_s(lambda: [anchored(short) for _ in range(1_000)], runs=9)
    yield Figure(
        name="estimating the context usage, 10,000 messages / 40",
        value=far / near,
        unit="x",
        at_most=1.5,
    )
