"""A command that a turn waits for, moved to the background.

The turn continues, and so does the command.
"""

import json
import signal
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.core.messages.text import IN_BACKGROUND
from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import clew, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_kept import let_through, listed, output_of, pid_of, waits
from tests.fronts.headless.test_print import entries
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.system.process.processes import lives, wait_ended

Json: TypeAlias = dict[str, Any]


def bash(command: str, **given: Any) -> Json:
    return {"tool": "Bash", "input": {"command": command, **given}}


def answers(*calls: Json) -> dict[str, list[Any]]:
    return {
        "go": [uses(*calls), {"text": "not waiting"}],
        "hello": [{"text": "hello yourself"}],
        "and now": [{"text": "I heard."}],
        "<task-notification>": [{"text": "I heard of it"}],
        # What a person's own command printed is answered too.
        "<bash-stdout>": [{"text": "I see."}],
    }


def test_a_key_leaves_the_command_and_the_turn_continues_with_what_it_printed(
    tmp_path: Path,
) -> None:
    call = bash(f"cd /; cd -; {waits('a')}", description="Serve it", timeout=60_000)
    where = bash("pwd")
    plan = answers(call) | {"hello": [uses(where), {"text": "hello yourself"}]}
    with (
        serving(by_prompt(plan), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        pid_of(tmp_path, "a")
        screen.type("\x02")
        screen.expect("background: Serve it")
        screen.expect("not waiting")
        screen.expect_rest()
        screen.type("/tasks\r")
        screen.expect("shell running: Serve it")
        screen.type("hello\r")
        screen.expect("hello yourself")
        screen.expect_rest()
        screen.expect(something_runs)
        let_through(tmp_path, "a")
        screen.expect(lambda picture: not something_runs(picture))
        screen.type("and now\r")
        screen.expect("I heard.")
        bodies = [request.body for request in server.requests]
    (left,) = results(bodies[1])
    assert left.startswith("It runs in the background as task s1; ")
    assert left.endswith(f"So far:\n{tmp_path}/work\nup")
    assert results(bodies[3]) == [f"{tmp_path}/work"]
    assert "Background shell “Serve it” failed: Exit code 3" in told(bodies[-1])
    assert output_of(tmp_path, "s1") == f"{tmp_path}/work\nup\nafter\n"
    (log,) = transcripts(tmp_path)
    (raw,) = [e["toolUseResult"] for e in entries(log) if "backgroundTaskId" in str(e)]
    assert (raw["backgroundTaskId"], raw["backgroundedByUser"]) == ("s1", True)


def test_what_was_left_is_not_said_of_the_conversation_that_follows(tmp_path: Path) -> None:
    call = bash(waits("a"), description="Serve it")
    with (
        serving(by_prompt(answers(call)), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        pid_of(tmp_path, "a")
        screen.type("/clear\r\x02")
        screen.expect("Stopped background task: shell s1")
        screen.expect("── New session")
        screen.settle()
        assert "background: Serve it" not in screen.picture


@pytest.mark.parametrize("leaving", ["/exit\r", "\x04"])
def test_an_exit_asks_about_what_still_runs_and_can_keep_it(tmp_path: Path, leaving: str) -> None:
    call = bash(waits("a"), description="Serve it", run_in_background=True)
    with (
        serving(by_prompt(answers(call)), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        pid = pid_of(tmp_path, "a")
        screen.expect("not waiting")
        screen.expect_rest()
        screen.type(leaving)
        screen.expect("Stay")
        looks_like(screen, "exit")
        screen.type("3")
        screen.expect_gone("Stay")
        screen.type("hello\r")
        screen.expect("hello yourself")
        screen.expect_rest()
        screen.type(leaving)
        screen.expect("Stay")
        screen.type("2")
        assert screen.end() == 0
        assert "Still running: shell s1" in screen.text
        assert lives(pid)
        let_through(tmp_path, "a")
        wait_ended(pid)


def test_an_exit_stops_what_runs_if_the_user_says_so(tmp_path: Path) -> None:
    call = bash(waits("a"), description="Serve it", run_in_background=True)
    with (
        serving(by_prompt(answers(call)), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        pid = pid_of(tmp_path, "a")
        screen.expect("not waiting")
        screen.expect_rest()
        screen.type("exit\r")
        screen.expect("Stay")
        screen.type("1")
        assert screen.end() == 0
        assert "Stopped background task: shell s1" in screen.text
        wait_ended(pid)


def test_an_exit_from_line_mode_asks_about_what_still_runs(tmp_path: Path) -> None:
    call = bash(waits("a"), description="Serve it", run_in_background=True)
    with (
        serving(by_prompt(answers(call)), strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools", "Bash") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        pid = pid_of(tmp_path, "a")
        terminal.expect("not waiting")
        terminal.expect("> ")
        terminal.type("\x04")
        terminal.expect("Enter = Stay: ")
        terminal.type("\n")
        terminal.expect("> ")
        terminal.type("/exit\n")
        terminal.expect("Enter = Stay: ")
        terminal.type("k\n")
        assert terminal.end() == 0
        assert "Still running: shell s1" in terminal.all
        assert lives(pid)
        let_through(tmp_path, "a")
        wait_ended(pid)


def something_runs(picture: str) -> bool:
    """Return whether something runs, according to the last line of the screen."""
    last = picture.rstrip().rpartition("\n")[2]
    return "Sonnet 5.5" not in last or "running: " in last


def told(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def test_a_host_leaves_one_command_of_several_and_stops_it(tmp_path: Path) -> None:
    # Two that only look run side by side.
    calls = [bash("cat a"), bash("cat b")]
    work = tmp_path / "work"
    first = bash("mkfifo a b")
    plan = answers() | {"go": [uses(first), uses(*calls), {"text": "not waiting"}]}
    with (
        serving(by_prompt(plan), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.until(lambda f: is_call_of(f, "cat a"))
        asked = host.until(lambda f: is_call_of(f, "cat b"))
        (block,) = asked["message"]["content"]
        nothing = host.ask("background_tasks", tool_use_id="toolu_other")["response"]
        assert nothing == {"backgrounded": False, "tasks": []}
        said = leave(host, block["id"])
        assert [(t["task_id"], t["task_type"]) for t in said["tasks"]] == [("s1", "local_bash")]
        (work / "a").write_text("from a\n", "utf-8")
        assert host.result()["result"] == "not waiting"
        started = [f for f in host.frames if f.get("subtype") == "task_started"]
        assert [(f["task_id"], f["tool_use_id"]) for f in started] == [("s1", block["id"])]
        ended = host.ask("stop_task", task_id="s1")
        assert ended["subtype"] == "success"
        assert host.result()["result"] == "I heard of it"
        assert host.end() == 0
        body = server.requests[2].body
    assert results(body)[0] == "from a"
    assert results(body)[1].startswith("It runs in the background as task s1")


def leave(host: Hosted, call: str) -> Json:
    """Ask until the command has started, because its call is announced before it runs."""
    while True:
        said: Json = host.ask("background_tasks", tool_use_id=call)["response"]
        if said["backgrounded"]:
            return said


def is_call_of(frame: Json, command: str) -> bool:
    if frame["type"] != "assistant":
        return False
    return any(
        block["type"] == "tool_use" and block["input"].get("command") == command
        for block in frame["message"]["content"]
    )


def test_the_command_of_an_agent_that_is_waited_for_is_left_with_its_agent(tmp_path: Path) -> None:
    plan = answers(agent("dig")) | {
        "dig": [uses(bash(waits("a", "true"))), lambda body: {"text": f"dug: {results(body)[0]}"}]
    }
    with (
        serving(by_prompt(plan), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        pid_of(tmp_path, "a")
        said = host.ask("background_tasks")["response"]
        assert [task["task_type"] for task in said["tasks"]] == ["local_agent"]
        assert host.result()["result"] == "not waiting"
        let_through(tmp_path, "a")
        assert host.result()["result"] == "I heard of it"
        assert "dug: up\\nafter" in told(server.requests[-1].body)
        host.end()


def test_a_command_that_was_left_ends_with_clew_unless_it_is_kept(tmp_path: Path) -> None:
    calls = [bash(waits("a"))]
    with (
        serving(by_prompt(answers(*calls)), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        first = pid_of(tmp_path, "a")
        host.ask("background_tasks")
        host.result()
        host.ask("keep_task", task_id="s1")
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    assert lives(first)
    until(lambda: output_of(tmp_path, "s1") == "up\n")
    assert clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1").returncode == 0
    wait_ended(first)


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_command_that_was_left_and_kept_ends_with_its_own_code(tmp_path: Path, how: str) -> None:
    # That it may not write where nobody reads is its own as ever.
    then = "yes | head -n 1; echo ${PIPESTATUS[0]}"
    calls = [bash(waits("a", then))]
    with (
        serving(by_prompt(answers(*calls)), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        pid = pid_of(tmp_path, "a")
        host.ask("background_tasks")
        host.result()
        host.ask("keep_task", task_id="s1")
        if how == "end":
            assert host.end() == 0
        else:
            host.process.send_signal(signal.SIGKILL)
            host.process.wait()
    let_through(tmp_path, "a")
    wait_ended(pid)
    until(lambda: not listed(tmp_path)[0]["isRunning"])
    (row,) = listed(tmp_path)
    assert (row["exitCode"], row["signal"]) == (0, None)
    assert output_of(tmp_path, "s1") == "up\nafter\ny\n141\n"
    with serving(by_prompt(answers()), strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "--continue", "and now").stdout == "I heard.\n"
        assert "completed</status>" in told(server.requests[-1].body)


def test_a_command_of_the_users_own_is_left_by_the_key_too(tmp_path: Path) -> None:
    with (
        serving(by_prompt(answers()), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type(f"!{waits('a')}\r")
        pid = pid_of(tmp_path, "a")
        screen.type("\x02")
        screen.expect(IN_BACKGROUND.format("s1"))
        # What tells the model how to go on is for the model.
        assert "TaskStop" not in screen.text
        screen.type("/tasks\r")
        screen.expect("shell running:")
        screen.expect(something_runs)
        let_through(tmp_path, "a")
        wait_ended(pid)
        screen.expect(lambda picture: not something_runs(picture))
        screen.type("and now\r")
        screen.expect("I heard.")
        assert "Exit code 3" in told(server.requests[-1].body)
