"""Lists and reports on a terminal: colors, summaries and highlighted matches; plain text elsewhere."""

import shutil
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew, transcripts
from tests.fronts.terminal.screen import OnScreen

HELLO = {"scenario": 1, "answers": [{"text": "Mended.", "times": "always"}]}
ESCAPE = b"\x1b["


def seen(home: Path, url: str, *words: str, no_color: str = "") -> OnScreen:
    env = {"NO_COLOR": no_color}
    with OnScreen(home, url, *words, env=env, columns=200) as screen:
        screen.end()
    return screen


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with serving(HELLO) as server:
        for prompt in ("find the \x1b[31mholes", "mend the net"):
            assert clew(tmp_path, server.url, "-p", prompt).returncode == 0
    return tmp_path


def test_lists_and_searches_have_colors_and_a_summary(place: Path) -> None:
    with serving(HELLO) as server:
        listed = seen(place, server.url, "sessions", "list")
        assert b"\x1b[1m  mend the net\x1b[0m" in listed.raw
        assert "2 sessions in this folder" in listed.text
        found = seen(place, server.url, "sessions", "search", "NET")
        assert b"mend the \x1b[1;4;33mnet\x1b[0m" in found.raw
        assert "1 match in 1 session" in found.text
        for words in (
            ("sessions", "list"),
            ("sessions", "search", "find"),
            ("doctor", "--offline"),
        ):
            shown = seen(place, server.url, *words)
            assert ESCAPE in shown.raw
            assert b"\x1b[31mholes" not in shown.raw
            assert ESCAPE not in seen(place, server.url, *words, no_color="1").raw
            assert "\x1b" not in clew(place, server.url, *words).stdout


def test_doctor_ends_with_a_summary(place: Path) -> None:
    with serving(HELLO) as server:
        shown = seen(place, server.url, "doctor", "--offline")
        last = clew(place, server.url, "doctor", "--offline").stdout.rstrip().split("\n")[-1]
    assert b"\x1b[32mok\x1b[0m" in shown.raw
    assert "problem" in last


def test_check_groups_by_rule_with_the_worst_first(place: Path) -> None:
    path = transcripts(place)[0]
    named = path.with_name("00000000-0000-4000-8000-000000000000.jsonl")
    shutil.copy(path, named)
    lines = named.read_bytes().split(b"\n")
    (user,) = [number for number, line in enumerate(lines) if b'"type":"user"' in line][:1]
    del lines[user]
    named.write_bytes(b"\n".join(lines))
    with serving(HELLO) as server:
        done = clew(place, server.url, "sessions", "check", str(named))
        every = clew(place, server.url, "sessions", "check")
        shown = seen(place, server.url, "sessions", "check", str(named))
    assert done.returncode == 1
    assert done.stdout.count("S01 error") == 1
    assert done.stdout.count("C01 error") == 1
    assert done.stdout.index("C01 error") < done.stdout.index("S01 error")
    assert " times)\n    lines " in done.stdout
    assert every.stdout.endswith("3 sessions checked: 1 with problems\n")
    assert b"\x1b[31mC01 error\x1b[0m" in shown.raw
