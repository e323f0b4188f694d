"""Editing the prompt: paste, history, completion, the editor, the queue."""

import base64
import json
import os
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.fronts.render.rows import TAB, escape_controls
from clew.fronts.terminal.prompt import find_position, lay_out
from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.clew_process import transcripts, until
from tests.fronts.terminal.pictures import looks_like
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_dialogs import settings
from tests.fronts.terminal.test_linear import HELLO
from tests.fronts.terminal.test_screen import READY
from tests.requirements import requirement

PASTE = "\x1b[200~{}\x1b[201~"
WAITS = {
    "scenario": 1,
    "answers": [
        {"content": [{"tool": "Bash", "input": {"command": "head -1 pipe"}}]},
        {"when": {"tool_result": "Bash"}, "text": "I heard you."},
        {"text": "Next.", "times": "always"},
    ],
}


def said(server: LoopbackServer, number: int = -1) -> str:
    """Return the text of a request."""
    return json.dumps(server.requests[number].body["messages"])


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return b"\x89PNG\r\n\x1a\n" + head + rows + chunk(b"IEND", b"")


@requirement("R215")
def test_a_long_paste_stands_as_a_placeholder_and_goes_out_whole(tmp_path: Path) -> None:
    text = "".join(f"line {number} of what was pasted\n" for number in range(40_000))
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("look at ")
        screen.type(PASTE.format(text))
        screen.expect("[Pasted text #1 +40000 lines]")
        screen.type(" please\r")
        screen.expect("Hello!")
        assert "line 39999 of what was pasted" in said(server)
        assert "please" in said(server)
        # What never was in sight is not shown, and is in the history.
        assert "line 7" not in screen.text
    kept = (tmp_path / "config" / "history.jsonl").read_text("utf-8")
    assert json.loads(kept)["pastedContents"]["1"]["content"].startswith("line 0 of")


