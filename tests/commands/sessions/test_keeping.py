"""Archive, du, prune and stats: only what was named is deleted, and only after confirmation."""

import json
import shutil
from pathlib import Path

import pytest

from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.load import load
from clew.record.transcript.log import Log
from tests.commands.sessions.place import Place
from tests.record.rewind.trips import Trip, write
from tests.record.transcript.build import (
    SESSION,
    call,
    encoded,
    last_prompt,
    names,
    result,
    said,
    talk,
    user,
)
from tests.record.transcript.session import OTHER
from tests.requirements import requirement


def test_a_session_is_put_aside_and_comes_back_whole(place: Place) -> None:
    path = place.write([*talk(2), {"type": "custom-title", "customTitle": "Mine"}])
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_bytes(encoded([user("s", None, isSidechain=True)]))
    before = path.read_bytes()
    (moved,) = place.json("archive", "Mine")
    assert not path.exists()
    assert not path.with_suffix("").exists()
    assert place.json("list") == []
    assert place.json("search", "u1", code=1)["hits"] == []
    assert [one["title"] for one in place.json("archive")] == ["Mine"]
    assert "Mine" in place.clew("archive")
    assert names(load(Path(moved["to"])).messages) == "u1 a1 u2 a2"
    assert "in the archive" in place.clew("archive", "--restore", "nothing", code=2)
    place.clew("archive", "--restore", "Mine")
    assert path.read_bytes() == before
    assert (agents / "agent-a1.jsonl").exists()
    assert [o["title"] for o in place.json("list")] == ["Mine"]


def test_what_is_put_aside_is_named_as_every_session_is(place: Place) -> None:
    title = {"type": "custom-title", "customTitle": "Mine"}
    path = place.write([*talk(1), title])
    other = place.write([*talk(1), title], OTHER)
    for name in (SESSION[:8], SESSION.upper(), SESSION[:13].upper()):
        place.clew("archive", SESSION[:8])
        place.clew("archive", "--restore", name)
        assert path.exists()
    (moved,) = place.json("archive", SESSION)
    assert "in the archive" in place.clew("archive", "--restore", SESSION[:7], code=2)
    place.clew("archive", OTHER)
    several = place.clew("archive", "--restore", "Mine", code=2)
    assert "matches several" in several
    assert moved["to"] in several
    place.clew("archive", "--restore", moved["to"], OTHER[:8])
    assert path.exists()
    assert other.exists()


def test_a_session_that_is_open_is_neither_put_aside_nor_taken_away(place: Place) -> None:
    path = place.write(talk(1))
    log = Log()
    assert log.claim(path)
    assert "already open" in place.clew("archive", SESSION, code=2)
    assert "already open" in place.clew("prune", SESSION, "--yes", code=2)
    log.close()
    assert path.exists()


def test_of_a_session_whose_subagent_has_a_recovery_file_nothing_is_erased(place: Place) -> None:
    path = place.write(talk(1))
    unsaved = place.home / "clew" / "unsaved"
    unsaved.mkdir(parents=True, mode=0o700)
    copy = unsaved / f"agent-a7.{SESSION}.jsonl"
    copy.write_bytes(encoded([user("x", None, "the secret", isSidechain=True)]))
    before = path.read_bytes()
    said = place.clew("erase", SESSION, "the secret", "--yes", code=2)
    assert str(copy) in said
    assert f"Run clew --resume {SESSION} to restore it" in said
    assert path.read_bytes() == before
    assert str(copy) in place.run("search", "secret").stderr.decode()
    copy.unlink()
    assert "does not occur" in place.clew("erase", SESSION, "the secret", "--yes", code=1)


def test_what_would_go_is_shown_first_and_goes_only_with_a_yes(place: Place) -> None:
    path = place.write(talk(1))
    other = place.write(talk(2), OTHER)
    place.clew("index")
    (path.with_suffix("") / "tool-results").mkdir(parents=True)
    shown = place.clew("prune", SESSION, "index")
    assert "--yes" in shown
    assert path.exists()
    done = place.json("prune", SESSION, "index", "--yes")
    assert done["removed"] is True
    assert not path.exists()
    assert not path.with_suffix("").exists()
    assert other.exists()
    assert not (place.home / "clew" / "index" / "sessions.db").exists()
    assert [o["sessionId"] for o in place.json("list")] == [OTHER]
    place.clew("archive", OTHER)
    assert len(place.json("prune", "archive", "backups", "--yes")["what"]) == 1
    assert place.json("archive") == []


def test_contents_that_a_session_can_go_back_to_stay(tmp_path: Path) -> None:
    trip = Trip(tmp_path)
    trip.turn("one", write("a", "kept"))
    blobs = Blobs(blobs_dir(tmp_path / "config"))
    loose = blobs.put(b"nobody's")
    for _ in range(2):
        done = trip.run("sessions", "prune", "contents", "--yes", "--json")
        assert done.returncode == 0, done.stderr
    assert blobs.get(loose) is None
    assert len(list(blobs.each())) == 1
    trip.run("sessions", "archive", trip.session)
    trip.run("sessions", "prune", "contents", "--yes")
    assert len(list(blobs.each())) == 1
    trip.run("sessions", "archive", "--restore", trip.session)
    assert trip.rewind(trip.prompt("one"))["done"]


def test_every_byte_is_accounted_for(place: Place) -> None:
    path = place.write(talk(3))
    place.clew("index")
    found = place.json("du")
    parts = {one["name"]: one for one in found["parts"]}
    assert parts["project"]["sizeBytes"] == path.stat().st_size
    on_disk = sum(p.stat().st_size for p in place.home.rglob("*") if p.is_file())
    assert found["totalBytes"] == on_disk
    assert "in total" in place.clew("du")


