"""Kills and bad connections lose nothing and do nothing twice, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fronts.remote.havoc import run_havoc
from tests.requirements import requirement

Note = Callable[[str, object], None]


@requirement("R210", "R290")
@pytest.mark.crash
@pytest.mark.parametrize("seed", range(4))
def test_kills_and_faults_lose_and_repeat_nothing(
    tmp_path: Path, seed: int, record_property: Note
) -> None:
    found = run_havoc(tmp_path, kills=50, seed=seed)
    assert set(found["kills"]) == {"worker", "server", "viewer"}
    assert len(found["faults"]) >= 6
    assert found["questions"] >= 10
    record_property("kills, with nothing lost or doubled", sum(found["kills"].values()))


@pytest.mark.crash
def test_a_partition_of_a_minute_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """No byte passes, and no connection ends: both sides have to find out by themselves."""
    found = run_havoc(tmp_path, kills=4, seed=6, partition_s=60.0)
    assert found["prompts"] >= 3


@pytest.mark.e2e
def test_a_database_that_is_killed_loses_nothing(tmp_path: Path, record_property: Note) -> None:
    found = run_havoc(tmp_path, kills=40, seed=1, is_postgres=True)
    assert found["kills"]["database"] >= 3
    record_property("kills, with nothing lost or doubled", sum(found["kills"].values()))


def test_a_few_kills_over_a_bad_connection_lose_nothing(tmp_path: Path) -> None:
    found = run_havoc(tmp_path, kills=4, seed=5)
    assert sum(found["kills"].values()) == 4
    assert found["prompts"] >= 3
