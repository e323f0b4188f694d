"""Every fault of docs/internals/service-failures.md ends in a defined state; the page itself is compared by docs-check."""

import asyncio

import pytest

from tests.providers.faults import FAULTS, Fault, Row
from tests.requirements import requirement


@pytest.mark.no_cover
@requirement("R072")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_ends_in_a_state_that_is_said_and_gives_no_secret_away(fault: Fault) -> None:
    name, seen, kept, requests, _ = asyncio.run(Row(fault).run())
    assert name == fault.name
    outcomes = ("answered", "marked incomplete: ", "given up, ", "compaction is due", "cancelled")
    assert sum(outcome in seen for outcome in outcomes) == 1
    assert ("marked incomplete" in seen) <= (kept != "nothing")
    assert int(requests) <= (10 if "529 always" not in name else 45)
    assert "secret" not in seen
