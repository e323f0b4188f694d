"""The differing lines of two texts, and that they turn one into the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import line_diff
from clew.core.line_diff import diff_lines

lines = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


@given(lines, lines, st.sampled_from([0, 1_000_000]))
def test_the_changes_turn_the_old_lines_into_the_new_ones(
    old: list[str], new: list[str], pairs_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_diff, "PAIRS_MAX", pairs_max)
        changes = diff_lines(old, new)
    assert bool(changes) == (old != new)
    result, at = list[str](), 0
    for i1, i2, j1, j2 in changes:
        assert at <= i1 <= i2
        assert (i1, i2) != (j1, j2) or old[i1:i2] != new[j1:j2]
        result += old[at:i1]
        assert len(result) == j1
        result += new[j1:j2]
        at = i2
    assert result + old[at:] == new


def test_lines_that_stay_between_changes_are_in_no_change() -> None:
    assert diff_lines(["a", "b", "c", "d"], ["x", "b", "c", "y"]) == [(0, 1, 0, 1), (3, 4, 3, 4)]
    assert diff_lines([b"a", b"b"], [b"a", b"new", b"b"]) == [(1, 1, 1, 2)]


def test_a_comparison_that_would_take_too_long_is_one_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_diff, "PAIRS_MAX", 8)
    assert diff_lines(["a", "b", "c", "d"], ["x", "b", "c", "y"]) == [(0, 4, 0, 4)]
