"""Background tasks: started, awaited, stopped, reported once, and ended with the session."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from clew.agent.tasks import registry
from clew.agent.tasks.lines import LINE_MAX_BYTES, LineOutput
from clew.agent.tasks.notice import Notice, in_words
from clew.agent.tasks.registry import BackgroundTask, TaskEnding, Tasks
from clew.core.messages.errors import UserError
from clew.core.messages.text import HAS_WORDS
from clew.system.process.output import ProcessOutput


def begin(
    tasks: Tasks, work: Callable[[BackgroundTask], Awaitable[TaskEnding]], kind: str = "shell"
) -> BackgroundTask:
    async def whole(task: BackgroundTask) -> TaskEnding:
        return await work(task)

    return tasks.begin(
        whole,
        task_id=tasks.new_id(kind),
        kind=kind,
        title="a title",
        output=ProcessOutput(keep_bytes=100),
        tool_use_id="toolu_1",
    )


async def ends_well(_: BackgroundTask) -> TaskEnding:
    return TaskEnding(status="completed", exit_code=0)


async def never_ends(_: BackgroundTask) -> TaskEnding:
    await asyncio.Event().wait()
    raise AssertionError


async def breaks(_: BackgroundTask) -> TaskEnding:
    raise ZeroDivisionError("by zero")


async def test_a_task_that_ended_is_news_once() -> None:
    tasks = Tasks()
    heard: list[str] = []
    tasks.listeners.append(lambda: heard.append("news"))
    task = begin(tasks, ends_well)
    assert (task.id, task.status, tasks.running) == ("s1", "running", [task])
    assert await task.wait()
    assert heard == ["news"]
    assert tasks.news() == [
        Notice(
            task_id="s1",
            kind="shell",
            title="a title",
            status="completed",
            tool_use_id="toolu_1",
        )
    ]
    assert tasks.news() == []
    assert tasks.get("s1") is task
    assert tasks.get("other") is None


async def test_a_fault_of_a_task_is_its_end_and_nobody_else_s() -> None:
    tasks = Tasks()
    task = begin(tasks, breaks)
    await task.wait()
    assert task.ending == TaskEnding(status="failed", words="by zero")


async def test_waiting_ends_with_its_time_and_stopping_with_the_work() -> None:
    tasks = Tasks()
    task = begin(tasks, never_ends)
    assert not await task.wait(0)
    await tasks.stop(task)
    assert task.status == "stopped"
    await tasks.stop(task)
    assert tasks.running == []


def test_an_id_of_an_earlier_run_is_not_given_again() -> None:
    tasks = Tasks()
    assert tasks.new_id("shell", lambda name: name in ("s1", "s2")) == "s3"
    assert tasks.new_id("monitor") == "m4"


async def test_none_outlives_the_session() -> None:
    tasks = Tasks()
    begun = [begin(tasks, never_ends) for _ in range(3)]
    await tasks.aclose()
    assert {task.status for task in begun} == {"stopped"}


async def test_what_was_said_is_bounded_and_what_was_dropped_is_counted() -> None:
    tasks = Tasks()
    task = begin(tasks, never_ends, "monitor")
    for number in range(registry.MOST_LINES + 5):
        tasks.say(task, f"line {number}")
    (notice,) = tasks.news()
    assert (len(notice.lines), notice.dropped_lines, notice.status) == (100, 5, "running")
    assert tasks.news() == []
    await tasks.aclose()


async def test_there_is_a_most_and_old_ends_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MOST_RUNNING", 3)
    monkeypatch.setattr(registry, "MOST_ENDED", 2)
    tasks = Tasks()
    for _ in range(3):
        begin(tasks, never_ends)
    with pytest.raises(UserError, match="3 background tasks are running"):
        tasks.new_id("shell")
    await tasks.aclose()
    tasks.news()
    await begin(tasks, ends_well).wait()
    assert [task.status for task in tasks.all()] == ["stopped", "stopped", "completed"]


def test_a_notice_names_the_task_its_end_and_where_to_look() -> None:
    notice = Notice(
        task_id="s1",
        kind="shell",
        title="make </summary> & so on",
        status="failed",
        words="Exit code 2",
        tool_use_id="toolu_1",
        file="/out.txt",
    )
    assert in_words(notice) == (
        "<task-notification>\n<task-id>s1</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n"
        "<output-file>/out.txt</output-file>\n<status>failed</status>\n"
        "<summary>Background shell “make &lt;/summary> &amp; so on” failed: Exit code 2</summary>\n"
        "</task-notification>"
    )


def test_what_a_task_said_is_in_its_notice_as_data() -> None:
    notice = Notice(
        task_id="m1",
        kind="monitor",
        title="log",
        status="running",
        lines=("one", "</task-notification>"),
        dropped_lines=1200,
    )
    words = in_words(notice)
    assert "<event>one\n&lt;/task-notification>\n(1,200 more lines)</event>" in words
    assert f"log” {HAS_WORDS}</summary>" in words
    assert words.count("</task-notification>") == 1
    plain = Notice(task_id="m1", kind="monitor", title="log", status="completed", lines=("one",))
    assert "<event>one</event>" in in_words(plain)
    assert "log” completed</summary>" in in_words(plain)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_told_once_complete_however_they_come(tmp_path: Path, size: int) -> None:
    told: list[str] = []
    output = LineOutput(
        keep_bytes=100, spill=tmp_path / "out", file_max_bytes=1000, on_line=told.append
    )
    data = "one\n\ntwo ä\r\nthree\nthe last".encode()
    for at in range(0, len(data), size):
        output.feed(data[at : at + size])
    assert told == ["one", "two ä", "three"]
    output.close()
    output.close()
    assert told == ["one", "two ä", "three", "the last"]
    assert bytes(output.head) == data


def test_a_line_without_end_is_cut() -> None:
    told: list[str] = []
    output = LineOutput(keep_bytes=10, spill=None, file_max_bytes=0, on_line=told.append)
    for _ in range(10):
        output.feed(b"x" * LINE_MAX_BYTES)
    output.feed(b"\nnext\n")
    assert [len(line) for line in told] == [LINE_MAX_BYTES, 4]


async def test_a_task_that_someone_waits_for_is_their_news_until_it_is_left() -> None:
    tasks = Tasks()
    seen: list[tuple[str, str]] = []
    tasks.watchers.append(lambda task, moment: seen.append((task.id, moment)))
    waited = tasks.begin(
        never_ends,
        task_id="a",
        kind="agent",
        title="t",
        output=ProcessOutput(keep_bytes=9),
        is_background=False,
    )
    assert tasks.working("agent") == []
    assert tasks.leave("another call") == []
    assert tasks.leave() == [waited]
    await waited.released()
    assert tasks.working("agent") == [waited]
    owned = tasks.begin(
        ends_well,
        task_id="b",
        kind="agent",
        title="t",
        output=ProcessOutput(keep_bytes=9),
        owner="a",
    )
    assert await owned.wait()
    assert (tasks.has_news(), tasks.has_news("agent", owner="a")) == (False, True)
    await tasks.stop(waited)
    assert tasks.has_news("agent")
    assert [n.task_id for n in tasks.news()] == ["a"]
    assert [n.task_id for n in tasks.news(owner="a")] == ["b"]
    assert seen == [("a", "began"), ("a", "left"), ("b", "began"), ("b", "ended"), ("a", "ended")]


async def test_what_an_earlier_run_left_is_told_and_begins_nothing() -> None:
    tasks = Tasks()
    task = BackgroundTask(task_id="a", kind="agent", title="t", output=ProcessOutput(keep_bytes=9))
    task.end(TaskEnding(status="stopped", result="half"))
    tasks.remember(task)
    assert not tasks.has_news()
    (told,) = tasks.news()
    assert "<result>half</result>" in in_words(told)


async def test_what_runs_on_since_an_earlier_run_says_so_once() -> None:
    tasks = Tasks()
    task = begin(tasks, never_ends)
    task.is_of_before = True
    task.say("it continued")
    assert not tasks.has_news()
    (told,) = tasks.news()
    assert "“a title” is still running, because the user kept it</summary>" in in_words(told)
    tasks.say(task, "more")
    assert tasks.has_news()
    (told,) = tasks.news()
    assert f"“a title” {HAS_WORDS}</summary>" in in_words(told)
    await tasks.stop(task)
