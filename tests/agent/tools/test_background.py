"""Commands in the background.

Started, polled, stopped, watched and reported, by tools and by the program.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.agent.calls import run_tool
from clew.agent.tasks.registry import BackgroundTask, Moment
from clew.agent.tools import command as background
from clew.agent.tools.background_tools import Monitor, TaskOutput, TaskStop
from clew.agent.tools.base import ToolLimits, ToolOutcome
from clew.agent.tools.bash import Bash
from clew.agent.tools.registry import Toolbox, make_builtin_tools
from clew.parts.past_commands import ENDED_WITH_CLEW
from clew.record.kept_commands import RecordFolder, call_off
from clew.system.process.output import ProcessOutput
from clew.testing.server import serving
from tests.agent.tools.workshop import Workshop, call_of
from tests.fronts.headless.agents_model import by_prompt, once_heard, uses
from tests.fronts.headless.clew_process import IMPATIENT, clew, transcripts, until
from tests.fronts.headless.test_print import entries, scenario
from tests.system.process.processes import lives, wait_ended


class Yard:
    """Commands that run while the test continues, in one event loop."""

    def __init__(self, workshop: Workshop) -> None:
        self.shop = workshop
        self.session = workshop.session

    async def use(self, tool: Any, **given: Any) -> ToolOutcome:
        return await run_tool(call_of(tool, given), self.shop.context())

    async def begin(self, command: str, tool: Any = None, **given: Any) -> str:
        more = {"run_in_background": True} if tool is None else {}
        result = await self.use(tool or Bash(), command=command, **more, **given)
        return str(result.tool_use_result["backgroundTaskId"])

    async def printed(self, task_id: str, size: int) -> None:
        """Wait until a task has printed this much."""
        task = self.session.background.tasks.get(task_id)
        assert task is not None
        await asyncio.to_thread(until, lambda: task.output.size >= size, within_s=60)

    async def text(self, tool: Any, **given: Any) -> str:
        return str((await self.use(tool, **given)).content)


def content(path: str) -> str:
    return Path(path).read_text("utf-8")


@pytest.fixture
def yard(workshop: Workshop) -> Yard:
    for name in ("go", "on"):  # one for each word: who opens it anew may meet the last word's end
        os.mkfifo(workshop.folder / name)
    return Yard(workshop)


def test_what_is_kept_before_it_has_begun_is_kept_once_it_has(yard: Yard, tmp_path: Path) -> None:
    async def go() -> None:
        shelf = yard.session.background.shelf = RecordFolder(tmp_path / "kept", "session")
        tasks, keeping = yard.session.background.tasks, []

        def began(task: BackgroundTask, moment: Moment) -> None:
            if moment == "began":
                # Its work is at the first thing it waits for by then: that its process begins.
                keeping.append(asyncio.create_task(tasks.keep(task)))

        tasks.watchers.append(began)
        await yard.begin("read x <go")
        await keeping[0]
        (kept,) = shelf.here()
        assert kept.is_running
        assert lives(kept.about.pid)
        call_off(kept)
        await asyncio.to_thread(wait_ended, kept.about.pid)

    yard.shop.use_later(go)


def test_output_is_polled_as_it_comes_and_the_end_is_reported(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.begin("echo one; read x <go; echo two; read x <on; exit 3")
        await yard.printed(task, 4)
        first = await yard.use(TaskOutput(), task_id=task, block=False)
        assert str(first.content).endswith("running.\none")
        assert first.tool_use_result["retrieval_status"] == "not_ready"
        assert (await yard.text(TaskOutput(), task_id=task, block=False)).endswith("(nothing new)")
        await asyncio.to_thread((yard.shop.folder / "go").write_text, "\n", "utf-8")
        await yard.printed(task, 8)
        waited = await yard.use(TaskOutput(), task_id=task, timeout=1500)
        assert str(waited.content).endswith("running.\ntwo")
        assert waited.tool_use_result["retrieval_status"] == "timeout"
        assert yard.shop.progress[0].data == {"totalBytes": 8}
        await asyncio.to_thread((yard.shop.folder / "on").write_text, "\n", "utf-8")
        ended = await yard.use(TaskOutput(), task_id=task)
        assert str(ended.content).endswith("has failed: Exit code 3.\n(nothing new)")
        assert ended.tool_use_result == {
            "retrieval_status": "success",
            "task": {
                "task_id": task,
                "task_type": "local_bash",
                "status": "failed",
                "description": "echo one; read x <go; echo two; read x <on; exit 3",
                "output": "(nothing new)",
                "exitCode": 3,
            },
        }
        assert yard.session.background.tasks.news() == []

    yard.shop.use_later(go)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for commands that end at once, however busy the machine is."""
    monkeypatch.setattr(background, "FIRST_LOOK_S", 60.0)


