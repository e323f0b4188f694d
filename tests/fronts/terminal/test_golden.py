"""The screens that hold the product's words: one golden file each, in `golden/`.

Other tests on a terminal wait for short tokens, so that rewording a message changes a golden file
and no test. `make golden` redraws all of them after such a change; read the diff before you commit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen

HELLO = {"text": "Hello!", "times": "always"}
BAD_KEY = {"status": 401, "error": {"type": "authentication_error", "message": "bad key"}}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"content": [{"tool": tool, "input": arguments}]}


# Per golden file: the model's answer, the prompt, and the steps: what to wait for, or keys to press.
Step = tuple[str, str]
STEPS: dict[str, tuple[dict[str, Any], str, Sequence[Step]]] = {
    "help": (HELLO, "/help", [("see", "@FILE")]),
    "bash": (call("Bash", command="rm -rf build"), "clean up", [("see", "1. Yes")]),
    "denied": (
        call("Bash", command="rm -rf build"),
        "clean up",
        [("see", "1. Yes"), ("press", "n"), ("see", "✗ Bash"), ("rest", "")],
    ),
    "interrupted": (
        call("Bash", command="sleep 600"),
        "wait",
        [("see", "Running"), ("press", "\x1b"), ("see", "✗ Bash"), ("rest", "")],
    ),
    "bad-key": (BAD_KEY, "go", [("see", "401"), ("rest", "")]),
    "no-tasks": (HELLO, "", [("press", "\x18\x02"), ("see", "No background")]),
    "press-again": (HELLO, "", [("press", "\x03"), ("see", "Ctrl-C")]),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_screen_shows_its_words(tmp_path: Path, name: str) -> None:
    answer, prompt, steps = STEPS[name]
    args = ("--allowedTools", "Bash(sleep *)")
    with (
        serving({"scenario": 1, "answers": [answer, HELLO]}) as server,
        OnScreen(tmp_path, server.url, *args, rows=70 if name == "help" else 24) as screen,
    ):
        screen.expect("default")
        if prompt:
            screen.type(f"{prompt}\r")
        for kind, words in steps:
            if kind == "see":
                screen.expect(words)
            elif kind == "press":
                screen.type(words)
            else:
                screen.expect_rest()
        looks_like(screen, name)


def test_background_tasks(tmp_path: Path) -> None:
    serve = call("Bash", command="sleep 600", description="Serve it", run_in_background=True)
    with (
        serving({"scenario": 1, "answers": [serve, HELLO]}) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect("default")
        screen.type("serve it\r")
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("\x18\x02")
        screen.expect("> 1. s1")
        looks_like(screen, "tasks")
        screen.type("1")
        screen.expect("2. Stop")
        looks_like(screen, "task")
        screen.type("e")
        screen.expect("Stopped s1")
