"""Errors in the groups that tasks wrap them in."""

from clew.core.messages.errors import UserError, find_first_error, format_error


def test_the_first_of_nested_groups_is_what_went_wrong() -> None:
    wrong = UserError("so it was")
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [wrong]), OSError("later")])
    assert find_first_error(nested) is wrong
    assert find_first_error(wrong) is wrong


def test_an_error_is_one_line_without_its_notes() -> None:
    error = LookupError("no rule")
    error.add_note("a note")
    assert format_error(error) == "LookupError: no rule"
    assert format_error(KeyboardInterrupt()) == "KeyboardInterrupt"
