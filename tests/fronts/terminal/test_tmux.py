"""clew in a real tmux: a terminal that rewraps lines when resized, and a shell with job control."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.commands.slash.record import NOW_ENDS
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, command, environment
from tests.fronts.terminal.terminal import began_before
from tests.fronts.terminal.test_dialogs import settings
from tests.fronts.terminal.test_first_run import NO_KEY
from tests.fronts.terminal.test_linear import HELLO, NEVER_ENDS, WRITES
from tests.requirements import requirement

pytestmark = pytest.mark.e2e


class Tmux:
    """One window of a server of its own."""

    def __init__(self, home: Path, columns: int = 80, rows: int = 24) -> None:
        program = shutil.which("tmux")
        assert program is not None, "tmux is needed"
        self._base = [program, "-L", f"clew-{os.getpid()}-{time.monotonic_ns()}", "-f", "/dev/null"]
        self._home = home
        self._size = ["-x", str(columns), "-y", str(rows)]

    def run(self, *args: str) -> str:
        done = subprocess.run(
            [*self._base, *args], capture_output=True, text=True, encoding="utf-8", check=True
        )
        return done.stdout

    def start(self, url: str, argv: list[str], **more: str) -> None:
        (self._home / "work").mkdir(exist_ok=True)
        began_before(self._home)
        env = environment(self._home, url) | {"NO_COLOR": "1"} | more
        said = [f"{name}={value}" for name, value in env.items()]
        line = shlex.join(["env", *said, *argv])
        # A window has the scrollback that was wished when it was made.
        kept = ["start-server", ";", "set-option", "-g", "history-limit", "100000", ";"]
        self.run(*kept, "new-session", "-d", *self._size, "-c", str(self._home / "work"), line)

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def words(self, text: str) -> None:
        self.run("send-keys", "-l", text)

    @property
    def seen(self) -> str:
        return self.run("capture-pane", "-p", "-J")

    @property
    def text(self) -> str:
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def expect(self, words: str | Callable[[str], bool], *, within_s: float = 30) -> None:
        is_there = words if callable(words) else (lambda text: words in text)
        deadline = time.monotonic() + within_s
        while not is_there(self.seen):
            assert time.monotonic() < deadline, f"{words!r} did not come:\n{self.text}"

    def close(self) -> None:
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    window = Tmux(tmp_path)
    yield window
    window.close()


@requirement("R214", "R215")
def test_type_permit_interrupt_and_paste(tmp_path: Path, tmux: Tmux) -> None:
    with serving(WRITES, strict=True) as server:
        tmux.start(server.url, command())
        tmux.expect("default")
        tmux.words("write it")
        tmux.keys("Enter")
        tmux.expect("1. Yes")
        tmux.keys("Escape")
        tmux.expect(lambda text: "1. Yes" not in text)
        (tmp_path / "large").write_text("pasted words\n" * 80_000, "utf-8")
        tmux.run("load-buffer", str(tmp_path / "large"))
        tmux.run("paste-buffer", "-p")
        tmux.expect("[Pasted text #1 +80000 lines]")


def newest(text: str) -> int:
    return max(int(number) for number in re.findall(r"Paragraph (\d+) of", text) or ["0"])


def test_many_sizes_at_once_during_a_stream_lose_no_line_and_leave_no_copy(tmux: Tmux) -> None:
    text = "\n\n".join(f"Paragraph {number} of the answer." for number in range(400))
    answer = {"text": text, "delta_chars": 12, "send": {"bytes_per_s": 15_000}}
    with serving({"scenario": 1, "answers": [answer]}) as server:
        tmux.start(server.url, [*command(), "go"])
        # The lines fill the window: tmux pushes the first ones of a window that is not full into
        # the scrollback as soon as it becomes narrower.
        tmux.expect(lambda text: newest(text) > 20)
        tmux.words("a draft that wraps in a narrow window")
        tmux.expect("> a draft")
        for number in range(40):
            tmux.resize(*((40, 18), (120, 40), (33, 16), (80, 24), (51, 22), (60, 20))[number % 6])
            # tmux reports some of the sizes at once and others late.
            for _ in range(number * 7 % 40):
                tmux.run("display-message", "-p", "")
        tmux.resize(100, 30)
        tmux.expect("Done in", within_s=60)
        said = re.findall(r"Paragraph (\d+) of the answer\.", tmux.text)
        assert said == [str(number) for number in range(400)], tmux.text
        assert len([row for row in tmux.text.split("\n") if set(row) == {"─"}]) == 2, tmux.text
        assert tmux.text.count("> a draft") == 1


@requirement("R215")
def test_a_size_that_changes_during_a_stream_leaves_each_line_once(tmux: Tmux) -> None:
    text = "\n\n".join(f"Paragraph {number} of the answer." for number in range(800))
    answer = {"text": text, "delta_chars": 12, "send": {"bytes_per_s": 25_000}}
    with serving({"scenario": 1, "answers": [answer]}) as server:
        tmux.start(server.url, [*command(), "go"])
        tmux.expect(lambda text: newest(text) > 8)
        for columns, rows in ((60, 24), (100, 30), (70, 15), (120, 24)):
            before = newest(tmux.seen)
            tmux.resize(columns, rows)
            # However slow this machine is: the stream may have come to its end before the sizes did.
            tmux.expect(lambda text, last=before: newest(text) > min(last + 8, 798))
        tmux.expect("Paragraph 799")
        tmux.expect(lambda text: "to interrupt)" not in text)
        said = re.findall(r"Paragraph (\d+) of the answer\.", tmux.text)
    assert said == [str(number) for number in range(800)]
    # Of what was only drawn, what stands there now is all there is.
    drawn = [number for number, row in enumerate(tmux.text.split("\n")) if "─" in row]
    assert len(drawn) == 2, tmux.text


@requirement("R215")
def test_clew_is_stopped_by_its_shell_and_goes_on(tmux: Tmux) -> None:
    with serving(NEVER_ENDS, strict=True) as server:
        tmux.start(server.url, ["bash", "--norc", "-i"])
        tmux.words(shlex.join([*command(), "go"]))
        tmux.keys("Enter")
        tmux.expect("A whole thought.")
        tmux.words("half a line")
        tmux.expect("> half a line")
        tmux.keys("C-z")
        tmux.expect("Stopped")
        tmux.words("echo the shell is back")
        tmux.keys("Enter")
        tmux.expect("\nthe shell is back")
        tmux.words("fg")
        tmux.keys("Enter")
        tmux.expect(lambda text: "> half a line" in text.split("the shell is back")[-1])
        tmux.keys("Escape")
        tmux.expect("Interrupted")
        tmux.words(" and more")
        tmux.expect("> half a line and more")


@requirement("R215")
def test_an_answer_streams_is_stopped_and_the_next_one_stands_whole(tmux: Tmux) -> None:
    """Two thousand lines: each is in the terminal's own scrollback, once and in its order."""
    endless = "".join(f"Line {number} of the first.\n\n" for number in range(9_000))
    lines = "".join(f"- line {number} of the second\n" for number in range(2_000))
    plan = {
        "scenario": 1,
        "answers": [
            {"text": endless, "delta_chars": 12, "send": {"bytes_per_s": 20_000}},
            {"text": f"{lines}\nThat was all.", "delta_chars": 12},
        ],
    }
    with serving(plan) as server:
        tmux.start(server.url, command())
        tmux.expect("default")
        tmux.words("begin")
        tmux.keys("Enter")
        tmux.expect("of the first.")
        tmux.keys("Escape")
        tmux.expect("Interrupted")
        tmux.words("and now the second")
        tmux.keys("Enter")
        tmux.expect("That was all.")
        tmux.expect(lambda text: "to interrupt)" not in text)
        said = re.findall(r"line (\d+) of the second", tmux.text)
        first = re.findall(r"Line (\d+) of the first\.", tmux.text)
    assert said == [str(number) for number in range(2_000)]
    assert first == [str(number) for number in range(len(first))]
    assert len(first) < 9_000


