"""Messages between agents and the session survive clew: they are delivered later, and once."""

import signal
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.agent.subagents.offer import WAITING
from clew.parts.agents.leaving import GO_ON
from clew.parts.agents.past import CUT_OFF
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import lines
from tests.fronts.headless.test_kept import told
from tests.fronts.terminal.screen import OnScreen

Json: TypeAlias = dict[str, Any]


def gated(name: str) -> Json:
    return {"tool": "Bash", "input": {"command": f"mkfifo {name}; cat {name}"}}


def tells(to: str, words: str) -> Json:
    return uses({"tool": "SendMessage", "input": {"to": to, "message": words}})


def killed(host: Hosted) -> None:
    host.process.send_signal(signal.SIGKILL)
    host.process.wait()


def test_what_an_agent_was_told_before_a_crash_it_hears_when_it_continues(tmp_path: Path) -> None:
    answers = {
        "go": [uses(agent("dig", run_in_background=True, name="ada")), {"text": "begun"}],
        "dig": [uses(gated("hole"))],
        "tell it": [tells("ada", "look left too"), {"text": "told"}],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.result()
        until((tmp_path / "work" / "hole").exists)
        host.say("tell it")
        assert host.result()["result"] == "told"
        killed(host)
    then = {
        "and now": [tells("ada", "go on"), {"text": "sent"}],
        "go on": [{"text": "went on"}],
        "<task-notification>": [{"text": "heard"}],
    }
    with serving(by_prompt(then), strict=True) as server:
        ran = clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert (ran.returncode, ran.stdout) == (0, "sent\n\nheard\n"), ran.stderr
        bodies = [request.body for request in server.requests]
    assert f"{WAITING}\\n- look left too" in told(bodies[0])
    (again,) = [told(body) for body in bodies if is_of_agent(body)]
    assert again.count("look left too") == 1
    assert again.index("look left too") < again.index("go on")
    # Once heard it is heard: nothing waits any more.
    with serving(by_prompt(then | {"more": then["and now"]}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "--continue", "more")
        (last,) = [told(r.body) for r in server.requests if is_of_agent(r.body)]
    assert last.count("look left too") == 1


def is_of_agent(body: Json) -> bool:
    return str(body["messages"][0]["content"][0]["text"]) == "dig"


@pytest.mark.parametrize("is_heard", [False, True])
def test_what_an_agent_told_the_session_before_a_crash_is_heard_once(
    tmp_path: Path, *, is_heard: bool
) -> None:
    answers = {
        "go": [
            uses(agent("dig", run_in_background=True), gated("wait")),
        ],
        "<task-notification>": [uses(gated("more"))],
        "dig": [tells("main", "found a bone"), uses(gated("hole"))],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        until((tmp_path / "work" / "hole").exists)
        until((tmp_path / "work" / "wait").exists)
        if is_heard:
            (tmp_path / "work" / "wait").write_text("\n", "utf-8")
            until((tmp_path / "work" / "more").exists)
            assert "found a bone" in told(server.requests[-1].body)
        killed(host)
    with serving(by_prompt({"and now": [{"text": "fine"}]}), strict=True) as server:
        for _ in range(2):
            clew(tmp_path, server.url, "-p", "--continue", "and now")
        first, second = (told(request.body) for request in server.requests)
    assert first.count("<event>found a bone</event>") == 1
    assert second.count("<event>found a bone</event>") == 1
    assert CUT_OFF in first


def test_what_was_copied_into_an_agent_is_not_what_it_did(tmp_path: Path) -> None:
    """A turn that moved to the background begins with the session's steps, and counts its own."""
    answers = {
        "go": [uses(gated("first"))],
        GO_ON: [{"content": ["I go on.", gated("second")]}],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        until((tmp_path / "work" / "first").exists)
        screen.type("/background\r")
        screen.expect("at its next step")
        (tmp_path / "work" / "first").write_text("\n", "utf-8")
        until((tmp_path / "work" / "second").exists)
        screen.child.send_signal(signal.SIGKILL)
        screen.child.wait()
        spent = len(server.requests)
    with serving(by_prompt({"and now": [{"text": "fine"}]}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "--continue", "and now")
        body = told(server.requests[0].body)
    assert "It made 1 tool call, most recently:\\n- Bash mkfifo second; cat second" in body
    assert "Its last message: I go on." in body
    # And the session's bill has every request once.
    (log,) = transcripts(tmp_path)
    costs = [e for e in lines(log) if e["type"] == "request-cost"]
    # The one that was cut off had been asked for and answered.
    assert len({e["message_id"] for e in costs}) == len(costs) == spent + 1
