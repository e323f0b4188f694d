"""Reading transcripts by places in the file: from the end, page by page, and as they grow."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.fronts.web.transcripts import find_last_uuid, read_after, read_page


def prompt(name: str, parent: str | None) -> dict[str, Any]:
    message = {"role": "user", "content": f"say {name}"}
    return {"type": "user", "uuid": name, "parentUuid": parent, "message": message}


def answer(name: str, parent: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": "ä" * 50}]}
    return {"type": "assistant", "uuid": name, "parentUuid": parent, "message": message}


def write(path: Path, *entries: dict[str, Any], end: str = "\n") -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write("\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + end)


def read_all(path: Path, limit: int) -> list[str]:
    """Return the UUIDs of all events, read in pages from the end."""
    found: list[str] = []
    before = ""
    while True:
        page = read_page(path, before, limit)
        found = [event["payload"]["uuid"] for event in page.events] + found
        if not page.has_more:
            return found
        before = page.first


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_have_every_entry_once_and_nothing_that_was_taken_back(
    tmp_path: Path, limit: int
) -> None:
    path = tmp_path / "s.jsonl"
    write(path, {"type": "clew-session"}, prompt("p1", None), answer("a1", "p1"))
    # The user went back to the first answer twice; only the last branch counts.
    for number in (2, 3, 4):
        write(path, prompt(f"p{number}", "a1"), answer(f"a{number}", f"p{number}"))
    write(path, {"type": "custom-title"}, prompt("p5", "a4"), answer("a5", "p5"))
    assert read_all(path, limit) == ["p1", "a1", "p4", "a4", "p5", "a5"]


def test_a_line_that_is_still_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    assert read_page(path, "", 10).events == []
    write(path, prompt("p1", None))
    whole = json.dumps(answer("a1", "p1"))
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[:40])
    page = read_page(path, "", 10)
    assert [event["payload"]["uuid"] for event in page.events] == ["p1"]
    last = find_last_uuid(path, page.last)
    assert read_after(path, page.last, last) == ([], page.last, "p1", False)
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[40:] + "\n")
    events, end, last, has_gone_back = read_after(path, page.last, last)
    assert [event["sequence_num"] for event in events] == [end] == [path.stat().st_size]
    assert (last, has_gone_back) == ("a1", False)
    # Going on from an earlier entry means that the reader must begin again.
    write(path, prompt("p2", None), prompt("p3", "p1"))
    assert read_after(path, end, last)[3]


def test_what_is_no_message_is_not_shown_and_facts_of_the_session_are(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    side = answer("side", "p1") | {"isSidechain": True}
    fact = {"type": "system", "subtype": "informational", "uuid": "n1", "content": "a notice"}
    other = {"type": "system", "subtype": "bridge_status", "uuid": "n2"}
    write(path, prompt("p1", None), side, fact | {"parentUuid": "p1"}, other, {"type": "unknown"})
    write(path, {"type": "user", "uuid": "odd", "parentUuid": "n1", "message": {"content": None}})
    assert read_all(path, 50) == ["p1", "n1", "odd"]
