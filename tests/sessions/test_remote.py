"""`clew sessions push` and `pull`: to a folder and home again, through the real command."""

from pathlib import Path

from clew.transcript.load import load
from tests.sessions.place import Place
from tests.transcript.build import SESSION, encoded, names, talk, user


def test_a_session_goes_to_a_folder_and_comes_home_on_another_machine(
    place: Place, tmp_path: Path
) -> None:
    path = place.write(talk(2))
    store = str(tmp_path / "store")
    assert place.json("push", store, SESSION) == {"sessionId": SESSION, "lines": 4, "agents": 0}
    assert "0 lines sent" in place.clew("push", store, SESSION)
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    assert other.json("pull", store, SESSION)["done"] is True
    copy = other.sessions / path.name
    assert copy.read_bytes() == path.read_bytes()
    with copy.open("ab") as file:
        file.write(encoded([user("n", "a2", "from there")]))
    assert "1 line sent" in other.clew("push", store, SESSION)
    assert "remote is ahead" in place.clew("pull", store, SESSION)
    assert names(load(path).messages) == "u1 a1 u2 a2 n"
    assert len(list((place.home / "clew" / "backups").iterdir())) == 1


def test_what_fails_is_said_and_changes_nothing(place: Place, tmp_path: Path) -> None:
    path = place.write(talk(1))
    before = path.read_bytes()
    assert "the remote is empty" in place.clew("pull", str(tmp_path / "none"), SESSION, code=2)
    assert "http store: connect" in place.clew("pull", "http://127.0.0.1:9/x", SESSION, code=2)
    assert "http store: connect" in place.clew("push", "http://127.0.0.1:9/x", SESSION, code=2)
    assert path.read_bytes() == before
