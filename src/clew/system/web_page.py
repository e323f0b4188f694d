"""Convert an HTML page to Markdown: the visible text, with absolute links.

Does no I/O, and takes time linear in the page. A scanner, not a parser: it builds no tree, never
fails, and no page makes it slow. Invisible content (scripts, styles, templates, elements marked
hidden) is omitted.

Decision: docs/decisions/122-web-pages.md
"""

import codecs
import re
from collections.abc import Callable
from html import unescape

from msgspec import Struct

# Decode the body of a response, even if its declared type is wrong. No I/O.


MARKUP = frozenset({"text/html", "application/xhtml+xml"})
TEXTUAL = re.compile(
    r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|yaml|toml|javascript|x-sh)|image/svg"
)
CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w-]{1,40})""", re.I)
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
LOOKED_AT_BYTES = 2_048


def is_markup(media_type: str, body: bytes) -> bool:
    begin = body[:LOOKED_AT_BYTES].lstrip()[:100].lower()
    looks = begin.startswith((b"<!doctype html", b"<html"))
    return media_type in MARKUP or (not media_type and looks)


def is_textual(media_type: str, body: bytes) -> bool:
    """Return whether a body is readable text. Without a media type, the bytes decide."""
    if media_type and media_type != "application/octet-stream":
        return TEXTUAL.match(media_type) is not None
    return b"\0" not in body[:LOOKED_AT_BYTES]


def decode_page(body: bytes, charset: str) -> str:
    """Decode a body by its byte order mark, its header, its own declaration, or as UTF-8.

    Bytes that no encoding fits are replaced.
    """
    for mark, name in MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    match = CHARSET.search(body[:LOOKED_AT_BYTES])
    encoding = charset or (match[1].decode("ascii", "replace") if match else "")
    for name in (encoding, "utf-8"):
        try:
            return body.decode(name) if name and is_text_codec(name) else body.decode("utf-8")
        except (UnicodeDecodeError, LookupError):
            continue
    return body.decode("cp1252" if not encoding else "utf-8", "replace")


def is_text_codec(name: str) -> bool:
    """Return whether a codec is a character set, unlike Python's `zip`, `hex` and `rot13`."""
    return codecs.lookup(name)._is_text_encoding


# Matches a tag with an odd number of quotes before the first `>`, which may be inside a quote.
TAG = re.compile(r"<[^>\"']*+(?:\"[^\"]*+\"[^>\"']*+|'[^']*+'[^>\"']*+)*>")
MAX_QUOTED_CHARS = 2_048
# A longer tag contains data, such as an embedded image, and nothing to show.
MAX_TAG_CHARS = 16_384
MAX_QUOTES = 8
ATTRIBUTE = re.compile(r"([a-zA-Z-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
HIDDEN = re.compile(
    r"(?:^|\s)hidden(?:\s|=|/|$)|aria-hidden\s*=\s*[\"']?true|display\s*:\s*none", re.I
)
MANY_LINES = re.compile(r"[ \t]*\n[ \t]*\n(?:[ \t]*\n)+")
LINE_ENDS = re.compile(r"[ \t]+\n")

# Elements whose contents are never shown.
RAW = frozenset(["script", "style", "template", "noscript", "svg", "iframe", "object", "canvas", "math", "textarea", "select"])  # fmt: skip
CLOSINGS = {name: re.compile(rf"</{name}\s*>", re.I) for name in (*RAW, "title")}
BLOCKS = frozenset(["p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "figure", "figcaption", "form", "fieldset", "details", "summary", "address", "dl", "dt", "dd", "table", "thead", "tbody", "tfoot", "caption", "body", "html", "ul", "ol"])  # fmt: skip
HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}
PAGE_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "del": "~~", "s": "~~"}
# The name of an element, and the elements without an end tag.
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9:-]*")
VOID = frozenset(["br", "hr", "img", "input", "meta", "link", "base", "source", "wbr", "area", "col", "embed", "track"])  # fmt: skip

ENDS = BLOCKS | HEADINGS.keys() | PAGE_MARKS.keys() | {"a", "td", "th", "tr", "pre", "blockquote"}
BEGINS = ENDS | {"br", "hr", "li", "img", "base"}


class Page(Struct, frozen=True, kw_only=True):
    title: str
    text: str


def convert_to_markdown(html: str, *, base: str, join: Callable[[str, str], str]) -> Page:
    """Convert a page. `base` is its URL, and `join` makes links absolute, as `urljoin` does."""
    return _Writer(html, base, join).page()