def test_a_prompt_sent_before_the_session_is_open_is_in_its_history(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.type("early\r")
        screen.expect("Hello!")
        screen.type("late\r")
        until(lambda: len(server.requests) == 2)
    (path,) = transcripts(tmp_path)
    lines = (tmp_path / "config" / "history.jsonl").read_text("utf-8").splitlines()
    kept = [(line["display"], line["sessionId"]) for line in map(json.loads, lines)]
    assert kept == [("early", path.stem), ("late", path.stem)]


def test_a_paste_is_shown_by_its_placeholder_or_its_words_and_never_with_its_tag(
    tmp_path: Path,
) -> None:
    text = "".join(f"line {number} of the log\n" for number in range(30))
    with serving(HELLO, strict=True) as server:
        with OnScreen(tmp_path, server.url, columns=100) as screen:
            screen.expect(READY)
            screen.type(PASTE.format(text))
            screen.type("\r")
            screen.expect("Hello!")
            screen.expect_rest()
            screen.type("!echo printed\r")
            screen.expect("\n  printed\n")
            screen.expect(lambda text: text.count("Hello!") == 2)
            screen.expect_rest()
            screen.type("/tree\r")
            screen.expect("● line 0 of the log line 1")
            # What a shell command line printed is no prompt.
            screen.expect("● ! echo printed")
            assert screen.picture.count("●") == 2
            screen.type("\x1b")
            screen.expect_gone("● line 0")
            screen.type("/rewind\r")
            screen.expect("2. line 0 of the log line 1")
            screen.type("2")
            screen.expect("Conversation only")
            screen.type("\r")
            screen.expect("\n> [Pasted text #2 +29 lines]")
            screen.type("\x03")
            screen.expect_gone("#2")
            screen.type("/rewind redo\r")
            screen.expect("after the answer to “! echo printed”")
        with OnScreen(tmp_path, server.url, "--continue", columns=100) as screen:
            screen.expect("> [Pasted text #1 +29 lines]")
            assert "pasted_content" not in screen.text
    assert "pasted_content" in said(server)


def test_short_pastes_are_text_and_end_no_line(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type(PASTE.format("one\rtwo\x1b[31m"))
        screen.expect("two\\x1b[31m")
        assert not server.requests
        screen.type("\r")
        screen.expect("Hello!")
        assert "one\\ntwo" in said(server)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_paste_whose_end_never_comes_is_there_and_the_keys_work_again(
    tmp_path: Path, by_hand: bool
) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x1b[200~one\rtwo")
        if by_hand:
            screen.type("\x03")
        screen.expect("two")
        screen.type(" three\x7f\x7f")
        screen.expect("two thr")
        assert not server.requests
        screen.type("\r")
        screen.expect("Hello!")
        assert "one\\ntwo thr" in said(server)


def test_a_placeholder_is_deleted_as_one_and_sent_no_more(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("x" + PASTE.format("secret\n" * 9))
        screen.expect("x[Pasted text #1")
        screen.type("\x7f\r")
        screen.expect("Hello!")
        assert "secret" not in said(server)


def test_a_picture_is_pasted_by_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a b.png").write_bytes(png())
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("see " + PASTE.format("a\\ b.png"))
        screen.expect("see [Image #1]")
        screen.type("\r")
        screen.expect("Hello!")
        assert base64.b64encode(png()).decode() in said(server)


def test_a_picture_comes_from_the_clipboard(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "xclip"
    program.parent.mkdir()
    (tmp_path / "clip.png").write_bytes(png())
    program.write_text(f"#!/bin/sh\ncat '{tmp_path}/clip.png'\n", "utf-8")
    program.chmod(0o755)
    env = {"DISPLAY": ":0", "PATH": f"{program.parent}:{os.environ['PATH']}"}
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, env=env) as screen,
    ):
        screen.expect(READY)
        screen.type("\x16")
        screen.expect("[Image #1]")
        screen.type("\r")
        screen.expect("Hello!")
        assert base64.b64encode(png()).decode() in said(server)


def test_what_was_typed_comes_back_and_can_be_searched(tmp_path: Path) -> None:
    with serving(HELLO, strict=True) as server:
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            for words in ("first thing", "second thing"):
                screen.type(f"{words}\r")
                screen.expect(lambda text, w=words: text.count("Hello!") > (w[0] == "s"))
            screen.type("a draft\x1b[A")
            screen.expect("> second thing")
            screen.type("\x1b[A")
            screen.expect("> first thing")
            screen.type("\x1b[B\x1b[B")
            screen.expect("> a draft")
        with OnScreen(tmp_path, server.url) as screen:
            screen.expect(READY)
            screen.type("\x12firth")
            screen.expect("search: firth")
            looks_like(screen, "history")
            screen.type("\r")
            screen.expect("> first thing")


def test_history_of_another_project_is_another(tmp_path: Path) -> None:
    line = {"display": "elsewhere", "pastedContents": {}, "timestamp": 1, "project": "/else"}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "history.jsonl").write_text(f"not json\n{json.dumps(line)}\n", "utf-8")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x12")
        screen.expect("No prompt history")


@requirement("R216")
def test_files_are_completed_and_ignored_ones_are_not(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "main window.py").write_text("main = 1\n", "utf-8")
    (work / "src" / "mainly.log").write_text("", "utf-8")
    (work / ".gitignore").write_text("*.log\n", "utf-8")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("see @mnwi")
        screen.expect("src/main window.py")
        looks_like(screen, "files")
        screen.type("\t")
        screen.expect('see @"src/main window.py"')
        screen.type("\r")
        screen.expect("Hello!")
        assert "main = 1" in str(server.requests[0].body["messages"])


def test_runs_of_letters_rank_before_scattered_letters(tmp_path: Path) -> None:
    for number in range(300):
        folder = tmp_path / "work" / "src" / f"mod{number:03}" / "sub0"
        folder.mkdir(parents=True)
        (folder / "file_07.py").touch()
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("see @mod150file_07")
        screen.expect("> src/mod150/sub0/file_07.py")
        assert "src/mod15" in screen.picture.partition("mod150/")[2]
        screen.type("\t")
        screen.expect("see @src/mod150/sub0/file_07.py")


def test_the_number_of_further_files_is_not_understated(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for number in range(200):
        (tmp_path / "work" / f"file{number:03}.py").touch()
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("see @file")
        screen.expect("(32+ more)")
        # Up goes to the last that is kept.
        screen.type("\x1b[A")
        screen.expect("  (more)")
        screen.type("199")
        screen.expect_gone("more)")
        screen.expect("file199.py")


def test_files_are_found_by_a_persons_own_command(tmp_path: Path) -> None:
    command = """grep -qx '{"query":"srv"}' && printf 'far/away.py\\nb.py\\n'"""
    settings(tmp_path, fileSuggestion={"type": "command", "command": command})
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("see @srv")
        screen.expect("far/away.py")
        screen.expect("b.py")


def test_commands_are_offered_with_their_words_and_arguments(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("/mode")
        screen.expect("Show or select the model")
        looks_like(screen, "commands")
        screen.type("\thai")
        screen.expect("claude-haiku")
        screen.type("\t\r")
        screen.expect("Model set to")


def test_an_offer_that_was_not_chosen_does_not_change_what_is_sent(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mail.txt").write_text("", "utf-8")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("ask @mai")
        screen.expect("mail.txt")
        screen.type("\r")
        screen.expect("Hello!")
        assert "ask @mai" in said(server)


@pytest.mark.parametrize("keys", ["\n", "\x1b\r", "\x1b[13;2u", "\x1b[27;2;13~", "\\\r"])
def test_a_line_goes_on_below(tmp_path: Path, keys: str) -> None:
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type(f"one{keys}two")
        screen.expect(lambda text: "> one\n  two" in text)
        screen.type("\r")
        screen.expect("Hello!")
        assert "one\\ntwo" in said(server)


def test_a_prompt_is_put_aside_and_brought_back(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("half a thought\x13")
        screen.expect_gone("half a thought")
        screen.type("\x13")
        screen.expect("> half a thought")


def test_a_prompt_is_written_in_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\necho editor\nread key </dev/tty\necho "edited $key" >>"$1"\n', "utf-8"
    )
    editor.chmod(0o755)
    env = {"EDITOR": str(editor)}
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, env=env) as screen,
    ):
        screen.expect(READY)
        screen.type("begun\n\x07")
        screen.expect("editor\n")
        screen.type("there\n")
        screen.expect("edited there")
        screen.type("\r")
        screen.expect("Hello!")
        assert "begun\\n" in said(server)


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ('rm "$0"', "No such file"),
        ('rm -r "${0%/*}"', "No such file"),
        ('rm "$0"; mkdir "$0"', "Is a directory"),
    ],
)
def test_an_editor_that_takes_its_file_away_costs_nothing(
    tmp_path: Path, does: str, why: str
) -> None:
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, env={"EDITOR": f"sh -c '{does}'"}) as screen,
    ):
        screen.expect(READY)
        screen.type("begun\x07")
        screen.expect(why)
        screen.type("\r")
        screen.expect("Hello!")
        assert "begun" in said(server)


