"""`clew sessions search` and `index`.

Matches with the index, without it, and with a partial one.
"""

import json
import os
import sqlite3
from pathlib import Path

from clew.record.library.database import find_database
from tests.commands.sessions.place import Place
from tests.record.transcript.build import (
    SESSION,
    call,
    encoded,
    result,
    said,
    talk,
    uid,
    user,
)
from tests.record.transcript.session import OTHER


def hits(place: Place, *words: str, code: int = 0) -> list[tuple[str, str]]:
    found = place.json("search", *words, code=code)
    return [(hit["sessionId"], hit["uuid"]) for hit in found["hits"]]


def test_words_are_found_wherever_they_were_said(place: Place) -> None:
    place.write(
        [
            user("u1", None, "Where is the flux capacitor?"),
            said("t1", "u1", call("grep -r capacitor")),
            result("r1", "t1", "grep -r capacitor"),
        ]
    )
    place.write([user("n", None, "nothing of the kind")], OTHER)
    for how in ((), ("--no-index",)):
        assert hits(place, "flux", "capacitor", *how) == [(SESSION, uid("u1"))]
        assert {uuid for _, uuid in hits(place, "CAPACITOR", *how)} == {
            uid("u1"), uid("t1"), uid("r1"),
        }  # fmt: skip
        assert hits(place, "the flux capacitor", *how) == [(SESSION, uid("u1"))]
        assert hits(place, "capac*", "where", *how) == [(SESSION, uid("u1"))]
        assert hits(place, "capac", *how, code=1) == []
    shown = place.clew("search", "flux")
    assert "user: Where is the flux capacitor?" in shown
    assert "tool: grep -r capacitor" in place.clew("search", "capacitor")
    assert uid("u1")[:8] in shown
    assert uid("u1") not in shown
    assert shown.endswith("1 match in 1 session\n")
    assert "no matches" in place.clew("search", "zebra", code=1)
    assert "no word" in place.clew("search", "...", code=2)


def test_a_hit_names_the_line_it_stands_in(place: Place) -> None:
    path = place.write([*talk(2), user("x", "a2", "here it is")])
    (hit,) = place.json("search", "here it is")["hits"]
    line = path.read_bytes()[hit["offset"] :].split(b"\n")[0]
    assert json.loads(line)["uuid"] == hit["uuid"] == uid("x")
    assert hit["path"] == str(path)


def test_subagents_are_searched_and_can_be_left_out(place: Place) -> None:
    place.write(talk(1))
    agents = place.sessions / SESSION / "subagents" / "deep"
    agents.mkdir(parents=True)
    side = user("s1", None, "dig for truffles", isSidechain=True, agentId="a77")
    (agents / "agent-a77.jsonl").write_bytes(encoded([side]))
    (hit,) = place.json("search", "truffles")["hits"]
    assert (hit["sessionId"], hit["agentId"], hit["title"]) == (SESSION, "a77", "u1")
    assert hits(place, "truffles", "--no-agents", code=1) == []


def test_the_index_follows_what_is_appended_replaced_and_removed(place: Place) -> None:
    path = place.write([user("u1", None, "first words")])
    assert hits(place, "first") == [(SESSION, uid("u1"))]
    with path.open("ab") as file:
        file.write(encoded([user("u2", "u1", "second words")]))
    assert hits(place, "second") == [(SESSION, uid("u2"))]
    assert len(hits(place, "words")) == 2
    path.write_bytes(encoded([user("u3", None, "other words altogether and for ever", cwd="/w")]))
    assert hits(place, "first", code=1) == []
    assert hits(place, "words") == [(SESSION, uid("u3"))]
    path.unlink()
    assert hits(place, "words", code=1) == []


def test_a_line_without_its_end_is_found_and_once_when_it_has_one(place: Place) -> None:
    path = place.write([user("u1", None, "first")])
    line = encoded([user("u2", "u1", "unfinished business")])
    path.write_bytes(path.read_bytes() + line[:-1])
    assert hits(place, "business") == [(SESSION, uid("u2"))]
    path.write_bytes(path.read_bytes() + b"\n")
    assert hits(place, "business") == [(SESSION, uid("u2"))]


