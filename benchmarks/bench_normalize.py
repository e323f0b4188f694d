"""Building requests: a long history from scratch, and a late turn compared with an early one."""

import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, cpu_s
from clew.core.normalize.for_api import Outgoing, for_api
from clew.core.normalize.target import Target

Entry = dict[str, Any]
TARGET = Target()
REPEATS = 9


def _turn(number: int) -> list[Entry]:
    """Return a prompt, an answer of two blocks with a call, and its result: four entries."""
    use_id = f"toolu_{number}"
    call = {"type": "tool_use", "id": use_id, "name": "Bash", "input": {"command": "ls -la src"}}
    result = {"type": "tool_result", "tool_use_id": use_id, "content": "line of output\n" * 60}
    return [
        _said("user", [_words(f"please do thing {number} with care " * 6)]),
        _said("assistant", [_words("I will do it. " * 24)], f"msg_{number}"),
        _said("assistant", [call], f"msg_{number}"),
        _said("user", [result]),
    ]


def _words(text: str) -> Entry:
    return {"type": "text", "text": text}


def _said(role: str, content: list[Entry], message_id: str | None = None) -> Entry:
    message = {"role": role, "content": content, "model": "claude-opus-4-5", "id": message_id}
    return {"type": role, "uuid": "u", "message": message}


def _turn_costs(turns: int) -> list[float]:
    """Return the CPU seconds of each turn of a growing conversation, with two requests per turn."""
    growing = Outgoing(TARGET)
    spent = []
    for number in range(turns):
        entries = _turn(number)
        begin = time.process_time()
        growing.extend(entries[:1])
        growing.request()
        growing.extend(entries[1:])
        growing.request()
        spent.append(time.process_time() - begin)
    return spent


def figures() -> Iterator[Figure]:
    history = [entry for number in range(500) for entry in _turn(number)]
    scratch = cpu_s(lambda: for_api(history, TARGET), runs=REPEATS)
    yield Figure(
        name="for_api, 2,000 entries from scratch", value=scratch * 1e3, unit="ms", at_most=15
    )
    runs = [_turn_costs(2_010) for _ in range(3)]
    early = min(statistics.median(run[10:30]) for run in runs)
    late = min(statistics.median(run[1_990:2_010]) for run in runs)
    yield Figure(
        name="turn 2,000 against turn 20",
        value=late / early,
        unit="x",
        at_most=1.5,
        note=f"{late * 1e6:.0f} µs a turn of four entries and two requests",
    )
