"""Questions and plans, answered in a real terminal."""

from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.terminal.terminal import Terminal

Json = dict[str, Any]
QUESTIONS = [
    {
        "question": "Which color?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}],
    },
    {
        "question": "Which sizes?",
        "multiSelect": True,
        "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}],
    },
]


def call(tool: str, **given: Any) -> Json:
    return {"content": [{"tool": tool, "input": given}]}


def results(server: Any) -> list[Json]:
    return [
        block
        for message in server.requests[-1].body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [])
        if block["type"] == "tool_result"
    ]


def test_a_person_chooses_answers_by_number_or_in_their_own_words(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            call("AskUserQuestion", questions=QUESTIONS),
            call("AskUserQuestion", questions=QUESTIONS[:1]),
            call("AskUserQuestion", questions=QUESTIONS, answers={"Which color?": "Pink"}),
            {"text": "Done."},
        ],
    }
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url, "ask") as terminal:
        terminal.expect("Which color?")
        terminal.expect("1 = Red: warm")
        terminal.expect("own answer: ")
        terminal.type("2\n")
        terminal.expect("several separated by commas")
        terminal.expect("own answer: ")
        terminal.type("1, 2\n")
        terminal.expect("2. Which sizes? S, M")
        terminal.type("2\n")
        terminal.expect("own answer: ")
        terminal.type("1, 3\n")
        terminal.expect("2. Which sizes? S, L")
        terminal.type("\n")
        terminal.expect("own answer: ")
        terminal.type("green, if there is any\n")
        terminal.expect("Done.")
        terminal.expect("> ")
        terminal.type("\x04")
        terminal.end()
        said = [block["content"] for block in results(server)]
    assert said[0] == "The user answered:\nWhich color?: Blue\nWhich sizes?: S, L"
    assert said[1] == "The user answered:\nWhich color?: green, if there is any"
    assert "Leave out answers" in said[2]


def test_no_answer_ends_the_turn(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [call("AskUserQuestion", questions=QUESTIONS)]}
    with serving(plan, strict=True) as server, Terminal(tmp_path, server.url, "ask") as terminal:
        terminal.expect("own answer: ")
        terminal.type("\n")
        terminal.expect("> ")
        terminal.type("\x04")
        terminal.end()


def test_a_plan_is_shown_refused_once_and_then_begun(tmp_path: Path) -> None:
    home = tmp_path / "config"
    begun = call("Write", file_path="made.txt", content="made")
    plan = {
        "scenario": 1,
        "answers": [
            call("ExitPlanMode", plan="too early"),
            call("EnterPlanMode"),
            begun,
            call("ExitPlanMode"),
            call("ExitPlanMode", plan="1. Write made.txt"),
            call("ExitPlanMode", plan="1. Write made.txt, and look"),
            begun,
            {"text": "Done."},
        ],
    }
    with serving(plan, strict=True) as server:
        with Terminal(tmp_path, server.url, "go", "--permission-mode", "acceptEdits") as terminal:
            terminal.expect("? Start working")
            terminal.expect("1. Write made.txt")
            terminal.expect("keep planning")
            terminal.type("look at it afterwards\n")
            terminal.expect("and look")
            terminal.expect("anything else = ")
            terminal.type("a\n")
            terminal.expect("Done.")
            terminal.expect("> ")
            terminal.type("\x04")
            terminal.end()
        said = results(server)
    words = [str(block["content"]) for block in said]
    assert "Plan mode is not on" in words[0]
    assert "Plan mode is on." in words[1]
    assert said[2]["is_error"]
    assert "The plan is empty" in words[3]
    assert "keep planning: look at it afterwards" in words[4]
    assert "The user approved the plan" in words[5]
    assert not said[6].get("is_error")
    assert (tmp_path / "work" / "made.txt").exists()
    (kept,) = (home / "plans").iterdir()
    assert kept.read_text("utf-8") == "1. Write made.txt, and look\n"


def test_a_plan_written_into_its_file_is_the_plan(tmp_path: Path) -> None:
    session = "00000000-0000-4000-8000-00000000abcd"
    file = tmp_path / "config" / "plans" / f"{session}.md"
    plan = {
        "scenario": 1,
        "answers": [
            call("Write", file_path=str(file), content="Only look."),
            call("ExitPlanMode"),
            {"text": "Done."},
        ],
    }
    with serving(plan, strict=True) as server:
        with Terminal(
            tmp_path, server.url, "go", "--session-id", session, "--permission-mode", "plan"
        ) as terminal:
            terminal.expect("? Start working")
            terminal.expect("Only look.")
            terminal.type("y\n")
            terminal.expect("Done.")
            terminal.expect("> ")
            terminal.type("/permissions\n")
            terminal.expect("default mode")
            terminal.expect("> ")
            terminal.type("\x04")
            terminal.end()
        assert str(file) in str(server.requests[0].body["messages"])
    assert file.read_text("utf-8") == "Only look."
