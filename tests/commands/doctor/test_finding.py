"""What an examination says, as lines."""

from clew.commands.doctor.finding import count_faults, format_findings, make_fault, make_fine, note


def test_findings_stand_below_their_subjects_with_marks_and_remedies() -> None:
    found = [make_fine("a", "one"), make_fault("a", "two", "mend it"), note("b", "three")]
    assert format_findings(found) == "a\n  ok one\n  !! two\n     mend it\nb\n  -- three"
    assert count_faults(found) == 1


def test_nothing_found_is_nothing_said() -> None:
    assert format_findings([]) == ""
    assert count_faults([]) == 0
