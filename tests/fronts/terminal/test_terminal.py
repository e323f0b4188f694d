"""The terminal: status line, title, signals, clipboard, size, scrollback, keyboard protocols."""

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import PLAIN, OnScreen
from tests.fronts.terminal.test_dialogs import settings
from tests.fronts.terminal.test_linear import HELLO, NEVER_ENDS, touches
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

KITTY = {**PLAIN, "\x1b[?u": "\x1b[?0u"}


@requirement("R213")
def test_the_status_line_tells_model_mode_window_cost_and_branch(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    subprocess.run(["git", "init", "-q", "-b", "feature-x"], cwd=tmp_path / "work", check=True)
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("hi\r")
        screen.expect("Hello!")
        parts = ("Sonnet", "default", "% context", "$0.000", "feature-x")
        screen.expect(lambda text: all(part in text.splitlines()[-1] for part in parts))


@requirement("R213")
def test_a_persons_own_status_line_is_asked_with_the_session_in_figures(tmp_path: Path) -> None:
    program = tmp_path / "line.py"
    program.write_text(
        "import json,sys; s=json.load(sys.stdin); "
        "print('\\x1b[31mmine\\x1b[0m\\x1b[2J', s['model']['display_name'], s['session_id'][:3] != '')",
        "utf-8",
    )
    settings(
        tmp_path, statusLine={"type": "command", "command": f"python3 {program}", "padding": 1}
    )
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(" mine\\x1b[2J Sonnet 5.5 True")
        looks_like(screen, "status-line")
        assert b"\x1b[2J" not in screen.raw


def test_a_persons_own_status_line_receives_tokens_and_output_style(tmp_path: Path) -> None:
    program = tmp_path / "line.py"
    program.write_text(
        "import json,sys; s=json.load(sys.stdin); w=s['context_window']; u=w['current_usage'] or {};"
        "print(w['total_input_tokens'], w['total_output_tokens'], w['used_percentage'],"
        " u.get('input_tokens'), s['exceeds_200k_tokens'], s['output_style']['name'])",
        "utf-8",
    )
    settings(tmp_path, statusLine={"type": "command", "command": f"python3 {program}"})
    plan = {"scenario": 1, "answers": [{"text": "Hello!", "usage": {"input_tokens": 300_000}}]}
    with serving(plan) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("0 0 None None False default")
        screen.type("hi\r")
        screen.expect(lambda text: re.search(r"300000 \d+ 30 300000 True default", text))


def test_an_announcement_of_the_settings_is_shown_at_the_start(tmp_path: Path) -> None:
    settings(tmp_path, companyAnnouncements=["Mind \x1b[2Jthe gap"])
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("Mind \\x1b[2Jthe gap")


def test_a_persons_own_status_line_is_asked_again_when_the_mode_changes(tmp_path: Path) -> None:
    settings(tmp_path, statusLine={"type": "command", "command": "tr , '\\n' | grep mode"})
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect('"permission_mode": "default"')
        screen.type("\x1b[Z")
        screen.expect('"permission_mode": "acceptEdits"')


def test_vim_and_the_last_line_are_chosen_by_commands_and_heeded_at_once(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/statusline echo a line of mine\r")
        screen.expect(lambda text: text.rstrip().endswith("a line of mine"))
        screen.type("/vim on\r")
        screen.expect("Vim mode on")
        screen.type("one two\x1b")
        screen.settle()
        screen.type("0x")
        screen.expect("> ne two")
        screen.type("S/statusline off\r")
        screen.expect("reset to the default")
        screen.expect(lambda text: "Sonnet 5.5 · default" in text.rstrip().splitlines()[-1])
        screen.type("/vim off\r")
        screen.expect("Vim mode off")
        screen.type("0x")
        screen.expect("> 0x")


@requirement("R267")
def test_background_tasks_show_as_a_short_text_and_can_be_looked_into(tmp_path: Path) -> None:
    use = {
        "tool": "Bash",
        "input": {
            "command": "echo built; sleep 60",
            "run_in_background": True,
            "description": "Build it",
        },
    }
    plan = {"scenario": 1, "answers": [{"content": [use]}, {"text": "It builds."}]}
    options = ("--allowedTools", "Bash", "go")
    env = {"PAGER": "cat"}
    with serving(plan) as server, OnScreen(tmp_path, server.url, *options, env=env) as screen:
        screen.expect("It builds.")
        screen.expect("running: Build it")
        screen.type("\x18\x02")
        screen.expect("Background tasks")
        screen.type("\r")
        screen.expect("built")


def test_the_title_says_what_is_worked_on_and_is_taken_back(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, "mend the net") as screen:
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("\x04")
        screen.end()
        assert screen.raw.index(b"\x1b]0;clew: mend the net\x07") < screen.raw.index(b"\x1b]0;\x07")


@pytest.mark.parametrize(
    ("program", "signal"),
    [
        ({}, b"\x07"),
        ({"TERM_PROGRAM": "iTerm.app"}, b"\x1b]9;clew: Run this command?\x07"),
        ({"TERM_PROGRAM": "ghostty"}, b"\x1b]777;notify;clew;clew: Run this command?\x07"),
        (
            {"TERM_PROGRAM": "ghostty", "TMUX": "/x,1,0"},
            b"\x1bPtmux;\x1b\x1b]777;notify;clew;clew: Run this command?\x07\x1b\\",
        ),
    ],
)
def test_who_looks_elsewhere_is_told(
    tmp_path: Path, program: dict[str, str], signal: bytes
) -> None:
    with (
        serving(touches("one")) as server,
        OnScreen(tmp_path, server.url, env=program) as screen,
    ):
        screen.expect(READY)
        screen.type("\x1b[Ogo\r")
        screen.expect("1. Yes")
        screen.expect(
            lambda _: screen.raw.endswith(signal) or signal in screen.raw.split(b"go\x1b")[-1]
        )


def test_who_looks_on_is_not_told(tmp_path: Path) -> None:
    with serving(touches("one")) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x1b[Igo\r")
        screen.expect("1. Yes")
        # A title and the question for the ground's color end so, and ring nothing.
        rest = re.sub(rb"\x1b\](0;clew: go|11;\?)\x07", b"", screen.raw)
        assert b"\x07" not in rest


def test_the_last_answer_is_copied_over_any_distance(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, "hi") as screen:
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("/copy\r")
        screen.expect("Copied 6 characters")
        copied = base64.b64encode(b"Hello!")
        screen.expect(lambda _: b"\x1b]52;c;" + copied + b"\x07" in screen.raw)


@requirement("R215")
def test_a_long_answer_stands_in_the_scrollback_each_line_once(tmp_path: Path) -> None:
    text = "\n\n".join(f"Line number {number} of the answer." for number in range(2_000))
    plan = {"scenario": 1, "answers": [{"text": text}]}
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("Line number 1999")
        screen.expect_rest()
        screen.settle()
        seen = screen.text
    said = re.findall(r"Line number (\d+) of the answer\.", seen)
    assert said == [str(number) for number in range(2_000)]
    assert seen.count("─" * 80) == 2


@requirement("R231")
def test_what_is_typed_is_seen_while_an_answer_streams(tmp_path: Path) -> None:
    text = "".join(f"Word {number} and `code`.\n\n" for number in range(3_000))
    plan = {"scenario": 1, "answers": [{"text": text, "delta_chars": 12}]}
    # A terminal without synchronized updates, because whole frames can hold most of the answer.
    answers = {"\x1b[c": PLAIN["\x1b[c"]}
    with serving(plan) as server, OnScreen(tmp_path, server.url, "go", answers=answers) as screen:
        screen.expect("Word 1")
        for end in range(1, 12):
            screen.type("keep going!"[end - 1 : end])
            screen.expect("> " + "keep going!"[:end].rstrip())


def test_a_terminal_that_changes_its_size_keeps_prompt_and_words(tmp_path: Path) -> None:
    with serving(NEVER_ENDS) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("A whole thought.")
        for columns, rows in ((120, 40), (100, 12), (130, 30)):
            screen.glass.resize(rows, columns)
            screen.resize(columns, rows)
            screen.expect(lambda text, wide=columns: "─" * wide in text)
        screen.type("still typing")
        screen.expect("> still typing")


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_terminal_that_cuts_lines_keeps_one_live_area_and_all_output(
    tmp_path: Path, *, is_asked: bool
) -> None:
    asks = {"content": ["A whole thought.", {"tool": "Bash", "input": {"command": "rm -rf build"}}]}
    plan = {"scenario": 1, "answers": [asks if is_asked else {"text": "A whole thought."}]}
    env = {"XTERM_VERSION": "XTerm(400)"}
    with serving(plan) as server, OnScreen(tmp_path, server.url, "go", env=env) as screen:
        screen.expect("Run this command?" if is_asked else "Done in")
        if not is_asked:
            screen.type("half a thought " * 6 + "ends")
            screen.expect("ends")
        for columns in (60, 120, 40, 200, 80, 120):
            screen.glass.resize(24, columns)
            screen.resize(columns, 24)
            screen.expect(lambda text, wide=columns: f"\n{'─' * wide}\n" in text)
        screen.settle()
        assert screen.text.count("A whole thought.") == 1
        assert screen.text.count("Run this command?" if is_asked else "> half a thought") == 1
        assert sum("─" in row for row in screen.text.split("\n")) == 2, screen.text


def test_keys_come_without_ambiguity_where_the_terminal_offers_it(tmp_path: Path) -> None:
    with (
        serving(NEVER_ENDS) as server,
        OnScreen(tmp_path, server.url, answers=KITTY) as screen,
    ):
        screen.expect(READY)
        assert b"\x1b[>1u" in screen.raw
        screen.type("go on\x1b[13;2uplease\x1b[119;5u!\r")
        screen.expect("A whole thought.")
        assert "go on\\n!" in json.dumps(server.requests[0].body["messages"])
        screen.type("\x1b[27u")
        screen.expect("Interrupted")
        assert b"\x1b[?2026h" in screen.raw
        screen.type("\x1b[100;5u")
        screen.end()
        assert b"\x1b[<u" in screen.raw


def test_an_answer_that_is_cut_behind_its_first_byte_types_nothing(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, answers={}) as screen:
        screen.expect(lambda _: b"\x1b[c" in screen.raw)
        for part in ("\x1b", "]11;rgb:1e1e/1e1e/2e2e\x1b", "\\\x1b", "[?62;c"):
            screen.type(part)
            screen.settle()
        screen.expect(READY)
        screen.type("no more than this")
        screen.expect("> no more than this\n")
        assert "rgb" not in screen.text
        screen.expect_gone("Nothing to interrupt")
        # The last answer is in: from here on Escape alone is a key, soon.
        screen.type("\x1b")
        screen.expect("Nothing to interrupt · Esc again to clear")


def test_escape_alone_is_a_key_where_the_terminal_answers_nothing(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, answers={}) as screen:
        screen.expect(lambda _: b"\x1b[c" in screen.raw)
        screen.type("\x1b")
        screen.expect("Nothing to interrupt")
        assert "clear the prompt" not in screen.text


def test_the_terminal_gets_back_what_it_was(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x04")
        assert screen.end() == 0
        for mode in (b"\x1b[?2004", b"\x1b[?1004"):
            assert screen.raw.rindex(mode + b"l") > screen.raw.rindex(mode + b"h")
        assert screen.raw.rindex(b"\x1b[?25h") > screen.raw.rindex(b"\x1b[?25l")
        assert b"\x1b[?1049h" not in screen.raw


def test_a_retry_is_counted_down(tmp_path: Path) -> None:
    refused = {"status": 529, "error": {"type": "overloaded_error", "message": "Overloaded"}}
    plan: dict[str, Any] = {"scenario": 1, "answers": [refused, {"text": "At last."}]}
    with serving(plan) as server, OnScreen(tmp_path, server.url, "go") as screen:
        screen.expect("Retrying in")
        screen.expect("At last.")


def test_every_key_is_listed(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, rows=80, columns=160) as screen:
        screen.expect(READY)
        screen.type("/keys\r")
        screen.expect("next permission mode")
        looks_like(screen, "keys")


STATUS = re.compile(r"\x1b\]7501;(state=[^\x1b]*)\x1b\\")


def states(screen: OnScreen) -> list[str]:
    return STATUS.findall(screen.raw.decode())


def test_a_terminal_that_shows_program_status_hears_what_clew_does(tmp_path: Path) -> None:
    asked = {"content": [{"tool": "Bash", "input": {"command": "touch made"}}]}
    failed = {"status": 400, "error": {"type": "invalid_request_error", "message": "no"}}
    plan = {"scenario": 1, "answers": [asked, {"text": "Made."}, failed]}
    answers = {**PLAIN, "\x1b]7501;?\x1b\\": "\x1b]7501;?\x1b\\"}
    with serving(plan) as server, OnScreen(tmp_path, server.url, answers=answers) as screen:
        screen.expect(READY)
        screen.type("make it\r")
        screen.expect("1. Yes")
        screen.type("1")
        screen.expect("Made.")
        screen.expect_rest()
        screen.type("again\r")
        screen.expect("API Error: 400 no")
        screen.expect_rest()
        screen.type("\x04")
        screen.end()
        question = base64.b64encode(b"Run this command?").decode()
        assert states(screen) == [
            "state=idle:app=clew",
            "state=working:app=clew",
            f"state=blocked:app=clew:kind=permission:msg={question}",
            "state=working:app=clew",
            "state=done:app=clew",
            "state=working:app=clew",
            "state=error:app=clew",
            "state=clear",
        ]


def test_a_terminal_without_program_status_gets_no_report(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url, "hi") as screen:
        screen.expect("Done in")
        screen.type("\x04")
        screen.end()
        assert "\x1b]7501;?" in screen.raw.decode()
        assert states(screen) == []


@requirement("R296")
def test_keys_that_the_terminal_keeps_have_another_way(tmp_path: Path) -> None:
    slow = {"content": [{"tool": "Bash", "input": {"command": "sleep 60"}}]}
    plan = {"scenario": 1, "answers": [slow, {"text": "In the background."}]}
    args = ("--allowedTools", "Bash(sleep *)", "go")
    with (
        serving(plan) as server,
        OnScreen(tmp_path, server.url, *args, env={"TMUX": "/none,1,0"}) as screen,
    ):
        screen.expect("Running")
        screen.type("\x18b")
        screen.expect("In the background.")
