"""Streaming text, however it is split, as lines that end between words."""

import pytest

from clew.fronts.render.rows import Flow, wrap_text

TEXTS = [
    "one two three four five six\n\n  seven  eight\tnine",
    "a-word-longer-than-any-row-there-is and more of them",
    "日本語の文章は、空白がなくても折り返される。 then words",
    "",
    "\n",
]


def told(columns: int, *parts: str) -> str:
    flow = Flow(columns)
    return "".join([*map(flow.feed, parts), flow.close()])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("columns", [7, 12, 80])
def test_lines_are_the_same_however_the_stream_is_cut(text: str, columns: int) -> None:
    whole = told(columns, text)
    assert all(told(columns, text[:cut], text[cut:]) == whole for cut in range(len(text)))
    assert told(columns, *text) == whole
    assert "".join(whole.split()) == "".join(text.split())


def test_a_word_is_told_when_it_is_whole_and_where_there_is_no_width_at_once() -> None:
    flow = Flow(8)
    assert [flow.feed(part) for part in ("on", "e tw", "o ", "three", " ")] == [
        "", "one", " two", "", "\nthree",
    ]  # fmt: skip
    assert flow.close() == ""
    assert told(8, "one two three") == "one two\nthree"
    assert Flow(0).feed("on") == "on"
    assert Flow(0).close() == ""


def test_a_word_longer_than_a_row_is_left_whole() -> None:
    assert told(6, "go to https://example.com now") == "go to\nhttps://example.com\nnow"
    assert (
        wrap_text("go to https://example.com now\nyes", 6) == "go to\nhttps://example.com\nnow\nyes"
    )
    assert wrap_text("go to https://example.com", 0) == "go to https://example.com"


def test_a_line_goes_on_under_its_beginning() -> None:
    assert wrap_text("  one two three", 9) == "  one two\n  three"
