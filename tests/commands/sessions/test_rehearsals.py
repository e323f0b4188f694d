"""`clew sessions repair` and its dry run: both report the same, also for sessions beyond repair."""

import re
from typing import Any

import pytest

from tests.commands.sessions.place import Place
from tests.record.transcript.build import SESSION, boundary, call, result, said, talk, user

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

GARBAGE = {
    "bytes": bytes(range(128, 256)) * 9,
    "words": b"hello\nworld\n",
    "a title alone": b'{"type":"custom-title","customTitle":"x","sessionId":"s"}\n{oops\n',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_of_what_holds_no_conversation_no_copy_is_made(place: Place, name: str) -> None:
    path = place.write([])
    path.write_bytes(GARBAGE[name])
    for words in ((), ("--warnings",), ("--dry-run",), ("--dry-run", "--warnings")):
        told = place.clew("repair", SESSION, *words, code=1)
        assert told.startswith(f"{path}: nothing to recover, ")
        assert f"clew sessions archive {SESSION}" in told
    assert place.json("repair", SESSION, code=1)["action"] == "nothing to rescue"
    assert path.read_bytes() == GARBAGE[name]
    assert list(place.sessions.rglob("*")) == [path]
    place.clew("archive", SESSION)
    assert list(place.sessions.rglob("*")) == []


REPAIRS: dict[str, list[Any]] = {
    "nothing": talk(1),
    "warnings": [*talk(1), b"{oops\n", user("u2", "a1"), said("a2", "u2")],
    "append": [user("u1", None), said("t1", "u1", call("x"))],
    "append to warnings": [b"{oops\n", user("u1", None), said("t1", "u1", call("x"))],
    "new session": [*talk(1), user("u2", "gone"), said("a2", "u2"), result("r", "a2", "z")],
}


@pytest.mark.parametrize("words", [(), ("--warnings",)])
@pytest.mark.parametrize("name", REPAIRS)
def test_a_rehearsal_says_what_the_repair_does_and_ends_as_it(
    place: Place, name: str, words: tuple[str, ...]
) -> None:
    def without_ids(told: str) -> list[str]:
        of_done = ("  resume ", "  archive ", "Backup: ")
        lines = told.replace("would be ", "").splitlines()
        return [UUID.sub("ID", line) for line in lines if not line.startswith(of_done)]

    path = place.write(REPAIRS[name])
    before = path.read_bytes()
    dry = place.run("repair", SESSION, "--dry-run", *words)
    assert list(place.sessions.iterdir()) == [path]
    assert path.read_bytes() == before
    done = place.run("repair", SESSION, *words)
    assert (dry.returncode, dry.stderr) == (done.returncode, b"")
    assert without_ids(dry.stdout.decode()) == without_ids(done.stdout.decode())


def test_a_rehearsal_refuses_what_the_repair_would_refuse(place: Place) -> None:
    calls = [
        said(name, parent, call("x")) for name, parent in (("a0", "a2"), ("a2", "a1"), ("a3", "a2"))
    ]
    ahead = [{"type": "tool-started", "sessionId": SESSION, "owed": [one]} for one in calls]
    place.write([ahead[0], user("a1", None), *ahead[1:], boundary("a1")])
    told = place.clew("repair", SESSION, "--dry-run", code=2)
    assert "without loss" in told
    assert told == place.clew("repair", SESSION, code=2)
