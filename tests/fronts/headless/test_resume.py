"""Sessions resumed by the real program: the request begins, byte for byte, like the last one.

The golden logs were written by earlier versions of clew and never change: whatever changes in clew,
such a session makes the same request. `make e2e` also plays each sitting again.
"""

import json
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.sittings import FINE, GOLDEN, LAST, SITTINGS, Sitting, go_on_golden
from tests.requirements import requirement

DIGESTS: dict[str, str] = json.loads((GOLDEN / "digests.json").read_text("utf-8"))


def test_there_are_thirty_sittings_and_each_has_its_golden_log() -> None:
    assert len(SITTINGS) >= 30
    assert set(DIGESTS) == set(SITTINGS)


@requirement("V9", "R045")
@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_golden_log_makes_the_request_it_made_on_its_day(name: str, tmp_path: Path) -> None:
    with serving(FINE, strict=True) as server:
        it, found = go_on_golden(name, tmp_path, server)
        assert found == DIGESTS[name], f"{name}: {it.bodies[-1]['messages']}"


@pytest.mark.e2e
@pytest.mark.parametrize("name", sorted(SITTINGS))
def test_every_request_of_a_sitting_begins_as_the_one_before(name: str, tmp_path: Path) -> None:
    told = SITTINGS[name]
    with told.serving() as server:
        it = Sitting(tmp_path, server)
        told.play(it)
        assert it.go_on(LAST)
        assert it.broken_prefixes() == []
