"""Rows of two columns."""

from clew.core.input import Pick, PickRow, as_list, format_table


def test_the_second_column_begins_where_the_widest_first_one_ends() -> None:
    assert format_table([("a", "one"), ("long", "two"), ("x", "")]) == "a     one\nlong  two\nx"


def test_no_rows_are_no_lines() -> None:
    assert format_table([]) == ""


def test_a_choice_that_nobody_makes_is_a_list_of_the_lines_that_make_it() -> None:
    pick = Pick(title="Where to", rows=(PickRow(line="/rewind a", label="One"),), text="Read this.")
    assert as_list(pick).text == "Read this.\nWhere to:\n/rewind a  One"


def test_what_is_too_wide_for_the_first_column_stands_above_its_words() -> None:
    wide = "x" * 33
    assert (
        format_table([("a", "one"), (wide, "two"), (wide, "")]) == f"a  one\n{wide}\n   two\n{wide}"
    )