def test_words_typed_meanwhile_are_shown_edited_and_heard(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    with (
        serving(WAITS, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash(head:*)") as screen,
    ):
        screen.expect(READY)
        screen.type("wait\r")
        screen.expect("head -1 pipe")
        screen.type("be slow\r")
        screen.expect("next step: be slow")
        screen.type("/cost\r")
        screen.expect("in this session")
        screen.type("and then this\t")
        screen.expect("turn ends: and then this")
        looks_like(screen, "queue")
        screen.type("\x1b[A")
        screen.expect("> and then this")
        screen.type(" too\t\x1b[A\x7f\x7f\x7f\x7f\t")
        screen.expect(lambda text: "and then this  ↑ to edit" in text)
        (tmp_path / "work" / "pipe").write_text("go\n", "utf-8")
        screen.expect("I heard you.")
        screen.expect(lambda text: text.count("I heard you.") + text.count("Next.") == 2)
        heard, after = (str(server.requests[i].body["messages"]) for i in (1, 2))
    assert "be slow" in heard
    assert "and then this" not in heard
    assert "and then this" in after


def test_a_tab_that_finds_no_offer_sends_nothing(tmp_path: Path) -> None:
    with serving(WAITS, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("look at @nowhere")
        screen.expect("look at @nowhere")
        screen.type("\t/at/all")
        screen.expect("look at @nowhere/at/all")
        assert server.requests == []


def test_what_was_not_heard_before_a_stop_goes_back_to_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work" / "pipe")
    with (
        serving(WAITS, strict=True) as server,
        OnScreen(tmp_path, server.url, "--allowedTools", "Bash(head:*)") as screen,
    ):
        screen.expect(READY)
        screen.type("wait\r")
        screen.expect("head -1 pipe")
        screen.type("never mind\r")
        screen.expect("next step: never mind")
        screen.type("\x1b")
        screen.expect("Interrupted")
        screen.expect("> never mind")
        screen.type("\r")
        screen.expect("I heard you.")
        assert len(server.requests) == 2


def test_what_was_not_heard_before_a_no_goes_back_to_the_prompt(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"until [ -e {gate} ]; do sleep 0.05; done"
    first = {"tool": "Bash", "input": {"command": waits}}
    second = {"tool": "Bash", "input": {"command": "touch made"}}
    plan = {
        "scenario": 1,
        "answers": [{"content": [first, second]}, {"text": "Next.", "times": "always"}],
    }
    allowed = ("--allowedTools", f"Bash({waits})", "go")
    with serving(plan, strict=True) as server, OnScreen(tmp_path, server.url, *allowed) as screen:
        screen.expect("Running")
        screen.type("never mind\r")
        screen.expect("next step: never mind")
        screen.type("and then this\t")
        screen.expect("turn ends: and then this")
        gate.touch()
        screen.expect("1. Yes")
        screen.type("\x1b")
        screen.expect("> never mind")
        screen.expect("and then this")
        assert len(server.requests) == 1
        screen.type("\r")
        screen.expect("Next.")
        assert len(server.requests) == 2
        assert "never mind" in said(server)
        assert "and then this" in said(server)


@requirement("R216")
def test_vim_keys_move_and_operate(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").write_text('{"editorMode": "vim"}', "utf-8")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("one two three")
        screen.type("\x1b")
        screen.settle()
        screen.type("bdw0x")
        screen.expect(lambda text: "> ne two\n" in text)
        screen.type("A\b\x1b")
        screen.settle()
        screen.type("0cwfive")
        screen.expect("> five two")
        screen.type("\r")
        screen.expect("Hello!")
        assert "five two" in said(server)


def test_modes_go_round_and_the_model_is_picked(tmp_path: Path) -> None:
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("\x1b[Z")
        screen.expect("accept edits")
        screen.type("\x1b[Z")
        screen.expect("plan")
        screen.type("\x1bp")
        screen.expect("Select a model")
        looks_like(screen, "models")
        screen.type("\x1b")
        screen.expect_gone("Select a model")
        screen.type("\x1bp")
        screen.expect("effort: auto")
        screen.type("\x1b[C1\r")
        screen.expect("effort low")
        screen.expect("Fable 5.2 · ")


@requirement("R216")
def test_a_persons_own_keys_hold_and_their_faults_are_told(tmp_path: Path) -> None:
    own = {
        "bindings": [
            {
                "context": "Chat",
                "bindings": {
                    "ctrl+k": "/cost",
                    "ctrl+s": None,
                    "ctrl+c": "chat:submit",
                    "f2": "chat:sumbit",
                },
            }
        ]
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "keybindings.json").write_text(json.dumps(own), "utf-8")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.expect("reserved for app:interrupt")
        screen.expect("chat:sumbit")
        screen.type("\x0b")
        screen.expect("in this session")
        screen.type("stays\x13")
        screen.expect("> stays")


def test_the_prompt_breaks_between_words_and_the_arrow_keys_move_by_its_rows(
    tmp_path: Path,
) -> None:
    with (
        serving(HELLO, strict=True) as server,
        OnScreen(tmp_path, server.url, columns=40) as screen,
    ):
        screen.expect(READY)
        screen.type("an earlier prompt\r")
        screen.expect("Hello!")
        screen.expect_rest()
        # Two columns before the text, and one that is left for the cursor.
        screen.type("The first row of this prompt ends before the long words do")
        screen.expect("\n> The first row of this prompt ends\n  before the long words do\n")
        screen.type("\x1b[A")
        screen.type("1")
        screen.expect("> The first row of this pr1ompt ends\n")
        # Down returns to the column that was left, and then to the draft's end.
        screen.type("\x1b[B2")
        screen.expect("before the long words do2\n")
        screen.type("\x1b[A\x1b[A")
        screen.expect("> an earlier prompt\n─")
        screen.type("\x1b[B")
        screen.expect("before the long words do2\n─")


def test_recalled_prompts_are_left_by_one_key_and_completed_once_they_are_edited(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "unusual.py").write_text("", "utf-8")
    with serving(HELLO, strict=True) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("the oldest\r")
        screen.expect("Hello!")
        screen.expect_rest()
        screen.type("one\ntwo\nthree\r")
        screen.expect(lambda text: text.count("Hello!") == 2)
        screen.expect_rest()
        screen.type("\x1b[A")
        screen.expect("> one\n  two\n  three\n─")
        screen.type("\x1b[A")
        screen.expect("> the oldest\n─")
        screen.type("\x1b[B")
        screen.expect("> one\n  two\n  three\n─")
        screen.type(" @unu")
        screen.expect("> unusual.py")
        screen.type("\t")
        screen.expect("three @unusual.py")
        # Edited, it is a draft, and the keys move in it.
        screen.type("\x1b[A\x1b[A\x01x")
        screen.expect("> xone\n  two\n")


PIECES = st.sampled_from(
    ["a", "bb", " ", "  ", "word", "\n", "漢", "é", "\t", "👩‍👩‍👧", "\x1b", "x" * 20]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.integers(2, 30))
@pytest.mark.no_cover
def test_rows_hold_the_text_and_every_position_of_the_cursor(text: str, width: int) -> None:
    rows = lay_out(text, 0, width)[0]
    assert "".join(rows) == escape_controls(text.replace("\t", TAB)).replace("\n", "")
    for cursor in range(len(text) + 1):
        row, column = lay_out(text, cursor, width)[1]
        assert 0 <= row < len(rows)
        if width > 6:  # wider than the widest sign
            assert column < width
    for row in range(-1, len(rows) + 1):
        for column in range(width):
            position = find_position(text, width, row, column)
            assert (position is None) == (row not in range(len(rows)))
            if position is not None:
                at, cells = lay_out(text, position, width)[1]
                assert (at == row and cells <= column) or (at, cells) == (row + 1, 0)


def test_rows_break_after_spaces_and_next_to_wide_characters() -> None:
    assert lay_out("one two three", 13, 9) == (["one two ", "three"], (1, 5))
    # A space after a full row stays there, and the cursor goes on below.
    assert lay_out("12345678 ", 9, 9) == (["12345678 ", ""], (1, 0))
    assert lay_out("12345678 9", 8, 9) == (["12345678 ", "9"], (0, 8))
    assert lay_out("漢字漢字 漢字", 0, 9)[0] == ["漢字漢字 ", "漢字"]
    assert lay_out("ab 漢字漢字", 0, 9)[0] == ["ab 漢字", "漢字"]
    assert lay_out("é one two", 0, 9)[0] == ["é one ", "two"]
    assert lay_out("a" * 20, 20, 9) == (["a" * 8, "a" * 8, "aaaa"], (2, 4))
    # The end of a row that goes on below is not a place of its own.
    assert find_position("one two three", 9, 0, 20) == 7
    assert find_position("one two three", 9, 1, 20) == 13
