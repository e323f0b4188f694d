"""The table of accepted differences, the table in the documentation and the trials match."""

import re
from pathlib import Path

from tests.compat.oracle import test_calls, test_service, test_turns
from tests.compat.oracle.accepted import ACCEPTED, SMALL

DOCUMENT = Path(__file__).parents[3] / "docs" / "extending" / "compatibility.md"
USED = {case for cases in ACCEPTED.values() for case in cases}


def documented() -> set[str]:
    """Return the first cells of the table in the documentation."""
    text = DOCUMENT.read_text("utf-8").partition("| case | Claude Code | clew |\n")[2]
    table = text.partition("\n\n")[0].splitlines()[1:]
    return {re.split(r"(?<!\\)\|", row)[1].strip() for row in table}


def test_each_accepted_difference_has_a_reason() -> None:
    assert not documented() & set(SMALL)
    assert sorted(USED - documented() - set(SMALL)) == []


def test_each_reason_has_a_trial_that_needs_it() -> None:
    assert sorted((documented() | set(SMALL)) - USED) == []


def test_each_accepted_difference_belongs_to_a_trial() -> None:
    modules = (test_turns, test_calls, test_service)
    names = [name for module in modules for name in module.TRIALS]
    assert len(names) == len(set(names))
    assert sorted(set(ACCEPTED) - set(names)) == []
    assert all(lines for cases in ACCEPTED.values() for lines in cases.values())
