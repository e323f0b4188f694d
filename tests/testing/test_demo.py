"""`clew demo` as a process: through a pipe, in a terminal, without a key, a network or a home."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from clew.testing.demo import DEMO, main, printable
from clew.testing.options import read_scenario
from clew.testing.playing import pace_scenario
from clew.testing.scenario import from_value

DEMO_COMMAND = [sys.executable, "-m", "clew", "demo", "talk"]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of this machine's settings, and no way out: every proxy leads nowhere."""
    nowhere = "http://127.0.0.1:9"
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"), nowhere)
    home_variables = {"HOME": str(home), "CLEW_CONFIG_DIR": str(home / "config")}
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **home_variables, **proxies, **more}


def demo(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DEMO_COMMAND, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(home),
        timeout=60,
        check=False,
    )


def in_a_terminal(home: Path, *, what: str = "talk", columns: int = 0, **more: str) -> str:
    """What the demo writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [*DEMO_COMMAND[:-1], what, "--speed", "max"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home, **more)
    ) as program:
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:
            pass  # how Linux says that the other side of a terminal is gone
        finally:
            os.close(ours)
        assert program.wait(60) == 0
    return written.decode("utf-8").replace("\r\n", "\n")


def test_the_demo_is_read_in_a_pipe(tmp_path: Path) -> None:
    done = demo(tmp_path, "--speed", "max")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("clew demo: a scripted model over real HTTP")
    assert "> What is a clew?" in lines
    assert "  [HTTP 529: Overloaded]" in lines
    assert any(line.startswith("  [attempt 2 in ") for line in lines)
    assert "  [withdrawn: the answer starts over]" in lines
    assert any(line.startswith("(thinking) The user asks about the word.") for line in lines)
    assert "Ariadne gave one to Theseus, who unwound it behind him and so found his" in lines
    assert '  [calls Bash {"command": "ls -l", "description": "List this folder"}]' in lines
    assert lines[-1] == "5 requests, 3 answers, 2 retries"
    assert "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == [], "the demo wrote into the home"


def test_in_a_terminal_there_are_colors_that_can_be_refused(tmp_path: Path) -> None:
    colored = in_a_terminal(tmp_path, TERM="xterm-256color")
    assert "\x1b[1m> What is a clew?\x1b[0m\n" in colored
    for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = in_a_terminal(tmp_path, **refusal)
        assert "\x1b" not in plain
        assert plain == demo(tmp_path, "--speed", "max").stdout


@pytest.mark.parametrize("what", ["talk", "repair"])
@pytest.mark.parametrize("columns", [60, 34])
def test_in_a_narrow_terminal_lines_end_between_words(
    tmp_path: Path, what: str, columns: int
) -> None:
    wide, narrow = (
        in_a_terminal(tmp_path, what=what, columns=each, TERM="dumb") for each in (0, columns)
    )
    # How much is seen of an answer that is begun anew depends on when it is cut.
    said, told = (
        [word for word in " ".join(text.split()).split("again]")[-1].split() if word.isalpha()]
        for text in (wide, narrow)
    )
    assert told == said
    assert len(said) > 30
    # A word alone may be too long.
    lines = narrow.split("\n")
    assert [line for line in lines if len(line) > columns and " " in line.strip()] == []


def test_another_scenario_is_played(tmp_path: Path) -> None:
    scenario = tmp_path / "own.yaml"
    scenario.write_text(
        "scenario: 1\nprompts: [hello]\nanswers: [{text: 'good \\e[31m day'}]\n".replace("'", '"'),
        "utf-8",
    )
    done = demo(tmp_path, "--scenario", str(scenario))
    assert done.returncode == 0
    assert done.stdout.endswith("> hello\ngood \ufffd[31m day\n\n1 request, 1 answer, 0 retries\n")


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ('{"status": 400}', 1, "[HTTP 400: scripted status 400; "),
        ('{"when": {"user": "x"}, "text": "y"}', 1, "no rule matched request 1"),
        ('{"content": ["a", "b"], "faults": [{"after_events": 7, "cut": "close"}]}', 1, "complete blocks are kept]"),
        ('{"content": [{"tool": "T", "input_json": "{"}]}', 1, "[calls T with invalid input: "),
        ('{"content": []}', 0, "1 answer, 0 retries"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_come_is_said(
    tmp_path: Path, answer: str, code: int, said: str
) -> None:
    scenario = tmp_path / "own.json"
    scenario.write_text(f'{{"scenario": 1, "prompts": ["hi"], "answers": [{answer}]}}', "utf-8")
    done = demo(tmp_path, "--scenario", str(scenario), "--speed", "max")
    assert said in done.stdout
    assert done.returncode == code
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "own.yaml: No such file or directory\n"),
        ("scenario: 1\nanswrs: []\n", "own.yaml:2: answrs: unknown key (did you mean \"answers\"?)"),
        ("scenario: 1\nanswers: [{text: a}]\n", "own.yaml: prompts: must not be empty"),
    ],
)  # fmt: skip
def test_a_scenario_that_cannot_be_played_is_named(
    tmp_path: Path, text: str | None, said: str
) -> None:
    scenario = tmp_path / "own.yaml"
    if text is not None:
        scenario.write_text(text, "utf-8")
    done = demo(tmp_path, "--scenario", str(scenario))
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "fast"])
def test_a_speed_that_is_none_is_refused(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["talk", f"--speed={speed}"])
    assert caught.value.code == 2
    assert "a number from 0.01 to 1000, or max" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO_COMMAND, "--speed", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(60) == 0
        assert program.stderr.read() == b""


def test_an_interrupted_demo_ends_at_once_and_quietly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEMO_COMMAND, "--speed", "0.01"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        while b"529" not in program.stdout.readline():
            pass
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
        assert program.stderr.read() == b"\n"


def test_speed_changes_every_pace_and_nothing_else() -> None:
    value: dict[str, Any] = {
        "scenario": 1,
        "defaults": {"send": {"events_per_s": 10}},
        "answers": [
            {"text": "a", "send": {"bytes_per_s": 100, "chunk_bytes": 5}},
            {
                "text": "b",
                "faults": [
                    {"at": "headers", "stall_s": 4},
                    {"after_bytes": 1, "stall_s": "forever"},
                    {"after_bytes": 2, "cut": "end"},
                ],
            },
        ],
    }
    twice = pace_scenario(from_value(value), 2.0)
    value["defaults"]["send"]["events_per_s"] = 20
    value["answers"][0]["send"]["bytes_per_s"] = 200
    value["answers"][1]["faults"][0]["stall_s"] = 2
    assert twice == from_value(value)
    at_once = pace_scenario(from_value(value), None)
    value["defaults"]["send"] = {}
    value["answers"][0]["send"] = {"chunk_bytes": 5}
    value["answers"][1]["faults"][0]["stall_s"] = 0
    assert at_once == from_value(value)


def test_what_a_terminal_would_obey_is_shown_and_not_obeyed() -> None:
    assert (
        printable("a\x1b]0;x\x07\n\tb\x9b1m\u202e\u2028")
        == "a\ufffd]0;x\ufffd\n\tb\ufffd1m\ufffd\ufffd"
    )


def test_the_demo_s_own_scenario_is_read_and_played_out() -> None:
    assert read_scenario(DEMO).name == "demo"


def test_a_prompt_nobody_answered_does_not_spoil_the_next(tmp_path: Path) -> None:
    scenario = tmp_path / "own.yaml"
    answers = "answers: [{status: 400}, {text: here again}]\n"
    scenario.write_text(f"scenario: 1\nprompts: [a, b]\n{answers}", "utf-8")
    done = demo(tmp_path, "--scenario", str(scenario), "--speed", "max")
    assert "here again" in done.stdout
    assert "roles" not in done.stdout
    assert done.returncode == 1


def test_the_repair_repairs_the_project_with_real_tools_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clew", "demo", "--speed", "max"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(tmp_path, TMPDIR=str(tmp_path)),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Exit code 1" in done.stdout
    assert "+     return sum(coins)\n" in done.stdout
    assert "the test passes" in done.stdout
    # Nothing can be typed in it, so nothing that is typed is named.
    assert re.search(r"\d more lines\n", done.stdout)
    assert "/see" not in done.stdout
    assert list(tmp_path.iterdir()) == []
