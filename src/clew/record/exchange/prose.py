"""Render Markdown as HTML, with the parsers of the terminal. Does no I/O.

All text is escaped and never interpreted as markup. Links may only be web and mail addresses.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from clew.core.markdown.blocks import Blocks, Container, Leaf, cells_of, replace_box
from clew.core.markdown.highlighting import Highlighter, NamedLine, find_lexer, read_language
from clew.core.markdown.inline import (
    BARE_URL,
    LINE_BREAK,
    SPECIAL,
    names_another_target,
    parse_tokens,
)

if TYPE_CHECKING:
    from markdown_it.token import Token

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_TARGET = re.compile(r"(?:https?|mailto):[\x21-\x7e]{1,2000}\Z", re.I)
_TAGS = {
    "em_open": "<em>", "em_close": "</em>", "strong_open": "<strong>", "strong_close": "</strong>",
    "s_open": "<s>", "s_close": "</s>", "softbreak": "\n", "hardbreak": "<br>",
}  # fmt: skip


def escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def prose(text: str) -> str:
    """Render a response as HTML."""
    page = _Page()
    blocks = Blocks(page)
    blocks.feed(text)
    blocks.finish()
    return page.taken()


class _Page:
    """The sink of the block parser: writes one leaf at a time inside the tags of its containers."""

    def __init__(self) -> None:
        self._out: list[str] = []
        # The open containers, each with the tag of its list or quote.
        self._open: list[tuple[Container, str]] = []
        self._leaf: Leaf | None = None
        self._is_first = True
        self._code = Highlighter(None)
        # The received part of a long line of code.
        self._line = ""

    def taken(self) -> str:
        self._close(0)
        return "".join(self._out)

    # -- events of the block parser

    def begin(self, leaf: Leaf) -> None:
        self._enter(leaf)
        self._leaf, self._is_first = leaf, True
        match leaf.kind:
            case "paragraph":
                self._out.append("<p>")
            case "heading":
                self._out.append(f"<h{_level(leaf)}>")
            case "code":
                name = read_language(leaf.info)
                self._code = Highlighter(find_lexer(name) if name else None)
                self._out.append("<pre>")
            case "html":
                self._out.append('<p class="soft">')
            case "table":
                self._out.append("<table>")
                self._row(leaf, cells_of(leaf.info), "th")
            case "rule":
                self._out.append("<hr>")
            case "empty":
                pass
            case _:
                assert_never(leaf.kind)

    def text(self, text: str, *, ends: bool) -> None:
        leaf = self._leaf
        assert leaf is not None
        match leaf.kind:
            case "code":
                self._line += text
                if ends:
                    self._lines(self._code.add(self._line))
                    self._line = ""
            case "table":
                self._row(leaf, cells_of(text), "td")
            case "html":
                self._out.append(escaped(text) + ("<br>" if ends else ""))
            case _:
                if self._is_first and leaf.path and leaf.path[-1].is_item:
                    text = replace_box(text)
                self._out.append("".join(_inline(text)))
        self._is_first = False

    def stand(self) -> None:
        leaf = self._leaf
        assert leaf is not None
        match leaf.kind:
            case "paragraph" | "html":
                self._out.append("</p>")
            case "heading":
                self._out.append(f"</h{_level(leaf)}>")
            case "code":
                self._lines([*self._code.end(), *([[("", self._line)]] if self._line else [])])
                self._line = ""
                self._out.append("</pre>")
            case "table":
                self._out.append("</table>")
            case _:
                pass
        self._leaf = None

    # -- containers

    def _enter(self, leaf: Leaf) -> None:
        """Close containers that the leaf is not in, and open those that it is in."""
        depth = 0
        for (container, _), theirs in zip(self._open, leaf.path, strict=False):
            if container is not theirs:
                break
            depth += 1
        fresh = leaf.path[depth:]
        is_same_list = (
            depth < len(self._open)
            and bool(fresh)
            and self._open[depth][0].is_item
            and self._open[depth][0].mark == fresh[0].mark
        )
        if is_same_list:
            self._close(depth + 1)
            _, tag = self._open.pop()
            self._out.append(f"</li>{_item(fresh[0])}")
            self._open.append((fresh[0], tag))
            fresh = fresh[1:]
        else:
            self._close(depth)
        for container in fresh:
            tag = "blockquote"
            if container.is_item:
                tag = "ul" if container.number is None else "ol"
            self._out.append(f"<{tag}>{_item(container) if container.is_item else ''}")
            self._open.append((container, tag))

    def _close(self, depth: int) -> None:
        while len(self._open) > depth:
            container, tag = self._open.pop()
            self._out.append(f"</li></{tag}>" if container.is_item else f"</{tag}>")

    # -- leaves

    def _lines(self, lines: Iterable[NamedLine]) -> None:
        for line in lines:
            for part, text in line:
                name = part.removeprefix("code_")
                plain = escaped(text)
                self._out.append(f'<span class="c-{name}">{plain}</span>' if name else plain)
            self._out.append("\n")

    def _row(self, leaf: Leaf, cells: list[str], tag: str) -> None:
        wide = len(leaf.columns)
        self._out.append("<tr>")
        for cell, side in zip((cells + [""] * wide)[:wide], leaf.columns, strict=True):
            look = f' class="{side}"' if side in ("right", "center") else ""
            self._out.append(f"<{tag}{look}>{''.join(_inline(cell))}</{tag}>")
        self._out.append("</tr>")


def _level(leaf: Leaf) -> int:
    """Return a heading's level on the page, below the page's own headings."""
    return min(6, leaf.level + 2)


def _item(container: Container) -> str:
    return "<li>" if container.number is None else f'<li value="{container.number}">'


def _inline(text: str) -> Iterator[str]:
    if not SPECIAL.search(text):
        yield escaped(text)
        return
    # The target of the open link, and the link's text.
    url, link_text = "", ""
    for token in parse_tokens(text):
        match token.type:
            case "link_open":
                url, link_text = str(token.attrs.get("href", "")), ""
                yield f'<a href="{escaped(url)}">' if _TARGET.match(url) else ""
            case "link_close":
                can_open = _TARGET.match(url)
                yield "</a>" if can_open else ""
                if not can_open or names_another_target(link_text, url):
                    yield f" ({escaped(url)})"
                url = ""
            case _:
                link_text += token.content
                yield from _token(token, is_link=bool(url))


def _token(token: "Token", *, is_link: bool) -> Iterator[str]:
    match token.type:
        case "text" if not is_link:
            yield from _linked(token.content)
        case "code_inline":
            yield f"<code>{escaped(token.content)}</code>"
        case "html_inline":
            yield "<br>" if LINE_BREAK.fullmatch(token.content) else escaped(token.content)
        case "image":
            words = f"[image: {token.content}]" if token.content else "[image]"
            yield escaped(f"{words} ({token.attrs.get('src', '')})")
        case kind:
            yield _TAGS.get(kind) or escaped(token.content)


def _linked(text: str) -> Iterator[str]:
    """Yield the text with bare URLs as links."""
    at = 0
    for match in BARE_URL.finditer(text):
        url = escaped(match[0])
        yield escaped(text[at : match.start()])
        yield f'<a href="{url}">{url}</a>' if _TARGET.match(match[0]) else url
        at = match.end()
    yield escaped(text[at:])
