"""`clew sessions push` and `pull`: to a folder and back, with the real command."""

import json
from pathlib import Path

from clew.record.transcript.load import load
from tests.commands.sessions.place import Place
from tests.record.transcript.build import SESSION, encoded, names, talk, user

OTHER = "1c6d3b2f-8e5a-4f1b-8d68-2a3f4e5d6c7b"


def test_a_session_goes_to_a_folder_and_comes_home_on_another_machine(
    place: Place, tmp_path: Path
) -> None:
    path = place.write(talk(2))
    store = str(tmp_path / "store")
    sent = place.json("push", SESSION, "--store", store)
    assert sent == [{"sessionId": SESSION, "lines": 4, "agents": 0, "failed": None}]
    assert "0 lines sent" in place.clew("push", "--store", store, SESSION)
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    assert other.json("pull", "--store", store, SESSION)[0]["done"] is True
    copy = other.sessions / path.name
    assert copy.read_bytes() == path.read_bytes()
    with copy.open("ab") as file:
        file.write(encoded([user("n", "a2", "from there")]))
    assert "1 line sent" in other.clew("push", "--store", store, SESSION)
    assert "remote is ahead" in place.clew("pull", "--store", store, SESSION)
    assert names(load(path).messages) == "u1 a1 u2 a2 n"
    assert len(list((place.home / "clew" / "backups").iterdir())) == 1


def test_what_fails_is_said_and_changes_nothing(place: Place, tmp_path: Path) -> None:
    path = place.write(talk(1))
    before = path.read_bytes()
    assert "the remote is empty" in place.clew(
        "pull", SESSION, "--store", str(tmp_path / "none"), code=2
    )
    assert "http store: no server responds at its address" in place.clew(
        "pull", SESSION, "--store", "http://127.0.0.1:9/x", code=2
    )
    assert "http store: no server responds at its address" in place.clew(
        "push", SESSION, "--store", "http://127.0.0.1:9/x", code=2
    )
    assert path.read_bytes() == before


def test_a_store_of_the_settings_needs_no_name(place: Place, tmp_path: Path) -> None:
    path = place.write(talk(2))
    place.write(talk(1), name=OTHER)
    assert "no store: use --store" in place.clew("push", SESSION, code=2)
    store = tmp_path / "store"
    settings = json.dumps({"sessionStore": str(store)})
    (place.home / "settings.json").write_text(settings, "utf-8")
    assert place.clew("list", "--stored") == "the store is empty\n"
    assert "specify sessions or use --all" in place.clew("push", code=2)
    assert "6 lines of 2 sessions sent" in place.clew("push", "--all")
    path.unlink()
    rows = place.json("list", "--stored")
    assert [(row["sessionId"], row["lines"], row["path"] is None) for row in rows] == [
        (SESSION, 4, True),
        (OTHER, 2, False),
    ]
    assert "not on this machine" in place.clew("list", "--stored")
    place.clew("pull", SESSION, OTHER)
    assert names(load(path).messages) == "u1 a1 u2 a2"
    (store / OTHER / "session.jsonl").write_bytes(encoded(talk(1))[5:])
    said = place.json("push", "--all", code=2)
    assert [(one["lines"], bool(one["failed"])) for one in said] == [(0, False), (0, True)]


def test_agents_of_a_group_come_back_to_where_they_are(place: Place, tmp_path: Path) -> None:
    path = place.write(talk(1))
    agent = path.with_suffix("") / "subagents" / "workflows" / "w1" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(encoded(talk(1)))
    store = str(tmp_path / "store")
    place.clew("push", SESSION, "--store", store)
    place.clew("pull", SESSION, "--store", store)
    assert list(path.with_suffix("").rglob("*.jsonl")) == [agent]