def test_a_character_that_has_come_by_half_waits_for_the_rest(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.begin("printf 'a\\303'; read x <go; printf '\\244b\\303'; read x <on")
        await yard.printed(task, 2)
        assert (await yard.text(TaskOutput(), task_id=task, block=False)).endswith("running.\na")
        assert (await yard.text(TaskOutput(), task_id=task, block=False)).endswith("(nothing new)")
        await asyncio.to_thread((yard.shop.folder / "go").write_text, "\n", "utf-8")
        await yard.printed(task, 5)
        assert (await yard.text(TaskOutput(), task_id=task, block=False)).endswith("running.\näb")
        assert (await yard.text(TaskStop(), task_id=task)).endswith("stopped.\n\ufffd")

    yard.shop.use_later(go)


@pytest.mark.usefixtures("patient")
def test_what_ends_at_once_is_reported_at_once(yard: Yard) -> None:
    async def go() -> None:
        wrong = await yard.use(Bash(), command="no-such-program", run_in_background=True)
        assert wrong.is_error
        assert "has failed: Exit code 127" in str(wrong.content)
        assert "no-such-program: command not found" in str(wrong.content)
        right = await yard.use(Bash(), command="echo hi", run_in_background=True)
        assert str(right.content).endswith("has completed.\nhi")
        nothing = await yard.use(Bash(), command="true", run_in_background=True)
        assert str(nothing.content).endswith("has completed.\n(no output)")
        assert yard.session.background.tasks.news() == []

    yard.shop.use_later(go)


@pytest.mark.usefixtures("patient")
def test_it_runs_where_the_shell_is_and_leaves_the_shell_there(yard: Yard) -> None:
    async def go() -> None:
        yard.shop.write("sub/x", "")
        yard.session.cwd = f"{yard.shop.folder}/sub"
        said = await yard.text(Bash(), command="pwd; cd /", run_in_background=True)
        assert said.endswith(f"{yard.shop.folder}/sub")
        assert yard.session.cwd == f"{yard.shop.folder}/sub"
        yard.session.cwd = f"{yard.shop.folder}/gone"
        said = await yard.text(Bash(), command="pwd", run_in_background=True)
        assert f"{yard.shop.folder}\n(The folder {yard.shop.folder}/gone no longer exists" in said

    yard.shop.use_later(go)


def test_stopping_ends_the_whole_tree(yard: Yard) -> None:
    async def go() -> None:
        script = "trap '' TERM; (setsid sleep 600 & echo $!); sleep 600"
        task = await yard.begin(script)
        await yard.printed(task, 2)
        said = await yard.text(TaskOutput(), task_id=task, block=False)
        pid = int(said.rpartition("\n")[2])
        assert lives(pid)
        stopped = await yard.use(TaskStop(), task_id=task)
        assert str(stopped.content).endswith("was stopped.\n(nothing new)")
        wait_ended(pid)
        assert "was stopped." in await yard.text(TaskStop(), task_id=task)
        assert yard.session.shell.launcher.living == 0

    yard.shop.use_later(go)


def test_a_time_that_is_given_holds_in_the_background_too(yard: Yard) -> None:
    async def go() -> None:
        task = await yard.begin("sleep 600", timeout=300)
        assert "has failed: Timed out after 0.3 s" in await yard.text(TaskOutput(), task_id=task)

    yard.shop.use_later(go)


def test_an_unknown_task_is_an_error_that_names_the_known(yard: Yard) -> None:
    async def go() -> None:
        assert "Task x1 not found; tasks of this run: none." in await yard.text(
            TaskOutput(), task_id="x1"
        )
        task = await yard.begin("sleep 600")
        assert f"tasks of this run: {task}." in await yard.text(TaskStop(), task_id="x1")
        yard.session.spill_folder.mkdir(exist_ok=True)
        earlier = yard.session.spill_folder / "task-x1.txt"
        earlier.write_text("was", "utf-8")
        said = await yard.text(TaskOutput(), task_id="x1")
        assert f"The output of this earlier task is in {earlier}." in said

    yard.shop.use_later(go)


def test_the_file_of_a_runaway_has_a_cap_and_both_ends_still_show(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "FILE_MAX_BYTES", 200_000)
    yard.session.limits = ToolLimits(bash_max_output_chars=1000)

    async def go() -> None:
        task = await yard.begin("seq 1 1000000; read x <go")
        said = ""
        while "1000000" not in said:
            said = await yard.text(TaskOutput(), task_id=task, timeout=200)
            assert len(said) < 1500
        assert "; the first 200,000 bytes are in" in said or "the first" in said
        file = yard.session.spill_folder / f"task-{task}.txt"
        assert file.stat().st_size == 200_000
        assert file.read_text("utf-8").startswith("1\n2\n3\n")

    yard.shop.use_later(go)


def test_without_a_disk_the_output_still_arrives(yard: Yard) -> None:
    yard.session.spill_folder = yard.shop.write("file", "") / "under"

    async def go() -> None:
        task = await yard.begin("echo one; read x <go")
        await yard.printed(task, 4)
        assert (await yard.text(TaskOutput(), task_id=task, block=False)).endswith("running.\none")

    yard.shop.use_later(go)


def test_a_secret_is_not_shown_and_not_left_in_the_file(yard: Yard) -> None:
    yard.session.secrets = ("topsecret-0123456789",)

    async def go() -> None:
        task = await yard.begin("echo topsecret-0123456789; read x <go")
        await yard.printed(task, 21)
        said = await yard.text(TaskOutput(), task_id=task, block=False)
        assert said.endswith("[masked]")
        await yard.use(TaskStop(), task_id=task)
        kept = (yard.session.spill_folder / f"task-{task}.txt").read_text("utf-8")
        assert kept == "*" * 20 + "\n"

    yard.shop.use_later(go)


def test_a_monitor_tells_every_line_and_its_end(yard: Yard) -> None:
    async def go() -> None:
        command = "echo one; echo problem >&2; read x <go; echo two; exit 4"
        heard = asyncio.Event()
        yard.session.background.tasks.listeners.append(heard.set)
        task = await yard.begin(command, Monitor(), description="the log")
        await asyncio.wait_for(heard.wait(), 20)
        (notice,) = yard.session.background.tasks.news()
        assert (notice.lines, notice.status, notice.title) == (("one",), "running", "the log")
        await asyncio.to_thread((yard.shop.folder / "go").write_text, "\n", "utf-8")
        known = yard.session.background.tasks.get(task)
        assert known is not None
        await known.wait(20)
        (notice,) = yard.session.background.tasks.news()
        assert (notice.lines, notice.status) == (("two",), "failed")
        assert notice.words == "Exit code 4\nproblem"
        assert notice.file is not None
        assert content(notice.file) == "one\ntwo\n"

    yard.shop.use_later(go)


def test_a_monitor_ends_with_its_time_unless_it_stays(yard: Yard) -> None:
    async def go() -> None:
        short = await yard.begin("sleep 600", Monitor(), timeout_ms=200)
        assert "Timed out after 0.2 s" in await yard.text(TaskOutput(), task_id=short)
        stays = await yard.begin("sleep 600", Monitor(), timeout_ms=1, persistent=True)
        assert "is running." in await yard.text(TaskOutput(), task_id=stays, timeout=100)

    yard.shop.use_later(go)


def test_older_names_of_tools_and_fields_are_understood(yard: Yard) -> None:
    toolbox = Toolbox(make_builtin_tools())
    names = [one["name"] for one in toolbox.definitions()]
    assert "BashOutput" not in names
    assert "KillShell" not in names

    async def go() -> None:
        task = await yard.begin("echo one; sleep 600")
        await yard.printed(task, 4)
        assert (await yard.text(toolbox.get("BashOutput"), bash_id=task, timeout=0)).endswith("one")
        assert "was stopped" in await yard.text(toolbox.get("KillShell"), shell_id=task)

    yard.shop.use_later(go)


def test_what_came_is_found_in_file_and_memory(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4
    for keep in (10, 100, 2000):
        for file_max in (keep, keep + 90, keep + 3000):
            output = ProcessOutput(keep_bytes=keep, spill=tmp_path / "o", file_max_bytes=file_max)
            output.save()
            output.feed(data[:600])
            output.feed(data[600:])
            for closed in (False, True):
                if closed:
                    output.close()
                kept = max(output.saved_bytes, len(output.head))
                assert output.span(0, kept) == data[:kept]
                assert output.span(max(0, len(data) - keep), len(data)) == data[-keep:]
                head, tail = output.since(3, 10)
                assert data[3:].startswith(head)
                assert data.endswith(tail)
                assert output.since(1020, 10) == (data[1020:], b"")
            (tmp_path / "o").unlink()
            if keep == 10:
                assert output.span(0, 5) == data[:5]
                assert output.span(200, 300) == b""


# -- through the program


def test_a_background_command_is_begun_polled_and_stopped_in_one_turn(tmp_path: Path) -> None:
    plan = scenario(
        {
            "content": [
                {
                    "tool": "Bash",
                    "input": {"command": "echo up; touch up; sleep 600", "run_in_background": True},
                }
            ]
        },
        {
            "content": [
                {"tool": "Bash", "input": {"command": "until [ -e up ]; do sleep 0.1; done"}}
            ]
        },
        {"content": [{"tool": "TaskOutput", "input": {"task_id": "s1", "block": False}}]},
        {"content": [{"tool": "KillShell", "input": {"shell_id": "s1"}}]},
        {"text": "Stopped."},
    )
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash")
        results = [
            str(r.body["messages"][-1]["content"][0]["content"]) for r in server.requests[1:]
        ]
    assert done.stdout == "Stopped.\n"
    assert results[0].startswith("It runs in the background as task s1")
    assert results[2].endswith("running.\nup")
    assert results[3].endswith("was stopped.\n(nothing new)")
    (log,) = transcripts(tmp_path)
    (raw,) = [e["toolUseResult"] for e in entries(log) if "backgroundTaskId" in str(e)]
    assert raw["backgroundTaskId"] == "s1"


def test_the_end_of_the_program_is_the_end_of_its_background(tmp_path: Path) -> None:
    begin = {"command": "echo $$ > pid; (setsid sleep 600 & echo $! >> pid); touch up; sleep 600"}
    look = {"command": "until [ -e up ]; do sleep 0.1; done"}
    plan = scenario(
        {"content": [{"tool": "Bash", "input": begin | {"run_in_background": True}}]},
        {"content": [{"tool": "Bash", "input": look}]},
        {"text": "Bye."},
    )
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash", environ=IMPATIENT)
    assert done.stdout == "Bye.\n"
    for pid in (tmp_path / "work" / "pid").read_text("ascii").split():
        wait_ended(int(pid))


def test_a_session_that_goes_on_knows_what_ended_with_the_run_before(tmp_path: Path) -> None:
    serve = {"command": "echo serving; touch up; sleep 600", "description": "Serve it"}
    watch = {"command": "echo seen; sleep 600", "description": "Watch it", "persistent": True}
    brief = {"command": "touch over; exit 3", "description": "Fail at once"}
    look = {"command": "until [ -e up ]; do sleep 0.1; done"}
    behind = {"run_in_background": True}
    calls = [
        {"tool": "Bash", "input": serve | behind},
        {"tool": "Monitor", "input": watch},
        {"tool": "Bash", "input": brief | behind},
        {"tool": "Bash", "input": look},
    ]
    heard = once_heard("Exit code 3", {"text": "It serves."})
    model = by_prompt({"go": [{"content": calls}, heard], "<task-notification>": [heard]})
    with serving(model, strict=True) as server:
        args = ("-p", "go", "--allowedTools", "Bash,Monitor")
        assert clew(tmp_path, server.url, *args, environ=IMPATIENT).returncode == 0
    polled = {"content": [{"tool": "TaskOutput", "input": {"task_id": "s1", "block": False}}]}
    with serving(scenario(polled, {"text": "I see."}), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "-c", "and now")
        first, second = (json.dumps(r.body["messages"]) for r in server.requests)
    assert done.stdout == "I see.\n"
    assert first.count(ENDED_WITH_CLEW) == 2
    assert "Background shell “Serve it” stopped" in str(json.loads(first))
    assert "Fail at once” stopped" not in str(json.loads(first))
    assert "serving" in second.rpartition("tool_result")[2]
    with serving(scenario({"text": "Told once."}), strict=True) as server:
        clew(tmp_path, server.url, "-p", "-c", "and then")
        (third,) = (json.dumps(r.body["messages"]) for r in server.requests)
    told = ENDED_WITH_CLEW
    assert third.count(told) == second.count(told)


def test_the_model_learns_of_an_end_between_its_steps(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    build = {"command": "read x <go; echo built; exit 3", "description": "Build it"}
    told = {"text": "It failed."}
    answers: dict[str, list[Any]] = {
        "build": [
            uses({"tool": "Bash", "input": build | {"run_in_background": True}}),
            uses({"tool": "Bash", "input": {"command": "echo >go"}}),
            once_heard("<task-notification>", told),
        ],
        "<task-notification>": [told],
    }
    with serving(by_prompt(answers), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "build", "--allowedTools", "Bash")
        last = server.requests[-1].body["messages"][-1]["content"]
    assert done.stdout == "It failed.\n"
    assert [b["type"] for b in last] == ["tool_result", "text"]
    assert "<status>failed</status>" in last[1]["text"]
    assert "Background shell “Build it” failed: Exit code 3" in last[1]["text"]
    (log,) = transcripts(tmp_path)
    (entry,) = [e for e in entries(log) if e.get("origin", {}).get("kind") == "task-notification"]
    assert entry["promptSource"] == "system"
    assert entry["type"] == "user"
