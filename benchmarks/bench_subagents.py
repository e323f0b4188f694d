"""Subagents: the cost of one from its call to its result, and the time to stop many.

The model is a script in another process, so that only clew's CPU time counts. The cost of a turn
without agents is subtracted.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fronts.headless.clew_process import command, environment
from tests.fronts.headless.host_process import Hosted

from benchmarks.measure import Figure, process

MANY = 20
RUNS = 3
SERVER = """
import sys
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses

many, stays = int(sys.argv[1]), sys.argv[2] == "stays"
rounds = many if sys.argv[2] == "rounds" else 0
looks = [uses({"tool": "Glob", "input": {"pattern": f"*{n}"}}) for n in range(rounds)]
many = 0 if looks else many
calls = [agent(f"part {n}", run_in_background=stays) for n in range(many)]
endless = {"content": ["...", "..."], "faults": [{"after_events": 3, "stall_s": "forever"}]}
begun = [*looks, *([uses(*calls)] if many else []), {"text": "done"}]
with serving(by_prompt({"go": begun, "part": [endless if stays else {"text": "done"}]})) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def figures() -> Iterator[Figure]:
    alone = cost_s(0, "ends")
    each_ms = (cost_s(MANY, "ends") - alone) / MANY * 1000
    round_ms = (cost_s(MANY, "rounds") - alone) / MANY * 1000
    yield Figure(
        name="an agent with one response, from its call to its result",
        value=each_ms,
        unit="ms CPU",
        note=f"{MANY} of one answer; a round of the session itself, a call and an answer: "
        f"{round_ms:.1f} ms",
    )
    yield Figure(
        name="starting an agent, compared with a round",
        value=max(each_ms - round_ms, 0.0),
        unit="ms CPU",
        at_most=10,
    )
    yield Figure(
        name=f"{MANY} running agents, from the request to exit until clew exits",
        value=min(end_s() for _ in range(RUNS)),
        unit="s",
        at_most=1,
    )


@contextlib.contextmanager
def model(many: int, how: str) -> Iterator[str]:
    """Start a scripted model in another process and yield its address."""
    argv = [sys.executable, "-c", SERVER, str(many), how]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def cost_s(many: int, how: str) -> float:
    """Return the CPU seconds of a turn that starts this number of agents and waits, or has this
    number of rounds.
    """
    with tempfile.TemporaryDirectory() as home, model(many, how) as url:
        return process(command("-p", "go"), runs=RUNS, env=environment(Path(home), url)).cpu_s


def end_s() -> float:
    with (
        tempfile.TemporaryDirectory() as home,
        model(MANY, "stays") as url,
        Hosted(Path(home), url) as host,
    ):
        host.say("go")
        host.result()
        while len(host.ask("background_tasks")["response"]["tasks"]) < MANY:
            pass
        begin_s = time.monotonic()
        host.ask("end_session")
        host.end()
        return time.monotonic() - begin_s
