"""The todo list above the prompt: of TodoWrite and of tasks, expanded and collapsed."""

from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.agents_model import by_prompt, uses
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen

WAITS = "until [ -e gate ]; do sleep 0.05; done"
STEPS = ("Read the code", "Fix the bug", "Run the tests", "Write the docs", "Commit")


def steps(done: int) -> dict[str, Any]:
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(STEPS)
    todos = [
        {"content": step, "activeForm": f"{step} now", "status": status}
        for step, status in zip(STEPS, statuses, strict=False)
    ]
    return {"tool": "TodoWrite", "input": {"todos": todos}}


def run(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": command}}


def task(subject: str) -> dict[str, Any]:
    return {"tool": "TaskCreate", "input": {"subject": subject, "description": "all of it"}}


def test_the_todo_list_stays_above_the_prompt_until_it_is_done(tmp_path: Path) -> None:
    asked = {
        "go": [
            uses(steps(1)),
            uses(steps(2)),
            uses(run(WAITS)),
            uses(steps(5)),
            {"text": "All of it is done."},
        ]
    }
    allowed = ("--allowedTools", f"Bash({WAITS})")
    with (
        serving(by_prompt(asked), strict=True) as server,
        OnScreen(tmp_path, server.url, *allowed, rows=30) as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("○ Bash")
        looks_like(screen, "todos-pinned")
        screen.type("\x14")
        screen.expect_gone("Commit")
        looks_like(screen, "todos-collapsed")
        screen.type("\x14")
        screen.expect("☐ Commit")
        # A small terminal has room for one row.
        screen.glass.resize(12, 80)
        screen.resize(80, 12)
        screen.expect_gone("☐ Commit")
        screen.expect("2 of 5 done · Run the tests now")
        (tmp_path / "work" / "gate").touch()
        screen.expect("All of it is done.")
        screen.expect_gone("5 done ·")
        assert "▸" not in screen.picture
        screen.type("\x14")
        screen.expect("No todo list")


def test_tasks_are_pinned_and_come_back_with_the_session(tmp_path: Path) -> None:
    update = {"tool": "TaskUpdate", "input": {"taskId": "1", "status": "completed"}}
    asked = {
        "go": [
            uses(
                {"tool": "ToolSearch", "input": {"query": "select:TaskCreate,TaskUpdate"}},
            ),
            uses(task("Dig a hole")),
            uses(task("Fill it in")),
            uses(update),
            {"text": "Half of it is done."},
        ]
    }
    with serving(by_prompt(asked), strict=True) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("default")
            screen.type("go\r")
            screen.expect("Half of it is done.")
            screen.expect_rest()
            looks_like(screen, "todos-tasks")
            screen.type("\x04")
            screen.end()
        with OnScreen(tmp_path, server.url, "--continue") as screen:
            screen.expect("☐ Fill it in")
