"""A user's edits of the conversation, when the conversation is summarized."""

from typing import Any

from clew.agent.compaction.boundary import Selection, with_edits
from clew.core.normalize.select import NO_EDITS


def entry(uuid: str) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": uuid}}


A, B, C, D = map(entry, "abcd")


def test_what_is_pinned_is_kept_wherever_it_stood() -> None:
    edits = NO_EDITS.with_one("pin", ["b"]).with_one("exclude", ["a"])
    behind = with_edits(Selection(covered=[A, B, C], kept=[D]), edits, keeps_pins=True)
    assert (behind.covered, behind.kept, behind.is_row) == ([C], [B, D], False)
    before = Selection(covered=[B, C, D], kept=[A], is_before=True)
    found = with_edits(before, edits, keeps_pins=True)
    assert (found.covered, found.kept) == ([C, D], [A, B])


def test_in_the_last_try_nothing_is_pinned() -> None:
    edits = NO_EDITS.with_one("pin", ["b"])
    selection = Selection(covered=[A, B], kept=[C])
    assert with_edits(selection, edits, keeps_pins=False) == selection
    assert with_edits(selection, NO_EDITS, keeps_pins=True) == selection
