"""Subagents in a terminal: shown while they work, reported when they end, their questions asked."""

from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.agents_model import agent, by_prompt, results, uses
from tests.fronts.headless.clew_process import until
from tests.fronts.headless.test_agents import endless
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.terminal import Terminal
from tests.requirements import requirement

MAKES = uses({"tool": "Bash", "input": {"command": "mkdir made"}})
# An agent whose one call has to be asked about.
ASKS: dict[str, list[Any]] = {
    "go": [
        uses(agent("make it", description="make a folder")),
        lambda body: {"text": f"heard {results(body)[0].split()[0]}"},
    ],
    "make it": [MAKES, {"text": "ready"}],
}


def test_an_agent_is_seen_working_and_its_question_names_it(tmp_path: Path) -> None:
    with (
        serving(by_prompt(ASKS), strict=True) as server,
        Terminal(tmp_path, server.url) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("Agent “make a folder”: ")
        terminal.expect("anything else = ")
        terminal.type("y\n")
        terminal.expect("make a folder: Bash")
        terminal.expect("heard ready")
        terminal.expect("> ")
    assert (tmp_path / "work" / "made").is_dir()


@requirement("R267")
def test_an_agent_in_the_background_asks_at_the_prompt_and_its_end_begins_a_turn(
    tmp_path: Path,
) -> None:
    asked = {
        "go": [uses(agent("make it", run_in_background=True)), {"text": "begun"}],
        "make it": [MAKES, {"text": "gold"}],
        "<task-notification>": [{"text": "so it is made"}],
        "hello": [{"text": "hello yourself"}],
    }
    with (
        serving(by_prompt(asked), strict=True) as server,
        Terminal(tmp_path, server.url) as terminal,
    ):
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("anything else = ")
        terminal.type("y\n")
        terminal.expect("! Background agent “some work” completed")
        terminal.expect("so it is made")
        terminal.expect("> ")
        terminal.type("/tasks\n")
        terminal.expect("agent completed: some work · 1 call · ")
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("hello yourself")
    assert (tmp_path / "work" / "made").is_dir()


def test_a_turn_goes_on_without_an_agent_that_was_left_to_the_background(tmp_path: Path) -> None:
    asked = {
        "go": [
            uses(agent("dig", description="dig deep")),
            lambda body: {"text": f"left: {'in the background' in results(body)[0]}"},
        ],
        "dig": [endless("dig")],
        "<task-notification>": [{"text": "it was stopped"}],
    }
    with serving(by_prompt(asked), strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("go\r")
        screen.expect("dig deep")
        until(lambda: len(server.requests) == 2)
        screen.type("\x02")
        screen.expect("Moved to the background: dig deep")
        screen.expect("left: True")
        screen.type("/tasks stop\r")
        screen.expect("it was stopped")
        screen.expect_rest()
        screen.type("\x02")
        screen.expect("Nothing to move")


@requirement("R267")
def test_the_question_of_an_agent_names_it_above_its_own_line(tmp_path: Path) -> None:
    with serving(by_prompt(ASKS), strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("go\r")
        screen.expect("1. Yes")
        looks_like(screen, "agent-permission")
        screen.type("y")
        screen.expect("heard ready")
    assert (tmp_path / "work" / "made").is_dir()


@requirement("R267", "R286")
def test_an_agent_is_looked_at_while_it_works_and_told_something(tmp_path: Path) -> None:
    waits = "until [ -e gate ]; do sleep 0.05; done"
    asked = {
        "go": [uses(agent("dig", description="dig deep")), {"text": "heard"}],
        "dig": [
            {"content": ["I look first.", {"tool": "Bash", "input": {"command": waits}}]},
            lambda body: {"text": "said deeper" if "deeper" in str(body["messages"]) else "alone"},
        ],
        "deeper": [{"text": "said deeper"}],
    }
    allowed = ("--allowedTools", f"Bash({waits})")
    with (
        serving(by_prompt(asked), strict=True) as server,
        OnScreen(tmp_path, server.url, *allowed, columns=120) as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("1 call")
        screen.type("\x18\x02")
        screen.expect("Background tasks")
        screen.type("\r")
        screen.expect("Agent “dig deep” · Esc")
        screen.expect("I look first.")
        screen.type("deeper\r")
        screen.expect("> deeper")
        looks_like(screen, "attached")
        (tmp_path / "work" / "gate").touch()
        screen.expect("said deeper")
        screen.expect("[completed]")
        screen.type("\x1b")
        screen.expect("heard")
        screen.expect_gone("Esc to go back")


def test_running_agents_are_a_tree_and_a_finished_one_is_a_line(tmp_path: Path) -> None:
    waits = "until [ -e gate ]; do sleep 0.05; done"
    asked = {
        "go": [
            uses(agent("dig", description="dig deep"), agent("look", description="look around")),
            {"text": "heard"},
        ],
        "dig": [uses(agent("below", description="dig deeper")), {"text": "# Gold\n\nIt is gold."}],
        "below": [uses({"tool": "Bash", "input": {"command": waits}}), {"text": "deep"}],
        "look": [uses({"tool": "Bash", "input": {"command": waits}}), {"text": "seen"}],
    }
    allowed = ("--allowedTools", f"Bash({waits})")
    with (
        serving(by_prompt(asked), strict=True) as server,
        OnScreen(tmp_path, server.url, *allowed, columns=140) as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect(lambda text: text.count("Bash: until") == 2)
        screen.expect("  ○ general-purpose: dig deeper")
        looks_like(screen, "agents-tree", in_order)
        (tmp_path / "work" / "gate").touch()
        screen.expect("heard")
        screen.expect_rest()
        looks_like(screen, "agents-done", in_order)
        assert "It is gold." not in screen.text


def in_order(screen: OnScreen) -> str:
    """The rows of the agents, sorted by name, since agents that start together race."""
    found = [row for row in screen.rows if "general-purpose" in row]
    return "\n".join(sorted(found, key=lambda row: row.strip()[2:])) + "\n"


def test_an_agent_in_the_background_is_counted_while_no_turn_runs(tmp_path: Path) -> None:
    asked = {
        "go": [uses(agent("dig", description="dig deep", run_in_background=True)), {"text": "on"}],
        "dig": [endless("dig")],
        "<task-notification>": [{"text": "it was stopped"}],
    }
    with serving(by_prompt(asked), strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("go\r")
        screen.expect_rest()
        screen.expect("○ general-purpose: dig deep · in the background · 1s")
        screen.expect("in the background · 2s")
        screen.type("/tasks\r")
        screen.expect("agent running: dig deep · ")
        screen.type("/tasks stop\r")
        screen.expect("it was stopped")
        screen.expect_gone("○ general-purpose")
