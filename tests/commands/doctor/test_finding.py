"""Findings of `clew doctor` as lines."""

from clew.commands.doctor.finding import (
    count_faults,
    format_plain,
    make_fault,
    make_fine,
    note,
)


def test_findings_stand_below_their_subjects_with_marks_and_remedies() -> None:
    found = [make_fine("a", "one"), make_fault("a", "two", "mend it"), note("b", "three")]
    assert format_plain(found) == (
        "a\n  ok one\n  !! two\n     mend it\nb\n  -- three\n1 problem, 1 note"
    )
    assert count_faults(found) == 1


def test_nothing_found_is_no_problem() -> None:
    assert format_plain([]) == "no problems"
    assert count_faults([]) == 0
