"""Rendering an answer: 100 KB of Markdown in deltas of 12 characters, painted as they arrive.

A frame at every fifth delta means 20 frames per second for a model with 100 deltas per second. The
peer is rich, used efficiently: finished blocks are painted once, the open one in each frame.
"""

import io
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, cpu_s
from clew.core.stream.events import BlockFinished, TextDelta
from clew.fronts.render.theme import DARK, Abilities
from clew.fronts.render.transcript import Transcript

SIZE = 100_000
DELTA = 12
FRAME = 5
WIDTH, ROWS = 120, 16

PART = """## Section {n}: what was found

The parser kept `state` **between** calls, so the *second* line was read as the first one's end. See
[the docs](https://example.com/docs/{n}) for what the format says; 日本語 and ✅ have widths of their own.

- first point, with `code` in it
- second point
  - nested, and long enough that it wraps on a terminal of eighty columns, as such points often do
- third point

```python
def function_{n}(values: list[int], *, limit: int = 10) -> int:
    \"\"\"Adds what is below the limit.\"\"\"
    total = 0
    for value in values:
        if value < limit:  # not the rest
            total += value
    return total
```

| File | Lines | State |
|------|------:|:-----:|
| `a_{n}.py` | {n} | done |
| `b_{n}.py` | 12 | open, with words that go on for a while |

"""


def answer(size: int = SIZE) -> str:
    return "".join(PART.format(n=n) for n in range(size // 800))[:size]


def deltas(text: str) -> list[TextDelta]:
    return [TextDelta(index=0, text=text[at : at + DELTA]) for at in range(0, len(text), DELTA)]


def shown() -> Transcript:
    return Transcript(WIDTH, DARK, Abilities(links=True))


def ours(events: list[TextDelta], every: int = FRAME) -> int:
    """Return the bytes of the final output, with a frame painted every few deltas."""
    transcript, size = shown(), 0
    for number, event in enumerate(events):
        size += sum(map(len, transcript.feed(event)))
        if number % every == 0:
            transcript.tail(WIDTH, ROWS)
    transcript.feed(BlockFinished(index=0, block={"type": "text"}))
    return size


def theirs(events: list[TextDelta]) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="256")
    held, is_code = "", False
    for number, event in enumerate(events):
        held += event.text
        if "\n\n" in held:
            block, _, rest = held.rpartition("\n\n")
            is_code = (block.count("```") % 2) == 1
            if not is_code:
                console.print(Markdown(block))
                held = rest
        if number % FRAME == 0:
            console.print(Markdown(held))  # the open block, as in a live region
    console.print(Markdown(held))


# Complete sections, so that both positions are measured with the same text.
SPAN = 8 * 780


def growth(text: str) -> float:
    """Return the cost of a delta and its frame at 96 KB divided by that at 6 KB; the best of both."""
    best = {6_000: float("inf"), 84_000: float("inf")}
    for _ in range(4):
        transcript = shown()
        for at in range(0, len(text), SPAN):
            events = deltas(text[at : at + SPAN])
            place = min(best, key=lambda place: abs(place - at))
            if abs(place - at) > SPAN or len(events) < SPAN // DELTA:
                for event in events:
                    transcript.feed(event)
                continue
            began = time.process_time()
            for event in events:
                transcript.feed(event)
                transcript.tail(WIDTH, ROWS)
            best[place] = min(best[place], time.process_time() - began)
    return best[84_000] / best[6_000]


def memory_mb(events: list[TextDelta]) -> float:
    """Return the memory that is still used after the answer, without its text, which the caller
    has.
    """
    import tracemalloc

    ours(events[:500])
    tracemalloc.start()
    transcript = shown()
    for event in events:
        transcript.feed(event)
        transcript.tail(WIDTH, ROWS)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return max(held, peak) / 1e6


def frame_bytes(events: list[TextDelta]) -> int:
    """Return the size of the largest frame: the tail and the finished lines printed with it."""
    transcript, most = shown(), 0
    for event in events:
        size = sum(len(line.encode()) for line in transcript.feed(event))
        most = max(most, size + sum(len(row.encode()) for row in transcript.tail(WIDTH, ROWS)))
    return most


def session(count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(count // 4):
        use = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "a\nb\n" * 50}
        said: list[tuple[str, Any]] = [
            ("user", f"question {n}"),
            ("assistant", [{"type": "text", "text": PART.format(n=n)}, use]),
            ("user", [result]),
            ("assistant", [{"type": "text", "text": "Done."}]),
        ]
        messages += (
            {"type": role, "uuid": f"{n}-{i}", "message": {"role": role, "content": content}}
            for i, (role, content) in enumerate(said)
        )
    return messages


def figures() -> Iterator[Figure]:
    text = answer()
    events = deltas(text)
    mine = cpu_s(lambda: ours(events), runs=3)
    rich = cpu_s(lambda: theirs(events), runs=3)
    yield Figure(
        name="100 KB of Markdown, a frame every 5 deltas / rich with finished blocks",
        value=mine / rich,
        unit="x",
        at_most=0.5,
        note=f"{mine:.2f} s against {rich:.2f} s of CPU",
    )
    each = cpu_s(lambda: ours(events, 1), runs=3)
    yield Figure(
        name="100 KB of Markdown, a frame with every delta",
        value=each,
        unit="s CPU",
        at_most=3.5,
        note=f"{each / len(events) * 1e6:.0f} us a delta",
    )
    for name, kind in (
        ("Markdown", text),
        ("one paragraph without an end", "words and `code` of it, and **more** of them. " * 2300),
        (
            "one fence without an end",
            "```python\n" + "    value = call(1, 'two')  # three\n" * 3000,
        ),
        ("one list", "- an item with **words** in it\n" * 3400),
        ("one table", "| a | b |\n|---|---|\n" + "| some words | `code` and more |\n" * 3200),
    ):
        yield Figure(
            name=f"{name}: a delta at 96 KB / at 6 KB",
            value=growth(kind),
            unit="x",
            at_most=1.3,
        )
    yield Figure(
        name="memory while 100 KB are shown",
        value=memory_mb(events),
        unit="MB",
        at_most=30,
    )
    yield Figure(
        name="the largest frame: the tail and finished lines",
        value=frame_bytes(events) / 1000,
        unit="kB",
        at_most=8,
    )
    messages = session(10_000)
    yield Figure(
        name="the end of 10,000 messages, 400 rows",
        value=cpu_s(lambda: shown().history(messages), runs=3) * 1000,
        unit="ms CPU",
        at_most=400,
    )
