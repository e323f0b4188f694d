"""Messages sent to a turn that ends without receiving them start the next turn."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from clew.testing.server import serving
from tests.agent.compaction.window import SUMMARY, is_summary_request
from tests.fronts.headless.agents_model import agent, by_prompt, uses
from tests.fronts.headless.host_process import Hosted
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal

Json: TypeAlias = dict[str, Any]
WITHIN_S = 20


class Model:
    """A model that answers the turn, a summary or a subagent's result once the test allows it."""

    def __init__(self) -> None:
        self._begun, self._may_answer = threading.Event(), threading.Event()
        self._talk: Callable[[Json], Json] = by_prompt(
            {
                "go": [uses(agent("dig", run_in_background=True)), {"text": "begun"}],
                "hello": [{"text": "It is long. " * 150 + "hello yourself"}],
                "dig": [{"text": "dug"}],
                "<task-notification>": [lambda _: self._held({"text": "I heard of it"})],
                "and more": [{"text": "more was heard"}],
            }
        )

    def __call__(self, body: Json) -> Json:
        return self._held({"text": SUMMARY}) if is_summary_request(body) else self._talk(body)

    def _held(self, answer: Json) -> Json:
        self._begun.set()
        assert self._may_answer.wait(WITHIN_S)
        return answer

    def wait(self) -> None:
        assert self._begun.wait(WITHIN_S)

    def answers(self) -> None:
        self._may_answer.set()


TURNS = pytest.mark.parametrize(
    ("first", "then"), [("go", ""), ("hello", "/compact")], ids=["news", "summary"]
)


@TURNS
def test_words_of_a_host_are_the_next_turn(tmp_path: Path, first: str, then: str) -> None:
    model = Model()
    with serving(model, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.say(first)
        host.result()
        if then:
            host.say(then)
        model.wait()
        host.say("and more")
        host.ask("get_context_usage")
        model.answers()
        host.result()
        assert host.result()["result"] == "more was heard"
        assert host.end() == 0


@TURNS
def test_words_on_the_screen_are_the_next_turn(tmp_path: Path, first: str, then: str) -> None:
    model = Model()
    with serving(model, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type(f"{first}\r")
        if then:
            screen.expect("hello yourself")
            screen.expect_rest()
            screen.type(f"{then}\r")
        model.wait()
        screen.type("and more\r")
        screen.expect("next step: and more")
        model.answers()
        screen.expect("more was heard")
        screen.expect_gone("next step: ")


@TURNS
def test_words_line_by_line_are_the_next_turn(tmp_path: Path, first: str, then: str) -> None:
    model = Model()
    with serving(model, strict=True) as server, Terminal(tmp_path, server.url) as terminal:
        terminal.expect("> ")
        terminal.type(f"{first}\n")
        if then:
            terminal.expect("hello yourself")
            terminal.expect("> ")
            terminal.type(f"{then}\n")
        model.wait()
        terminal.type("and more\n")
        terminal.expect("and more")
        model.answers()
        terminal.expect("more was heard")
