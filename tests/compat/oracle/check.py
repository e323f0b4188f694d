"""Holds one trial against both programs and the table of accepted differences."""

from pathlib import Path

from tests.compat.oracle.accepted import ACCEPTED
from tests.compat.oracle.comparison import Description, compare
from tests.compat.oracle.programs import observe_both
from tests.compat.oracle.trial import Trial


def check(name: str, trial: Trial, folder: Path) -> None:
    """Fail for a difference that is not accepted, and for an accepted one that is gone."""
    reference, ours = (Description(one).lines() for one in observe_both(trial, folder))
    if not trial.is_ordered:
        reference, ours = sorted(reference), sorted(ours)
    found = compare(reference, ours)
    accepted = [line for lines in ACCEPTED.get(name, {}).values() for line in lines]
    new = [line for line in found if line not in accepted]
    gone = [line for line in accepted if line not in found]
    assert sorted(found) == sorted(accepted), "\n".join(
        [
            f"{name}: '-' is the reference, '+' is clew",
            *(f"not accepted:  {line}" for line in new),
            *(f"no longer so:  {line}" for line in gone),
            "Fix clew, or change accepted.py and docs/extending/compatibility.md.",
            "All differences of this trial:",
            *found,
        ]
    )
