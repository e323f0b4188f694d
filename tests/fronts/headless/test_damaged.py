"""Damaged and odd files, resumed by the real program: valid requests, and no live byte lost.

A few are in the quick suite; `make crash` takes every row of the table of damage, and cuts a
session's file at and around each line end and in the middle of each line.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.load import load
from clew.record.transcript.paths import encode_path
from clew.testing.server import LoopbackServer, serving
from tests.fronts.headless.agents_model import by_prompt, uses
from tests.fronts.headless.clew_process import clew, transcripts
from tests.record.transcript.build import SESSION, write
from tests.record.transcript.test_load_table import ROWS
from tests.requirements import requirement

Json = dict[str, Any]
ANY: Json = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
# What the model is not sent: a result that answers no call of the conversation.
ANSWERS_NOTHING = "> a result that answers nothing, above parallel calls"
FEW = (
    "= a garbage line",
    "> an entry behind a torn one",
    "> no uuid anywhere",
    "= a cycle of four",
    "> a boundary last, linked",
    "> a torn line that wrote two entries ahead, in the last line",
    "> nothing but a sidechain",
    "> an answer without a message",
    '> an answer whose message is "x"',
)


def said(messages: Iterable[Json]) -> set[str]:
    """Return what a request must contain: texts, and the IDs of calls and results."""
    found: set[str] = set()
    for message in messages:
        inner = message.get("message")
        content = inner.get("content") if isinstance(inner, dict) else None
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        found |= {
            b.get("text") or b.get("id") or b.get("tool_use_id") or ""
            for b in blocks
            if isinstance(b, dict)
        }
    return found - {""}


def goes_on(home: Path, server: LoopbackServer, path: Path, *, is_said: bool = True) -> None:
    """Resume the session at `path` with the real program.

    Compare its request with the live part.
    """
    before, live = path.read_bytes(), load(path)
    asked = len(server.requests)
    done = clew(home, server.url, "-p", "What next?", "--resume", path.stem)
    assert path.read_bytes().startswith(before)
    assert "Traceback" not in done.stderr
    if live.is_empty and not live.stands_before_all:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        return
    assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
    (request,) = server.requests[asked:]
    assert request.status == 200, "the strict service has nothing against it"
    sent = said({"message": message} for message in request.body["messages"])
    wanted = said(live.messages) if is_said else set()
    assert [words for words in wanted if not any(words in each for each in sent)] == []
    assert "What next?" in sent
    after = [message["uuid"] for message in load(path).messages]
    assert after == [message["uuid"] for message in load(path, reads_all=True).messages]
    stood = [message["uuid"] for message in live.messages]
    assert [uuid for uuid in after if uuid in set(stood)] == stood


def row_goes_on(home: Path, row: str) -> None:
    lines, _ = ROWS[row]
    (home / "work").mkdir()
    path = write(home / "config" / "projects" / encode_path(str((home / "work").resolve())), lines)
    with serving(ANY, strict=True) as server:
        goes_on(home, server, path, is_said=row != ANSWERS_NOTHING)


@requirement("R197")
@pytest.mark.parametrize("row", FEW)
def test_damage_of_a_few_kinds_is_continued(row: str, tmp_path: Path) -> None:
    row_goes_on(tmp_path, row)


@pytest.mark.crash
@pytest.mark.parametrize("row", [row for row in ROWS if row not in FEW])
def test_damage_of_every_kind_is_continued(row: str, tmp_path: Path) -> None:
    row_goes_on(tmp_path, row)


def begun(home: Path) -> Path:
    """A session with parallel calls and a branch, written by the program."""
    look = {"tool": "Bash", "input": {"command": "echo seen"}}
    asked = {
        "go": [uses(look, look), {"text": "Done."}],
        "and on": [uses(look), {"text": "Again."}],
    }
    with serving(by_prompt(asked), strict=True) as server:
        for words in (["go", "--session-id", SESSION], ["and on", "--continue"]):
            done = clew(home, server.url, "-p", *words, "--allowedTools", "Bash")
            assert done.returncode == 0, done.stderr
    (path,) = transcripts(home)
    return path


def cut(home: Path, places: Iterable[int] | None) -> int:
    """Cut the session there, or around each line end, and resume it each time; return how often."""
    path = begun(home)
    whole = path.read_bytes()
    if places is None:
        ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
        middles = [(a + b) // 2 for a, b in zip([0, *ends], ends, strict=False)]
        places = sorted({*ends, *(end + 1 for end in ends), *(end - 1 for end in ends), *middles})
    count = 0
    with serving(ANY, strict=True) as server:
        for place in places:
            path.write_bytes(whole[:place])
            goes_on(home, server, path)
            count += 1
    return count


@requirement("W32")
def test_a_session_cut_anywhere_is_continued(tmp_path: Path) -> None:
    chance = random.Random(5)
    assert cut(tmp_path, [chance.randrange(400, 12_000) for _ in range(5)]) == 5


@pytest.mark.crash
def test_a_session_cut_around_each_end_of_a_line_is_continued(tmp_path: Path) -> None:
    assert cut(tmp_path, None) > 80


def test_what_a_row_says_is_found_in_it() -> None:
    line = json.loads('{"message": {"content": [{"type": "text", "text": "a"}, {"id": "t"}]}}')
    assert said([line, {"message": "odd"}, {}]) == {"a", "t"}
