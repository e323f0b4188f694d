"""Parse the Markdown inside a paragraph: emphasis, code, links.

HTML is treated as text. This module also finds the points at which a long paragraph can be split.
It does no I/O.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# Points at which a long paragraph can be split, so that its start can be printed.


# A paragraph longer than this is split at the first good point; at three times this, at any point.
PARAGRAPH_CHARACTERS = 1_200

_SIGNS = re.compile(r"\\.|`+|\*+|(?<![\w_])_+|_+(?![\w_])|!?\[|\]\(?|\)|\s|\S", re.S)


def find_cut(text: str) -> int:
    """Return a position where a paragraph can be split without splitting code, emphasis or a link.

    Return 0 if there is no such position yet. A very long paragraph is split wherever necessary.
    """
    open_signs: set[str] = set()
    good = last = 0
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign.isspace():
            last = match.end()
            good = good if open_signs else last
        elif sign[0] == "`":
            _toggle(open_signs, sign)
        elif "`" in "".join(open_signs):
            continue
        elif sign[0] in "*_":
            is_alone = text[match.end() : match.end() + 1].isspace() and sign not in open_signs
            if not is_alone:
                _toggle(open_signs, sign)
        elif sign in ("[", "!["):
            open_signs.add("[")
        elif sign[0] == "]":
            open_signs.discard("[")
            if sign == "](":
                open_signs.add("(")
        elif sign == ")":
            open_signs.discard("(")
    if good:
        return good
    return (last or len(text)) if len(text) > 3 * PARAGRAPH_CHARACTERS else 0


def _toggle(signs: set[str], sign: str) -> None:
    signs.symmetric_difference_update({sign})


# The start and end of HTML blocks in Markdown: the seven kinds of CommonMark.


_HTML_NAMES = (
    "address article aside base basefont blockquote body caption center col colgroup dd details dialog"
    " dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header"
    " hr html iframe legend li link main menu menuitem nav noframes ol optgroup option p param search"
    " section summary table tbody td tfoot th thead title tr track ul"
).replace(" ", "|")
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w:.-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?"""
# The start of each kind and its end condition; None means a blank line.
_HTML = (
    (re.compile(r"<(?:script|pre|style|textarea)(?=\s|>|\Z)", re.I),
     re.compile(r"</(?:script|pre|style|textarea)>", re.I)),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_HTML_NAMES})(?=\s|/?>|\Z)", re.I), None),
)  # fmt: skip
_HTML_ALONE = re.compile(
    rf"(?:<[A-Za-z][A-Za-z0-9-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*\Z"
)


class Html(Struct, frozen=True):
    """The start of an HTML block. `until` matches its end; if None, a blank line ends the block."""

    until: re.Pattern[str] | None


def read_html(words: str, *, may_be_any: bool) -> Html | None:
    for begins, until in _HTML:
        if begins.match(words):
            return Html(until)
    return Html(None) if may_be_any and _HTML_ALONE.match(words) else None


# Text without any of these characters contains no Markdown.
SPECIAL = re.compile(r"[\\`*_~\[\]<&!:\n]")
# A URL without Markdown around it.
BARE_URL = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,;:!?)\]}*_]")
LINE_BREAK = re.compile(r"<br\s*/?>", re.I)


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


def get_ready() -> None:
    """Load the Markdown parser before the first text needs it."""
    _reader()


def parse_tokens(text: str) -> "list[Token]":
    """Return the inline tokens of a text."""
    return _reader().parseInline(text)[0].children or []


def names_another_target(text: str, url: str) -> bool:
    """Return whether the text of a link looks like a target other than its URL."""
    is_url = text == url or f"mailto:{text}" == url
    return not is_url and bool(url) and ("://" in text or "." in text.strip(". "))
