"""Holds one trial against both programs and the table of accepted differences."""

from collections import Counter
from pathlib import Path

from tests.compat.oracle.accepted import ACCEPTED
from tests.compat.oracle.comparison import Description, compare
from tests.compat.oracle.programs import observe_both
from tests.compat.oracle.trial import Trial


def check(name: str, trial: Trial, folder: Path) -> None:
    """Fail for a difference that is not accepted, and for an accepted one that is gone."""
    reference, ours = (Description(one).lines() for one in observe_both(trial, folder))
    found = compare(reference, ours)
    accepted = [line for lines in ACCEPTED.get(name, {}).values() for line in lines]
    problems = find_problems(found, accepted)
    assert not problems, "\n".join(
        [
            f"{name}: '-' is the reference, '+' is clew",
            *problems,
            "Fix clew, or change accepted.py and docs/extending/compatibility.md.",
            "All differences of this trial:",
            *found,
        ]
    )


def find_problems(found: list[str], accepted: list[str]) -> list[str]:
    """Return what is wrong with the differences of a trial."""
    new, gone = Counter(found) - Counter(accepted), Counter(accepted) - Counter(found)
    return [
        *(f"not accepted:  {line}" for line in new.elements()),
        *(f"no longer so:  {line}" for line in gone.elements()),
    ]
