"""Background commands that end before clew does, and whose end was not reported yet."""

import json
import signal
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.agent.tools.command import CALLED_OFF
from clew.core.messages.text import IN_BACKGROUND
from clew.parts.past_commands import ENDED_WITH_CLEW as WITH_CLEW
from clew.testing.server import serving
from tests.agent.compaction.window import SUMMARY, is_summary_request
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.clew_process import IMPATIENT, clew, command, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.test_agents import agent_files
from tests.fronts.headless.test_agents_on_full_disks import ran
from tests.fronts.headless.test_kept import in_background, let_through, listed, pid_of, told, waits
from tests.fronts.headless.test_left_commands import something_runs
from tests.fronts.headless.test_mail import gated, is_of_agent, killed, tells
from tests.fronts.headless.test_print import entries
from tests.fronts.terminal.screen import OnScreen
from tests.system.process.processes import wait_ended

Json: TypeAlias = dict[str, Any]
BUILD = in_background(waits("a"), description="Build it")
TEST = in_background(waits("b", "true"), description="Test it")
SILENT = "mkfifo b; echo $$ > b.pid; read x < b"
WATCH = {"tool": "Monitor", "input": {"command": SILENT, "description": "Watch it"}}
SERVE = in_background(waits("c"), description="Serve it")
FAILED = "Background shell “Build it” failed: Exit code 3"


def answers(*calls: Json) -> dict[str, list[Any]]:
    return {
        "go": [uses(*calls), {"text": "begun"}],
        "and now": [{"text": "I heard."}],
        "serve": [uses(SERVE), {"text": "it serves"}],
    }


def ended(home: Path) -> list[Json]:
    (log,) = transcripts(home)
    return [line for line in entries(log) if line["type"] == "task-ended"]


def begun(screen: OnScreen, home: Path, *gates: str) -> None:
    """Start and end the commands without reporting it."""
    screen.expect("default")
    screen.type("go\r")
    screen.expect("begun")
    screen.expect_rest()
    for gate in gates:
        pid_of(home, gate)
    screen.expect(something_runs)
    for gate in gates:
        let_through(home, gate)
    screen.expect(lambda picture: not something_runs(picture))


def asked(home: Path, *args: str) -> str:
    """Return what the model receives with a prompt in a resumed session."""
    with serving(by_prompt(answers()), strict=True) as server:
        done = clew(home, server.url, "-p", *args, "and now")
        assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        return told(server.requests[-1].body)


@pytest.mark.parametrize("how", ["end", "kill"])
def test_what_ended_by_itself_is_told_by_the_session_that_continues_as_it_ended_and_once(
    tmp_path: Path, how: str
) -> None:
    with serving(by_prompt(answers(BUILD, TEST)), strict=True) as server:
        with OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen:
            begun(screen, tmp_path, "a", "b")
            if how == "end":
                screen.type("\x04")
                assert screen.end() == 0
            else:
                until(lambda: len(ended(tmp_path)) == 2)
                screen.child.kill()
                screen.child.wait()
        with OnScreen(tmp_path, server.url, "--continue") as screen:
            screen.expect("default")
            screen.type("/tasks\r")
            screen.expect("shell failed: Build it")
            screen.expect("shell completed: Test it")
            screen.type("/tasks s1\r")
            screen.expect("Exit code 3")
            screen.type("and now\r")
            screen.expect("I heard.")
            screen.expect_rest()
        first = told(server.requests[-1].body)
    assert first.count(FAILED) == 1
    assert first.count("Background shell “Test it” completed") == 1
    assert "stopped" not in first
    again = asked(tmp_path, "--continue")
    assert again.count(FAILED) == 1
    assert again.count("Background shell “Test it”") == 1
    assert {line["taskId"]: line["exitCode"] for line in ended(tmp_path)} == {"s1": 3, "s2": 0}


