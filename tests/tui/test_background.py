"""Background tasks in a terminal: they outlive a turn, also a stopped one, and are told of with the next."""

import json
import os
from pathlib import Path

from clew.testing.server import serving
from tests.headless.clew_process import transcripts
from tests.tui.terminal import Terminal

PLAN = {
    "scenario": 1,
    "answers": [
        {
            "content": [
                {
                    "tool": "Bash",
                    "input": {
                        "command": "read x <go; echo built > done; exit 3",
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
        terminal.expect("[stopped]")
        terminal.expect("> ")
        (work / "go").write_text("\n", "utf-8")
        terminal.type("!until [ -e done ]; do sleep 0.1; done; sleep 1\n")
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
