"""Background tasks in a terminal.

They outlive a turn, even an interrupted one, and are reported later.
"""

import json
import os
from pathlib import Path
from typing import Any

from clew.core.messages.text import HAS_WORDS, IN_BACKGROUND
from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal

PLAN = {
    "scenario": 1,
    "answers": [
        {
            "content": [
                {
                    "tool": "Bash",
                    "input": {
                        "command": "read x <go; echo built; exit 3",
                        "run_in_background": True,
                        "description": "Build it",
                    },
                }
            ]
        },
        {"when": {"tool_result": "Bash"}, "text": "It builds."},
        {
            "content": ["A thought that never ends", "..."],
            "faults": [{"after_events": 8, "stall_s": "forever"}],
        },
        {"text": "I heard.", "times": "always"},
    ],
}


def test_an_end_is_told_with_the_next_prompt_and_a_stopped_turn_ends_no_task(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    with (
        serving(PLAN, strict=True) as server,
        Terminal(tmp_path, server.url, "--allowedTools", "Bash") as terminal,
    ):
        terminal.expect("> ")
        terminal.type("build\n")
        terminal.expect("It builds.")
        terminal.expect("> ")
        terminal.type("think\n")
        terminal.expect("A thought that never ends")
        terminal.type("\x1b")
        terminal.expect("Interrupted")
        terminal.expect("> ")
        (work / "go").write_text("\n", "utf-8")
        while "shell failed: Build it" not in terminal.all:
            terminal.type("/tasks\n")
            terminal.expect("Build it")
            terminal.expect("> ")
        terminal.type("and now?\n")
        terminal.expect("I heard.")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        last = json.dumps(server.requests[-1].body["messages"], ensure_ascii=False)
    assert last.count("<task-notification>") == 1
    assert "Background shell “Build it” failed: Exit code 3" in last
    (log,) = transcripts(tmp_path)
    assert log.read_text("utf-8").count('"task-notification"') == 1


def in_order(picture: str, shown: tuple[str, ...]) -> bool:
    places = [picture.index(words) for words in shown]
    return places == sorted(places)


def test_tasks_stand_in_one_order_the_running_ones_first(tmp_path: Path) -> None:
    def call(command: str) -> dict[str, Any]:
        given = {"command": command, "description": command, "run_in_background": True}
        return {"content": [{"tool": "Bash", "input": given}]}

    plan = {
        "scenario": 1,
        "answers": [
            call("echo one"),
            call("sleep 600"),
            call("echo three"),
            {"text": "Ready.", "times": "always"},
        ],
    }
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("Ready.")
        screen.expect_rest()
        said, shown = "", ("s2  shell running:", "s3  shell completed:", "s1  shell completed:")
        while not all(words in said for words in shown):
            # Each ends when it likes, and a list says how it was when it was asked for.
            screen.type("/tasks\r")
            screen.settle()
            said = screen.picture.rpartition("> /tasks\n")[2]
        assert in_order(said, shown), said
        screen.type("\x18\x02")
        shown = ("s2 sleep 600", "s3 echo three", "s1 echo one")
        for words in shown:
            screen.expect(words)
        assert in_order(screen.picture, shown), screen.picture


def test_people_read_what_a_command_did_and_not_what_the_model_is_to_do_also_when_they_come_back(
    tmp_path: Path,
) -> None:
    def call(tool: str, **given: Any) -> dict[str, Any]:
        return {"content": [{"tool": tool, "input": given}]}

    plan = {
        "scenario": 1,
        "answers": [
            call("Bash", command="sleep 600", description="Serve it", run_in_background=True),
            call("Monitor", command="echo one; sleep 600", description="Watch it"),
            call("TaskOutput", task_id="s1", block=False),
            call("TaskStop", task_id="s1"),
            call("Grep", pattern="x", path="."),
            {"text": "Ready.", "times": "always"},
        ],
    }
    shown = [
        "● Bash: Serve it",
        f"  {IN_BACKGROUND.format('s1')}",
        "● Monitor: Watch it",
        f"  {IN_BACKGROUND.format('m2')}",
        "! Background monitor “Watch it”: one",
        "● TaskOutput: s1",
        "  Task s1 (shell “Serve it”) is running.",
        "● TaskStop: s1",
        "  Task s1 (shell “Serve it”) was stopped.",
        "● Grep: x in .",
    ]
    free = ("--allowedTools", "Bash,Monitor,Grep")
    with serving(plan, strict=True) as server:
        with OnScreen(tmp_path, server.url, *free, rows=50) as screen:
            screen.expect("default")
            screen.type("go\r")
            screen.expect("! Background monitor “Watch it”: one")
            screen.expect("Ready.")
            screen.expect_rest()
            live = screen.text
            screen.type("\x04")
            screen.expect("1. Stop")
            screen.type("1")
            assert screen.end() == 0
        with OnScreen(tmp_path, server.url, *free, "--continue", rows=50) as screen:
            screen.expect("Ready.")
            again = screen.text
    for text in (live, again):
        rows = [row.partition(" (ctrl+o")[0].partition(" · ")[0] for row in text.split("\n")]
        # News come between two steps, after whichever.
        assert sorted(row for row in rows if row in shown) == sorted(shown), text
        for advice in ("TaskStop ends", "TaskOutput shows", HAS_WORDS):
            assert advice not in text


def test_what_runs_has_the_width_of_a_small_terminal(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    titles = ("Watch the long build", "Wait for the release")
    calls = [
        {
            "tool": "Bash",
            "input": {"command": f"read {n} <go", "run_in_background": True, "description": title},
        }
        for n, title in zip("xy", titles, strict=True)
    ]
    plan = {"scenario": 1, "answers": [{"content": calls}, {"text": "They run."}]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash", columns=60, rows=15) as screen,
    ):
        screen.expect("Sonnet")
        screen.type("begin\r")
        screen.expect("They run.")
        screen.expect(" and 1 more")
        *_, line, running = (row for row in screen.picture.splitlines() if row.strip())
        assert "default" in line
        assert running.strip() in {f"running: {title} and 1 more" for title in titles}