def test_sessions_in_numbers(place: Place) -> None:
    place.write([*talk(2), said("t", "a2", call("x"), call("y")), result("r", "t", "x")])
    place.write([*talk(1)], OTHER)
    place.clew("fork", OTHER)
    found = place.json("stats")
    assert (found["sessions"], found["prompts"]) == (3, 4)
    assert found["responses"] == 3, "a response that forks repeat counts once"
    assert found["tools"] == [{"name": "Bash", "calls": 2}]
    assert [m["name"] for m in found["models"]] == ["claude-opus-5-5"]
    assert found["projects"][0] == {"cwd": str(place.cwd), "sessions": 3, "prompts": 4}
    assert found["days"][0]["day"] == "2026-01-02"
    assert "Bash" in place.clew("stats")
    index = place.home / "clew" / "index"
    shutil.rmtree(index)
    index.write_bytes(b"no folder")
    assert place.json("stats") == found, "a home that takes no database is counted all the same"
    assert len(place.json("list", "--model", "opus")) == 3
    assert index.read_bytes() == b"no folder"


@pytest.mark.parametrize(
    "word",
    [
        "archive",
        "prune",
        "fork",
        "export",
        "tree",
        "rename",
        "tag",
        "show",
        "check",
        "repair",
        "push",
    ],
)
def test_an_id_a_path_and_a_title_mean_the_same(place: Place, word: str) -> None:
    path = place.write([*talk(1), {"type": "custom-title", "customTitle": "My work"}])
    more = {
        "rename": ["My work"],
        "tag": ["t"],
        "push": ["--store", str(place.home.parent / "store")],
    }.get(word, [])
    for name in (SESSION, str(path), "My work", SESSION.upper()):
        place.clew(word, name, *more)
        if word == "archive":
            place.clew("archive", "--restore", SESSION)
        for copy in place.sessions.glob("*.jsonl"):
            if copy.stem != SESSION:
                copy.unlink()
    assert "session 'none' not found" in place.clew(word, "none", *more, code=2)


@requirement("C4", "R174")
def test_a_text_is_taken_out_for_good_and_the_session_continues(place: Place) -> None:
    secret = "hunter2-\N{SNOWMAN}"
    thought = {"type": "thinking", "thinking": f"they said {secret}", "signature": "s"}
    path = place.write(
        [
            user("u1", None, f"my key is {secret}, use it"),
            {"type": "queue-operation", "operation": "enqueue", "content": f"so {secret}"},
            said("k1", "u1", thought, of="m"),
            said("t1", "k1", call("x") | {"input": {secret: [secret]}}, of="m"),
            result("r1", "t1", "x", toolUseResult={"stdout": secret}),
            said("a1", "r1"),
            b'{"torn ' + secret.encode() + b"\n",
            last_prompt("a1", text=f"my key is {secret}"),
        ]
    )
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(encoded([user("x", None, secret), said("y", "x")]))
    large = path.with_suffix("") / "tool-results" / "b.txt"
    large.parent.mkdir()
    large.write_text(f"output {secret}", "utf-8")
    place.clew("index")
    before = path.read_bytes()
    # What entries are joined by is nothing that anybody said.
    assert "does not occur" in place.clew("erase", SESSION, "tool_use", code=1)
    shown = place.clew("erase", SESSION, secret)
    assert "would be permanently erased" in shown
    assert path.read_bytes() == before
    done = place.run("erase", SESSION, "--yes", input=secret.encode() + b"\n")
    assert b"permanently erased" in done.stdout
    escaped = json.dumps(secret)[1:-1].encode()
    for file in place.home.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
            assert escaped not in file.read_bytes(), file
    assert names(load(path).messages) == "u1 k1 t1 r1 a1"
    assert load(path).messages[1]["message"]["content"] == [{"type": "text", "text": "[erased]"}]
    assert load(path).messages[0]["message"]["content"] == "my key is [erased], use it"
    assert place.json("search", "hunter2", code=1)["hits"] == []
    assert "does not occur" in place.clew("erase", SESSION, secret, code=1)
    assert "at least 4" in place.clew("erase", SESSION, "  a", code=2)


def test_nothing_is_taken_out_of_a_session_that_is_open(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = place.write([user("u1", None, "Answer me")])
    before = path.read_bytes()
    log = Log()
    assert log.claim(path)
    told = place.clew("erase", SESSION, "Answer", "--yes", code=2)
    log.close()
    assert OPEN_ELSEWHERE in told
    assert path.read_bytes() == before


def test_numbers_know_the_models_that_the_user_described(place: Place) -> None:
    answer = said("a1", "u1")
    place.write(
        [user("u1", None, "hi"), answer | {"message": answer["message"] | {"model": "own-1"}}]
    )
    assert place.json("stats")["knownCostUSD"] == 0
    assert place.json("stats")["unpricedResponses"] == 1
    tokens = place.json("stats")["tokens"]
    for price in (100, 300):
        models = {"own-1": {"price": {"input": price, "output": price}}}
        (place.home / "settings.json").write_text(json.dumps({"models": models}), "utf-8")
        found = place.json("stats")
        assert found["knownCostUSD"] == pytest.approx(tokens * price / 1e6)
        assert found["unpricedResponses"] == 0
        assert place.json("list", "--cost-over", "0")[0]["sessionId"] == SESSION
    (place.home / "settings.json").write_text("{half", "utf-8")
    assert place.json("stats")["unpricedResponses"] == 1
