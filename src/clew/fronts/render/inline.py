"""Parses the Markdown inside a paragraph into spans: emphasis, code, links. Pure.

HTML is shown as text. A link shows its target if the terminal cannot open links, or if the link's
text looks like a different target.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.fronts.render.rows import Span, address, escape_controls, join_styles
from clew.fronts.render.theme import Theme

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# Points at which a long paragraph can be split, so that its start can be printed. Pure.


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


# The start and end of HTML blocks in Markdown: the seven kinds of CommonMark. Pure.


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
_SPECIAL = re.compile(r"[\\`*_~\[\]<&!:\n]")
_BARE = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,;:!?)\]}*_]")
_BREAK = re.compile(r"<br\s*/?>", re.I)
_OPENS = {"em_open": "emphasis", "strong_open": "strong", "s_open": "struck"}


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


def get_ready() -> None:
    """Load the Markdown parser before the first text needs it."""
    _reader()


def parse_spans(text: str, theme: Theme, *, links: bool, style: str = "") -> list[Span]:
    """Parse inline Markdown into spans; the theme's styles are added on top of `style`."""
    text = escape_controls(text)
    if not _SPECIAL.search(text):
        return [Span(text, style)]
    tokens = _reader().parseInline(text)[0].children or []
    return list(_Inline(theme, links=links, style=style).read(tokens))


class _Inline:
    def __init__(self, theme: Theme, *, links: bool, style: str) -> None:
        self._theme = theme
        self._links = links
        self._styles = [style]
        # The target of the open link, and the link's text so far.
        self._url: str | None = None
        self._said = ""

    def read(self, tokens: "list[Token]") -> Iterator[Span]:
        for token in tokens:
            match token.type:
                case "text" if self._url is None:
                    yield from self._bare(token.content)
                case "text" | "text_special":
                    yield self._span(token.content)
                case "code_inline":
                    yield self._span(token.content, "code")
                case "softbreak":
                    yield self._span(" ")
                case "hardbreak":
                    yield self._span("\n")
                case "html_inline":
                    is_break = _BREAK.fullmatch(token.content)
                    yield self._span("\n") if is_break else self._span(token.content, "quiet")
                case "link_open":
                    self._url, self._said = str(token.attrs.get("href", "")), ""
                case "link_close":
                    yield from self._leads()
                case "image":
                    yield from self._image(token)
                case opened if opened in _OPENS:
                    style = join_styles(self._styles[-1], self._theme[_OPENS[opened]])
                    self._styles.append(style)
                case _:
                    self._styles.pop()

    def _span(self, text: str, part: str = "") -> Span:
        style = join_styles(self._styles[-1], self._theme[part])
        if self._url is None:
            return Span(text, style)
        self._said += text
        return Span(text, join_styles(style, self._theme["link"]), self._target(self._url))

    def _target(self, url: str) -> str:
        return address(url) if self._links else ""

    def _bare(self, text: str) -> Iterator[Span]:
        """Yield the text as spans, with bare URLs as links."""
        at = 0
        style = self._styles[-1]
        for match in _BARE.finditer(text) if "://" in text else ():
            yield Span(text[at : match.start()], style)
            yield Span(match[0], join_styles(style, self._theme["link"]), self._target(match[0]))
            at = match.end()
        yield Span(text[at:], style)

    def _leads(self) -> Iterator[Span]:
        """End a link; yield its target unless the link's text or the terminal shows the target."""
        url, self._url = self._url or "", None
        is_said = self._said == url or f"mailto:{self._said}" == url
        names_another = "://" in self._said or "." in self._said.strip(". ")
        if not is_said and url and (names_another or not self._target(url)):
            yield Span(
                f" ({escape_controls(url)})", join_styles(self._styles[-1], self._theme["quiet"])
            )

    def _image(self, token: "Token") -> Iterator[Span]:
        url = str(token.attrs.get("src", ""))
        words = f"[image: {token.content}]" if token.content else "[image]"
        style = join_styles(self._styles[-1], self._theme["quiet"])
        yield Span(f"{words} ({escape_controls(url)})", style, self._target(url))
