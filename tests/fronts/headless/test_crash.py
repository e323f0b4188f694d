"""The real `clew -p` is killed repeatedly with SIGKILL and resumed: no acknowledged data is lost.

This is judged from outside: by the prompts and results that the service received, and by the files
that tools wrote. A short run is part of the quick suite; `make crash` kills a hundred times.
"""

import random
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import pytest
from msgspec import Struct

from clew.testing.server import RecordedRequest, serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.requirements import requirement

ALLOWED = ("--allowedTools", "Bash", "Write", "Read")
DONE = {"scenario": 1, "answers": [{"text": "Here again.", "times": "always"}]}
SOON_S = 0.06
KILLS_A_SESSION = 2
ROUNDS = 5


class Figures(Struct, kw_only=True):
    """The results of a run of kills; every loss and refusal counted must be 0."""

    kills: int = 0
    within_60_ms_of_a_request: int = 0
    prompts_sent: int = 0
    results_sent: int = 0
    traces_left: int = 0
    prompts_lost: int = 0
    results_lost: int = 0
    ran_but_unknown: int = 0
    sessions_refused: int = 0
    requests_refused: int = 0
    said: list[str] = []


FIGURES = [name for name in Figures.__struct_fields__ if name != "said"]


class Known(Struct):
    """What the outside has seen of one session."""

    prompts: set[str]
    results: set[str]

    def hear(self, body: Any) -> None:
        for block in blocks(body):
            if block["type"] == "tool_result":
                self.results.add(block["tool_use_id"])
            elif block["type"] == "text" and block["text"].startswith("prompt "):
                self.prompts.add(block["text"])


def blocks(body: Any) -> list[dict[str, Any]]:
    return [
        block
        for message in body["messages"]
        if not isinstance(message["content"], str)
        for block in message["content"]
    ]


def busy(run: str) -> dict[str, Any]:
    """A model that calls tools in every round, alone and in groups; each call leaves a file."""
    rounds = []
    for n in range(ROUNDS):
        a, b, c = (f"trace-{run}-{n}-{letter}" for letter in "abc")
        rounds.append(
            {
                "content": [
                    f"Round {n}.",
                    {"tool": "Bash", "input": {"command": f"touch {a}"}},
                    {"tool": "Read", "input": {"file_path": "note.txt"}},
                    {"tool": "Write", "input": {"file_path": b, "content": "w"}},
                    f"And {n}.",
                    {"tool": "Bash", "input": {"command": f"touch {c}; sleep 0.02"}},
                ],
                "send": {"events_per_s": 400},
            }
        )
    return {"scenario": 1, "answers": [*rounds, {"text": "All done.", "times": "always"}]}


