"""A lazy pattern is the pattern, compiled when it is first asked."""

import re

import pytest

from clew.core.regex import lazy_pattern


def test_a_lazy_pattern_answers_as_the_compiled_one_does() -> None:
    lazy, compiled = lazy_pattern("(a)b", re.IGNORECASE), re.compile("(a)b", re.IGNORECASE)
    assert lazy.sub(r"\1", "xABab") == compiled.sub(r"\1", "xABab") == "xAa"
    assert [m[0] for m in lazy.finditer("abAB")] == ["ab", "AB"]
    assert lazy.fullmatch("ab")
    assert not lazy.fullmatch("abc")
    assert (lazy.pattern, lazy.flags) == (compiled.pattern, compiled.flags)
    assert lazy_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_a_faulty_expression_is_reported_with_its_first_use() -> None:
    faulty = lazy_pattern("(")
    with pytest.raises(re.error):
        faulty.match("x")