def test_an_end_during_the_last_answer_of_a_program_is_reported_in_another_turn(
    tmp_path: Path,
) -> None:
    def last(body: Json) -> Json:
        for gate in ("a", "b"):
            pid_of(tmp_path, gate)
            let_through(tmp_path, gate)
        until(lambda: len(ended(tmp_path)) == 2)
        return {"text": "begun"}

    plan = {"go": [uses(BUILD, WATCH), last], "<task-notification>": [{"text": "I know."}]}
    with serving(by_prompt(plan), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash,Monitor")
        assert told(server.requests[-1].body).count(FAILED) == 1
    assert (done.returncode, done.stdout) == (0, "begun\n\nI know.\n"), done.stderr
    heard = asked(tmp_path, "--continue")
    assert heard.count(FAILED) == 1
    assert heard.count("Background monitor “Watch it” completed") == 1
    assert WITH_CLEW not in heard


def test_a_copy_learns_of_the_end_and_is_not_misled_by_it(tmp_path: Path) -> None:
    with (
        serving(by_prompt(answers(BUILD)), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        begun(screen, tmp_path, "a")
        screen.type("\x04")
        assert screen.end() == 0
    (log,) = transcripts(tmp_path)
    heard = asked(tmp_path, "-r", log.stem, "--fork-session")
    assert heard.count(FAILED) == 1
    (fork,) = set(transcripts(tmp_path)) - {log}
    # A command of the copy's own has the same name again.
    plan = answers()
    with serving(by_prompt(plan), strict=True) as server:
        args = ("-p", "-r", fork.stem, "serve", "--allowedTools", "Bash")
        done = clew(tmp_path, server.url, *args, environ=IMPATIENT)
        assert done.stdout == "it serves\n", done.stderr
    own = asked(tmp_path, "-r", fork.stem)
    assert own.count(f"Background shell “Serve it” stopped: {WITH_CLEW}") == 1
    assert own.count(FAILED) == 1
    assert asked(tmp_path, "-r", log.stem).count(FAILED) == 1


def test_an_end_before_a_summary_is_known_after_it(tmp_path: Path) -> None:
    talk = by_prompt(answers(BUILD))

    def model(body: Json) -> Json:
        return {"text": SUMMARY} if is_summary_request(body) else talk(body)

    with (
        serving(model, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        begun(screen, tmp_path, "a")
        screen.type("/compact\r")
        screen.expect(lambda _: "compact_boundary" in transcripts(tmp_path)[0].read_text("utf-8"))
        screen.expect_rest()
        screen.type("\x04")
        assert screen.end() == 0
    heard = asked(tmp_path, "--continue")
    assert heard.count(FAILED) == 1
    assert WITH_CLEW not in heard


def test_what_a_user_stopped_is_not_said_to_have_ended_with_clew(tmp_path: Path) -> None:
    with (
        serving(by_prompt(answers(BUILD)), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("begun")
        pid_of(tmp_path, "a")
        screen.type("/tasks stop s1\r")
        screen.expect("Stopped s1")
        screen.type("\x04")
        assert screen.end() == 0
    heard = asked(tmp_path, "--continue")
    assert heard.count("Background shell “Build it” stopped") == 1
    assert WITH_CLEW not in heard


@pytest.mark.parametrize(
    "line", [{"status": "running"}, {"status": ["failed"]}, {"exitCode": 3}, {"toolUseId": ["x"]}]
)
def test_a_line_that_says_nothing_of_an_end_costs_the_end_and_not_the_session(
    tmp_path: Path, line: Json
) -> None:
    with serving(by_prompt(answers(SERVE)), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash", environ=IMPATIENT)
    (log,) = transcripts(tmp_path)
    (call,) = [
        entry["message"]["content"][0]["tool_use_id"]
        for entry in entries(log)
        if "backgroundTaskId" in str(entry)
    ]
    with log.open("a", encoding="utf-8") as file:
        said = {"type": "task-ended", "taskId": "s1", "toolUseId": call} | line
        file.write(json.dumps(said, separators=(",", ":")) + "\n")
    assert asked(tmp_path, "--continue").count(WITH_CLEW) == 1


@pytest.mark.parametrize("how", ["ends", "ended with clew"])
def test_a_command_of_the_users_own_that_was_left_is_known_to_the_session_that_continues(
    tmp_path: Path, how: str
) -> None:
    plan = answers() | {"<bash-stdout>": [{"text": "I see."}]}
    with (
        serving(by_prompt(plan), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type(f"!{waits('a')}\r")
        pid_of(tmp_path, "a")
        screen.type("\x02")
        screen.expect(IN_BACKGROUND.format("s1"))
        screen.expect("I see.")
        screen.expect_rest()
        if how == "ends":
            let_through(tmp_path, "a")
            until(lambda: len(ended(tmp_path)) == 1)
        screen.child.kill()
        screen.child.wait()
    for _ in range(2):
        heard = asked(tmp_path, "--continue")
        assert heard.count("Exit code 3") == (1 if how == "ends" else 0)
        assert heard.count(WITH_CLEW) == (0 if how == "ends" else 1)
        assert heard.count("<summary>Background shell “mkfifo a;") == 1


@pytest.mark.parametrize("how", ["ends", "ended with clew"])
def test_an_agent_that_goes_on_hears_how_its_commands_ended(tmp_path: Path, how: str) -> None:
    plan: dict[str, list[Any]] = {
        "go": [uses(agent("dig", run_in_background=True, name="mole")), {"text": "begun"}],
        "dig": [uses(BUILD), uses(gated("hole"))],
    }
    with (
        serving(by_prompt(plan), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.result()
        pid_of(tmp_path, "a")
        until((tmp_path / "work" / "hole").exists)
        if how == "ends":
            let_through(tmp_path, "a")
            until(lambda: '"task-ended"' in agent_files(tmp_path)[0].read_text("utf-8"))
        killed(host)
    then = {
        "and now": [tells("mole", "dig on"), {"text": "sent"}],
        "dig on": [{"text": "dug"}],
        "<task-notification>": [{"text": "I heard."}],
    }
    for _ in range(2):
        with serving(by_prompt(then), strict=True) as server:
            done = clew(tmp_path, server.url, "-p", "--continue", "and now")
            assert (done.returncode, done.stdout) == (0, "sent\n\nI heard.\n"), done.stderr
            own = [told(r.body) for r in server.requests if is_of_agent(r.body)]
            others = [told(r.body) for r in server.requests if not is_of_agent(r.body)]
        assert own[-1].count(FAILED) == (1 if how == "ends" else 0)
        assert own[-1].count(WITH_CLEW) == (0 if how == "ends" else 1)
        assert all("Build it" not in other for other in others)


def test_what_the_model_had_asked_to_end_is_not_said_to_be_the_users_doing(
    tmp_path: Path,
) -> None:
    """A crash comes between: what is asked to end ends clew first."""
    ends_clew = "trap 'kill -9 $(cat clew)' TERM; echo $$ > a.pid; while :; do sleep 0.05; done"
    plan = answers(in_background(ends_clew)) | {
        "stop": [uses({"tool": "TaskStop", "input": {"task_id": "s1"}}), {"text": "stopped"}]
    }
    with serving(by_prompt(plan), strict=True) as server:
        with Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host:
            host.say("go")
            host.result()
            pid = pid_of(tmp_path, "a")
            host.ask("keep_task", task_id="s1")
            assert host.end() == 0
        with Hosted(tmp_path, server.url, "--continue") as host:
            (tmp_path / "work" / "clew").write_text(str(host.process.pid), "utf-8")
            host.say("stop")
            assert host.process.wait(30) == -signal.SIGKILL
    wait_ended(pid)
    until(lambda: not listed(tmp_path)[0]["isRunning"])
    heard = asked(tmp_path, "--continue")
    assert heard.count("<status>stopped</status>") == 1
    assert CALLED_OFF not in heard


def test_an_end_that_only_the_recovery_file_knows_is_told_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "spare").mkdir()
    (tmp_path / "config").write_text("no folder can be made here", "utf-8")
    nowhere = {"TMPDIR": str(tmp_path / "spare")}

    def last(_: Json) -> Json:
        pid_of(tmp_path, "a")
        let_through(tmp_path, "a")
        until(lambda: '"task-ended"' in copy_of(tmp_path).read_text("utf-8"))
        return {"status": 400}

    with serving(by_prompt({"go": [uses(BUILD), last]}), strict=True) as server:
        done = ran(tmp_path, server.url, command("-p", "--allowedTools=Bash", "go"), **nowhere)
        assert done.returncode == 1, done.stderr
    with serving(by_prompt(answers()), strict=True) as server:
        done = ran(tmp_path, server.url, command("-p", "--continue", "and now"), **nowhere)
        assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        heard = told(server.requests[-1].body)
    assert heard.count(FAILED) == 1
    assert WITH_CLEW not in heard


def copy_of(home: Path) -> Path:
    (copy,) = (home / "spare").glob("clew-*/*.jsonl")
    return copy
