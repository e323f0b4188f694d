"""The prompt cache is kept warm during a long command: by the real program, within its budget."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import RecordedRequest, serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY

Json = dict[str, Any]
# A service whose cache lives for ten seconds: the first warming request comes after nine.
MODEL = {
    "like": "claude-sonnet-5-5",
    "cacheSeconds": 10,
    "price": {"input": 3, "output": 15},
}
SETTINGS = {"models": {"mine": MODEL}, "cacheWarmingBudgetUsd": 2}
FLAGS = ("--model", "mine", "--allowedTools", "Bash(head:*)")
WAITS = {"content": [{"tool": "Bash", "input": {"command": "head -1 pipe"}}]}
WRITTEN = {"cache_creation_input_tokens": 100_000}
READ = {"cache_read_input_tokens": 100_000}


def service(body: Json) -> Json:
    if body["max_tokens"] == 0:
        return {"content": [], "stop_reason": "max_tokens", "usage": {**READ, "output_tokens": 0}}
    if "tool_result" in str(body["messages"]):
        return {"text": "Done.", "usage": READ}
    return {**WAITS, "usage": WRITTEN}


def flags(**settings: Any) -> tuple[str, ...]:
    return (*FLAGS, "--settings", json.dumps(SETTINGS | settings))


def piped(home: Path) -> Path:
    (home / "work").mkdir()
    pipe = home / "work" / "pipe"
    os.mkfifo(pipe)
    return pipe


def when_warmed(act: Callable[[], object]) -> Callable[[RecordedRequest], None]:
    """Run something once a warming request has arrived."""

    def look(request: RecordedRequest) -> None:
        if request.body["max_tokens"] == 0:
            threading.Thread(target=act).start()

    return look


def costs(home: Path) -> list[Json]:
    (path,) = transcripts(home)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    found = [line for line in lines if line["type"] == "request-cost"]
    return [line for line in found if line["purpose"] == "warming"]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    return piped(tmp_path)


def test_a_long_command_keeps_the_cache_warm_and_cost_says_what_that_took(
    tmp_path: Path, pipe: Path
) -> None:
    heard = when_warmed(lambda: pipe.write_text("go\n", "utf-8"))
    with serving(service, strict=True, on_request=heard) as server:
        with Hosted(tmp_path, server.url, *flags()) as host:
            host.say("wait")
            said = host.result()
            assert said["result"] == "Done."
            told = host.ask("get_session_cost")["response"]["cacheWarming"]
        before, warming, after = (request.body for request in server.requests)
        assert (told["requests"], told["reservedUSD"]) == (1, 0)
        assert said["total_cost_usd"] > told["costUSD"] > 0.03
        for member in ("model", "system", "tools", "messages", "thinking"):
            assert warming.get(member) == before.get(member)
        assert after["messages"][: len(before["messages"]) - 1] == before["messages"][:-1]
        assert [line.get("outcome") for line in costs(tmp_path)] == ["sent", None]
        with OnScreen(tmp_path, server.url, "-c", *flags(), columns=120) as screen:
            screen.expect(READY)
            screen.type("/cost\r")
            screen.expect("Cache warming  1 request, $0.0303 of the total")
    by_purpose = json.loads(clew(tmp_path, server.url, "cost", "--json", "--by", "purpose").stdout)
    named = {row["name"]: row["requests"] for row in by_purpose["by"]["purpose"]}
    assert named == {"turn": 2, "warming": 1}


def test_a_session_that_is_killed_while_it_warms_continues(tmp_path: Path, pipe: Path) -> None:
    came = threading.Event()
    with serving(service, strict=True, on_request=when_warmed(came.set)) as server:
        with Hosted(tmp_path, server.url, *flags()) as host:
            host.say("wait")
            assert came.wait(30)
            host.process.kill()
            host.process.wait()
        assert costs(tmp_path)[0]["outcome"] == "sent"
        done = clew(tmp_path, server.url, "-p", "on", "-c", *flags(cacheWarmingBudgetUsd=0))
        assert (done.returncode, done.stdout) == (0, "Done.\n")
        assert not any(request.body["max_tokens"] == 0 for request in server.requests[2:])
