"""Edits of the context: whatever the range, the request stays valid."""

from random import Random
from typing import Any

import pytest

from clew.core.messages.encoding import decode, encode
from clew.core.normalize.for_api import for_api
from clew.core.normalize.select import KINDS, NO_EDITS, Edits, from_record, widen_range
from clew.core.normalize.validate import validate
from tests.core.normalize.generator import history
from tests.core.normalize.test_laws import TARGETS, TOOLS

QUICK = range(400)
DEEP = [range(start, start + 2_500) for start in range(2_000_000, 2_020_000, 2_500)]


def edited(entries: list[dict[str, Any]], random: Random) -> Edits:
    """Return a history with edits of random ranges, as a user may name them."""
    edits = NO_EDITS
    for _ in range(random.randint(0, 4)):
        if not entries:
            break
        a, b = random.randrange(len(entries)), random.randrange(len(entries))
        begin, end = widen_range(entries, a, b) if random.random() < 0.8 else (min(a, b), max(a, b))
        uuids = [str(e.get("uuid")) for e in entries[begin : end + 1]]
        edits = edits.with_one(random.choice(KINDS), uuids, "What was done.")
    return edits


def hold_the_laws(seed: int) -> None:
    random = Random(seed)
    entries = history(random)
    target, tools = TARGETS[seed % len(TARGETS)], TOOLS[seed % len(TOOLS)]
    before = encode(entries)
    edits = edited(entries, random)
    made = for_api(edits.apply(entries), target, tools=tools)
    assert made.violations == [], seed
    assert validate(made.messages, target, tools=tools) == [], seed
    assert encode(entries) == before
    read = from_record(decode(encode({"edits": edits.as_json()})))
    assert read.apply(entries) == edits.apply(entries)
    for edit in edits.edits:
        edits = edits.without(edit.number)
    assert edits.apply(entries) == entries


@pytest.mark.no_cover
@pytest.mark.parametrize("start", range(0, len(QUICK), 100))
def test_whatever_is_edited_the_request_is_valid_and_without_edits_as_before(start: int) -> None:
    for seed in QUICK[start : start + 100]:
        hold_the_laws(seed)


@pytest.mark.laws
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_the_same_for_very_many(seeds: range) -> None:
    for seed in seeds:
        hold_the_laws(seed)


def answer(uuid: str, message: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    said = {"id": message, "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "uuid": uuid, "message": said}


def user(uuid: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": list(blocks)}}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {}}


def result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


TEXT = {"type": "text", "text": "x"}
TALK = [
    user("u1", TEXT),
    answer("a1", "m1", call("t1")),
    answer("a2", "m1", call("t2")),
    user("r1", result("t1")),
    user("r2", result("t2")),
    answer("a3", "m2", TEXT),
    user("u2", TEXT),
    {"type": "attachment", "uuid": "f", "attachment": {"type": "date"}},
    user("odd", TEXT, result("t9")) | {"message": {"content": ["odd", {"type": "tool_result"}]}},
]


def test_a_range_parts_no_answer_and_no_call_from_its_result() -> None:
    assert widen_range(TALK, 2, 2) == (1, 4)
    assert widen_range(TALK, 4, 0) == (0, 4)
    assert widen_range(TALK, 5, 5) == (5, 5)
    assert widen_range(TALK, 6, 8) == (6, 8)


def test_the_later_edit_of_an_entry_counts_and_each_can_be_taken_back() -> None:
    edits = NO_EDITS.with_one("exclude", ["u1", "a3"]).with_one("pin", ["a3"])
    edits = edits.with_one("summarise", ["a1", "a2", "r1", "r2"], "Both ran.")
    left = edits.apply(TALK)
    assert [e["uuid"] for e in left] == ["a1", "a3", "u2", "f", "odd"]
    assert "Both ran." in left[0]["message"]["content"]
    assert edits.pinned == {"a3"}
    assert edits.find(2) == edits.edits[1]
    assert edits.find(9) is None
    assert edits.without(2).pinned == frozenset()
    assert [e["uuid"] for e in edits.without(1).without(3).apply(TALK)] == [e["uuid"] for e in TALK]


@pytest.mark.parametrize(
    "edits",
    [
        None,
        [5],
        [{"kind": "burn", "number": 1, "uuids": []}],
        [{"kind": "pin", "number": "1", "uuids": []}],
        [{"kind": "pin", "number": 1, "uuids": "all"}],
        [{"kind": "pin", "number": 1, "uuids": [], "words": 5}],
    ],
)
def test_what_cannot_be_read_edits_nothing(edits: Any) -> None:
    assert from_record({"edits": edits}) == NO_EDITS


def test_of_a_line_what_can_be_read_counts() -> None:
    read = from_record({"edits": [{"kind": "exclude", "number": 3, "uuids": ["u1", 5]}, None]})
    assert [(e.number, e.kind, e.uuids) for e in read.edits] == [(3, "exclude", ("u1",))]