def test_the_index_is_a_cache_that_can_be_lost_damaged_or_forbidden(place: Place) -> None:
    place.write([user("u1", None, "find me")])
    assert hits(place, "find") == [(SESSION, uid("u1"))]
    database = find_database(place.home)
    assert database.stat().st_mode & 0o777 == 0o600
    database.unlink()
    assert hits(place, "find") == [(SESSION, uid("u1"))]
    for name in ("-wal", "-shm"):
        database.with_name(database.name + name).unlink(missing_ok=True)
    database.write_bytes(b"no database at all" * 1000)
    assert hits(place, "find") == [(SESSION, uid("u1"))]
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert hits(place, "find") == [(SESSION, uid("u1"))]
    for file in database.parent.iterdir():
        file.unlink()
    database.parent.rmdir()
    database.parent.write_text("in the way", "utf-8")
    found = place.json("search", "find")
    assert [hit["uuid"] for hit in found["hits"]] == [uid("u1")]
    assert found["withoutIndex"]


def test_an_index_another_process_holds_does_not_stop_a_search(place: Place) -> None:
    place.write([user("u1", None, "find me")])
    place.clew("index")
    with (place.sessions / f"{SESSION}.jsonl").open("ab") as file:
        file.write(encoded([user("u2", "u1", "find me too")]))
    connection = sqlite3.connect(find_database(place.home), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        assert len(hits(place, "find")) == 2
    finally:
        connection.close()


def test_words_that_are_not_ascii_are_found_both_ways_however_json_spells_them(
    place: Place,
) -> None:
    path = place.write([user("u1", None, "全文搜索 über größe")])
    plain = json.dumps(user("u2", None, "搜索 auch ÜBER"), ensure_ascii=False).encode()
    with path.open("ab") as file:
        file.write(plain)
    for how in ((), ("--no-index",)):
        assert len(hits(place, "搜索", *how)) == 2
        assert len(hits(place, "über", *how)) == 2
        assert hits(place, "größe", "全文", *how) == [(SESSION, uid("u1"))]


def test_broken_lines_are_passed_and_counted_by_the_index(place: Place) -> None:
    place.write([b'{"broken\n', b"[1]\n", user("u1", None, "sound \ud83d and whole")])
    assert hits(place, "sound") == [(SESSION, uid("u1"))]


def test_a_search_can_be_held_to_a_folder_and_to_a_session(place: Place) -> None:
    place.write([user("u1", None, "common word")])
    elsewhere = place.cwd.with_name("elsewhere")
    elsewhere.mkdir()
    home, place.cwd = place.cwd, elsewhere
    place.write([user("u2", None, "common word")], OTHER)
    place.cwd = home
    assert len(hits(place, "common")) == 2
    assert hits(place, "common", "--here") == [(SESSION, uid("u1"))]
    assert hits(place, "common", "--session", OTHER) == [(OTHER, uid("u2"))]
    assert hits(place, "common", "--session", OTHER, "--no-index") == [(OTHER, uid("u2"))]
    assert len(hits(place, "common", "--limit", "1")) == 1


def test_the_index_is_made_anew_on_request(place: Place) -> None:
    path = place.write(talk(3))
    told = place.json("index")
    assert told["readBytes"] == path.stat().st_size
    assert place.json("index")["readBytes"] == 0
    assert place.json("index", "--rebuild")["readBytes"] == path.stat().st_size
    assert Path(told["path"]).is_relative_to(place.home / "clew")


def test_an_index_full_of_what_is_gone_is_made_anew(place: Place) -> None:
    for n in range(3):
        path = place.write([user(f"x{i}", None, f"word{n}") for i in range(600)])
        place.clew("index")
        path.unlink()
    place.write([user("u1", None, "last")])
    place.clew("index")
    connection = sqlite3.connect(find_database(place.home))
    (entries,) = connection.execute("SELECT count(*) FROM entry").fetchone()
    connection.close()
    assert entries < 1800
    assert hits(place, "last") == [(SESSION, uid("u1"))]


def test_the_newest_session_answers_first(place: Place) -> None:
    old = place.write([user("u1", None, "same")])
    new = place.write([user("u2", None, "same")], OTHER)
    os.utime(old, (1e9, 1e9))
    os.utime(new, (2e9, 2e9))
    assert hits(place, "same") == [(OTHER, uid("u2")), (SESSION, uid("u1"))]
