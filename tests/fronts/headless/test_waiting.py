"""Background tasks that still run when the input of a program has ended: clew waits for them."""

import json
import signal
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.parts.past_commands import ENDED_WITH_CLEW
from clew.testing.server import serving
from tests.fronts.headless.agents_model import by_prompt, uses
from tests.fronts.headless.clew_process import clew, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.headless.piped import Piped
from tests.fronts.headless.test_kept import in_background, let_through, pid_of, told, waits
from tests.system.process.processes import wait_ended

Json: TypeAlias = dict[str, Any]
BUILD = in_background(waits("a"), description="Build it")
SERVE = in_background(waits("c"), description="Serve it")
FAILED = "Background shell “Build it” failed: Exit code 3"
MONITOR = "for i in 1 2; do echo tick $i; done; mkfifo b; read x < b"


def answers(*calls: Json, heard: Any = None) -> dict[str, list[Any]]:
    return {
        "go": [uses(*calls), {"text": "begun"}],
        "and now": [{"text": "I see."}],
        "<task-notification>": [heard or {"text": "I heard."}],
    }


def lets_through(home: Path, plan: dict[str, list[Any]], gate: str = "a") -> dict[str, list[Any]]:
    """Open a gate with the last answer to the prompt."""

    def last(_: Json) -> Json:
        pid_of(home, gate)
        let_through(home, gate)
        return {"text": "begun"}

    return plan | {"go": [plan["go"][0], last]}


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_a_run_waits_for_a_command_and_the_model_learns_how_it_ended(
    tmp_path: Path, output_format: str
) -> None:
    plan = lets_through(tmp_path, answers(BUILD))
    with serving(by_prompt(plan), strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash", "--output-format", output_format, "--verbose")
        done = clew(tmp_path, server.url, *args)
        assert done.returncode == 0, done.stderr
        assert told(server.requests[-1].body).count(FAILED) == 1
    if output_format == "text":
        assert done.stdout == "begun\n\nI heard.\n"
        return
    results = [json.loads(line) for line in done.stdout.splitlines()]
    results = [frame for frame in results if frame["type"] == "result"]
    assert [frame["result"] for frame in results] == (
        ["I heard."] if output_format == "json" else ["begun", "I heard."]
    )
    # Two prompts and the result of the call.
    assert sum(frame["num_turns"] for frame in results) == 3


def test_a_host_that_closes_its_input_still_gets_the_turn_about_the_command(
    tmp_path: Path,
) -> None:
    with (
        serving(by_prompt(answers(BUILD)), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.result()
        pid_of(tmp_path, "a")
        assert host.process.stdin is not None
        host.process.stdin.close()
        let_through(tmp_path, "a")
        report = host.result()
        assert (report["result"], report["origin"]["kind"]) == ("I heard.", "task-notification")
        assert host.process.wait(30) == 0


def test_a_session_ends_at_once_with_its_host(tmp_path: Path) -> None:
    """A host that was killed reads nothing more, so that nothing is worth waiting for."""
    with (
        serving(by_prompt(answers(SERVE)), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.result()
        pid = pid_of(tmp_path, "c")
        assert host.process.stdin is not None
        assert host.process.stdout is not None
        host.process.stdout.close()
        host.process.stdin.close()
        host.process.wait(20)
        wait_ended(pid)


def test_a_session_ends_when_its_host_dies_during_the_wait(tmp_path: Path) -> None:
    with (
        serving(by_prompt(answers(SERVE)), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        assert host.process.stdin is not None
        assert host.process.stdout is not None
        host.process.stdin.close()
        host.result()
        pid = pid_of(tmp_path, "c")
        host.process.stdout.close()
        host.process.wait(20)
        wait_ended(pid)


def test_a_hook_of_a_host_that_closed_its_input_still_holds(tmp_path: Path) -> None:
    write = {"tool": "Write", "input": {"file_path": "made.txt", "content": "x"}}
    plan = answers(BUILD, heard=uses(write))
    plan["<task-notification>"].append({"text": "I tried."})
    with (
        serving(by_prompt(plan), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash,Write") as host,
    ):
        hooks = {"PreToolUse": [{"matcher": "Write", "hookCallbackIds": ["h1"]}]}
        host.ask("initialize", hooks=hooks)
        host.say("go")
        host.result()
        pid_of(tmp_path, "a")
        let_through(tmp_path, "a")
        assert host.end() == 0
    (report,) = [frame for frame in host.frames if frame.get("result") == "I tried."]
    assert report["permission_denials"]
    assert not (tmp_path / "work" / "made.txt").exists()


SHAPED = {"tool": "StructuredOutput", "input": {"n": 4}}


@pytest.mark.parametrize("again", [5, None])
def test_a_turn_about_a_command_is_asked_once_for_the_required_result(
    tmp_path: Path, again: int | None
) -> None:
    """The result of the first turn remains if the second one has none."""

    def shaped(_: Json) -> Json:
        pid_of(tmp_path, "a")
        let_through(tmp_path, "a")
        return uses(SHAPED)

    plan = answers(BUILD)
    plan["go"][1] = shaped
    then = {"text": "No."} if again is None else uses(SHAPED | {"input": {"n": again}})
    plan["Call StructuredOutput"] = [then]
    schema = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
    with serving(by_prompt(plan), strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash", "--json-schema", schema)
        done = clew(tmp_path, server.url, *args, "--output-format", "json")
        assert len(server.requests) == 4
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["structured_output"] == {"n": again or 4}


FLOOD = "head -c 70000000 /dev/zero | tr '\\0' x"


def test_the_model_learns_that_the_file_of_a_command_is_cut(tmp_path: Path) -> None:
    flood = in_background(waits("a", FLOOD), description="Flood")
    plan = lets_through(tmp_path, answers(flood))
    with serving(by_prompt(plan), strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash", "--output-format", "stream-json", "--verbose")
        done = clew(tmp_path, server.url, *args)
        said = told(server.requests[-1].body)
    cut = "completed; the output file has only the first 67,108,864 of 70,000,009 bytes"
    assert cut in said
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    (ended,) = [frame for frame in frames if frame.get("subtype") == "task_notification"]
    assert ended["summary"].endswith(cut)


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_nothing_follows_a_turn_that_failed(tmp_path: Path, output_format: str) -> None:
    with serving(by_prompt(answers(SERVE)), strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash", "--max-turns", "1")
        args += ("--output-format", output_format, "--verbose")
        done = clew(tmp_path, server.url, *args)
        assert done.returncode == 1
        assert len(server.requests) == 1
        assert "clew: stopping background tasks: Serve it\n" in done.stderr


def test_the_answer_is_printed_though_the_turn_about_the_command_fails(tmp_path: Path) -> None:
    plan = lets_through(tmp_path, answers(BUILD, heard={"status": 400}))
    with serving(by_prompt(plan), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert "API Error: 400" in done.stderr


def test_the_first_command_that_ends_is_reported_while_another_runs(tmp_path: Path) -> None:
    """The model can then stop a server that would never end."""
    stop = uses({"tool": "TaskStop", "input": {"task_id": "s2"}})
    plan = lets_through(tmp_path, answers(BUILD, SERVE, heard=stop))
    plan["<task-notification>"].append({"text": "I stopped the server."})
    with serving(by_prompt(plan), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
    assert (done.returncode, done.stdout) == (0, "begun\n\nI stopped the server.\n"), done.stderr


@pytest.mark.parametrize("output_format", ["text", "stream-json"])
def test_a_run_says_what_it_waits_for_and_what_it_stops_after_the_limit(
    tmp_path: Path, output_format: str
) -> None:
    with serving(by_prompt(answers(SERVE)), strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash", "--output-format", output_format, "--verbose")
        done = clew(tmp_path, server.url, *args, environ={"CLEW_WAIT_FOR_AGENTS_MS": "5500"})
        assert done.returncode == 0
        assert "begun" in done.stdout
        assert done.stderr == (
            "clew: waiting for background tasks: Serve it\n"
            "clew: stopping background tasks that still run after 5.5 s: Serve it\n"
        )
        wait_ended(pid_of(tmp_path, "c"))
        done = clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert done.stdout == "I see.\n", done.stderr
        assert told(server.requests[-1].body).count(ENDED_WITH_CLEW) == 1


def test_a_signal_ends_the_wait(tmp_path: Path) -> None:
    with (
        serving(by_prompt(answers(SERVE)), strict=True) as server,
        Piped(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash", environ={}) as run,
    ):
        assert run.process.stdin is not None
        run.process.stdin.close()
        pid = pid_of(tmp_path, "c")
        until(lambda: len(server.requests) == 2 and server.requests[1].finished)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(30) == 130
        wait_ended(pid)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_run_waits_for_a_monitor_unless_it_is_to_run_forever(
    tmp_path: Path, persistent: bool
) -> None:
    watch = {"command": MONITOR, "description": "Watch it", "persistent": persistent}
    plan = answers({"tool": "Monitor", "input": watch})

    def heard(body: Json) -> Json:
        if not persistent and "completed" not in told(body):
            let_through(tmp_path, "b")
        return {"text": "I heard."}

    plan["<task-notification>"] = [heard]
    with serving(by_prompt(plan), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Monitor")
        said = told(server.requests[-1].body)
    assert done.returncode == 0, done.stderr
    assert "tick 2" in said
    assert ("Background monitor “Watch it” completed" in said) is not persistent