class _Writer:
    def __init__(self, html: str, base: str, join: Callable[[str, str], str]) -> None:
        self._html = html
        self._base = base
        self._join = join
        self._title = ""
        self._out: list[str] = []
        # The indexes in `_out` at which open links and quotes begin.
        self._links: list[tuple[int, str]] = []
        self._quotes: list[int] = []
        self._lists: list[int | None] = []
        self._pre = 0
        self._cells: int | None = None
        self._rows = 0
        # The position of the next `>`, and the names of elements whose end tags are missing.
        self._close = -1
        self._endless: set[str] = set()
        # The marker of a list item that has no text yet.
        self._mark = ""
        self._names: dict[str, tuple[str, str]] = {}
        # The index in `_out` of the last opening mark.
        self._opened = -1
        self._marks: dict[str, int] = {}

    def page(self) -> Page:
        html, at, end = self._html, 0, len(self._html)
        find = html.find
        while at < end:
            begin = find("<", at)
            if begin < 0:
                self._words(html[at:])
                break
            if begin > at:
                self._words(html[at:begin])
            at = self._markup(begin)
        while self._links:
            self._end_link()
        while self._quotes:
            self._end_quote()
        text = MANY_LINES.sub("\n\n", LINE_ENDS.sub("\n", "".join(self._out)))
        return Page(title=" ".join(self._title.split()), text=text.strip())

    def _markup(self, begin: int) -> int:
        """Process the markup at a `<` and return the position after it."""
        html, close = self._html, self._close
        if close < begin:
            # Search for the next `>` once, however many `<` precede it.
            find = html.find(">", begin)
            close = self._close = find if find >= 0 else len(html)
        if html.startswith("<!--", begin):
            end = html.find("-->", begin + 4)
            return len(html) if end < 0 else end + 3
        if close == len(html):
            self._words(html[begin:])
            return close
        inner = html[begin + 1 : close] if close - begin < MAX_TAG_CHARS else "!"
        if ('"' in inner and inner.count('"') % 2) or ("'" in inner and inner.count("'") % 2):
            quoted = TAG.match(html, begin, begin + MAX_QUOTED_CHARS)
            if quoted is not None:
                close = quoted.end() - 1
                inner = html[begin + 1 : close]
        name, _, attributes = inner.partition(" ")
        meant = self._names.get(name)
        if meant is None:
            meant = self._names[name] = meaning(name)
        kind, name = meant
        if kind == "begin" or (attributes and kind == "other"):
            return self._tag(name, attributes, close + 1)
        if kind == "end":
            self._end(name)
        elif kind == "odd":
            return self._odd(begin, close, inner)
        return close + 1

    def _odd(self, begin: int, close: int, inner: str) -> int:
        """Process markup other than plain tags: a declaration, an unusual name, a lone `<`."""
        if inner[:1] in ("!", "?", "/"):
            return close + 1
        name = NAME.match(inner)
        if name is None:
            self._words("<")
            return begin + 1
        return self._tag(name[0].lower(), inner[name.end() :], close + 1)

    def _tag(self, name: str, attributes: str, after: int) -> int:
        if name in RAW or name == "title":
            return self._skip_raw(name, after)
        is_marked = "hidden" in attributes or "none" in attributes
        if is_marked and name not in VOID and HIDDEN.search(attributes):
            behind = self._skip_hidden(name, after)
            if behind != after:
                return behind
        if name in BEGINS:
            self._begin(name, attributes)
        return after

    def _skip_raw(self, name: str, at: int) -> int:
        close = CLOSINGS[name].search(self._html, at)
        end = len(self._html) if close is None else close.start()
        if name == "title" and not self._title:
            self._title = unescape(self._html[at:end])
        return len(self._html) if close is None else close.end()

    def _skip_hidden(self, name: str, at: int) -> int:
        """Return the position after a hidden element.

        The element may contain other elements of the same name. An element without an end tag hides
        nothing, and the end tag is not searched for again.
        """
        if name in self._endless or not NAME.fullmatch(name):
            return at
        depth = 1
        for tag in re.finditer(rf"<(/?){re.escape(name)}\b", self._html[at:], re.I):
            depth += -1 if tag[1] else 1
            if depth == 0:
                close = self._html.find(">", at + tag.end())
                return len(self._html) if close < 0 else close + 1
        self._endless.add(name)
        return at

    # -- visible content

    def _words(self, text: str) -> None:
        if "&" in text:
            text = unescape(text)
        if self._pre:
            self._out.append(text)
            return
        words = " ".join(text.split())
        if not words:
            if self._out and not self._out[-1].endswith((" ", "\n")):
                self._out.append(" ")
            return
        if text[0].isspace() and self._out and not self._out[-1].endswith((" ", "\n")):
            if self._opened == len(self._out) - 1:
                self._out.insert(self._opened, " ")  # The space belongs before the mark.
                self._opened += 1
            else:
                words = f" {words}"
        self._out.append(f"{words} " if text[-1].isspace() else words)

    def _break(self, lines: str = "\n\n") -> None:
        if self._mark and self._out and self._out[-1] is self._mark:
            return  # The item begins with a paragraph.
        if self._cells is not None:
            lines = " "  # A cell is a single line.
        elif self._lists and lines == "\n\n":
            lines = "\n"
        self._out.append(lines)

    def _begin(self, name: str, attributes: str) -> None:
        if name in PAGE_MARKS:
            if not self._pre:
                self._opened = len(self._out)
                self._marks[PAGE_MARKS[name]] = self._marks.get(PAGE_MARKS[name], 0) + 1
                self._out.append(PAGE_MARKS[name])
        elif name == "a":
            while self._links:
                self._end_link()  # Links cannot be nested.
            self._links.append((len(self._out), attribute(attributes, "href")))
        elif name in HEADINGS:
            self._break()
            self._out.append(HEADINGS[name])
        elif name == "br":
            self._break("\n")
        elif name == "li":
            self._item()
        elif name in ("td", "th"):
            self._out.append(" | ")
        elif name == "tr":
            self._break("\n")
            self._cells = len(self._out)
        elif name == "img":
            alt = attribute(attributes, "alt")
            if alt:
                self._out.append(f"![{alt}]({self._whole(attribute(attributes, 'src'))})")
        elif name == "pre":
            self._break()
            self._out.append("```\n")
            self._pre += 1
        elif name == "blockquote":
            if len(self._quotes) < MAX_QUOTES:
                self._break()
                self._quotes.append(len(self._out))
        elif name == "hr":
            self._break("\n\n---\n\n")
        elif name == "base":
            self._base = self._join(self._base, attribute(attributes, "href"))
        else:
            self._block(name)

    def _block(self, name: str) -> None:
        if name in ("ul", "ol"):
            self._break()
            self._lists.append(0 if name == "ol" else None)
            return
        if name == "table":
            self._rows = 0
        self._break()

    def _item(self) -> None:
        mark = "- "
        if self._lists and (count := self._lists[-1]) is not None:
            self._lists[-1] = count + 1
            mark = f"{count + 1}. "
        line = "" if not self._out or self._out[-1].endswith("\n") else "\n"
        self._mark = line + "  " * (min(len(self._lists), MAX_QUOTES) - 1) + mark
        self._out.append(self._mark if self._cells is None else " ")

    def _end(self, name: str) -> None:
        if name in PAGE_MARKS:
            if not self._pre:
                self._close_mark(PAGE_MARKS[name])
        elif name == "a":
            if self._links:
                self._end_link()
        elif name in HEADINGS or name in ("p", "div"):
            self._break()
        elif name in ("ul", "ol"):
            if self._lists:
                self._lists.pop()
            self._break()
        elif name in ("td", "th"):
            self._out.append(" ")
        elif name == "tr":
            self._end_row()
        elif name == "pre":
            if self._pre:
                self._pre -= 1
                self._out.append("\n```\n\n")
        elif name == "blockquote":
            if self._quotes:
                self._end_quote()
        else:
            self._break()

    def _close_mark(self, mark: str) -> None:
        """Close a mark after its last word, or remove it if it contains nothing."""
        if not self._marks.get(mark):
            return  # The mark was never opened.
        self._marks[mark] -= 1
        out = self._out
        while not out[-1].strip():
            out.pop()
        if out[-1] == mark:
            out.pop()
        else:
            space = " " if out[-1].endswith(" ") else ""
            out[-1] = out[-1].rstrip(" ")
            out.append(f"{mark}{space}")

    def _end_link(self) -> None:
        begin, href = self._links.pop()
        words = "".join(self._out[begin:])
        label, target = " ".join(words.split()), self._whole(href)
        if not label or not target:
            return
        before = " " if words[:1].isspace() else ""
        after = " " if words[-1:].isspace() else ""
        if "\n" not in words.strip():
            self._out[begin:] = [f"{before}[{label}]({target}){after}"]

    def _whole(self, href: str) -> str:
        """Return a link as an absolute URL, or an empty string if it leads nowhere."""
        href = href.strip()
        if (
            not href
            or href.startswith("#")
            or href[:11].lower().startswith(("javascript:", "data:"))
        ):
            return ""
        try:
            return self._join(self._base, href).replace(" ", "%20")
        except ValueError:
            return ""

    def _end_quote(self) -> None:
        begin = self._quotes.pop()
        words = MANY_LINES.sub("\n\n", "".join(self._out[begin:])).strip()
        lines = "\n".join(f"> {line}".rstrip() for line in words.split("\n"))
        self._out[begin:] = [lines, "\n\n"]

    def _end_row(self) -> None:
        begin, self._cells = self._cells, None
        if begin is None:
            return
        cells = " ".join("".join(self._out[begin:]).split())
        if not cells.strip("| "):
            del self._out[begin:]
            return
        self._rows += 1
        columns = max(1, sum(part == " | " for part in self._out[begin:]))
        rule = "\n|" + "---|" * columns if self._rows == 1 else ""
        self._out[begin:] = [f"{cells} |{rule}"]


def meaning(name: str) -> tuple[str, str]:
    """Classify a tag name: `begin` or `end` of visible content, `other`, `closed`, or `odd`.

    Return the class and the plain name.
    """
    plain = name.lower().strip("/")
    if not (name.isascii() and plain.isalnum() and plain[0].isalpha()):
        return "odd", ""
    if name[0] == "/":
        return "end" if plain in ENDS else "closed", plain
    return "begin" if plain in BEGINS or plain in RAW or plain == "title" else "other", plain


def attribute(attributes: str, name: str) -> str:
    for match in ATTRIBUTE.finditer(attributes):
        if match[1].lower() == name:
            return unescape(match[2] or match[3] or match[4] or "")
    return ""
