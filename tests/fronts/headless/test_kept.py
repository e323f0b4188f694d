"""Commands that the user keeps.

They continue after clew ends, however it ends, and nothing else does.
"""

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.agent.tasks.registry import MOST_RUNNING
from clew.agent.tools.command import CALLED_OFF, UNSEEN
from clew.core.messages.text import HAS_WORDS
from clew.parts.agents.past import CUT_OFF
from clew.parts.kept_commands import UNWATCHED, WENT_ON
from clew.parts.past_commands import ENDED_WITH_CLEW
from clew.record.kept_commands import call_off, read
from clew.system.process.tree import read_parent
from clew.testing.server import serving
from tests.agent.compaction.window import SUMMARY, is_summary_request
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import IMPATIENT, clew, environment, transcripts, until
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.system.process.processes import lives, wait_ended
from tests.system.sandbox.walls import KINDS, can

Json: TypeAlias = dict[str, Any]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for record in (tmp_path / "config" / "clew" / "kept").glob("*.jsonl"):
        kept = read(record)
        if kept is not None:
            call_off(kept)


def in_background(command: str, **given: Any) -> Json:
    return {"tool": "Bash", "input": {"command": command, "run_in_background": True, **given}}


def waits(name: str, then: str = "exit 3") -> str:
    """A command that prints its process ID and continues once the gate `name` opens."""
    return f"mkfifo {name}; echo up; echo $$ > {name}.pid; read x < {name}; echo after; {then}"


def pid_of(home: Path, name: str) -> int:
    path = home / "work" / f"{name}.pid"
    until(lambda: path.exists() and path.read_text("ascii").endswith("\n"))
    return int(path.read_text("ascii"))


def let_through(home: Path, name: str) -> None:
    (home / "work" / name).write_text("\n", "utf-8")


def listed(home: Path) -> list[Json]:
    done = clew(home, "http://127.0.0.1:1", "tasks", "list", "--json")
    assert done.returncode == 0, done.stderr
    rows: list[Json] = json.loads(done.stdout)
    return rows


def output_of(home: Path, task: str) -> str:
    (path,) = (home / "config" / "projects").glob(f"*/*/tool-results/task-{task}.txt")
    return path.read_text("utf-8")


def begun(host: Hosted, *calls: Json) -> None:
    host.say("go")
    host.result()
    assert len([f for f in host.frames if f.get("subtype") == "task_started"]) == len(calls)


def told(body: Json) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


TOLD_ONCE = {"and now": [{"text": "I heard."}], "<task-notification>": [{"text": "I heard of it."}]}