class Sightings:
    """The times at which the service received each request."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._new: SimpleQueue[float] = SimpleQueue()

    def note(self, _: RecordedRequest) -> None:
        self.times.append(time.monotonic())
        self._new.put(self.times[-1])

    def next(self) -> float:
        return self._new.get(timeout=30)


class Run(Struct):
    """A run of the real program."""

    child: "subprocess.Popen[bytes]"
    seen: Sightings
    work: Path

    def traces(self) -> set[str]:
        return {path.name for path in self.work.glob("trace-*")}


Moment = Callable[[random.Random, Run], None]


def wait(seconds: float) -> None:
    select.select([], [], [], max(0.0, seconds))


def after_a_request(chance: random.Random, run: Run) -> None:
    """Wait until shortly after the k-th request was sent."""
    for _ in range(chance.randrange(1, ROUNDS)):
        left_at = run.seen.next()
    wait(left_at + chance.random() * 0.05 - time.monotonic())


def after_a_trace(chance: random.Random, run: Run) -> None:
    """Wait until the k-th tool has had a lasting effect."""
    wanted = len(run.traces()) + chance.randrange(1, ROUNDS * 2)
    while len(run.traces()) < wanted and run.child.poll() is None:
        wait(0.001)


def at_any_time(chance: random.Random, run: Run) -> None:
    """Wait for a random time: start-up, response, tools, exit."""
    wait(chance.random() * 1.2)


MOMENTS: tuple[Moment, ...] = (after_a_request, after_a_request, after_a_trace, at_any_time)


class Session:
    """One session that is killed and resumed; it has its own `home`."""

    def __init__(self, home: Path, figures: Figures) -> None:
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)
        (self.work / "note.txt").write_text("a note\n", "utf-8")
        self.id = str(uuid4())
        self.figures = figures
        self.known = Known(set(), set())

    def args(self) -> tuple[str, str]:
        """Return the arguments; before its first prompt was sent, a session need not exist."""
        started = list((self.home / "config" / "projects").glob(f"*/{self.id}.jsonl"))
        return ("--resume" if self.known.prompts or started else "--session-id", self.id)

    def killed(self, name: str, moment: Moment, chance: random.Random) -> None:
        """Run once and kill the run at `moment`; a run that ended before does not count."""
        seen = Sightings()
        with serving(busy(name), strict=True, on_request=seen.note) as server:
            child = subprocess.Popen(
                command("-p", f"prompt {name}", *ALLOWED, *self.args()),
                cwd=self.work,
                env=environment(self.home, server.url),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            moment(chance, Run(child, seen, self.work))
            child.kill()
            killed_at = time.monotonic()
            said, _ = child.communicate(timeout=30)
        if child.returncode == -signal.SIGKILL:
            self.figures.kills += 1
            self.figures.within_60_ms_of_a_request += any(
                0 <= killed_at - left_at <= SOON_S for left_at in seen.times
            )
        elif child.returncode != 0:
            self._refused(said.decode())
        self._heard(server.requests)

    def gone_on(self) -> None:
        """Resume to the end, and compare the requests with everything seen before."""
        figures, known, traces = self.figures, self.known, sorted(self.work.glob("trace-*"))
        before = Known(set(known.prompts), set(known.results))
        with serving(DONE, strict=True) as server:
            done = clew(self.home, server.url, "-p", "and now?", *ALLOWED, *self.args())
        if done.returncode != 0 or not server.requests:
            self._refused(done.stderr)
            return
        self._heard(server.requests)
        held = blocks(server.requests[-1].body)
        texts = {block["text"] for block in held if block["type"] == "text"}
        answered = {b["tool_use_id"] for b in held if b["type"] == "tool_result"}
        calls = [str(b["input"]) for b in held if b["type"] == "tool_use"]
        figures.prompts_sent += len(before.prompts)
        figures.results_sent += len(before.results)
        figures.traces_left += len(traces)
        figures.prompts_lost += len(before.prompts - texts)
        figures.results_lost += len(before.results - answered)
        figures.ran_but_unknown += sum(
            not any(trace.name in call for call in calls) for trace in traces
        )

    def _heard(self, requests: list[RecordedRequest]) -> None:
        for request in requests:
            self.figures.requests_refused += request.status != 200
            self.known.hear(request.body)

    def _refused(self, said: str) -> None:
        self.figures.sessions_refused += 1
        self.figures.said.append(said)


def kill_again_and_again(home: Path, kills: int, seed: int) -> Figures:
    """Kill each session twice, the second time while it is being resumed, and then read it."""
    chance, figures, number = random.Random(seed), Figures(), 0
    while figures.kills < kills:
        session = Session(home / str(number), figures)
        for again in range(KILLS_A_SESSION):
            moment = MOMENTS[number % len(MOMENTS)]
            session.killed(f"{number}-{again}", moment, chance)
            number += 1
        session.gone_on()
    return figures


def nothing_lost(figures: Figures) -> None:
    assert not figures.said
    assert (
        figures.prompts_lost,
        figures.results_lost,
        figures.ran_but_unknown,
        figures.sessions_refused,
        figures.requests_refused,
    ) == (0, 0, 0, 0, 0)
    assert figures.prompts_sent > 0
    assert figures.results_sent > 0
    assert figures.traces_left > 0


@requirement("W23", "R186")
def test_killed_a_few_times_and_resumed_nothing_is_lost(tmp_path: Path) -> None:
    nothing_lost(kill_again_and_again(tmp_path, 10, seed=1))


@pytest.mark.crash
def test_killed_a_hundred_times_and_resumed_nothing_is_lost(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    figures = kill_again_and_again(tmp_path, 104, seed=2)
    for name in FIGURES:
        record_property(f"{name} (killed programs)".replace("_", " "), getattr(figures, name))
    nothing_lost(figures)
    assert figures.within_60_ms_of_a_request >= 40
