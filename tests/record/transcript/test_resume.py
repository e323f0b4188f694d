"""Opening a session again.

As its writer, or as a reader or fork while another process has it open.
"""

from pathlib import Path

import pytest
from claude_agent_sdk import get_session_messages

from clew.core.messages.encoding import encode
from clew.record.transcript.leaf import Side
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from clew.record.transcript.paths import rescue_dirs
from clew.record.transcript.resume import LockedSession, resume, write_fork
from tests.record.transcript.build import (
    boundary,
    kept,
    last_prompt,
    names,
    result,
    said,
    summary,
    talk,
    uid,
    user,
    write,
)
from tests.record.transcript.session import OTHER, Session, uuids
from tests.record.transcript.test_load_table import TWO_CALLS
from tests.requirements import requirement


@requirement("R197")
def test_a_session_goes_on_where_it_stood(tmp_path: Path) -> None:
    first = Session(tmp_path)
    first.recorder.record([first.user("one"), *first.answer({"type": "text", "text": "1"})])
    before = first.load()
    first.close()
    second = Session(tmp_path)
    assert second.log
    loaded = resume(second.recorder, second.log, home=tmp_path)
    assert not isinstance(loaded, LockedSession)
    assert loaded.messages == before.messages
    following = second.user("two")
    second.recorder.record([*loaded.messages, following])
    assert uuids(second.load().messages) == [*uuids(before.messages), following["uuid"]]
    second.close()


def test_a_session_that_another_has_is_held_and_says_what_can_be_done(tmp_path: Path) -> None:
    first, second = Session(tmp_path), Session(tmp_path)
    first.recorder.record([first.user("one")])
    first.load()
    assert second.log
    found = resume(second.recorder, second.log, home=tmp_path)
    assert isinstance(found, LockedSession)
    assert found.choices == ("read", "fork")
    assert found.holder is None
    assert "another process" in str(found)
    assert len(load(found.path).messages) == 1, "reading needs no lock"
    first.close()
    second.close()


FORKABLE = {
    "a talk": talk(2),
    "parallel calls": [
        *TWO_CALLS,
        result("r2", "t2", "y"),
        result("r1", "t1", "x"),
        said("a2", "r1"),
    ],
    "a compaction": [
        *talk(2),
        boundary("b", **kept("u2", "a2", "s")),
        summary("s", "b"),
        user("u3", "s"),
        last_prompt("u3"),
    ],
    "a lost parent": [*talk(1), user("u2", None) | {"parentUuid": uid("gone")}],
}


@requirement("R172")
@pytest.mark.parametrize("name", FORKABLE)
def test_a_fork_begins_as_the_original_does_and_leaves_it_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "projects" / "-w"
    title = {"type": "custom-title", "customTitle": "Mine", "sessionId": "x"}
    path = write(folder, [*FORKABLE[name], title])
    before, loaded = path.read_bytes(), load(path)
    copy = folder / f"{OTHER}.jsonl"
    copy.write_bytes(b"".join(write_fork(loaded, OTHER)))
    again = load(copy)
    assert names(again.messages) == names(loaded.messages)
    assert {m["sessionId"] for m in again.messages} == {OTHER}
    assert again.side.current["custom-title"]["customTitle"] == "Mine (fork)"
    assert path.read_bytes() == before
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    talking = [m for m in again.messages if m["type"] in ("user", "assistant")]
    assert len(get_session_messages(OTHER)) == len(talking) - (2 if name == "a compaction" else 0)


def test_a_fork_can_stop_at_an_entry(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, talk(3)))
    copy = tmp_path / f"{OTHER}.jsonl"
    copy.write_bytes(b"".join(write_fork(loaded, OTHER, until=uid("a2"))))
    assert names(load(copy).messages) == "u1 a1 u2 a2"


def test_recovery_files_have_two_places_in_order(tmp_path: Path) -> None:
    own, spare = rescue_dirs(tmp_path)
    assert own == tmp_path / "clew" / "unsaved"
    assert spare.name.startswith("clew-")
    Log(rescue_dirs=[own]).close()


def test_repairs_are_what_all_lines_say_together_also_where_each_says_everything_again() -> None:
    side = Side()
    for number, told in enumerate([["a"], ["a", "b"], None, ["c"]]):
        line = encode({"repairs": told, "n": number})
        side.feed("request-repairs", line, number, 100 * number)
    assert side.current["request-repairs"] == {"repairs": ["a", "b", "c"], "n": 3}
    assert side.current_at["request-repairs"] == 300


def test_a_session_resumes_with_what_keeping_the_cache_warm_cost() -> None:
    side = Side()
    for number, purpose in enumerate(("turn", "warming")):
        line = encode({"type": "request-cost", "purpose": purpose})
        side.feed("request-cost", line, number, 100 * number)
    assert side.warming == [(100, {"type": "request-cost", "purpose": "warming"})]
