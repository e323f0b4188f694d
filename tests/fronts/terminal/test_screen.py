"""clew on a terminal: typing, streaming, permissions, interrupts, resuming."""

import re
import signal
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_linear import HELLO, NEVER_ENDS, WRITES
from tests.requirements import requirement

READY = "default"


def bash(command: str) -> dict[str, object]:
    call = {"content": [{"tool": "Bash", "input": {"command": command}}]}
    done = {"when": {"tool_result": "Bash"}, "text": "Done with it.", "times": "always"}
    return {"scenario": 1, "answers": [call, done]}


@requirement("R214")
def test_prompt_answer_prompt_and_the_way_back(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        looks_like(screen, "empty")
        screen.type("hi\r")
        screen.expect("Hello!")
        looks_like(screen, "answered")
        screen.type("\x04")
        assert screen.end() == 0
        assert f"clew --resume {transcripts(tmp_path)[0].stem}" in screen.text
        # Whoever looks up finds everything once, and nothing of what was only drawn.
        assert screen.text.count("Hello!") == 1
        assert "─" not in screen.text


def test_what_is_typed_before_the_session_is_open_is_its_first_prompt(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(">")
        screen.type("early bird\r")
        screen.expect("Hello!")
        assert "early bird" in str(server.requests[0].body["messages"])


@pytest.mark.parametrize("args", [(), ("--model", "claude-sonnet-5-5")])
def test_what_is_typed_before_anything_has_read_a_key_is_sent(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url, *args) as screen:
        screen.type("early bird\r")
        screen.expect("Hello!")
        assert "early bird" in str(server.requests[0].body["messages"])


def test_escape_takes_back_what_was_sent_before_the_session_is_open(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.type("early bird\r\x1b[27u")
        screen.expect(READY)
        screen.expect("\n> early bird\n")
        assert server.requests == []
        screen.type("!\r")
        screen.expect("Hello!")
        assert "early bird!" in str(server.requests[0].body["messages"])


def test_a_session_that_nobody_spoke_in_leaves_nothing(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("exit\r")
        assert screen.end() == 0
        assert "--resume" not in screen.text
    assert transcripts(tmp_path) == []


@requirement("R145", "R214")
@pytest.mark.parametrize(
    ("keys", "exists"), [("y", True), ("\r", True), ("n", False), ("wuse y.txt\r", False)]
)
def test_a_person_is_asked_and_obeyed(tmp_path: Path, keys: str, exists: bool) -> None:
    with serving(WRITES, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("write it\r")
        screen.expect("1. Yes")
        looks_like(screen, "permission")
        screen.type(keys)
        screen.expect("✗ Write" if keys == "n" else "So be it.")
    assert (tmp_path / "work" / "x.txt").exists() is exists
    if "use" in keys:
        assert "use y.txt" in str(server.requests[1].body["messages"][-1])


def test_a_compound_shows_each_part_and_what_is_said_about_it(tmp_path: Path) -> None:
    plan = bash("echo hi && touch a.txt && ls | wc -l")
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("1. Yes")
        looks_like(screen, "compound")
        screen.type("s")
        screen.expect("Done with it.")
    assert (tmp_path / "work" / "a.txt").exists()


@requirement("R054", "R070")
@pytest.mark.parametrize("key", ["\x1b", "\x03"])
def test_escape_and_ctrl_c_stop_the_turn_and_keep_what_was_said(tmp_path: Path, key: str) -> None:
    with serving(NEVER_ENDS, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("think\r")
        screen.expect("A whole thought.")
        looks_like(screen, "working")
        screen.type(key)
        screen.expect("Interrupted")
        screen.type("go on\r")
        screen.expect("Here again.")
        said = str(server.requests[1].body["messages"])
    assert "A whole thought." in said
    assert "[Request interrupted by user]" in said


@requirement("R066", "R067", "R068", "C3")
def test_a_call_is_shown_while_its_input_arrives_and_does_not_run(tmp_path: Path) -> None:
    raw = '{"file_path": "notes/plan.md", "content": "It is half a'
    plan = {
        "scenario": 1,
        "defaults": {"delta_chars": 400},
        "answers": [
            {
                "content": [{"tool": "Write", "input_json": raw}],
                "faults": [{"after_events": 4, "stall_s": "forever"}],
            }
        ],
    }
    args = ("go", "--permission-mode", "acceptEdits")
    with serving(plan) as server, OnScreen(tmp_path, server.url, *args) as screen:
        screen.expect("Write: notes/plan.md")
        screen.type("\x1b")
        screen.expect("Interrupted")
        screen.expect_rest()
        # The row of the call says it.
        assert screen.text.count("Interrupted") == 1
    assert not (tmp_path / "work" / "notes").exists()


@requirement("R233")
def test_a_silent_line_is_told_with_how_long_it_is_waited_for(tmp_path: Path) -> None:
    soon = {"CLEW_WAIT_HINT_MS": "1000"}
    with (
        serving(NEVER_ENDS, strict=True) as server,
        OnScreen(tmp_path, server.url, "think", env=soon) as screen,
    ):
        screen.expect("No data for")
        assert re.search(r"timing out in (8\d|90) s", screen.picture)
        looks_like(screen, "silent")
        screen.type("\x1b")
        screen.expect("Interrupted")


def test_the_wait_for_another_try_is_counted_down(tmp_path: Path) -> None:
    overloaded = {"status": 529, "headers": {"retry-after": "60"}}
    plan = {"scenario": 1, "answers": [overloaded, {"text": "Here again."}]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("Retrying in")
        looks_like(screen, "retry")
        screen.expect(
            lambda text: (
                re.search(r"in [1-5]\d s \(attempt 2\)  \(\d+s, esc to interrupt\)", text)
                is not None
            )
        )
        screen.type("\x1b")
        screen.expect("Interrupted")


def test_a_small_window_keeps_when_the_next_try_is_and_how_to_stop(tmp_path: Path) -> None:
    overloaded = {"status": 529, "headers": {"retry-after": "60"}}
    plan = {"scenario": 1, "answers": [overloaded, {"text": "Here again."}]}
    with (
        serving(plan, strict=True) as server,
        OnScreen(tmp_path, server.url, "go", columns=64) as screen,
    ):
        screen.expect(
            lambda text: (
                re.search(
                    r"API overloa…\. Retrying in \d\d s \(attempt 2\)  \(esc to interrupt\)\n", text
                )
                is not None
            )
        )


@requirement("R070", "W6")
def test_ctrl_c_twice_ends_the_session_and_keeps_what_was_said(tmp_path: Path) -> None:
    with serving(NEVER_ENDS, strict=True) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            screen.type("think\r")
            screen.expect("A whole thought.")
            screen.type("\x03\x03")
            assert screen.end() == 130
        assert "A whole thought." in transcripts(tmp_path)[0].read_text("utf-8")


@requirement("R269")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_closed_terminal_and_a_kill_end_in_a_defined_state(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving(NEVER_ENDS, strict=True) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            screen.type("think\r")
            screen.expect("A whole thought.")
            screen.child.send_signal(number)
            assert screen.end() == code
        done = clew(tmp_path, server.url, "-p", "go on", "--continue")
    assert done.stdout == "Here again.\n"


def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        with OnScreen(tmp_path, server.url, "first words") as screen:
            screen.expect("Hello!")
            screen.type("\x04")
            screen.end()
        with OnScreen(tmp_path, server.url, "--continue") as screen:
            screen.expect(READY)
            screen.expect("first words")
            screen.type("more\r")
            screen.expect(lambda text: text.count("Hello!") == 2)
        assert "first words" in str(server.requests[1].body["messages"])


def test_control_characters_of_the_model_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = {"scenario": 1, "answers": [{"text": "a\x1b]0;owned\x07b"}]}
    with serving(evil) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("hi\r")
        screen.expect("a\\x1b]0;owned\\x07b")
        assert b"\x1b]0;owned" not in screen.raw


def test_what_follows_on_clear_is_set_apart(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.expect("in ~/work\n")
        screen.type("hi\r")
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("/clear\r")
        screen.expect("── New session ──")
        screen.type("\x04")
        assert screen.end() == 0
        assert screen.text.count("/help for") == 1


def test_a_session_that_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    with (
        serving(HELLO) as server,
        OnScreen(tmp_path, server.url, "--resume", "nosuch") as screen,
    ):
        assert screen.end() == 1
        assert "clew: session 'nosuch' not found" in screen.text
        assert "Traceback" not in screen.text


def test_a_command_stands_above_what_it_says(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/todos\r")
        screen.expect("> /todos\n\n")
        screen.type("/help\r")
        screen.expect("@FILE")
        screen.expect(lambda _: "> /help\n\n  Help\n" in screen.text)
        # A second column stays one, in eighty columns too.
        assert re.search(r"\n    /review [^\n]*\n(?: {21}\S[^\n]*\n)+", screen.text)


def test_all_that_would_be_allowed_is_to_be_read(tmp_path: Path) -> None:
    plan = bash("make one && cargo two && npm three && mkdir -p four && touch five")
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("4. No, ")
        for_now, _, for_ever = screen.text.partition("2. Yes, ")[2].partition("3. Yes, ")
        assert "touch" in for_now
        assert "those rules" in for_ever


def test_a_line_for_the_shell_stands_once_and_what_it_printed_is_no_prompt(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("!echo from-the-shell\r")
        screen.expect("Hello!")
        assert len(re.findall("^(?:> )?! ?echo", screen.text, re.M)) == 1
        screen.expect("% context")
        screen.type("/rewind\r")
        screen.expect("> 1. ! echo from-the-shell")
        assert "bash-stdout" not in screen.text


def test_drawing_anew_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x0c\x0cwords")
        screen.expect("> words\n─")
        assert sum(row.startswith("─") for row in screen.rows) == 2


def test_a_hint_goes_though_nothing_else_happens(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x1b")
        screen.expect("Nothing to interrupt")
        screen.expect(READY)