@requirement("R216")
def test_vim_keys_in_a_real_terminal(tmp_path: Path, tmux: Tmux) -> None:
    settings(tmp_path, editorMode="vim")
    with serving(HELLO, strict=True) as server:
        tmux.start(server.url, command())
        tmux.expect("default")
        tmux.words("one two three")
        tmux.expect("> one two three")
        tmux.keys("Escape")
        tmux.words("0dw")
        tmux.expect("> two three")
        tmux.words("wcwfour")
        tmux.expect("> two four")
        tmux.keys("Enter")
        tmux.expect("Hello!")
        assert "two four" in str(server.requests[0].body["messages"])


@requirement("R198")
def test_the_first_run_without_a_key_says_three_ways_and_a_session_stands(tmux: Tmux) -> None:
    tmux.start("", command(), **NO_KEY, OLLAMA_HOST="127.0.0.1:9")
    tmux.expect("No model configured")
    for way in ("/login SERVICE", "Local model", "clew demo"):
        tmux.expect(way)
    tmux.expect("default")
    tmux.words("/status")
    tmux.keys("Enter")
    tmux.expect("not written yet")


@requirement("R198")
def test_resume_search_and_rewind(tmp_path: Path, tmux: Tmux) -> None:
    write = {"tool": "Write", "input": {"file_path": "x.txt", "content": "new\n"}}
    plan = [
        {"when": {"tool_result": "Write"}, "text": "So be it.", "times": "always"},
        {"content": [write], "times": "always"},
    ]
    with serving({"scenario": 1, "answers": plan}) as server:
        for prompt in ("first matter", "second matter"):
            done = clew(tmp_path, server.url, "-p", prompt, "--permission-mode", "acceptEdits")
            assert done.returncode == 0, done.stderr
        tmux.start(server.url, command("--resume"))
        tmux.expect("2 sessions in this folder")
        tmux.expect("So be it.")
        for columns, rows in ((40, 10), (120, 40), (80, 24)):
            tmux.resize(columns, rows)
            tmux.expect(lambda text, columns=columns: "─" * columns in text)
        tmux.words("first matter")
        tmux.expect("1 of 2 sessions")
        tmux.keys("Enter")
        tmux.expect(lambda text: "Resume session" not in text and "> first matter" in text)
        tmux.expect("default")
        tmux.words("/search second")
        tmux.keys("Enter")
        tmux.expect("user: second matter")
        tmux.words("/rewind")
        tmux.keys("Enter")
        tmux.expect("Rewind to before")
        tmux.resize(60, 20)
        tmux.keys("Enter")
        tmux.expect("Conversation only")
        tmux.resize(80, 24)
        tmux.words("1")
        tmux.expect(f"{NOW_ENDS} at its beginning")
        tmux.expect(lambda text: "> first matter" in text.split("its beginning")[1])


