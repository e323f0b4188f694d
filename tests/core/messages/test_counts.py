"""Counts in words."""

import pytest

from clew.core.messages.text import format_count, format_size


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("line",), "0 lines"),
        (1, ("line",), "1 line"),
        (2, ("line",), "2 lines"),
        (1_000, ("more line",), "1,000 more lines"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
    ],
)
def test_one_is_not_many(number: int, words: tuple[str, ...], said: str) -> None:
    assert format_count(number, *words) == said


def test_a_size_is_said_in_three_digits_or_so() -> None:
    assert [format_size(n) for n in (1_234, 2_345_678, 3.4e9)] == ["1.2 kB", "2.3 MB", "3.4 GB"]
