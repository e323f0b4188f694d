"""Blocks of Markdown, compared with an independent parser."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from clew.core.markdown.blocks import Blocks, Leaf, cells_of

READER = MarkdownIt("commonmark", {"html": True}).enable("table").disable(["reference"])

Seen = tuple[str, str, Any]


class Kept:
    """What the sink received, in the form of the other parser's tokens."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._leaf: Leaf | None = None
        self._words: list[str] = []

    def begin(self, leaf: Leaf) -> None:
        assert self._leaf is None
        self._leaf, self._words = leaf, []

    def text(self, text: str, *, ends: bool) -> None:
        self._words.append(text + ("\n" if ends else ""))

    def stand(self) -> None:
        leaf, self._leaf = self._leaf, None
        assert leaf is not None
        path = "".join(_mark(c.mark, c.number) for c in leaf.path)
        text = "".join(self._words)
        match leaf.kind:
            case "paragraph":
                self.seen.append((path, "paragraph", _trimmed(text)))
            case "heading":
                self.seen.append((path, f"h{leaf.level}", _trimmed(text)))
            case "table":
                rows = [leaf.info, *text.split("\n")[:-1]]
                wide = len(leaf.columns)
                self.seen.append((path, "table", [_fitted(cells_of(r), wide) for r in rows]))
            case "code":
                self.seen.append((path, "code", (leaf.info, _even(text))))
            case "html":
                self.seen.append((path, "html", _even(text)))
            case _:
                self.seen.append((path, leaf.kind, ""))


def _mark(mark: str, number: int | None) -> str:
    return ">" if not mark else mark if number is None else f"{number}{mark}"


def _trimmed(text: str) -> str:
    return "\n".join(line.strip(" \t") for line in text.strip("\n \t").split("\n"))


def _even(code: str) -> str:
    """Return code without invisible differences: lines of spaces, and empty lines at its end."""
    return "\n".join(line.rstrip() for line in code.expandtabs(4).split("\n")).rstrip("\n")


def _fitted(cells: list[str], wide: int) -> list[str]:
    return (cells + [""] * wide)[:wide]


def read(text: str) -> list[Seen]:
    """Return what the independent parser reads."""
    seen: list[Seen] = []
    path: list[str] = []
    shown: list[bool] = []
    numbers: list[int | None] = []
    table: list[list[str]] = []
    kind = ""
    for token in READER.parse(text):
        if token.type == "blockquote_open":
            path.append(">")
            shown.append(True)
        elif token.type == "list_item_open":
            number = numbers[-1]
            path.append(token.markup if number is None else f"{number}{token.markup}")
            shown.append(False)
            numbers[-1] = None if number is None else number + 1
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            ordered = token.type == "ordered_list_open"
            numbers.append(int(token.attrs.get("start", 1)) if ordered else None)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
        elif token.type in ("blockquote_close", "list_item_close"):
            if not shown[-1]:
                seen.append(("".join(path), "empty", ""))
                shown = [True] * len(shown)
            path.pop()
            shown.pop()
        elif token.type in ("paragraph_open", "heading_open"):
            kind = "paragraph" if token.type == "paragraph_open" else token.tag
        elif token.type == "table_open":
            table, kind = [], "table"
        elif token.type == "tr_open":
            table.append([])
        elif token.type == "table_close":
            seen.append(("".join(path), "table", table))
        elif token.type == "inline" and kind == "table":
            table[-1].append(token.content)
        elif token.type == "inline":
            seen.append(("".join(path), kind, _trimmed(token.content)))
        elif token.type in ("fence", "code_block"):
            seen.append(("".join(path), "code", (token.info.strip(), _even(token.content))))
        elif token.type == "html_block":
            seen.append(("".join(path), "html", _even(token.content)))
        elif token.type == "hr":
            seen.append(("".join(path), "rule", ""))
        if token.type in ("inline", "fence", "code_block", "html_block", "hr", "table_open"):
            shown = [True] * len(shown)
    return seen


def kept(parts: list[str]) -> list[Seen]:
    sink = Kept()
    blocks = Blocks(sink)
    for part in parts:
        blocks.feed(part)
    blocks.finish()
    return sink.seen


CORPUS = [
    "# One\n\nTwo *three*\nfour\n\n***\n\nFive\n====\n\nSix\n---\n",
    "- a\n- b\n  - c\n\n    d\n  - e\n- f\n\ng\n",
    "1. a\n2. b\n   ```py\n   x = 1\n\n   y\n   ```\n3. c\n",
    "7) a\n8) b\n\n9) c\n* d\n+ e\n",
    "> a\nb\n> c\n\n> d\n>\n> - e\n> f\n>> g\nh\n",
    "```\nopen\n\n# not a heading\n",
    "~~~ js\na\n```\n~~~\nafter\n",
    "    code\n\n      more\n\n\nend\n",
    "- a\n\n      code in item\n\n  b\n",
    "| a | b |\n|---|:-:|\n| 1 | `2` |\n| 3 |\n\nx\n",
    "text\n| a | b |\n|---|--:|\n| 1 \\| 2 | 3 | 4 |\n- end\n",
    "<div>\n*html*\n\nafter\n\n<!-- a\n\nb --> c\nd\n",
    "a\n<b>inline</b>\n\n<span>\nx\n\n<script>\n\n</script>\ny\n",
    "-\n\n- \n  a\n-\n  b\n- \n",
    "- - a\n  - b\n- * c\n",
    "a\n- b\n\nc\n2. d\n\ne\n-\n",
    "- a\nlazy\n- b\n  > c\nlazy too\n",
    "# a #\n## \n### b ### c\n#no\n####### seven\n",
    "日本語の段落です。\n\n- 項目\n- 項目 二 👨‍👩‍👧\n\n| 名前 | 値 |\n|---|---|\n| 漢字 | ✅ |\n",
    "\tcode\n\n-\tone\n\n\ttwo\n\n>\tquote\n",
    "a\r\nb\r\n\r\n```\r\nc\r\n```\r\n",
    "* * *\n- - -\n* a\n",
    "1. a\n\n   b\n\n\n2. c\n",
]


@pytest.mark.parametrize("text", CORPUS)
def test_blocks_are_those_of_an_independent_reader(text: str) -> None:
    expected = read(text.replace("\r\n", "\n"))
    assert kept([text]) == expected
    assert kept(list(text)) == expected


_LINES = st.sampled_from(
    ["a", "b c", "- x", "* y", "  - z", "1. one", "2. two", "    four", "> q", ">", "", "", "```",
     "~~~", "# h", "===", "---", "| a | b |", "|---|---|", "| 1 | 2 |", "<div>", "</div>", "<!-- c",
     "-->", "-", "   p", "  ", "\ttab", "+ x", "1) p", "   ```", ">> d", "> - e", "- > f", "- - g"]
)  # fmt: skip


@given(st.lists(_LINES, max_size=12).map("\n".join))
def test_blocks_of_any_lines_are_those_of_an_independent_reader(text: str) -> None:
    assert kept([text]) == read(text)


@given(st.text(alphabet="ab \n-*`>#|1.\t<_=", max_size=60), st.data())
def test_any_split_gives_the_same_blocks(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert kept([text[:cut], text[cut:]]) == kept([text]) == kept(list(text))
