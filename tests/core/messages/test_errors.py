"""Errors in the groups that tasks wrap them in."""

from clew.core.messages.errors import UserError, first_of


def test_the_first_of_nested_groups_is_what_went_wrong() -> None:
    wrong = UserError("so it was")
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [wrong]), OSError("later")])
    assert first_of(nested) is wrong
    assert first_of(wrong) is wrong
