"""Where a conversation is cut, and the boundary entry."""

from clew.agent.compaction import boundary
from clew.agent.compaction import boundary as receipt
from clew.agent.compaction.boundary import Selection
from clew.agent.compaction.compactor import selected
from clew.core.input import CompactSession
from clew.core.normalize.select import (
    Edits,
    find_beginning,
    find_kept_uuids,
    find_references,
    select_visible,
)
from tests.agent.compaction.build import call, fact, names, result, said, user

TALK = [
    user("p1"),
    fact("f1", "date", "Today"),
    said("a1", "I look", answer="m1"),
    said("c1", call("t1"), answer="m1"),
    said("c2", call("t2"), answer="m1"),
    result("r2", "t2"),
    result("r1", "t1"),
    said("a2", "found", answer="m2"),
    user("p2"),
    said("a3", "done", answer="m3"),
]


def test_what_fits_is_kept_from_the_end() -> None:
    assert names(boundary.with_tail(TALK, 10_000).kept).startswith("a1")
    two = sum(map(boundary.entry_tokens, TALK[8:]))
    assert names(boundary.with_tail(TALK, two).kept) == "p2 a3"
    assert names(boundary.with_tail(TALK, two + 30).kept) == "a2 p2 a3"
    assert boundary.with_tail(TALK, 0).kept == []
    assert names(boundary.with_tail(TALK, 0).covered) == names(TALK)


def test_a_cut_falls_before_an_answer_or_a_prompt_and_parts_no_call() -> None:
    allowed = boundary.cuts(TALK)
    assert [e["uuid"] for e, may in zip(TALK, allowed, strict=True) if may] == [
        "p1",
        "a1",
        "a2",
        "p2",
        "a3",
    ]


def test_a_part_is_chosen_by_a_place() -> None:
    assert names(boundary.select_up_to(TALK, 8).kept) == "p2 a3"
    assert names(boundary.select_up_to(TALK, 6).covered) == "p1 f1"
    since = boundary.select_since(TALK, 8)
    assert (names(since.kept), names(since.covered)) == ("p1 f1 a1 c1 c2 r2 r1 a2", "p2 a3")
    assert boundary.select_since(TALK, 1).kept == []


def test_a_part_that_would_change_nothing_is_refused_with_the_reason() -> None:
    assert selected(TALK, CompactSession(up_to="p1")) == (
        "there are no messages to summarize before this one"
    )
    assert selected(TALK, CompactSession(since="p1")) == (
        "there are no earlier messages to keep; to summarize everything, run /compact"
    )
    assert isinstance(selected(TALK, CompactSession(up_to="p2")), Selection)
    assert isinstance(selected(TALK, CompactSession(since="p2")), Selection)


def test_tokens_of_entries_are_of_what_is_sent() -> None:
    assert boundary.entry_tokens(said("x", "word " * 100)) > 50
    assert boundary.entry_tokens(said("x", "word " * 100) | {"isApiErrorMessage": True}) == 0
    assert boundary.entry_tokens(fact("x", "date", "word " * 100)) > 50
    assert boundary.entry_tokens({"type": "system", "rendered": "no list"}) == 0
    assert (
        boundary.entry_tokens({"type": "attachment", "rendered": ["odd", {"content": "a b"}]}) > 0
    )


def compacted(selection: Selection) -> list[dict[str, object]]:
    told = [
        fact("f", "date", "Today"),
        receipt.make_summary_entry(["s"], uuid="s", at="2026-01-01T00:00:00Z"),
    ]
    entry = boundary.make_boundary(
        selection,
        uuid="b",
        summary_uuid="s",
        at="2026-01-01T00:00:00Z",
        trigger="manual",
        pre_tokens=100,
        post_tokens=40,
        dropped_before=5,
        duration_ms=1.5,
        covers={},
    )
    parts = (selection.kept, told) if selection.is_before else (told, selection.kept)
    return [entry, *parts[0], *parts[1]]


def test_the_boundary_names_what_is_kept() -> None:
    entries = compacted(boundary.select_up_to(TALK, 8))
    metadata = entries[0]["compactMetadata"]
    assert isinstance(metadata, dict)
    assert metadata["preservedSegment"] == {"headUuid": "p2", "anchorUuid": "s", "tailUuid": "a3"}
    assert metadata["preservedMessages"]["uuids"] == ["p2", "a3"]
    assert metadata["cumulativeDroppedTokens"] == 65
    assert boundary.count_dropped_tokens(entries) == 65
    assert boundary.count_dropped_tokens(TALK) == 0
    assert boundary.count_dropped_tokens([]) == 0
    assert find_beginning(entries) == len(entries)
    assert names(select_visible(entries)) == "f s p2 a3"


def test_what_is_kept_before_its_summary_has_no_segment() -> None:
    entries = compacted(boundary.select_since(TALK, 8))
    metadata = entries[0]["compactMetadata"]
    assert isinstance(metadata, dict)
    assert "preservedSegment" not in metadata
    assert metadata["preservedMessages"]["anchorUuid"] == "b"
    assert find_beginning(entries) == len(entries)
    nothing = compacted(boundary.with_tail(TALK, 0))[0]
    assert find_kept_uuids(nothing) == set()


def test_a_second_summary_covers_something_new_or_everything() -> None:
    first = compacted(boundary.select_up_to(TALK, 8))
    again = boundary.with_tail(first, 10**6)
    assert again.kept == []
    assert names(again.covered) == "f s p2 a3"
    more = [*first, user("p3"), said("a4", "x", answer="m4")]
    assert names(boundary.with_tail(more, 10**6).kept) == "a4"
    assert boundary.select_up_to(more, 4).is_row is False
    assert find_beginning(more) == len(first)


def test_a_history_that_lost_its_summary_began_at_its_beginning() -> None:
    entries = compacted(boundary.select_up_to(TALK, 8))
    assert find_beginning([entries[0]]) == 0
    assert find_beginning([]) == 0
    assert find_references([{"type": "system", "subtype": "microcompact_boundary"}]) == {}


def test_what_is_pinned_is_kept_with_all_that_belongs_to_it() -> None:
    selection = boundary.with_tail(TALK, 0)
    same = boundary.with_edits(selection, Edits(), keeps_pins=True)
    assert names(same.covered) == names(TALK)
    pins = Edits().with_one("pin", ["r1"])
    pinned = boundary.with_edits(selection, pins, keeps_pins=True)
    assert names(pinned.kept) == "a1 c1 c2 r2 r1"
    assert names(pinned.covered) == "p1 f1 a2 p2 a3"
    assert pinned.is_row is False
    since = boundary.with_edits(
        boundary.select_since(TALK, 8), pins.with_one("pin", ["p2"]), keeps_pins=True
    )
    assert names(since.kept) == "p1 f1 a1 c1 c2 r2 r1 a2 p2"
    assert boundary.with_edits(selection, pins, keeps_pins=False).kept == []
    left_out = Edits().with_one("exclude", ["p1"])
    assert names(boundary.with_edits(selection, left_out, keeps_pins=True).covered) == names(
        TALK[1:]
    )
