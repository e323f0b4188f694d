"""Tools about the session itself, called by a scripted model in the real process."""

import json
from pathlib import Path
from typing import Any

from clew.agent.context.facts import OVER_WORDS, WORDS
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.wording import head

Json = dict[str, Any]


def call(tool: str, **given: Any) -> Json:
    return {"content": [{"tool": tool, "input": given}]}


def run(home: Path, answers: list[Json], *args: str) -> tuple[Any, list[Json], list[Json]]:
    """Return the run, the requests, and every tool result."""
    plan = {"scenario": 1, "answers": [*answers, {"text": "Done.", "times": "always"}]}
    with serving(plan, strict=True) as server:
        done = clew(home, server.url, "-p", "go", *args)
        sent = [request.body for request in server.requests]
    results = [
        block
        for message in sent[-1]["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]
    return done, sent, results


def test_tasks_are_made_ordered_and_finished_and_outlive_the_run(tmp_path: Path) -> None:
    _, sent, results = run(
        tmp_path,
        [
            call("ToolSearch", query="select:TaskCreate,TaskList,TaskUpdate,TaskGet"),
            call("TaskCreate", subject="Look", description="Look at it"),
            call("TaskCreate", subject="Do", description="Do it"),
            call("TaskUpdate", taskId="2", addBlockedBy=["1"], owner="me", status="in_progress"),
            call("TaskList"),
            call("TaskUpdate", taskId="1", addBlockedBy=["2"]),
            call("TaskUpdate", taskId="1", addBlockedBy=["1"]),
            call("TaskUpdate", taskId="9", status="completed"),
            call("TaskUpdate", taskId="1", status="completed"),
            call("TaskGet", taskId="2"),
        ],
    )
    said = [result["content"] for result in results]
    assert said[4] == "#1 [pending] Look\n#2 [in_progress] Do (me) [after #1]"
    assert "#2 can't come before #1: #1 already comes before #2." in said[5]
    assert "#1 can't come before itself." in said[6]
    assert "Task 9 not found; existing tasks: 1, 2." in said[7]
    assert said[9] == "#2 [in_progress] Do (me)\nDo it"
    assert all(body["tools"] == sent[0]["tools"] for body in sent)
    _, _, results = run(tmp_path, [call("TaskList"), call("TaskUpdate", taskId="1", status="deleted"), call("TaskCreate", subject="New", description="")], "--continue")  # fmt: skip
    assert "#1 [completed] Look" in results[-3]["content"]
    assert "task #3" in results[-1]["content"]
    folder = next((tmp_path / "config" / "tasks").iterdir())
    assert sorted(path.name for path in folder.glob("*.json")) == ["2.json", "3.json"]
    assert (folder / "2.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((folder / "2.json").read_text("utf-8"))["blockedBy"] == []


def test_a_task_file_that_is_broken_hides_that_task_alone(tmp_path: Path) -> None:
    run(tmp_path, [call("TaskCreate", subject="One", description=""), call("TaskCreate", subject="Two", description="")])  # fmt: skip
    folder = next((tmp_path / "config" / "tasks").iterdir())
    (folder / "1.json").write_bytes(b"\xff{oops")
    _, _, results = run(tmp_path, [call("TaskList"), call("TaskGet", taskId="../1")], "--continue")
    assert results[-2]["content"] == "#2 [pending] Two"
    assert results[-1]["is_error"]


def test_a_model_reads_settings_and_changes_none_that_widens_rights(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    settings = tmp_path / "config" / "settings.json"
    settings.write_text('{"language": "French"}', "utf-8")
    _, _, results = run(
        tmp_path,
        [
            call("Config", setting="language"),
            call("Config", setting="language", value="German"),
            call("Config", setting="permissions.allow", value="Bash"),
            call("Config", setting="env", value="X=1"),
            call("Config", setting="lnguage"),
            call("Config", setting="cleanupPeriodDays", value="soon"),
        ],
        "--allowedTools",
        "Config",
    )
    said = [result["content"] for result in results]
    assert "French" in said[0]
    assert "language is now German" in said[1]
    assert "clew config set permissions.allow" in said[2]
    assert "can't be changed by a model" in said[3]
    assert "Unknown setting" in said[4]
    assert results[5]["is_error"]
    assert json.loads(settings.read_text("utf-8")) == {"language": "German"}


def test_nobody_permitted_a_change_of_settings(tmp_path: Path) -> None:
    _, _, results = run(tmp_path, [call("Config", setting="language", value="German")])
    assert results[0]["is_error"]
    assert not (tmp_path / "config" / "settings.json").exists()


def test_a_brief_message_is_recorded_and_continues(tmp_path: Path) -> None:
    done, _, results = run(tmp_path, [call("Brief", message="Half of it is done.")])
    assert done.returncode == 0
    assert results[0]["content"] == "The user sees the message. Continue."
    assert "Half of it is done." in transcripts(tmp_path)[0].read_text("utf-8")


def test_without_a_user_nobody_is_offered_a_question(tmp_path: Path) -> None:
    _, sent, results = run(tmp_path, [call("AskUserQuestion", questions=[])])
    assert "AskUserQuestion" not in [tool["name"] for tool in sent[0]["tools"]]
    assert results[0]["is_error"]


def test_planning_without_a_user_is_told_and_changes_nothing(tmp_path: Path) -> None:
    home_plan = call("Write", file_path="x.txt", content="no")
    _, sent, results = run(tmp_path, [home_plan], "--permission-mode", "plan")
    assert head(WORDS) in json.dumps(sent[0])
    assert results[0]["is_error"]
    assert not (tmp_path / "work" / "x.txt").exists()
    _, sent, _ = run(tmp_path, [], "--continue")
    assert head(OVER_WORDS) in json.dumps(sent[0])
    _, sent, _ = run(tmp_path, [], "--continue")
    assert json.dumps(sent[0]).count(head(OVER_WORDS)) == 1
