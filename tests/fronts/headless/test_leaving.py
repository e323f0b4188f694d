"""The session's own turn in the background, and prompts that run there."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from claude_agent_sdk import get_subagent_messages

from clew.parts.agents.leaving import GO_ON
from clew.parts.agents.past import CUT_OFF
from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.agents_model import by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files, lines
from tests.fronts.terminal.screen import OnScreen

Json: TypeAlias = dict[str, Any]


def gated(name: str) -> Json:
    """A call that ends when a file is there."""
    line = f"mkfifo {name}; cat {name}"
    return {"tool": "Bash", "input": {"command": line}}


def opened(home: Path, name: str) -> None:
    until((home / "work" / name).exists)
    (home / "work" / name).write_text(f"{name} is open\n", "utf-8")


def asked() -> dict[str, list[Any]]:
    return {
        "go": [uses(gated("first"))],
        GO_ON: [uses(gated("second")), {"text": "all of it is done"}],
        "hello": [{"text": "hello yourself"}],
        "<task-notification>": [{"text": "I heard of it"}],
    }


@contextmanager
def left(home: Path) -> Iterator[tuple[LoopbackServer, OnScreen]]:
    """A session on a terminal whose turn has just moved to the background."""
    with (
        serving(by_prompt(asked()), strict=True) as server,
        OnScreen(home, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        until((home / "work" / "first").exists)
        screen.type("/background\r")
        screen.expect("at its next step")
        opened(home, "first")
        screen.expect("Moved to the background")
        yield server, screen


def test_a_turn_continues_in_the_background_while_something_else_is_asked(tmp_path: Path) -> None:
    with left(tmp_path) as (server, screen):
        screen.type("hello\r")
        screen.expect("hello yourself")
        screen.type("/tasks\r")
        screen.expect("agent running: go")
        opened(tmp_path, "second")
        screen.expect("I heard of it")
        bodies = [request.body for request in server.requests]
    first, own = bodies[0], next(b for b in bodies if GO_ON in json.dumps(b))
    # What the service has cached for the session counts for what goes on beside it.
    assert (own["system"], own["tools"]) == (first["system"], first["tools"])
    assert own["messages"][0] == first["messages"][0]
    assert "first is open" in json.dumps(own)
    here = next(b for b in bodies if '"hello"' in json.dumps(b["messages"][-1]))
    assert "continues in the background as agent a" in json.dumps(here)
    assert GO_ON not in json.dumps(here)
    last = json.dumps(bodies[-1]["messages"])
    assert "all of it is done" in last
    assert "second is open" not in last
    (path,) = agent_files(tmp_path)
    entries = lines(path)
    assert all(e["isSidechain"] for e in entries if e["type"] in ("user", "assistant"))
    # The word that was typed meanwhile stands beside the chain.
    chained = [e for e in entries if "uuid" in e and e["type"] != "system"]
    assert [e["parentUuid"] for e in chained[1:]] == [e["uuid"] for e in chained[:-1]]


def test_after_a_kill_the_session_knows_what_was_left_to_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with left(tmp_path) as (_, screen):
        until((tmp_path / "work" / "second").exists)
        screen.child.send_signal(signal.SIGKILL)
        screen.child.wait()
    (session,) = transcripts(tmp_path)
    then = {
        "what now": [
            lambda body: uses(
                {"tool": "SendMessage", "input": {"to": only_agent(tmp_path), "message": "go on"}}
            ),
            {"text": "sent"},
        ],
        "go on": [{"text": "went on to the end"}],
        "<task-notification>": [{"text": "heard"}],
    }
    with serving(by_prompt(then), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--resume", session.stem, "what now")
        assert (ran.returncode, ran.stdout) == (0, "sent\n\nheard\n"), ran.stderr
        bodies = [request.body for request in server.requests]
    assert CUT_OFF in json.dumps(bodies[0]["messages"])
    again = next(b for b in bodies if '"go on"' in json.dumps(b["messages"][-1]))
    assert "first is open" in json.dumps(again["messages"])
    assert again["system"] == bodies[0]["system"]
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    messages = get_subagent_messages(
        session.stem, only_agent(tmp_path), directory=str(tmp_path / "work")
    )
    assert [m.type for m in messages][:2] == ["user", "assistant"]


def only_agent(home: Path) -> str:
    (path,) = agent_files(home)
    return path.stem.removeprefix("agent-")


def test_a_prompt_is_worked_on_beside_the_conversation(tmp_path: Path) -> None:
    answers = {
        "remember 7": [{"text": "seven"}],
        "multiply it": [uses(gated("first")), {"text": "forty-nine"}],
        "hello": [{"text": "hello yourself"}],
        "<task-notification>": [{"text": "I heard of it"}],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("/background")
        assert "No turn is running" in host.result()["result"]
        host.say("remember 7")
        host.result()
        host.say("/background multiply it")
        assert "is working on it" in host.result()["result"]
        host.say("hello")
        assert host.result()["result"] == "hello yourself"
        opened(tmp_path, "first")
        assert host.result()["result"] == "I heard of it"
        assert host.end() == 0
        bodies = [request.body for request in server.requests]
    beside = next(b for b in bodies if "multiply it" in json.dumps(b["messages"]))
    assert "seven" in json.dumps(beside["messages"])
    assert "forty-nine" in json.dumps(bodies[-1]["messages"])


def test_what_works_beside_a_conversation_that_is_left_for_a_new_one_ends_cleanly(
    tmp_path: Path,
) -> None:
    answers = {"dig": [uses(gated("first"))], "hello": [{"text": "hello yourself"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("hello")
        host.result()
        host.say("/background dig")
        host.result()
        until((tmp_path / "work" / "first").exists)
        host.say("/clear")
        host.result()
        ended = [f for f in host.frames if f.get("subtype") == "task_notification"]
        assert [f["status"] for f in ended] == ["stopped"]
        host.say("hello")
        assert host.result()["result"] == "hello yourself"
        assert host.end() == 0
        assert host.errors() == ""


def test_a_summary_has_no_steps_and_is_not_left(tmp_path: Path) -> None:
    endless = {
        "content": [{"text": "<summary>It is"}, "..."],
        "faults": [{"after_events": 3, "stall_s": "forever"}],
    }
    hello = by_prompt({"hello": [{"text": "It is long. " * 150 + "hello yourself"}]})

    def answer(body: Json) -> Json:
        return endless if "</summary>" in json.dumps(body["messages"][-1]) else hello(body)

    with serving(answer, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("hello\r")
        screen.expect("hello yourself")
        screen.type("/compact\r")
        until(lambda: len(server.requests) == 2)
        screen.type("\x02")
        screen.expect("Nothing to move")
        screen.type("\x1b")
        screen.expect_rest()
