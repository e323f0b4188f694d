"""Every recorded refusal leads to the right decision; the page itself is compared by docs-check."""

import asyncio

import pytest

from clew.providers.answer_events import CompactionDue, GaveUp, Shrunk
from tests.providers.refused import COMPACT, GIVE_UP, REFUSED, SHRINK, Refused, Told
from tests.requirements import requirement


@requirement("R073", "R076")
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_a_refusal_leads_to_its_decision(row: Refused) -> None:
    told = asyncio.run(Told(row).run())
    assert told.then == row.then, told.ended
    match row.then:
        case "compact":
            assert isinstance(told.ended, CompactionDue)
            assert told.ended.overflow.limit_tokens == row.limit
        case "shrink":
            assert [e.max_tokens for e in told.events if isinstance(e, Shrunk)] == [row.limit]
        case "again":
            assert told.delay_s == pytest.approx(row.delay_s)
        case _:
            assert isinstance(told.ended, GaveUp)
            assert row.why in told.ended.why
    assert len(told.requests) == (1 if row.then in (COMPACT, GIVE_UP) else 2)
    asked_for = [r.get("max_tokens") or r["max_completion_tokens"] for r in told.requests]
    assert asked_for[-1] == (row.limit if row.then == SHRINK else 64_000)
