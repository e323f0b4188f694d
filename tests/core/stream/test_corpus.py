"""Streams that broke in practice: each file of `corpus/`, and the expected outcome.

`corpus/outcomes.json` has, for each file, the reported faults, the blocks that are kept, and the
calls that may run. After an intended change, `python -m tests.core.stream.test_corpus` writes it
again; review the difference before you commit it.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from clew.core.stream.decode import EventDecoder
from clew.core.stream.events import (
    AnswerEvent,
    BlockDropped,
    MessageFinished,
    StreamFault,
    ToolUseReady,
    ToolUseUnusable,
)
from tests.core.stream.streams import accumulator
from tests.requirements import requirement

FOLDER = Path(__file__).parent / "corpus"
FILES = sorted(FOLDER.glob("*.sse"))
OUTCOMES = FOLDER / "outcomes.json"


def told(chunks: Iterable[bytes], *, merge: bool) -> list[AnswerEvent]:
    decoder, machine = EventDecoder(merge=merge), accumulator()
    found = [
        out for chunk in chunks for event in decoder.feed(chunk) for out in machine.feed(event)
    ]
    found += [out for event in decoder.close() for out in machine.feed(event)]
    return found + machine.close()


def outcome(events: list[AnswerEvent]) -> dict[str, Any]:
    """Return the facts about an answer that a user would want to know."""
    kept: dict[str, Any] = {"faults": [], "ready": {}, "unusable": {}, "dropped": []}
    for event in events:
        match event:
            case StreamFault():
                kept["faults"].append(f"{event.kind}: {event.message}")
            case ToolUseReady():
                kept["ready"][event.block["id"]] = event.block["input"]
            case ToolUseUnusable():
                kept["unusable"][event.block["id"]] = event.reason
            case BlockDropped():
                kept["dropped"].append(event.block["type"])
            case MessageFinished():
                kept |= {"complete": event.complete, "ending": event.ending}
                kept |= {"content": event.message["content"], "usage": event.message["usage"]}
            case _:
                pass
    return {name: brief(value) for name, value in kept.items() if value or value is False}


def brief(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 300:
        return f"{value[:20]} ... {len(value)} characters"
    if isinstance(value, dict):
        return {name: brief(inner) for name, inner in value.items()}
    return [brief(inner) for inner in value] if isinstance(value, list) else value


def expected() -> dict[str, Any]:
    outcomes: dict[str, Any] = json.loads(OUTCOMES.read_text("utf-8"))
    return outcomes


def test_every_file_has_its_outcome() -> None:
    assert {path.stem for path in FILES} == expected().keys()


@pytest.mark.no_cover
@requirement("R049", "R050", "R052", "R061", "W2", "W4", "W5", "V11")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_stream_comes_to_its_outcome_whole_or_byte_by_byte(path: Path) -> None:
    data = path.read_bytes()
    for merge in (True, False):
        whole = outcome(told([data], merge=merge))
        by_byte = outcome(told((data[i : i + 1] for i in range(len(data))), merge=merge))
        assert whole == by_byte == expected()[path.stem]


def cuts(path: Path, step: int) -> Iterable[int]:
    size = path.stat().st_size
    return range(1, size, step if size < 10_000 else size // 20)


@requirement("R049", "W2")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_cut_changes_nothing(path: Path) -> None:
    check_cuts(path, 23)


@pytest.mark.laws
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_cut_at_any_byte_changes_anything(path: Path) -> None:
    check_cuts(path, 1)


def check_cuts(path: Path, step: int) -> None:
    data = path.read_bytes()
    whole = told([data], merge=False)
    for at in cuts(path, step):
        assert told([data[:at], data[at:]], merge=False) == whole


@pytest.mark.no_cover
@requirement("R061", "W4")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_wherever_a_stream_ends_it_ends_in_one_defined_way(path: Path) -> None:
    data = path.read_bytes()
    for at in cuts(path, 29):
        events = told([data[:at]], merge=True)
        fatal = [e for e in events if isinstance(e, StreamFault) and e.fatal]
        ends = [e for e in events if isinstance(e, MessageFinished)]
        assert len(fatal) <= 1
        assert [e.complete for e in ends] in ([], [not fatal])
        assert ends or fatal


if __name__ == "__main__":
    outcomes = {path.stem: outcome(told([path.read_bytes()], merge=False)) for path in FILES}
    OUTCOMES.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n", "utf-8")
