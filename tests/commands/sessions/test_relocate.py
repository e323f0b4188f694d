"""A moved project: its sessions are found and moved, too."""

import json
from pathlib import Path

from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from tests.commands.sessions.place import Place
from tests.record.transcript.build import SESSION, encoded, names, talk, user
from tests.record.transcript.session import OTHER


def move(place: Place, name: str) -> tuple[Path, Path]:
    old = place.cwd
    place.cwd = old.rename(old.with_name(name))
    return old, place.cwd


def test_a_moved_project_is_found_again_and_its_sessions_come_along(place: Place) -> None:
    path = place.write(talk(2))
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_bytes(encoded([user("s", None, isSidechain=True)]))
    before = path.read_bytes()
    below = place.cwd / "below"
    below.mkdir()
    home, place.cwd = place.cwd, below
    inner = place.write(talk(1), OTHER)
    place.cwd = home
    old, new = move(place, "renamed")
    hint = place.clew("list")
    assert f"clew sessions relocate {old} ." in hint
    gone = {one["cwd"]: one["sessions"] for one in place.json("relocate")}
    assert gone == {str(old): 1, str(old / "below"): 1}
    assert len(place.json("relocate", str(old), "--dry-run")["moved"]) == 2
    assert path.exists()
    done = place.json("relocate", str(old), ".")
    assert {one["sessionId"] for one in done["moved"]} == {SESSION, OTHER}
    assert [o["sessionId"] for o in place.json("list")] == [SESSION]
    moved = place.sessions / path.name
    assert moved.read_bytes() == before
    assert (moved.with_suffix("") / "subagents" / "agent-a1.jsonl").exists()
    assert names(load(moved).messages) == "u1 a1 u2 a2"
    assert not inner.exists()
    place.cwd = new / "below"
    assert [o["sessionId"] for o in place.json("list")] == [OTHER]
    kept = (place.home / "clew" / "relocated.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["from"] for line in kept} == {str(path), str(inner)}
    assert place.json("relocate") == []
    assert "no sessions of" in place.clew("relocate", str(old / "none"), code=2)


def test_a_project_that_moves_twice_keeps_its_sessions(place: Place) -> None:
    place.write(talk(1))
    first, second = move(place, "second")
    place.clew("relocate", str(first))
    _, third = move(place, "third")
    assert place.json("relocate", str(second))["moved"][0]["sessionId"] == SESSION
    assert third == place.cwd
    assert [o["sessionId"] for o in place.json("list")] == [SESSION]


def test_a_neighbour_whose_name_begins_the_same_stays(place: Place) -> None:
    place.write(talk(1))
    neighbour = place.cwd.with_name("work-2")
    neighbour.mkdir()
    old, _ = move(place, "renamed")
    here, place.cwd = place.cwd, neighbour
    other = place.write(talk(1), OTHER)
    place.cwd = here
    place.clew("relocate", str(old))
    assert other.exists()


def test_a_session_that_is_open_or_has_a_namesake_stays(place: Place) -> None:
    path = place.write(talk(1))
    second = place.write(talk(1), OTHER)
    old, _ = move(place, "renamed")
    taken = place.write(talk(3), OTHER)
    before = taken.read_bytes()
    log = Log()
    assert log.claim(path)
    kept = place.json("relocate", str(old), code=1)["kept"]
    log.close()
    assert {one["sessionId"]: one["reason"] for one in kept} == {
        SESSION: f"it {OPEN_ELSEWHERE}",
        OTHER: "the target already exists",
    }
    assert path.exists()
    assert second.exists()
    assert taken.read_bytes() == before
    place.clew("relocate", str(old), code=1)
    assert not path.exists()


def test_there_must_be_a_place_to_go(place: Place) -> None:
    place.write(talk(1))
    assert "folder not found" in place.clew("relocate", str(place.cwd), "nowhere", code=2)
    assert "no missing folders" in place.clew("relocate")
    assert list(place.sessions.iterdir())