def test_an_editor_is_stopped_by_the_shell_and_goes_on_with_clew(
    tmp_path: Path, tmux: Tmux
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\necho it edits\nread line\necho "$line" > "$1"\n', "utf-8")
    editor.chmod(0o755)
    with serving(HELLO, strict=True) as server:
        tmux.start(server.url, ["bash", "--norc", "-i"])
        tmux.words(f"EDITOR={editor} {shlex.join(command())}")
        tmux.keys("Enter")
        tmux.expect("default")
        tmux.keys("C-g")
        tmux.expect("it edits")
        tmux.keys("C-z")
        tmux.expect("Stopped")
        tmux.words("fg")
        tmux.keys("Enter")
        # The shell says what it brings to the front: what is typed from then on is the editor's.
        tmux.expect(lambda text: text.split("Stopped")[-1].count("editor.sh") > 1)
        tmux.words("from the editor")
        tmux.keys("Enter")
        tmux.expect("\n> from the editor")
        tmux.keys("Enter")
        tmux.expect("Hello!")


LOOP = (60, 120, 40, 200, 80, 120)
LONG = "\n\n".join(f"Paragraph {number} of the answer." for number in range(40))


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_size_that_changes_leaves_no_copy_of_the_live_area(tmux: Tmux, *, is_asked: bool) -> None:
    asks = {"content": [LONG, {"tool": "Bash", "input": {"command": "rm -rf build"}}]}
    answer = asks if is_asked else {"text": LONG}
    with serving({"scenario": 1, "answers": [answer]}) as server:
        tmux.start(server.url, command())
        tmux.resize(120, 40)
        tmux.expect("default")
        tmux.words("go")
        tmux.keys("Enter")
        tmux.expect("Run this command?" if is_asked else "Done in")
        if not is_asked:
            tmux.words("a thought " * 12 + "ends")
            tmux.expect("ends")
        for columns in LOOP:
            tmux.resize(columns, 40)
            tmux.expect(lambda text, columns=columns: f"\n{'─' * columns}\n" in text)
        drawn = [row for row in tmux.text.split("\n") if "─" in row]
        assert len(drawn) == 2, tmux.text
        assert tmux.text.count("Run this command?" if is_asked else "> a thought") == 1
        assert re.findall(r"Paragraph (\d+) of", tmux.text) == [str(n) for n in range(40)]
