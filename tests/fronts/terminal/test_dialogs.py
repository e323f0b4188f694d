"""Dialogs on the screen: questions, plans, trust, servers, lists."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_asking import QUESTIONS, call, results
from tests.fronts.terminal.test_linear import HELLO, NEVER_ENDS, touches
from tests.fronts.terminal.test_screen import READY, bash
from tests.parts.mcp.test_sessions import calls
from tests.parts.mcp.yard import entry
from tests.requirements import requirement

SERVER = Path(__file__).parents[2] / "parts" / "mcp" / "server_program.py"


def test_a_person_chooses_answers_marks_several_or_says_it_in_words(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            call("AskUserQuestion", questions=QUESTIONS),
            call("AskUserQuestion", questions=QUESTIONS[:1]),
            {"text": "Done."},
        ],
    }
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "ask") as screen:
        screen.expect("Which color?")
        looks_like(screen, "question")
        screen.type("2")
        screen.expect("Which sizes?")
        screen.type(" \x1b[B\x1b[B ")
        looks_like(screen, "several")
        screen.type("\r")
        screen.expect("Which sizes? S, L")
        looks_like(screen, "review")
        screen.type("\r")
        screen.expect(lambda text: "Which color?\n> 1. Red" in text)
        screen.type("\x1b[Agreen, if there is any\r")
        screen.expect("Done.")
        said = [block["content"] for block in results(server)]
    assert said[0] == "The user answered:\nWhich color?: Blue\nWhich sizes?: S, L"
    assert said[1] == "The user answered:\nWhich color?: green, if there is any"


def test_no_answer_ends_the_turn(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [call("AskUserQuestion", questions=QUESTIONS)]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "ask") as screen:
        screen.expect("Which color?")
        screen.type("\x1b")
        screen.expect_gone("Which color?")
        screen.type("still here")
        screen.expect("> still here")
        assert len(server.requests) == 1


def test_a_plan_is_shown_refused_once_and_then_begun(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            call("ExitPlanMode", plan="1. Make it\n2. Look at it"),
            call("ExitPlanMode", plan="1. Make it well"),
            call("Write", file_path="made.txt", content="made"),
            {"text": "Done."},
        ],
    }
    options = ("--permission-mode", "plan", "make it")
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, *options) as screen,
    ):
        screen.expect("Start working")
        looks_like(screen, "plan")
        screen.type("wwell, please\r")
        screen.expect("Make it well")
        screen.type("y")
        screen.expect("Create made.txt?")
        screen.type("y")
        screen.expect("Done.")
        assert "well, please" in results(server)[0]["content"]
    assert (tmp_path / "work" / "made.txt").exists()


@requirement("R145")
@pytest.mark.parametrize("together", [False, True])
def test_a_yes_for_the_session_is_asked_for_once(tmp_path: Path, together: bool) -> None:
    plan = touches("one", "two", "three", together=together)
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type("s")
        screen.expect("Done.")
        assert screen.text.count("1. Yes") <= 1
    assert all((tmp_path / "work" / name).exists() for name in ("one", "two", "three"))


def test_a_long_command_is_scrolled_through_and_none_of_it_is_hidden(tmp_path: Path) -> None:
    command = "\n".join(f"touch file-{number}" for number in range(60))
    with serving(bash(command)) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        looks_like(screen, "long")
        seen = screen.picture
        while "touch file-59\n" not in seen:
            before = screen.picture
            screen.type("\x1b[6~")
            # One page at a time, whole: however long it takes to be drawn.
            screen.expect(lambda text, last=before: text != last)
            screen.settle()
            seen += screen.picture
        assert all(f"touch file-{number}\n" in seen for number in range(60))


CONTROLS = {
    "\x1b[2K": "\\x1b[2K",
    "\r": "\\x0d",
    "\b\b": "\\x08\\x08",
    "\x0b": "\\x0b",
    "\x1c": "\\x1c",
    "\x85": "\\x85",
    "\u2028": "\\u2028",
    "\u202e": "\\u202e",
    "\u2066": "\\u2066",
}


@pytest.mark.parametrize("sign", CONTROLS)
@pytest.mark.parametrize("before", ["", "touch first\n"])
def test_the_history_shows_a_command_with_the_signs_that_the_question_showed(
    tmp_path: Path, sign: str, before: str
) -> None:
    shown = f"touch a{CONTROLS[sign]}b"
    command = f"{before}touch a{sign}b"
    given = {"command": command} | ({"description": "looks around"} if before else {})
    scenario = {"scenario": 1, "answers": [call("Bash", **given), {"text": "Done with it."}]}
    with serving(scenario, strict=True) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        assert shown in screen.picture
        screen.type("y")
        screen.expect("Done with it.")
        screen.expect_gone("1. Yes")
        assert shown in screen.text


def test_what_was_not_seen_in_whole_is_not_taken_by_its_letter(tmp_path: Path) -> None:
    command = "make one && cargo two && npm three && mkdir -p four && touch five"
    call = {"content": [{"tool": "Bash", "input": {"command": command}}]}
    plan = {"scenario": 1, "answers": [call, {"text": "Done with it.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=60, rows=15) as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("1. Yes")
        assert "Bash(touch *)" not in screen.picture
        screen.type("a")
        screen.expect("Bash(touch *)")
        looks_like(screen, "small")
        screen.type("a")
        screen.expect("Done with it.")
    kept = (tmp_path / "work" / ".claude" / "settings.local.json").read_text("utf-8")
    assert "Bash(touch *)" in kept


def test_an_answer_has_a_small_window_for_itself_and_says_so_where_that_is_too_small(
    tmp_path: Path,
) -> None:
    parts = ("make one", "cargo two", "npm three", "mkdir -p four", "touch five")
    call = {"content": [{"tool": "Bash", "input": {"command": " && ".join(parts)}}]}
    plan = {"scenario": 1, "answers": [call, {"text": "Done with it.", "times": "always"}]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=40, rows=10) as screen,
    ):
        screen.expect("default")
        screen.type("go\r")
        screen.expect("1. Yes")
        screen.expect("PageUp/PageDown")
        screen.type("s")
        screen.expect("Bash(touch")
        assert "too small" not in screen.picture
        looks_like(screen, "narrow")
        screen.glass.resize(8, 24)
        screen.resize(24, 8)
        screen.expect("too small")
        # Neither its letter nor Enter takes what is not there in whole.
        screen.type("s\r")
        screen.settle()
        assert "too small" in screen.picture
        screen.type("\x1b")
        screen.expect_gone("too small")
    assert not (tmp_path / "work" / "five").exists()


def test_letters_meant_for_the_prompt_answer_no_dialog_that_comes_up(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"until [ -e {gate} ]; do sleep 0.05; done"
    first = {"tool": "Bash", "input": {"command": waits}}
    second = {"tool": "Bash", "input": {"command": "touch made"}}
    plan = {
        "scenario": 1,
        "answers": [{"content": [first]}, {"content": [second]}, {"text": "Done."}],
    }
    allowed = ("--allowedTools", f"Bash({waits})", "go")
    with serving(plan) as server, OnScreen(tmp_path, server.url, *allowed) as screen:
        screen.expect("Running")
        gate.touch()
        # Nobody pauses, however slowly this test runs.
        while "pause to answer" not in screen.picture:
            screen.type("y")
        screen.type("esterday")
        screen.expect_gone("pause to answer")
        assert not (tmp_path / "work" / "made").exists()
        screen.type("n")
        screen.expect_gone("1. Yes")
        screen.expect_rest()
        screen.expect("yesterday\n")
        assert not (tmp_path / "work" / "made").exists()


def test_words_typed_while_a_question_stands_answer_it_with_none_of_their_letters(
    tmp_path: Path,
) -> None:
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type("please say any")
        while "pause to answer" not in screen.picture:
            screen.type("x")
        screen.expect_gone("pause to answer")
        assert not (tmp_path / "work" / "one").exists()
        screen.type("y")
        screen.expect("Done")
        screen.expect("> please say any")
        assert (tmp_path / "work" / "one").exists()
        assert not (tmp_path / "work" / ".claude").exists()


@pytest.mark.parametrize(
    ("typed", "stands"),
    [
        ("/agents", "> /agents"),
        ("@a.py", "> @a.py"),
        ("!s", "! !s"),
        (" always", ">  always"),
        ("\x1b[200~a\x1b[201~", "> a"),
        ("\x1baa", "> a"),
        ("xs\x7f\x7fa", "> a"),
        ("0a", "> 0a"),
        ("stop it", "> stop it"),
        ("actually wait", "> actually wait"),
        ("yes but", "> yes but"),
        ("not that", "> not that"),
        ("1 of them", "> 1 of them"),
    ],
)
def test_no_word_sign_paste_or_key_that_edits_answers_with_one_of_its_letters(
    tmp_path: Path, typed: str, stands: str
) -> None:
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type(typed)
        screen.expect("pause to answer")
        screen.expect_gone("pause to answer")
        screen.type("n")
        screen.expect_gone("1. Yes")
        screen.expect_rest()
        screen.expect(stands)
        assert not (tmp_path / "work" / "one").exists()
        assert not (tmp_path / "work" / ".claude").exists()


def test_a_letter_and_enter_answer_at_once(tmp_path: Path) -> None:
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type("n\r")
        screen.expect_gone("1. Yes")
        screen.expect_rest()
        assert not (tmp_path / "work" / "one").exists()


@requirement("W6", "R070")
def test_ctrl_c_ends_a_question_its_turn_and_again_the_session(tmp_path: Path) -> None:
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type("\x03")
        screen.expect_gone("1. Yes")
        screen.expect_rest()
        screen.type("\x03")
        assert screen.end() == 130


@requirement("W6", "R070")
def test_ctrl_c_twice_at_once_ends_the_session_while_its_turn_still_stops(tmp_path: Path) -> None:
    with (
        serving(NEVER_ENDS, strict=True) as server,
        OnScreen(tmp_path, server.url, "think") as screen,
    ):
        screen.expect("A whole thought.")
        screen.type("\x03\x03")
        assert screen.end() == 130


def test_ctrl_c_closes_a_dialog_that_the_user_opened(tmp_path: Path) -> None:
    with serving(NEVER_ENDS, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        for keys, words in (
            ("/model\r", "Select a model"),
            ("?", "Keys  1-"),
            ("/theme\r", "theme"),
        ):
            screen.type(keys)
            screen.expect(words)
            screen.type("\x03")
            screen.expect_gone("Esc close" if keys == "?" else "Esc to cancel")
        screen.type("think\r")
        screen.expect("A whole thought.")
        # The turn goes on.
        screen.type("\x1bp")
        screen.expect("Select a model")
        screen.type("\x03")
        screen.expect_gone("Select a model")
        screen.expect("to interrupt)")


def test_text_that_is_typed_after_a_first_ctrl_c_is_not_lost(tmp_path: Path) -> None:
    with serving(NEVER_ENDS, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("default")
        screen.type("\x03")
        screen.expect("Ctrl-C again to exit")
        screen.type("a long draft\x03")
        screen.expect("ctrl+_ restores it")
        screen.expect_gone("a long draft")
        screen.type("\x1f")
        screen.expect("> a long draft")
        screen.type("\x03")
        screen.expect_gone("a long draft")
        screen.type("\x03")
        screen.expect("Ctrl-C again to exit")
        screen.type("\x03")
        assert screen.end() == 130


def test_a_folder_is_trusted_before_its_settings_start_anything(tmp_path: Path) -> None:
    ran = tmp_path / "work" / "ran"
    settings = {
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}
    }
    folder = tmp_path / "work" / ".claude"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
    with serving(HELLO) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("Do you trust ~/work?")
            screen.expect("hook SessionStart: touch ran")
            looks_like(screen, "trust")
            screen.type("n")
            screen.expect_gone("Do you trust")
            screen.type("hi\r")
            screen.expect("Hello!")
        assert not ran.exists()
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect("Do you trust")
            screen.type("y")
            screen.expect_gone("Do you trust")
            screen.type("hi\r")
            screen.expect("Hello!")
        assert ran.exists()
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            screen.type("hi\r")
            screen.expect("Hello!")
            assert "Do you trust" not in screen.text


def test_the_trust_question_names_everything_that_the_folder_would_start(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 24
    settings = {
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh\x1b[2J"}]}
            ],
            "Stop": [{"hooks": [{"type": "http", "url": "https://hooks.example/stop"}]}],
        },
        "env": {"PATH": "./bin", "SERVICE_TOKEN": secret},
        "apiKeyHelper": "./key.sh " + "x" * 400,
        "statusLine": {"type": "command", "command": "./status.sh"},
        "permissions": {"allow": ["Bash(npm *)", "WebFetch"], "defaultMode": "acceptEdits"},
    }
    work = tmp_path / "work"
    for name, text in (
        (".claude/settings.json", json.dumps(settings)),
        (".mcp.json", '{"mcpServers": {"docs": {"command": "npx", "args": ["docs-server"]}}}'),
        (
            ".claude/agents/helper.md",
            "---\nname: helper\ndescription: helps\nhooks:\n  Stop:\n    - hooks:\n"
            "        - type: command\n          command: ./agent.sh\n---\nHelp.\n",
        ),
        (".claude/commands/ship.md", "---\nallowed-tools: Bash(git push *)\n---\nShip it.\n"),
        (".git/config", "[core]\n\tfsmonitor = ./monitor.sh\n"),
    ):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, "utf-8")
    with serving(HELLO) as server:
        with OnScreen(tmp_path, server.url, columns=110, rows=45) as screen:
            screen.expect("Do you trust")
            screen.expect("No, continue without it")
            looks_like(screen, "trust-everything")
            assert secret not in screen.text
            screen.type("n")
            screen.expect_gone("Do you trust")
        with OnScreen(tmp_path, server.url, columns=40, rows=10) as screen:
            screen.expect("PageUp/PageDown")
            looks_like(screen, "trust-small")
            seen = screen.picture
            while "fsmonitor" not in seen:
                before = screen.picture
                screen.type("\x1b[6~")
                screen.expect(lambda text, last=before: text != last)
                screen.settle()
                seen += screen.picture
            assert "./check.sh" in seen
            assert "docs-server" in seen


def test_a_server_of_the_project_begins_once_it_was_approved(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    servers = {"mcpServers": {"one": {"command": sys.executable, "args": [str(SERVER)]}}}
    (tmp_path / "work" / ".mcp.json").write_text(json.dumps(servers), "utf-8")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("Do you trust")
        screen.type("y")
        screen.expect("Start the MCP server")
        screen.expect("“one”")
        screen.type("y")
        screen.expect_gone("Start the MCP server")
        screen.type("/mcp\r")
        screen.expect("one")
        screen.expect_gone("needs approval")


def test_a_server_of_the_project_is_shown_with_what_it_would_start(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    servers = {"mcpServers": {"notes": {"command": "no-such-notes", "args": ["--write"]}}}
    (tmp_path / "work" / ".mcp.json").write_text(json.dumps(servers), "utf-8")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("Do you trust")
        screen.type("y")
        screen.expect("Start the MCP server")
        looks_like(screen, "server")
        screen.type("n")
        screen.expect_gone("Start the MCP server")
        screen.type("/mcp\r")
        screen.expect("notes")
        looks_like(screen, "server-refused")


def test_a_form_of_a_server_is_filled_in_and_goes_to_it_alone(tmp_path: Path) -> None:
    config = json.dumps({"mcpServers": {"memo": entry("rude")}})
    options = ("--mcp-config", config, "--allowedTools", "mcp__memo", "--", "go")
    with (
        serving(calls(("mcp__memo__elicit", {})), strict=True) as server,
        OnScreen(tmp_path, server.url, *options) as screen,
    ):
        screen.expect("Which color?")
        looks_like(screen, "form")
        screen.type("2")
        screen.expect_gone("Which color?")
        screen.expect("Done.")
        (said,) = results(server)
    assert json.loads(said["content"]) == {"action": "accept", "content": {"color": "blue"}}


def test_a_session_is_picked_from_those_there_are(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        for prompt in ("first matter", "second matter"):
            assert clew(tmp_path, server.url, "-p", prompt).returncode == 0
        with OnScreen(tmp_path, server.url, "--resume") as screen:
            screen.expect("Resume session")
            screen.type("first")
            screen.expect_gone("second matter")
            screen.type("\r")
            screen.expect(lambda text: "Resume session" not in text and "> first matter" in text)
            screen.type("go on\r")
            screen.expect(lambda text: text.count("Hello!") == 2)
            assert "second matter" not in str(server.requests[-1].body["messages"])


def test_a_command_that_offers_a_list_is_chosen_from(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url, "one") as screen:
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("/rewind\r")
        screen.expect("Rewind to before")
        looks_like(screen, "list")
        screen.type("\x1b")
        screen.expect_gone("Rewind to before")


def settings(home: Path, **said: Any) -> None:
    (home / "config").mkdir()
    (home / "config" / "settings.json").write_text(json.dumps(said), "utf-8")


def test_a_change_is_asked_about_as_the_file_would_change(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text(
        "".join(f"line_{n} = {n}\n" for n in range(30)), "utf-8"
    )
    edit = call("Edit", file_path="a.py", old_string="line_20 = 20", new_string="line_20 = 'x'")
    plan = {"scenario": 1, "answers": [call("Read", file_path="a.py"), edit, {"text": "Done."}]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        looks_like(screen, "change")
        screen.type("y")
        screen.expect("Done.")
    assert "line_20 = 'x'" in (tmp_path / "work" / "a.py").read_text("utf-8")


def test_the_answers_fit_a_small_terminal_and_no_answers_at_once(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text(
        "".join(f"line_{n} = {n}\n" for n in range(30)), "utf-8"
    )
    edit = call("Edit", file_path="a.py", old_string="line_20 = 20", new_string="line_20 = 'x'")
    plan = {"scenario": 1, "answers": [call("Read", file_path="a.py"), edit]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "go", columns=40, rows=10) as screen,
    ):
        screen.expect("1. Yes")
        looks_like(screen, "cramped")
        screen.type("n")
        screen.expect_gone("1. Yes")
        screen.expect_rest()
    assert "'x'" not in (tmp_path / "work" / "a.py").read_text("utf-8")


def test_no_long_answer_hides_the_no_in_a_small_terminal(tmp_path: Path) -> None:
    command = "cd src && cp aaaa.txt bbbb.txt && make one two | tee log.txt && ls | wc -l"
    plan = {"scenario": 1, "answers": [call("Bash", command=command)]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "go", columns=40, rows=10) as screen,
    ):
        screen.expect("1. Yes")
        for _ in range(2):
            screen.type("\x1b[B")
            screen.settle()
            assert any(row.strip().startswith("4. No") for row in screen.rows), screen.picture
        assert any("PageUp/PageDown" in row for row in screen.rows), screen.picture


@pytest.mark.parametrize("key", ["\t", "w"])
def test_instructions_are_typed_in_the_row_of_no(tmp_path: Path, key: str) -> None:
    with serving(touches("one"), strict=True) as server:
        with OnScreen(tmp_path, server.url, "go") as screen:
            screen.expect("1. Yes")
            screen.type(f"{key}make y instead")
            screen.expect("instead: make y instead")
            # Escape leaves the text, and then the question is as it was.
            screen.type("\x1b")
            screen.expect("Esc to cancel")
            screen.expect("1. Yes")
            screen.type(f"{key}\r")
            screen.expect("Done.")
        assert "make y instead" in results(server)[0]["content"]
    assert not (tmp_path / "work" / "one").exists()


def test_a_plan_can_be_started_with_edits_accepted(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [
            call("ExitPlanMode", plan="# Plan\n\n- **Make** it\n\n```python\nx = 1\n```\n"),
            call("Write", file_path="made.txt", content="made"),
            {"text": "Done."},
        ],
    }
    options = ("--permission-mode", "plan", "make it")
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, *options) as screen:
        screen.expect("Start working")
        looks_like(screen, "plan-markdown")
        screen.type("2")
        screen.expect("Done.")
        screen.expect("accept edits")
    assert (tmp_path / "work" / "made.txt").read_text("utf-8") == "made"


def test_an_earlier_question_can_be_answered_again_before_the_answers_are_sent(
    tmp_path: Path,
) -> None:
    questions = [
        question | {"header": header}
        for question, header in zip(QUESTIONS, ("Color", "Sizes"), strict=True)
    ]
    plan = {
        "scenario": 1,
        "answers": [call("AskUserQuestion", questions=questions), {"text": "Done."}],
    }
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "ask") as screen:
        screen.expect("[· Color]")
        # To the review: nothing is sent while a question has no answer.
        screen.type("\x1b[C\x1b[C")
        screen.expect("[Review]")
        screen.expect("no answer yet")
        screen.type("\r")
        screen.expect("[· Color]")
        screen.type("\r")
        screen.expect("[· Sizes]")
        screen.type("\x1b[D")
        screen.expect("[✓ Color]")
        screen.type("\x1b[B\x1b[Bteal\r")
        screen.expect("[· Sizes]")
        screen.type(" \t")
        screen.expect("[Review]")
        screen.expect("Which color? teal")
        screen.type("\r")
        screen.expect("Done.")
        (said,) = results(server)
    assert said["content"] == "The user answered:\nWhich color?: teal\nWhich sizes?: S"


def settings_of_project(home: Path) -> Path:
    return home / "work" / ".claude" / "settings.local.json"


def test_a_rule_saved_for_the_project_applies_from_then_on_and_is_not_committed(
    tmp_path: Path,
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "work"], check=True)
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("1. Yes")
        screen.type("a")
        screen.expect("Done.")
    assert "Bash(touch *)" in settings_of_project(tmp_path).read_text("utf-8")
    # Neither a question nor a warning about the rule that clew itself wrote.
    with serving(touches("two")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("Done.")
        assert "trust" not in screen.text
    assert (tmp_path / "work" / "two").exists()
    status = ["git", "-C", tmp_path / "work", "status", "--short", "--untracked-files=all"]
    listed = subprocess.run(status, capture_output=True, encoding="utf-8", check=True)
    assert listed.stdout.split() == ["??", "one", "??", "two"]


def test_a_folder_gains_nothing_from_a_rule_that_the_user_saves_in_it(tmp_path: Path) -> None:
    local = settings_of_project(tmp_path)
    local.parent.mkdir(parents=True)
    local.write_text('{"permissions": {"allow": ["Bash(mkdir *)"]}}', "utf-8")
    (local.parent / "settings.json").write_text(
        '{"permissions": {"allow": ["Bash(touch *)"]}}', "utf-8"
    )
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("Do you trust")
        screen.type("n")
        screen.expect("Run this command?")
        screen.type("a")
        screen.expect("Done.")
    both = json.loads(local.read_text("utf-8"))["permissions"]["allow"]
    assert both == ["Bash(mkdir *)", "Bash(touch *)"]
    plan = {
        "scenario": 1,
        "answers": [
            call("Bash", command="touch two"),
            call("Bash", command="mkdir made"),
            {"text": "Done."},
        ],
    }
    with serving(plan) as server, OnScreen(tmp_path, server.url, "go") as screen:
        # Everything that came with the folder still asks.
        screen.expect(".claude/settings.local.json\n    allow Bash(mkdir *)\n")
        screen.expect(".claude/settings.json\n    allow Bash(touch *)\n")
        screen.type("n")
        screen.expect("$ mkdir made")
        assert (tmp_path / "work" / "two").exists()
        screen.type("n")
        screen.expect_gone("$ mkdir made")
    assert not (tmp_path / "work" / "made").exists()


def test_escape_ends_a_wait_for_a_server_with_one_line(tmp_path: Path) -> None:
    silent = json.dumps({"mcpServers": {"slow": {"command": "sleep", "args": ["600"]}}})
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, "--mcp-config", silent) as screen,
    ):
        screen.expect("default")
        screen.type("/mcp reconnect slow\r")
        screen.expect("to interrupt)")
        screen.type("\x1b")
        screen.expect("Cancelled")
        screen.type("hi\r")
        screen.expect("Hello!")
        said = screen.text.partition("> /mcp reconnect slow\n")[2]
        assert said.split()[0] == "Cancelled"
        assert "nterrupted" not in said
