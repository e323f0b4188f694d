"""The table of accepted differences, the table in the documentation and the trials match."""

import re
from pathlib import Path

from tests.compat.oracle import test_calls, test_service, test_turns
from tests.compat.oracle.accepted import ACCEPTED, SMALL
from tests.compat.oracle.check import find_problems
from tests.compat.oracle.comparison import compare

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
    """The names of trials are unique, and each entry has lines."""
    modules = (test_turns, test_calls, test_service)
    names = [name for module in modules for name in module.TRIALS]
    assert len(names) == len(set(names))
    assert sorted(set(ACCEPTED) - set(names)) == []
    assert all(lines for cases in ACCEPTED.values() for lines in cases.values())


def test_a_new_difference_and_one_that_is_gone_are_problems() -> None:
    found = compare(["exit 0", "file made"], ["exit 1", "file made"])
    assert found == ["- exit 0", "+ exit 1"]
    assert find_problems(found, ["+ exit 1", "- exit 0"]) == []
    assert find_problems(found, ["- exit 0"]) == ["not accepted:  + exit 1"]
    assert find_problems(found[:1], found) == ["no longer so:  + exit 1"]
    assert find_problems(["- exit 0"] * 2, ["- exit 0"]) == ["not accepted:  - exit 0"]
    assert compare(["exit 0", "file made"], ["file made", "exit 0"]) != []
