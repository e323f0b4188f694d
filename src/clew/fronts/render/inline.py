"""Parse the Markdown inside a paragraph into spans: emphasis, code, links.

HTML is shown as text. A link shows its target if the terminal cannot open links, or if the link's
text looks like a different target. Does no I/O.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clew.core.markdown.inline import (
    BARE_URL,
    LINE_BREAK,
    SPECIAL,
    names_another_target,
    parse_tokens,
)
from clew.fronts.render.rows import Span, address, escape_controls, join_styles
from clew.fronts.render.theme import Theme

if TYPE_CHECKING:
    from markdown_it.token import Token


_OPENS = {"em_open": "emphasis", "strong_open": "strong", "s_open": "struck"}


def parse_spans(text: str, theme: Theme, *, links: bool, style: str = "") -> list[Span]:
    """Parse inline Markdown into spans; the theme's styles are added on top of `style`."""
    text = escape_controls(text)
    if not SPECIAL.search(text):
        return [Span(text, style)]
    return list(_Inline(theme, links=links, style=style).read(parse_tokens(text)))


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
                    is_break = LINE_BREAK.fullmatch(token.content)
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
        for match in BARE_URL.finditer(text) if "://" in text else ():
            yield Span(text[at : match.start()], style)
            yield Span(match[0], join_styles(style, self._theme["link"]), self._target(match[0]))
            at = match.end()
        yield Span(text[at:], style)

    def _leads(self) -> Iterator[Span]:
        """End a link; yield its target unless the link's text or the terminal shows the target."""
        url, self._url = self._url or "", None
        is_said = self._said == url or f"mailto:{self._said}" == url
        is_shown = bool(self._target(url)) and not names_another_target(self._said, url)
        if not is_said and url and not is_shown:
            yield Span(
                f" ({escape_controls(url)})", join_styles(self._styles[-1], self._theme["quiet"])
            )

    def _image(self, token: "Token") -> Iterator[Span]:
        url = str(token.attrs.get("src", ""))
        words = f"[image: {token.content}]" if token.content else "[image]"
        style = join_styles(self._styles[-1], self._theme["quiet"])
        yield Span(f"{words} ({escape_controls(url)})", style, self._target(url))
