"""Finished rows are returned once, for any split of the text, and match what was shown before."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.fronts.render.markdown import Markdown
from clew.fronts.render.rows import count_cells, format_row
from clew.fronts.render.theme import BARE, DARK, Theme
from tests.fronts.terminal.render.corpus import ANSWER, CORPUS

STYLES = re.compile(r"\x1b\[[\d;]*m|\x1b]8;;[^\x1b]*\x1b\\")


def shown(parts: list[str], width: int = 60, theme: Theme = DARK) -> list[str]:
    markdown = Markdown(theme, width)
    rows = [row for part in parts for row in markdown.feed(part)]
    return [format_row(row) for row in (*rows, *markdown.finish())]


def plain(text: str, width: int = 60) -> list[str]:
    return shown([text], width, BARE)


@pytest.mark.parametrize("text", CORPUS)
@pytest.mark.parametrize("width", [20, 60])
def test_any_pieces_give_the_same_rows(text: str, width: int) -> None:
    whole = shown([text], width)
    for size in (1, 12):
        assert shown([text[i : i + size] for i in range(0, len(text), size)], width) == whole


@pytest.mark.no_cover
@pytest.mark.parametrize("text", CORPUS)
def test_what_went_out_and_what_is_seen_are_the_whole_at_every_moment(text: str) -> None:
    markdown = Markdown(DARK, 60)
    out: list[str] = []
    step = max(11, len(text) // 40)
    for i in range(0, len(text), step):
        out += [format_row(row) for row in markdown.feed(text[i : i + step])]
        seen = [format_row(row) for row in markdown.tail(60, 10_000)]
        assert out + seen == shown([text[: i + step]])


@pytest.mark.no_cover
@pytest.mark.parametrize("text", CORPUS)
@pytest.mark.parametrize("width", [1, 2, 5, 13, 40])
def test_no_row_is_wider_than_the_terminal_and_none_rules_it(text: str, width: int) -> None:
    for row in shown([text], width):
        bare = STYLES.sub("", row)
        assert bare.isprintable() or not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", bare)
        assert count_cells(bare) <= max(2, width)


_PIECES = st.sampled_from(
    [ANSWER[i : i + 9] for i in range(0, len(ANSWER), 9)]
    + ["\n", "\n\n", "```", "|", "- ", "> ", "    ", "**", "`", "漢", "👩‍👩‍👧", "\t", "\r\n"]
)


@given(st.lists(_PIECES, max_size=40), st.integers(1, 90))
def test_rows_of_any_text_do_not_depend_on_its_pieces(parts: list[str], width: int) -> None:
    text = "".join(parts)
    assert shown(parts, width) == shown([text], width) == shown(list(text), width)


def test_a_tail_is_as_high_as_was_asked_and_the_end_of_what_is_open() -> None:
    markdown = Markdown(BARE, 60)
    markdown.feed("| a | b |\n|---|---|\n" + "".join(f"| {i} | x |\n" for i in range(50)))
    seen = [format_row(row) for row in markdown.tail(60, 4)]
    assert [row.split()[0] for row in seen] == ["46", "47", "48", "49"]
    assert markdown.tail(60, 0) == []


def test_lines_of_code_go_out_as_they_come_but_a_comment_waits_for_its_end() -> None:
    markdown = Markdown(BARE, 60)
    markdown.feed("```js\n")
    assert [format_row(row) for row in markdown.feed("const a = 1\n")] == ["  const a = 1"]
    assert markdown.feed("/* begins\n goes on\n") == []
    assert len(markdown.feed("ends */\n")) == 3


def test_items_go_out_one_by_one_and_never_before_they_stand() -> None:
    markdown = Markdown(BARE, 60)
    assert markdown.feed("- one\n") == []
    assert [format_row(row) for row in markdown.feed("- two\n")] == ["• one"]
    assert markdown.feed("  goes on\n") == []
    assert [format_row(row) for row in markdown.feed("\n")] == ["• two goes on"]


def test_a_paragraph_without_an_end_goes_out_in_parts_that_cut_nothing() -> None:
    text = "Some words with **bold ones** and `code of it` and [a link](http://x.y) in them. " * 60
    markdown = Markdown(BARE, 60)
    out = [
        format_row(row) for i in range(0, len(text), 12) for row in markdown.feed(text[i : i + 12])
    ]
    assert len(out) > 50
    assert len(markdown.tail(60, 1000)) < 40
    assert not any("**" in row or "`" in row for row in out)


def test_a_narrower_terminal_gets_narrower_rows() -> None:
    markdown = Markdown(BARE, 60)
    markdown.feed("words that are said before " * 3)
    assert max(count_cells(format_row(row)) for row in markdown.tail(20, 50)) <= 20
    assert markdown.tail(20, 50) is markdown.tail(20, 50)
    markdown.feed("\n```\ncode\n")
    markdown.resize(20)
    rows = [*markdown.feed("```\n"), *markdown.feed("and after\n\n- x\n"), *markdown.finish()]
    assert max(count_cells(format_row(row)) for row in rows) <= 20
    assert format_row(rows[-1]) == "• x"
    empty = Markdown(BARE, 60)
    empty.resize(30)
    assert empty.finish() == []


def test_what_each_block_looks_like() -> None:
    assert plain(ANSWER, 72) == ANSWER_ROWS.split("\n")


ANSWER_ROWS = """What was wrong

The parser kept state between calls, so the second line was read as the
first one's end. See the docs (https://example.com/a_b) and
https://example.org/x.

1. Read the file
2. Find the place:
     def f(x: int) -> str:
         '''Says

         it.'''
         return f"{x}"  # done
3. Change it

   ◦ in one place
     ▪ and in another, which goes on for so long that it wraps in most
       terminals there are
   ☐ later
   ☑ now

▎ A quote with code over two lines
▎
▎ • and a list

File   │ Lines │                          説明
───────┼───────┼────────────────────────────────────────────────────────
a.py   │    12 │                          漢字
b/c.py │ 1,200 │    a cell whose words go on and on until they need a
       │       │                       second line

  /* a comment
   * over lines */
  int main(void) { return 0; }

────────────────────────────────────────

<details>
<summary>html</summary>
</details>

Setext
Last words, without an end"""
