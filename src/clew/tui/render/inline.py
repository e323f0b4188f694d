"""What stands inside a paragraph, as spans: emphasis, code, links. Pure.

HTML stays what it is, text; a link that a terminal cannot open shows where it leads, and so does one
whose words name another place.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from clew.tui.render.rows import Span, joined
from clew.tui.render.safe import address, visible
from clew.tui.render.theme import Theme

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# Without one of these a text is what it says.
_SPECIAL = re.compile(r"[\\`*_~\[\]<&!:\n]")
_BARE = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,;:!?)\]}*_]")
_BREAK = re.compile(r"<br\s*/?>", re.I)
_OPENS = {"em_open": "emphasis", "strong_open": "strong", "s_open": "struck"}


@cache
def _reader() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


def get_ready() -> None:
    """Loads what takes a moment, for whoever has one before the first words are shown."""
    _reader()


def spans(text: str, theme: Theme, *, links: bool, style: str = "") -> list[Span]:
    """A text of Markdown in the styles of a theme, on top of a style of its own."""
    text = visible(text)
    if not _SPECIAL.search(text):
        return [Span(text, style)]
    tokens = _reader().parseInline(text)[0].children or []
    return list(_Inline(theme, links=links, style=style).read(tokens))


class _Inline:
    def __init__(self, theme: Theme, *, links: bool, style: str) -> None:
        self._theme = theme
        self._links = links
        self._styles = [style]
        # Of the link that is open: where it leads, and what it has said.
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
                    style = joined(self._styles[-1], self._theme[_OPENS[opened]])
                    self._styles.append(style)
                case _:
                    self._styles.pop()

    def _span(self, text: str, part: str = "") -> Span:
        style = joined(self._styles[-1], self._theme[part])
        if self._url is None:
            return Span(text, style)
        self._said += text
        return Span(text, joined(style, self._theme["link"]), self._target(self._url))

    def _target(self, url: str) -> str:
        return address(url) if self._links else ""

    def _bare(self, text: str) -> Iterator[Span]:
        """Text whose addresses are links."""
        at = 0
        style = self._styles[-1]
        for found in _BARE.finditer(text) if "://" in text else ():
            yield Span(text[at : found.start()], style)
            yield Span(found[0], joined(style, self._theme["link"]), self._target(found[0]))
            at = found.end()
        yield Span(text[at:], style)

    def _leads(self) -> Iterator[Span]:
        """The end of a link: where it leads, unless its words say so or the terminal shows it."""
        url, self._url = self._url or "", None
        is_said = self._said == url or f"mailto:{self._said}" == url
        names_another = "://" in self._said or "." in self._said.strip(". ")
        if not is_said and url and (names_another or not self._target(url)):
            yield Span(f" ({visible(url)})", joined(self._styles[-1], self._theme["quiet"]))

    def _image(self, token: "Token") -> Iterator[Span]:
        url = str(token.attrs.get("src", ""))
        words = f"[image: {token.content}]" if token.content else "[image]"
        style = joined(self._styles[-1], self._theme["quiet"])
        yield Span(f"{words} ({visible(url)})", style, self._target(url))
