"""10,000 permission questions over a bad connection: each takes effect once or is refused aloud."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fronts.remote.questions import ask_questions
from tests.requirements import requirement

Note = Callable[[str, object], None]


@requirement("R210")
@pytest.mark.crash
@pytest.mark.timeout(1_800)  # Two to four minutes on two free cores, nine at load 17.
def test_each_of_many_answers_takes_effect_once_or_is_refused_aloud(
    tmp_path: Path, record_property: Note
) -> None:
    found = ask_questions(tmp_path, questions=10_000, seed=1)
    assert found["questions"] >= 10_000
    assert sum(found["verdicts"].values()) == found["questions"]
    assert {"ran", "denied"} <= set(found["verdicts"])
    # Both viewers answer every question, so one of them learns that it came second.
    assert found["told that another viewer was first"] >= 9_000
    assert len(found["faults"]) == 6
    assert found["kills"] >= 5
    record_property("questions, each answered once", found["questions"])
