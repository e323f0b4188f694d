"""Patterns with many stars: the same meaning as before, in bounded time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec, PathSpec

from clew.permissions.patterns import (
    compile_ignore_rules,
    compile_path_rules,
    find_original,
    make_command_regex,
    make_domain_regex,
    make_path_regex,
    make_word_regex,
    may_meet,
    tamed,
)

PARTS = ["a", "b", "*", "*", "/", "?", "**/", "/**/", "[ab]", "\\*", "."]
LETTERS = ["a", "b", "/", "a/", "c", "*", "."]


@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=9).map("".join),
    st.lists(st.sampled_from(LETTERS), min_size=1, max_size=9).map("".join),
)
def test_a_line_means_what_the_library_says(line: str, name: str) -> None:
    name = name.strip("/")
    try:
        said = GitIgnoreSpec.from_lines([line]).check_file(name).include
    except ValueError:
        return
    assert compile_ignore_rules([line]).check_file(name).include == said
    assert compile_path_rules([line]).match_file(name) == PathSpec.from_lines(
        "gitignore", [line]
    ).match_file(name)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("*a" * 15 + "*b", "a" * 60),
        ("a*" * 200 + "b", "a" * 255),
        ("*" * 200 + "b", "a" * 255),
        ("?*" * 100 + "b", "a" * 255),
        ("**/a/" * 15 + "**/b", "a/" * 60),
        ("x/**/a/" + "**/a/" * 15 + "**/b", "x/" + "a/" * 60),
        ("**/*a*a*a/" * 15 + "**/b", "aaaaaaaaaa/" * 200),
    ],
)
def test_a_line_of_many_stars_comes_to_an_end(line: str, name: str) -> None:
    assert not compile_ignore_rules([line]).match_file(name)
    assert not compile_path_rules([line]).match_file(name)


def test_what_needs_no_care_is_left_as_it_is() -> None:
    assert tamed("^a[^/]*b$") == "^a[^/]*b$"
    assert compile_ignore_rules(["# only a remark", "*.py"]).match_file("x.py")


STARS = "*a" * 20 + "*b"


@pytest.mark.parametrize("regex", [make_command_regex, make_word_regex, make_domain_regex])
def test_a_rule_of_many_stars_comes_to_an_end(regex: object) -> None:
    assert callable(regex)
    assert regex(STARS).fullmatch("a" * 60) is None
    assert regex(STARS).fullmatch("a" * 60 + "b") is not None


def test_a_path_rule_of_many_stars_comes_to_an_end() -> None:
    for segments in ((STARS,), ("**", "a") * 12 + ("**", "b"), ("**",) * 30 + ("b",)):
        rule = re.compile(make_path_regex("/x", segments, floating=False, itself=False), re.S)
        assert rule.fullmatch("/x" + "/" + "a" * 60) is None
        assert rule.fullmatch("/x" + "/a" * 60) is None
    assert may_meet(("**", "*a*") * 100, ("**", "*b*") * 100)
    assert not may_meet(("**", "a") * 100 + ("c",), ("**", "a") * 100 + ("d",))


@pytest.mark.parametrize(
    ("path", "original"),
    [
        ("/r/.claude/worktrees/agent-1/src/a", "/r/src/a"),
        ("/r/.claude/worktrees/agent-1", "/r"),
        ("/.claude/worktrees/x", "/"),
        ("/r/.claude/worktrees/a/.claude/worktrees/b/f", "/r/.claude/worktrees/a/f"),
        ("/r/.claude/worktrees/", ""),
        ("/r/.claude/worktrees", ""),
        ("/r/src/a", ""),
    ],
)
def test_a_file_of_a_worktree_is_a_copy_of_one_in_the_repository(path: str, original: str) -> None:
    assert find_original(path) == original
