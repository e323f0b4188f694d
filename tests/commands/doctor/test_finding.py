"""What an examination says, as lines."""

from clew.commands.doctor.finding import fault, faults_in, fine, note, told


def test_findings_stand_below_their_subjects_with_marks_and_remedies() -> None:
    found = [fine("a", "one"), fault("a", "two", "mend it"), note("b", "three")]
    assert told(found) == "a\n  ok one\n  !! two\n     mend it\nb\n  -- three"
    assert faults_in(found) == 1


def test_nothing_found_is_nothing_said() -> None:
    assert told([]) == ""
    assert faults_in([]) == 0
