"""The cost of damage: repairing four times the lines should take about four times as long.

Each kind of damage extends over the complete file, so that quadratic work becomes visible.
"""

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.bench_transcript import SESSION, uuid_of
from benchmarks.measure import Figure, growth
from clew.record.library.branches import prompts
from clew.record.transcript.repair import plan

Entry = dict[str, Any]
LINES = 4000
AT_MOST = 6.0


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            few = _written(Path(folder, "few"), kind(LINES))
            many = _written(Path(folder, "many"), kind(4 * LINES))
            for what, work in (("repair", _repair), ("tree", _tree)):
                grown = growth(partial(work, few), partial(work, many), runs=3)
                yield Figure(
                    name=f"{what}, 4 times the lines: {name}",
                    value=grown,
                    unit="x",
                    at_most=AT_MOST,
                )


def _repair(path: Path) -> None:
    plan(path, warnings=True)


def _tree(path: Path) -> None:
    for _ in prompts(path):
        pass


def _written(folder: Path, entries: Iterator[Entry]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, entries)) + b"\n")
    return path


def _line(n: int, parent: int | None, content: object = "words", **message: object) -> Entry:
    is_answer = bool(message)
    return {
        "parentUuid": None if parent is None else uuid_of(parent),
        "isSidechain": False,
        "sessionId": SESSION,
        "type": "assistant" if is_answer else "user",
        "message": {"role": "assistant" if is_answer else "user", "content": content, **message},
        "uuid": uuid_of(n),
        "timestamp": "2026-01-02T03:04:05.678Z",
    }


def _call(n: int, parent: int, answer: int) -> Entry:
    use = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "ls"}}
    return _line(n, parent, [use], id=f"msg_{answer}", model="claude-opus-5-5")


def _result(n: int, parent: int) -> Entry:
    return _line(
        n, parent, [{"type": "tool_result", "tool_use_id": f"t{parent}", "content": "done"}]
    )


def _shuffled(lines: int) -> Iterator[Entry]:
    entries = [_line(n, n - 1 if n else None) for n in range(lines)]
    random.Random(1).shuffle(entries)
    yield from entries


def _cycles(lines: int) -> Iterator[Entry]:
    for n in range(0, lines, 2):
        yield _line(n, n + 1)
        yield _line(n + 1, n)


def _unanswered(lines: int) -> Iterator[Entry]:
    for n in range(0, lines, 2):
        yield _line(n, n - 1 if n else None)
        yield _call(n + 1, n, n)


def _side_by_side(lines: int) -> Iterator[Entry]:
    """Yield one answer with a very large number of calls, each followed by its result."""
    yield _line(0, None)
    half = lines // 2
    for n in range(1, half):
        yield _call(n, n - 1, 1)
    for n in range(1, half):
        yield _result(half + n, n)


def _not_summed_up(lines: int) -> Iterator[Entry]:
    boundary: Entry = {"type": "system", "subtype": "compact_boundary", "content": "Compacted"}
    for n in range(lines):
        parent = n - 1 if n else None
        above: Entry = {"logicalParentUuid": None if parent is None else uuid_of(parent)}
        yield _line(n, parent) | (boundary | above if n % 4 == 3 else {})


def _branches(lines: int) -> Iterator[Entry]:
    yield _line(0, None)
    for n in range(1, lines):
        yield _line(n, 0)


KINDS: dict[str, Callable[[int], Iterator[Entry]]] = {
    "shuffled": _shuffled,
    "cycles": _cycles,
    "calls without results": _unanswered,
    "calls side by side": _side_by_side,
    "boundaries without a summary": _not_summed_up,
    "branches of one prompt": _branches,
}
