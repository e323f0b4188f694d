"""Front matter as authors write it; errors are reported, and affect only their own member."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.config.frontmatter import MAX_HEAD_CHARACTERS, NOT_CLOSED, read


def head(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", "Do it."])


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["x: a word"], "a word"),
        (["x: Use it: always"], "Use it: always"),
        (["x: see #12 # said why"], "see #12"),
        (["x: # said why"], ""),
        (["x:"], ""),
        (['x: "a # b"'], "a # b"),
        (["x: 'a: b'  # said why"], "a: b"),
        (['x: "a\\tb"'], "a\tb"),
        (['x: "a" and "b"'], '"a" and "b"'),
        (["x: 'it''s'"], "it's"),
        (["x: [file] [more]"], "[file] [more]"),
        (["x: [a, {b: 1}]"], ["a", {"b": 1}]),
        (["x: {a: [1, two]}"], {"a": [1, "two"]}),
        (["x: {not an object"], "{not an object"),
        (["x: *.py"], "*.py"),
        (["x: 2026-01-01"], "2026-01-01"),
        (["x:", "  - a", "  - b: 1"], ["a", {"b": 1}]),
        (["x:", "- a", "", "- b"], ["a", "b"]),
        (["x: >", "  one", "  two", "", "  three"], "one two\nthree"),
        (["x: |", "  one", "    two"], "one\n  two"),
        (["x: one", "  two"], "one two"),
        (["x: one", "  two: three"], "one two: three"),
        (["x:", "  a:", "    b: true"], {"a": {"b": True}}),
    ],
)
def test_a_value_is_what_its_writer_meant(lines: list[str], value: Any) -> None:
    read_back = read(head(*lines))
    assert read_back.values == {"x": value}
    assert read_back.body == "Do it."
    assert not read_back.faults


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        (["x:", "  a: 1", " b", "good: 1"], ["2: x: "]),
        (["x:", "\t- a", "good: 1"], ["2: x: "]),
        (["x:", "  day: 2026-01-01", "good: 1"], ["2: x: dates"]),
        (["x:", "  - &a 1", "  - *a", "good: 1"], ["2: x: YAML aliases"]),
        (["x:", f"  - {'[' * 40}", "good: 1"], ["2: x: nested too deep"]),
        (["x:", "  - !!bool maybe", "good: 1"], ["2: x: the YAML tag tag:yaml.org,2002:bool"]),
        (["x: [one", "- two", "good: 1"], ["2: x: "]),
        (["x:", "  - \ud800", "good: 1"], ["2: x: "]),
        (["x:", "  - \x01", "good: 1"], ["2: x: "]),
        (["  lost", "x:", "  a: 1", " b", "good: 0", "good: 1"], ["2: expected NAME", "3: x: ", "7: good is defined more than once"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_the_rest_counts(lines: list[str], faults: list[str]) -> None:
    read_back = read(head(*lines))
    assert read_back.values == {"good": "1"}
    said = [str(fault) for fault in read_back.faults]
    assert len(said) == len(faults)
    assert all(one.startswith(start) for one, start in zip(said, faults, strict=True))


def test_comments_and_blank_lines_are_nothing() -> None:
    assert read(head("# about", "", "x: 1", "", "# more")).values == {"x": "1"}
    assert not read(head("# about", "", "x: 1", "", "# more")).faults


@pytest.mark.parametrize("text", ["", "---", "no head\n---\n", "----\nx: 1\n----\n"])
def test_a_text_without_a_head_is_a_body(text: str) -> None:
    assert read(text).body == text
    assert not read(text).values
    assert not read(text).faults


def test_marks_and_line_ends_of_other_systems_are_read() -> None:
    read_back = read("\ufeff---\r\nx: 1\r\n--- \r\na\r\n---\r\n")
    assert (read_back.values, read_back.body) == ({"x": "1"}, "a\n---\n")


def test_a_head_without_an_end_is_text_and_a_complaint() -> None:
    read_back = read("---\nx: 1\n")
    assert read_back.body == "---\nx: 1\n"
    assert [str(fault) for fault in read_back.faults] == [f"1: {NOT_CLOSED}"]
    endless = read("---\n" + "x: 1\n" * MAX_HEAD_CHARACTERS + "---\n")
    assert [str(fault) for fault in endless.faults] == [
        "1: the front matter is longer than 65,536 characters"
    ]


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["x: Read, Bash(git add:*, -A), *.{ts,tsx}"], ("Read", "Bash(git add:*, -A)", "*.{ts,tsx}")),
        (["x: [a, 'b']"], ("a", "b")),
        (["x:", "  - a", "  - 2", "  - null", "  - true"], ("a", "2", "true")),
        (["x:", "  - Read, Grep", "  - Bash(a, b)"], ("Read", "Grep", "Bash(a, b)")),
        (["x: a), b"], ("a)", "b")),
        (["y: 1"], ()),
        (["x:", "  a: 1"], ()),
    ],
)  # fmt: skip
def test_lists_come_in_several_spellings(lines: list[str], texts: tuple[str, ...]) -> None:
    assert read(head(*lines)).texts("x") == texts


def test_views_of_a_value() -> None:
    said = read(
        head("a: yes", "b: False", "c: maybe", "d: 12", "e: -1", "f: null", "g:", "- a", "- 1")
    )
    assert [said.flag(name) for name in "abcz"] == [True, False, None, None]
    assert [said.number(name) for name in "dez"] == [12, None, None]
    assert [said.text(name) for name in "fgz"] == ["", "a, 1", ""]
    assert read(head("x:", "  true")).text("x") == "true"


@given(st.text(st.sampled_from("---\n: ab[]{}'\"|>&*!%@`,#\t\x00\ud800"), max_size=60))
def test_any_text_is_read(text: str) -> None:
    said = read(f"---\n{text}")
    for name in said.values:
        said.text(name), said.texts(name), said.flag(name), said.number(name)
