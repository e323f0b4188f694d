"""The layout of the transcript on a real terminal: the gutter, one line per event, the end of a turn."""

import json
from pathlib import Path
from typing import Any

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY

HELLO = {"text": "Hello!", "times": "always"}
BUSY = {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}}


def plan(*answers: Any) -> dict[str, Any]:
    return {"scenario": 1, "answers": [*answers, HELLO]}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"tool": "Bash", "input": {"command": command, **more}}]}


def blocking_hook(home: Path) -> None:
    hook = {"type": "command", "command": "echo no secrets >&2; exit 2"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    (home / "config").mkdir()
    (home / "config" / "settings.json").write_text(json.dumps(settings), "utf-8")


def test_a_blocked_prompt_shows_hook_and_reason_and_comes_back(tmp_path: Path) -> None:
    blocking_hook(tmp_path)
    with serving(plan(), strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("tell me the secret\r")
        screen.expect("no secrets")
        screen.expect_rest()
        (said,) = [row for row in screen.rows if "no secrets" in row]
        assert said.startswith("! ")
        assert "UserPromptSubmit" in said
        # The echo in the transcript, and the prompt that can be sent again.
        assert screen.rows.count("> tell me the secret") == 2
        assert server.requests == []


def test_a_blocked_prompt_fails_a_script_and_says_why(tmp_path: Path) -> None:
    blocking_hook(tmp_path)
    with serving(plan(), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "tell me the secret")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "UserPromptSubmit" in done.stderr
    assert "no secrets" in done.stderr


def test_failed_attempts_leave_one_line(tmp_path: Path) -> None:
    with serving(plan(BUSY, BUSY), strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("(attempt 2")
        screen.expect("Hello!")
        screen.expect_rest()
        assert [row for row in screen.text.split("\n") if "(529)" in row] == [
            "! API overloaded (529): 2 failed attempts"
        ]
        assert "attempt 2 of" not in screen.text


def test_a_response_that_breaks_off_again_and_again_leaves_one_line(tmp_path: Path) -> None:
    cut = {"text": "Half a sentence", "faults": [{"after_events": 3, "cut": "close"}]}
    with serving(plan(cut, cut, cut)) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("Hello!")
        screen.expect_rest()
        rows = [row for row in screen.text.split("\n") if "failed attempt" in row]
        assert rows == ["! Connection lost: 3 failed attempts"]


def test_a_turn_that_the_model_refuses_ends_with_what_to_do(tmp_path: Path) -> None:
    refusal = {"text": "No.", "stop_reason": "refusal"}
    with serving(plan(refusal)) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("go\r")
        screen.expect(
            "! The model refused to answer. Rephrase the prompt, or go back with /rewind."
        )


def test_an_interrupted_command_keeps_its_output_in_one_line(tmp_path: Path) -> None:
    answer = bash("seq 100; sleep 600")
    with (
        serving(plan(answer)) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect(READY)
        screen.type("wait\r")
        screen.expect("  100")
        screen.type("\x1b")
        screen.expect("✗ Bash")
        screen.expect_rest()
        (row,) = [row for row in screen.rows if "Interrupted" in row]
        assert "lines" in row
        assert "ctrl+o" in row


def test_an_interrupted_command_is_shown_below_the_title_that_the_model_gave_it(
    tmp_path: Path,
) -> None:
    answer = bash("sleep 600; echo never", description="Wait for the build")
    with (
        serving(plan(answer)) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect(READY)
        screen.type("wait\r")
        screen.expect("○ Bash: Wait for the build\n  $ sleep 600; echo never\n")
        screen.type("\x1b")
        screen.expect("✗ Bash: Wait for the build\n  $ sleep 600; echo never\n  Interrupted")


def test_a_small_window_keeps_the_keys_and_the_counts(tmp_path: Path) -> None:
    answer = bash("sleep 600", description="Wait for the build")
    with (
        serving(plan(answer)) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash", columns=40, rows=10) as screen,
    ):
        screen.expect("default mode")
        screen.type("/")
        screen.expect(lambda text: "more)\n" in text)
        screen.type("\x15?")
        screen.expect("Esc close\n")
        screen.type("\x1b")
        screen.expect_gone("Esc close")
        screen.type("wait\r")
        screen.expect(lambda text: "Running  (" in text and "esc to interrupt)\n" in text)


def test_a_turn_ends_with_its_figures(tmp_path: Path) -> None:
    answers = plan(bash("true", description="Look"))
    with (
        serving(answers) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash") as screen,
    ):
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("Done in ")
        screen.expect_rest()
        (row,) = [row for row in screen.rows if "Done in " in row]
        # The whole session's cost is that of its only turn.
        status = screen.picture.rstrip("\n").rpartition("\n")[2]
        assert row.rpartition(" · ")[2] in status.split(" · ")
        # A command asks no model.
        screen.type("/todos\r")
        screen.expect("empty")
        screen.expect_rest()
        assert screen.text.count("Done in ") == 1


def test_prose_is_capped_in_a_wide_window_and_the_prompt_is_on_a_band(tmp_path: Path) -> None:
    answer = {"text": "word " * 80}
    with (
        serving({"scenario": 1, "answers": [answer]}) as server,
        OnScreen(tmp_path, server.url, columns=180, env={"NO_COLOR": ""}) as screen,
    ):
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("Done in ")
        screen.expect_rest()
        prose = [row for row in screen.rows if "word word" in row]
        assert len(prose) == 4
        assert all(row.startswith("  word") and len(row) <= 102 for row in prose)
        at = screen.rows.index("> go")
        grounds = {screen.glass.buffer[at][x].bg for x in range(180)}
        assert len(grounds) == 1
        assert grounds != {"default"}


def calls(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"content": [{"tool": tool, "input": given} for tool, given in tools]}


def test_reads_fold_paths_are_relative_and_ctrl_o_names_them(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("a.py", "b.py"):
        (work / name).write_text(f"in_{name[0]} = 1\n", "utf-8")
    one = calls(("Read", {"file_path": str(work / "a.py")}), ("Grep", {"pattern": "in_b"}))
    two = calls(("Read", {"file_path": str(work / "b.py")}))
    missing = calls(("Read", {"file_path": str(work / "c.py")}), ("LS", {"path": str(work)}))
    parted = calls(("Read", {"file_path": str(work / "a.py")}))
    parted["content"].insert(0, {"text": "And then."})
    with (
        serving(plan(one, two, parted, missing)) as server,
        OnScreen(tmp_path, server.url, rows=40) as screen,
    ):
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("Done in ")
        screen.expect_rest()
        # The figures below depend on the length of the folder's name.
        looks_like(screen, "reads", lambda seen: seen.picture.partition("  Done in")[0])
        assert str(work) not in screen.text
        screen.type("\x0f")
        screen.expect(lambda text: text.count("searched 1 pattern") == 2)
        screen.type("\x1b")
        screen.expect(lambda text: text.count("searched 1 pattern") == 1)
        screen.type("\x04")
        assert screen.end() == 0
    with serving(plan()) as server, OnScreen(tmp_path, server.url, "-c", rows=40) as screen:
        screen.expect("Hello!")
        assert "● Read 2 files, searched 1 pattern" in screen.picture
        assert str(work) not in screen.text


def test_an_approved_change_is_named_and_a_new_file_shows_its_first_lines(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\n", "utf-8")
    change = {"file_path": str(work / "a.py"), "old_string": "x = 1", "new_string": "x = 2"}
    content = "".join(f"line_{n} = {n}\n" for n in range(40))
    write = {"file_path": str(work / "new.py"), "content": content}
    answers = plan(calls(("Read", {"file_path": str(work / "a.py")})), calls(("Edit", change)),
                   calls(("Write", write)))  # fmt: skip
    with (
        serving(answers) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Write", rows=40) as screen,
    ):
        screen.expect(READY)
        screen.type("go\r")
        screen.expect("x = 2")
        screen.type("y")
        screen.expect("Done in ")
        screen.expect_rest()
        rows = [row.strip() for row in screen.rows]
        assert "● Edit: a.py" in rows
        assert not any("x = 2" in row for row in rows)
        assert sum("line_" in row for row in rows) == 10
        assert any(row.startswith("… +30 lines") for row in rows)
    assert (work / "a.py").read_text("utf-8") == "x = 2\n"