@pytest.mark.parametrize("how", ["end", "kill"])
def test_what_a_user_keeps_continues_and_its_end_is_reported_once(tmp_path: Path, how: str) -> None:
    calls = [in_background(waits("a"), description="Serve it"), in_background(waits("b"))]
    answers = {"go": [uses(*calls), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash", **IMPATIENT) as host,
    ):
        begun(host, *calls)
        kept, other = pid_of(tmp_path, "a"), pid_of(tmp_path, "b")
        said = host.ask("keep_task", task_id="s1")["response"]
        assert (said["task_id"], said["kept"]) == ("s1", True)
        if how == "end":
            assert host.end() == 0
        else:
            host.process.send_signal(signal.SIGKILL)
            host.process.wait()
    wait_ended(other)
    assert lives(kept)
    (row,) = listed(tmp_path)
    assert (row["taskId"], row["isRunning"], row["title"]) == ("s1", True, "Serve it")
    # What it had printed may come from who takes over from a clew that was killed.
    until(lambda: output_of(tmp_path, "s1") == "up\n")
    let_through(tmp_path, "a")
    wait_ended(kept)
    until(lambda: not listed(tmp_path)[0]["isRunning"])
    assert output_of(tmp_path, "s1") == "up\nafter\n"
    (row,) = listed(tmp_path)
    assert (row["exitCode"], row["signal"]) == (3, None)
    with serving(by_prompt(TOLD_ONCE), strict=True) as server:
        for prompt in ("and now", "and now, again"):
            done = clew(tmp_path, server.url, "-p", "--continue", prompt)
            assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        first, second = (told(request.body) for request in server.requests)
    assert "Background shell “Serve it” failed: Exit code 3" in first
    assert second.count("Exit code 3") == first.count("Exit code 3")
    assert first.count(ENDED_WITH_CLEW) == 1
    assert listed(tmp_path) == []


@pytest.mark.parametrize("when", ["while it is open", "after its end", "while it goes on"])
def test_what_a_user_ends_by_a_word_is_told_as_stopped_by_them(tmp_path: Path, when: str) -> None:
    calls = [in_background(waits("a"), description="Serve it")]
    answers = {"go": [uses(*calls), {"text": "begun"}], **TOLD_ONCE}
    said = f"Background shell “Serve it” stopped: {CALLED_OFF}"

    def stop() -> None:
        pid = pid_of(tmp_path, "a")
        stopped = clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1", "--json")
        assert json.loads(stopped.stdout)["isCalledOff"], stopped
        wait_ended(pid)

    with serving(by_prompt(answers), strict=True) as server:
        with Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host:
            begun(host, *calls)
            host.ask("keep_task", task_id="s1")
            if when == "while it is open":
                stop()
                assert host.result()["result"] == "I heard of it."
            assert host.end() == 0
        if when == "after its end":
            stop()
            assert "stopped by SIGTERM at" in clew(tmp_path, server.url, "tasks").stdout
            clew(tmp_path, server.url, "-p", "--continue", "and now")
        elif when == "while it goes on":
            with Hosted(tmp_path, server.url, "--continue") as host:
                host.say("and now")
                host.result()
                stop()
                assert host.result()["result"] == "I heard of it."
                host.end()
        last = told(server.requests[-1].body)
        assert last.count(said) == 1
        assert "failed" not in last
        if when == "while it goes on":
            assert "Background shell “Serve it” is still running, because the user kept it" in last
            assert HAS_WORDS not in last
    assert listed(tmp_path) == []


def test_a_command_whose_watcher_was_killed_runs_as_long_as_it_lives(tmp_path: Path) -> None:
    silent = "mkfifo {0}; echo $$ > {0}.pid; read x < {0}"
    hidden = "setsid sleep 600 & echo $! > hidden.pid"
    calls = [in_background(silent.format("a")), in_background(f"{hidden}; {silent.format('b')}")]
    answers = {"go": [uses(*calls), {"text": "begun"}], **TOLD_ONCE}
    url = "http://127.0.0.1:1"
    with serving(by_prompt(answers), strict=True) as server:
        with Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host:
            begun(host, *calls)
            pids = {name: pid_of(tmp_path, name) for name in ("a", "b", "hidden")}
            for task in ("s1", "s2"):
                host.ask("keep_task", task_id=task)
            assert host.end() == 0
        for name in ("a", "b"):
            watcher = read_parent(pids[name])
            os.kill(watcher, signal.SIGKILL)
            wait_ended(watcher)
        assert [(row["isRunning"], row["isWatched"]) for row in listed(tmp_path)] == [
            (True, False),
            (True, False),
        ]
        assert clew(tmp_path, url, "tasks").stdout.count("its watcher was killed") == 2
        with Hosted(tmp_path, server.url, "--continue") as host:
            host.say("and now")
            host.result()
            assert UNWATCHED in told(server.requests[-1].body)
            assert lives(pids["a"])
            let_through(tmp_path, "a")
            assert host.result()["result"] == "I heard of it."
            assert f"stopped: {UNSEEN}" in told(server.requests[-1].body)
            # Whom it came to is not told that it is to end.
            stopped = clew(tmp_path, url, "tasks", "stop", "s2")
            assert stopped.stdout.endswith("/s2: stopped\n"), stopped.stderr
            for name in ("b", "hidden"):
                wait_ended(pids[name])
            assert host.result()["result"] == "I heard of it."
            assert f"stopped: {CALLED_OFF}" in told(server.requests[-1].body)
            host.end()
    assert listed(tmp_path) == []


def test_what_runs_on_is_read_and_ended_by_the_session_that_continues(tmp_path: Path) -> None:
    hidden = "(setsid sleep 600 & echo $! > hidden.pid); trap '' TERM"
    command = f"{hidden}; {waits('a')}"
    answers = {"go": [uses(in_background(command)), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        begun(host, in_background(command))
        pids = [pid_of(tmp_path, "a"), pid_of(tmp_path, "hidden")]
        host.ask("keep_task", task_id="s1")
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    assert all(lives(pid) for pid in pids)
    with serving(by_prompt(TOLD_ONCE), strict=True) as server:
        # A run in which nobody ends it leaves it as it is.
        assert clew(tmp_path, server.url, "-p", "--continue", "and now").stdout == "I heard.\n"
    assert all(lives(pid) for pid in pids)
    look = {"tool": "TaskOutput", "input": {"task_id": "s1", "block": False}}
    end = {"tool": "TaskStop", "input": {"task_id": "s1"}}
    then = {"end it": [uses(look), uses(end), {"text": "ended"}]}
    with (
        serving(by_prompt(then), strict=True) as server,
        Hosted(tmp_path, server.url, "--continue") as host,
    ):
        host.say("end it")
        assert host.result()["result"] == "ended"
        assert host.end() == 0
        started = [f for f in host.frames if f.get("subtype") == "task_started"]
        bodies = [request.body for request in server.requests]
    assert [f["task_id"] for f in started] == ["s1"]
    assert WENT_ON in told(bodies[0])
    assert results(bodies[1])[0].endswith("running.\nup")
    assert "was stopped" in results(bodies[2])[0]
    for pid in pids:
        wait_ended(pid)
    assert listed(tmp_path) == []


def test_a_kept_monitor_tells_what_it_sees_to_the_session_that_continues(tmp_path: Path) -> None:
    command = "mkfifo a; echo $$ > a.pid; echo first; while :; do read x < a && echo saw $x; done"
    watch = {"tool": "Monitor", "input": {"command": command, "description": "Watch it"}}
    answers = {"go": [uses(watch), {"text": "begun"}], **TOLD_ONCE}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Monitor") as host,
    ):
        begun(host, watch)
        pid = pid_of(tmp_path, "a")
        host.ask("keep_task", task_id="m1")
        assert host.end() == 0
    (tmp_path / "work" / "a").write_text("one\n", "utf-8")
    until(lambda: "saw one" in output_of(tmp_path, "m1"))
    with (
        serving(by_prompt(TOLD_ONCE), strict=True) as server,
        Hosted(tmp_path, server.url, "--continue") as host,
    ):
        host.say("and now")
        host.result()
        (tmp_path / "work" / "a").write_text("two\n", "utf-8")
        assert host.result()["result"] == "I heard of it."
        last = told(server.requests[-1].body)
        host.ask("stop_task", task_id="m1")
        wait_ended(pid)
        host.end()
    assert "<event>saw two</event>" in last
    assert "saw one" not in last


def test_a_user_keeps_a_command_on_the_screen_and_ends_it_by_a_word(tmp_path: Path) -> None:
    answers = {"go": [uses(in_background(waits("a"), description="Serve it")), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("begun")
        screen.expect_rest()
        pid = pid_of(tmp_path, "a")
        screen.type("\x18\x02")
        screen.expect("Background tasks")
        screen.type("1")
        screen.expect("Keep running")
        screen.type("k")
        screen.expect("clew tasks")
        screen.type("/tasks\r")
        screen.expect("shell running, kept: Serve it")
        screen.type("\x04")
        assert screen.end() == 0
        (row,) = listed(tmp_path)
        said = f"shell s1 Serve it (stop it with: clew tasks stop {row['task']})"
        assert said in " ".join(screen.text.split())
    assert lives(pid)
    assert json.loads(clew(tmp_path, "http://127.0.0.1:1", "tasks", "--json").stdout) == [row]
    shown = clew(tmp_path, "http://127.0.0.1:1", "tasks", "show", "s1").stdout
    assert "state    running" in shown
    assert shown.endswith("\nup\n")
    stopped = clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1")
    assert stopped.stdout.endswith("/s1: stopped\n"), stopped.stderr
    wait_ended(pid)
    assert "stopped by SIGTERM" in clew(tmp_path, "http://127.0.0.1:1", "tasks").stdout
    again = clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1").stdout
    assert "/s1: already stopped by SIGTERM" in again


def test_a_record_that_names_another_process_ends_nobody(tmp_path: Path) -> None:
    answers = {"go": [uses(in_background(waits("a"))), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        begun(host, in_background(""))
        pid = pid_of(tmp_path, "a")
        host.ask("keep_task", task_id="s1")
        assert host.end() == 0
    (record,) = (tmp_path / "config" / "clew" / "kept").iterdir()
    line = json.loads(record.read_text("utf-8"))
    # As after a crash of the machine: nobody holds the file, and the number is somebody else's.
    copy = record.with_name(record.name.replace("s1", "s9"))
    copy.write_text(json.dumps(line | {"taskId": "s9", "pid": os.getpid()}) + "\n", "utf-8")
    rows = {row["taskId"]: row["isRunning"] for row in listed(tmp_path)}
    assert rows == {"s1": True, "s9": False}
    # A machine that was started since counts anew, so that all the rest may be as it was.
    copy.write_text(json.dumps(line | {"taskId": "s9", "boot": "another"}) + "\n", "utf-8")
    assert {row["taskId"]: row["isRunning"] for row in listed(tmp_path)} == {
        "s1": True,
        "s9": False,
    }
    copy.write_text(
        json.dumps({k: line[k] for k in line if k != "boot"} | {"taskId": "s9"}) + "\n", "utf-8"
    )
    assert [row["isRunning"] for row in listed(tmp_path)].count(False) == 1
    assert clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s9").returncode == 0
    copy.unlink()
    # And one that still runs, but not as that process.
    text = record.read_text("utf-8")
    with record.open("r+", encoding="utf-8") as file:
        file.write(text.replace(f'"since":{line["since"]}', f'"since":{line["since"] + 1}'))
    assert clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1").returncode == 1
    assert lives(pid)
    with record.open("r+", encoding="utf-8") as file:
        file.write(text)
    assert clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1").returncode == 0
    wait_ended(pid)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def holding(line: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(line + b"\n")


SESSION = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6c"
RECORD = (
    b'{"sessionId":"%s","taskId":"s1","kind":"shell","title":"t","command":"c","cwd":"/","file":"",'
    b'"toolUseId":"toolu_1","pid":99999999,"since":5,"keptAt":1,"boot":"b"}' % SESSION.encode()
)


@pytest.mark.parametrize(
    "made",
    [
        pipe,
        device,
        holding(RECORD.replace(b'"t"', b'"\xff"')),
        holding(RECORD[:-1] + b',"more":' + b"[" * 100_000),
        holding(RECORD.replace(b'"keptAt":1', b'"keptAt":-99999999999999')),
        holding(RECORD + b'\n{"waitStatus":99999999999,"endedAt":1}'),
    ],
    ids=["pipe", "device", "no text", "too deep", "no time", "no status"],
)
def test_a_record_that_is_none_costs_neither_the_list_nor_the_session(
    tmp_path: Path, made: Callable[[Path], Any]
) -> None:
    folder = tmp_path / "config" / "clew" / "kept"
    folder.mkdir(parents=True)
    (folder / f"{SESSION}-s0.jsonl").write_bytes(RECORD.replace(b"s1", b"s0") + b"\n")
    made(folder / f"{SESSION}-s1.jsonl")
    assert [row["taskId"] for row in listed(tmp_path)] == ["s0"]
    with serving(by_prompt({"go": [{"text": "gone on"}]}), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--session-id", SESSION)
    assert (done.returncode, done.stdout) == (0, "gone on\n")


def test_agents_are_not_kept_and_what_one_began_outlives_it_if_it_is(tmp_path: Path) -> None:
    answers = {
        "go": [uses(agent("begin a server", run_in_background=True)), {"text": "begun"}],
        "begin a server": [uses(in_background(waits("a"))), uses(hold()), {"text": "it serves"}],
        "<task-notification>": [{"text": "I heard of it"}],
    }
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        host.say("go")
        host.result()
        pid = pid_of(tmp_path, "a")
        (about,) = [f for f in host.frames if f.get("task_type") == "local_agent"]
        refused = host.ask("keep_task", task_id=about["task_id"])
        assert "runs inside clew" in refused["error"]
        assert "s7" in host.ask("keep_task", task_id="s7")["error"]
        host.ask("keep_task", task_id="s1")
        pid_of(tmp_path, "hold")
        let_through(tmp_path, "hold")
        assert host.result()["result"] == "I heard of it"
        assert lives(pid)
        let_through(tmp_path, "a")
        assert host.result()["result"] == "I heard of it"
        host.end()
        assert "Exit code 3" in told(server.requests[-1].body)


def hold() -> Json:
    return {"tool": "Bash", "input": {"command": waits("hold", "true")}}


def test_a_copy_of_the_session_is_told_where_a_kept_command_continues(tmp_path: Path) -> None:
    answers = {"go": [uses(in_background(waits("a"))), {"text": "begun"}], **TOLD_ONCE}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        begun(host, in_background(""))
        pid = pid_of(tmp_path, "a")
        host.ask("keep_task", task_id="s1")
        assert host.end() == 0
        (session,) = transcripts(tmp_path)
        clew(tmp_path, server.url, "-p", "-r", session.stem, "--fork-session", "and now")
        assert f"the user kept it running in session {session.stem}" in told(
            server.requests[-1].body
        )
    assert lives(pid)
    clew(tmp_path, "http://127.0.0.1:1", "tasks", "stop", "s1")
    wait_ended(pid)


def test_after_a_kill_the_session_knows_what_ended_with_clew_and_what_it_had_printed(
    tmp_path: Path,
) -> None:
    watch = f"echo seen; {waits('m')}"
    calls = [
        in_background(waits("a"), description="Serve it"),
        {"tool": "Monitor", "input": {"command": watch, "description": "Watch it"}},
        {"tool": "Bash", "input": {"command": waits("front")}},
    ]
    with (
        serving(by_prompt({"go": [uses(*calls)]}), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash,Monitor") as host,
    ):
        host.say("go")
        pids = [pid_of(tmp_path, name) for name in ("a", "m", "front")]
        until(lambda: all("up" in output_of(tmp_path, task) for task in ("s1", "m2")))
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    for pid in pids:
        wait_ended(pid)
    looks = [{"tool": "TaskOutput", "input": {"task_id": name}} for name in ("s1", "m2")]
    then = {"and now": [uses(*looks), {"text": "I see."}]}
    with serving(by_prompt(then), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert (done.returncode, done.stdout) == (0, "I see.\n"), done.stderr
        first, second = (request.body for request in server.requests)
    assert "Background shell “Serve it” stopped: it ended when the clew process" in told(first)
    assert "Background monitor “Watch it” stopped: it ended when the clew process" in told(first)
    assert [said.partition("\n")[2] for said in results(second)] == ["up", "seen\nup"]
    assert listed(tmp_path) == []


def test_what_works_in_the_background_is_known_after_a_summary_and_after_it(
    tmp_path: Path,
) -> None:
    silent = "mkfifo m; echo $$ > m.pid; read x < m"
    watch = {"tool": "Monitor", "input": {"command": silent, "description": "Watch <it>"}}
    helper = agent("dig", run_in_background=True)
    calls = [in_background(waits("a"), description="Serve it"), watch, helper]
    answers = {
        "go": [uses(*calls), {"text": "begun"}],
        "dig": [uses(hold()), {"text": "dug"}],
        "and now": [{"text": "I heard."}],
    }
    talk = by_prompt(answers)

    # Enough text that a summary makes the conversation smaller.
    story = ", with a long story" * 200

    def model(body: Json) -> Json:
        return {"text": SUMMARY} if is_summary_request(body) else talk(body)

    with (
        serving(model, strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash,Monitor") as host,
    ):
        host.say("go" + story)
        assert host.result()["result"] == "begun"
        pids = [pid_of(tmp_path, name) for name in ("a", "m", "hold")]
        for _ in range(2):
            # The second covers what the first had told again.
            host.say("/compact")
            done = host.result()
            assert not done["is_error"], done
            host.say("and now" + story)
            assert host.result()["result"] == "I heard."
            body = told(server.requests[-1].body)
            assert "wants the lighthouse painted" in body
            assert "- s1: shell “Serve it”" in body
            assert "- m2: monitor “Watch &lt;it>”" in body
            assert ": agent “some work”" in body
        host.process.send_signal(signal.SIGKILL)
        host.process.wait()
    for pid in pids:
        wait_ended(pid)
    with serving(by_prompt(answers), strict=True) as server:
        for prompt in ("and now", "and now, again"):
            done = clew(tmp_path, server.url, "-p", "--continue", prompt)
            assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        first, second = (told(request.body) for request in server.requests)
    for name in ("shell “Serve it”", "monitor “Watch &lt;it>”"):
        assert first.count(f"Background {name} stopped: it ended when the clew process") == 1
        assert second.count(f"Background {name} stopped") == 1
    assert first.count(f"Background agent “some work” stopped: {CUT_OFF}") == 1
    assert second.count("Background agent “some work” stopped") == 1


def test_what_has_printed_nothing_yet_is_kept_with_its_file(tmp_path: Path) -> None:
    silent = "mkfifo a; echo $$ > a.pid; read x < a; echo at last; read x < a"
    answers = {"go": [uses(in_background(silent)), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        begun(host, in_background(silent))
        pid = pid_of(tmp_path, "a")
        host.ask("keep_task", task_id="s1")
        assert host.end() == 0
    assert listed(tmp_path)[0]["file"].endswith("/tool-results/task-s1.txt")
    look = {"tool": "TaskOutput", "input": {"task_id": "s1", "block": False}}
    then = {"look": [uses(look), lambda body: {"text": results(body)[0]}]}
    with (
        serving(by_prompt(then), strict=True) as server,
        Hosted(tmp_path, server.url, "--continue") as host,
    ):
        host.say("look")
        assert host.result()["result"].endswith("(no output)")
        let_through(tmp_path, "a")
        until(lambda: output_of(tmp_path, "s1") == "at last\n")
        host.say("look again")
        assert host.result()["result"].endswith("running.\nat last")
        host.ask("stop_task", task_id="s1")
        wait_ended(pid)
        host.end()


def recorded(home: Path, session: str, task: str, file: str) -> Path:
    """A record such as an earlier run might have left."""
    about = {
        **dict.fromkeys(("kind", "title", "command", "cwd", "toolUseId"), "x"),
        **dict.fromkeys(("pid", "since", "keptAt"), 1),
        "sessionId": session,
        "taskId": task,
        "file": file,
    }
    path = home / "config" / "clew" / "kept" / f"{session}-{task}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("file", ["", ".", "/dev/zero", "/nowhere/at/all", "fifo"])
def test_a_record_whose_file_is_none_costs_the_output_and_not_the_session(
    tmp_path: Path, file: str
) -> None:
    with serving(by_prompt(TOLD_ONCE), strict=True) as server:
        clew(tmp_path, server.url, "-p", "and now")
        (log,) = transcripts(tmp_path)
        if file == "fifo":
            os.mkfifo(tmp_path / "fifo")
            file = str(tmp_path / "fifo")
        recorded(tmp_path, log.stem, "s1", file)
        with recorded(tmp_path, log.stem, "s2", file).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        body = told(server.requests[-1].body)
    assert UNSEEN in body
    assert WENT_ON in body


def test_more_than_may_run_at_once_costs_the_list_and_not_the_session(tmp_path: Path) -> None:
    with serving(by_prompt(TOLD_ONCE), strict=True) as server, ExitStack() as held:
        clew(tmp_path, server.url, "-p", "and now")
        (log,) = transcripts(tmp_path)
        for number in range(MOST_RUNNING + 3):
            path = recorded(tmp_path, log.stem, f"s{number}", "x")
            fcntl.flock(held.enter_context(path.open("rb")), fcntl.LOCK_EX)
        done = clew(tmp_path, server.url, "-p", "--continue", "and now")
        assert (done.returncode, done.stdout) == (0, "I heard.\n"), done.stderr
        assert told(server.requests[-1].body).count("this command continued to run") == MOST_RUNNING


def test_walls_stay_around_what_is_kept(tmp_path: Path) -> None:
    # Of each kind that this machine has.
    for kind in filter(can, KINDS):
        home = tmp_path / kind
        home.mkdir()
        no_bubblewrap = home / "bin" / "bwrap"
        no_bubblewrap.parent.mkdir()
        no_bubblewrap.write_text("#!/bin/sh\nexit 1\n", "utf-8")
        no_bubblewrap.chmod(0o755)
        path = environment(home, "")["PATH"]
        if kind == "landlock":
            path = f"{no_bubblewrap.parent}:{path}"
        command = waits("a", f"touch inside; touch {tmp_path}/outside; exit 4")
        answers = {"go": [uses(in_background(command)), {"text": "begun"}]}
        walls = json.dumps({"sandbox": {"enabled": True}})
        with (
            serving(by_prompt(answers), strict=True) as server,
            Hosted(
                home, server.url, "--allowedTools", "Bash", "--settings", walls, PATH=path
            ) as host,
        ):
            begun(host, in_background(command))
            pid_of(home, "a")
            said = host.ask("keep_task", task_id="s1")
            assert said["subtype"] == "success", said
            host.process.send_signal(signal.SIGKILL)
            host.process.wait()
        let_through(home, "a")
        until(lambda: not listed(home)[0]["isRunning"])  # noqa: B023
        assert listed(home)[0]["exitCode"] == 4
        assert (home / "work" / "inside").exists()
        assert not (tmp_path / "outside").exists()
        assert "after\ntouch: cannot touch" in output_of(home, "s1")


def test_a_text_is_not_erased_under_a_command_that_still_prints(tmp_path: Path) -> None:
    secret = "very-secret-word"
    calls = [in_background(f"echo {secret}; {waits('a')}")]
    answers = {"go": [uses(*calls), {"text": "begun"}]}
    with (
        serving(by_prompt(answers), strict=True) as server,
        Hosted(tmp_path, server.url, "--allowedTools", "Bash") as host,
    ):
        begun(host, *calls)
        pid = pid_of(tmp_path, "a")
        host.ask("keep_task", task_id="s1")
        assert host.end() == 0
    (log,) = transcripts(tmp_path)
    words = ("sessions", "erase", log.stem, secret, "--yes")
    refused = clew(tmp_path, "", *words)
    assert refused.returncode != 0
    assert f"clew tasks stop {log.stem[:8]}/s1" in refused.stderr
    assert clew(tmp_path, "", "tasks", "stop", f"{log.stem[:8]}/s1").returncode == 0
    wait_ended(pid)
    assert clew(tmp_path, "", *words).returncode == 0
    left = [p for p in (tmp_path / "config").rglob("*") if p.is_file()]
    assert [p.name for p in left if secret.encode() in p.read_bytes()] == []


def test_ten_thousand_records_are_listed_and_a_name_of_many_is_answered_in_a_line(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "config" / "clew" / "kept"
    folder.mkdir(parents=True)
    end = b'\n{"waitStatus":0,"endedAt":1700000000}\n'
    for number in range(10_000):
        session = f"{number:08}-0000-4000-8000-000000000000"
        about = {
            "sessionId": session, "taskId": "s1", "kind": "shell", "title": "t", "command": "true",
            "cwd": "/", "file": "/nothing", "toolUseId": f"toolu_{number}", "pid": 1 << 30,
            "since": 1, "keptAt": 1_700_000_000 + number,
        }  # fmt: skip
        (folder / f"{session}-s1.jsonl").write_bytes(json.dumps(about).encode() + end)
    rows = json.loads(clew(tmp_path, "", "tasks", "--json").stdout)
    assert [row["task"] for row in rows] == [f"{n:08}/s1" for n in reversed(range(10_000))]
    several = clew(tmp_path, "", "tasks", "show", "s1").stderr
    assert several.startswith(
        'clew tasks: several tasks match "s1" (expected one of: 00000000/s1, '
    )
    assert several.endswith("/s1 and 9,980 more (clew tasks lists them))\n")
    assert several.count("/s1") == 20
    # A session of its own knows of none of them.
    listed = clew(tmp_path, "", "-p", "/tasks").stdout
    assert listed == "No background tasks\n"
