"""Escape at any time: from the key until the screen shows that the turn was interrupted.

Measured in a pseudo-terminal, several times in each state. The slowest time counts.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.bench_screen import ATTRIBUTES, Typist, clew, kept
from benchmarks.measure import Figure
from clew.testing.server import serving

TIMES = 7
GOAL_MS = 100
LONG = "".join(f"A sentence with `code` and number {n} in it, and more.\n\n" for n in range(4_000))
STREAM = {"text": LONG, "delta_chars": 12, "send": {"bytes_per_s": 40_000}, "times": "always"}
CALL = {"content": [{"tool": "Bash", "input": {"command": "sleep 60"}}], "times": "always"}
BUSY = {"status": 529, "headers": {"retry-after": "60"}, "times": "always"}
SILENT = {
    "text": "Never said.",
    "faults": [{"at": "headers", "stall_s": "forever"}],
    "times": "always",
}
# Longer than its summary, which is not made otherwise.
ANSWER = {"text": "A sentence of an answer.\n\n" * 1_000 + "That is all."}
HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "sleep 60"}]}
PROMPT_HOOK = {"hooks": [{"type": "command", "command": "sleep 60"}]}

Begin = Callable[[Typist], object]


def asked(*words: bytes) -> Begin:
    """Send a prompt and wait until these words are on the screen."""

    def begin(typist: Typist) -> None:
        typist.type("go\r")
        typist.until(*words)

    return begin


def shell(typist: Typist) -> None:
    typist.type("!sleep 60\r")
    typist.until(b"to interrupt")


def summarising(typist: Typist) -> None:
    typist.type("/compact\r")
    typist.until(b"Compacting")


def states() -> Iterator[tuple[str, list[Any], dict[str, Any], Begin]]:
    """Yield each state: its name, the answers, the settings, and how to reach it."""
    free = {"permissions": {"allow": ["Bash"]}}
    yield "an answer streams", [STREAM], {}, asked(b"sentence")
    yield "a tool runs", [CALL], free, asked(b"Running")
    yield (
        "a hook runs before a tool",
        [CALL],
        free | {"hooks": {"PreToolUse": [HOOK]}},
        asked(b"(waiting)"),
    )
    yield (
        "a hook runs before a prompt",
        [STREAM],
        {"hooks": {"UserPromptSubmit": [PROMPT_HOOK]}},
        asked(b"to interrupt"),
    )
    starting = {"hooks": {"SessionStart": [PROMPT_HOOK]}}
    yield "a hook runs at the start", [STREAM], starting, asked(b"to interrupt")
    yield "waiting to retry a request", [BUSY], {}, asked(b"Retrying")
    yield "the service is silent", [SILENT], {}, asked(b"Waiting for the model")
    yield "a shell command runs", [STREAM], {}, shell
    yield "the conversation is compacted", [ANSWER, SILENT], {}, summarising


def stopped_ms(answers: list[Any], settings: dict[str, Any], begin: Begin) -> Iterator[float]:
    plan = {"scenario": 1, "answers": answers}
    with tempfile.TemporaryDirectory() as folder, serving(plan) as server:
        home = Path(folder)
        (home / "config").mkdir()
        (home / "config" / "settings.json").write_text(json.dumps(settings), "utf-8")
        typist = Typist(clew(), home, server.url)
        try:
            typist.until(b"default")
            if ANSWER in answers:
                typist.type("go\r")
                typist.until(b"That is all.")
                time.sleep(0.5)  # a user's pause: the turn has ended when the next line is typed
            for _ in range(TIMES):
                begin(typist)
                time.sleep(0.3)  # measure Escape in the middle of the state, not at its beginning
                yield pressed_ms(typist, b"Cancelled" if begin is shell else b"Interrupted")
        finally:
            typist.close()


def pressed_ms(typist: Typist, words: bytes) -> float:
    while typist.read(0):
        pass
    typist.wrote = b""
    begin_s = time.perf_counter()
    typist.type("\x1b")
    typist.until(words)
    took_ms = (time.perf_counter() - begin_s) * 1000
    typist.type("\x15")
    time.sleep(0.2)  # the cleared line is drawn before the next one starts
    return took_ms


def at_the_start(replies: bytes = ATTRIBUTES) -> float:
    """Measure taking back a prompt that was sent before a long session was ready."""
    plan = {"scenario": 1, "answers": [SILENT]}
    with tempfile.TemporaryDirectory() as folder, serving(plan) as server:
        home = Path(folder)
        kept(home)
        typist = Typist([*clew(), "--continue"], home, server.url, replies)
        try:
            typist.until(b">")
            typist.type("early\r")
            typist.until(b"Queued for")
            return pressed_ms(typist, b"early")
        finally:
            typist.close()


def figures() -> Iterator[Figure]:
    for name, replies in (("", ATTRIBUTES), (", the terminal silent", b"")):
        early = max(at_the_start(replies) for _ in range(3))
        yield Figure(
            name=f"Escape before a long session is ready{name}",
            value=early,
            unit="ms",
            at_most=GOAL_MS,
        )
    for name, answers, settings, begin in states():
        took = sorted(stopped_ms(answers, settings, begin))
        yield Figure(
            name=f"Escape while {name}",
            value=took[-1],
            unit="ms",
            at_most=GOAL_MS,
            note=f"slowest of {TIMES}; median: {took[TIMES // 2]:.0f} ms",
        )
