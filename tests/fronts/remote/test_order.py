"""Viewers' prompts take effect in the order in which the server numbered them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.test_hooks import at, command, settings
from tests.fronts.remote.test_shared import environ_of, send, until
from tests.fronts.remote.yard import Json, Yard
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY

ANSWER: Json = {"scenario": 1, "answers": [{"text": "Yes.", "times": "always"}]}


def prompts(yard: Yard) -> list[str]:
    """Return the viewers' prompts of the transcript, in its order."""
    return [
        entry["message"]["content"]
        for entry in yard.entries()
        if entry["type"] == "user" and (entry.get("origin") or {}).get("via") == "remote"
    ]


class Gate:
    """A command that waits at a gate, until the test opens it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._fifo, self._begun = folder / "gate", folder / "begun"
        os.mkfifo(self._fifo)
        self.command = f"touch {self._begun}; cat {self._fifo} > {os.devnull}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until the command runs, and let it end after the block."""
        until(self._begun.exists)
        yield
        self._fifo.write_text("go", "utf-8")


@pytest.mark.parametrize("waiting", [1, 2])
def test_prompts_that_arrive_while_a_hook_runs_follow_its_prompt(
    tmp_path: Path, waiting: int
) -> None:
    gate = Gate(tmp_path / "hook")
    hook = f'if grep -q \'"prompt":"one"\'; then {gate.command}; fi'
    settings(tmp_path, at("UserPromptSubmit", command(hook)))
    sent = ["one", "two", "three"][: waiting + 1]
    with serving(ANSWER) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        viewer = yard.viewer()
        viewer.type("one")
        with gate.held():
            for prompt in sent[1:]:
                viewer.type(prompt)
            # The answer shows that the worker has read what was sent before.
            viewer.type("/mode plan")
            viewer.event(lambda p: p["type"] == "control_response")
        viewer.result()
        viewer.type("last")
        viewer.result()
        assert prompts(yard) == [*sent, "last"]


def test_a_prompt_during_a_turn_does_not_overtake_one_that_waits(tmp_path: Path) -> None:
    own, call = Gate(tmp_path / "own"), Gate(tmp_path / "call")

    def play(body: Json) -> Json:
        content = body["messages"][-1]["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if any(block.get("text") == "one" for block in blocks):
            return {"content": [{"tool": "Bash", "input": {"command": call.command}}]}
        return {"text": "Yes."}

    def show(prompt: str, count: int) -> None:
        send(yard, {"type": "user", "message": {"role": "user", "content": prompt}})
        screen.expect(lambda text: text.count("sent a prompt") == count)

    with serving(play) as model, Yard(tmp_path, model.url) as yard:
        screen = OnScreen(
            tmp_path,
            model.url,
            "--allowedTools",
            "Bash",
            env=environ_of(yard),
            columns=110,
            rows=60,
        )
        with screen:
            screen.expect(READY)
            screen.type("/remote\r")
            screen.expect("follow it with")
            screen.type("begin\r")
            screen.expect_rest()
            [path] = (tmp_path / "config" / "projects").glob("*/*.jsonl")
            yard.session = path.stem
            # Prompts wait while a command of the terminal's user runs.
            screen.type(f"!{own.command}\r")
            with own.held():
                show("one", 1)
                show("two", 2)
            # The first of them has its turn.
            with call.held():
                show("three", 3)
            until(lambda: len(prompts(yard)) == 3)
            assert prompts(yard) == ["one", "two", "three"]
