"""Styled text in rows of a given width. Only this module counts terminal cells. Does no I/O.

A row is a list of spans without control characters. Wide, joined and combining characters occupy as
many cells as the terminal gives them, and a row is never cut inside a grapheme.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct
from wcwidth import iter_graphemes, wcswidth

from clew.core.messages.text import LONE_JOINER, UNSEEN, WITHOUT_WIDTH

# Makes text from models, tools and files harmless for a terminal.


# ASCII control characters except tab and newline, and lone surrogates.
_HARMFUL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f{UNSEEN}{WITHOUT_WIDTH}\ud800-\udfff]|{LONE_JOINER}")


def escape_controls(text: str) -> str:
    """Replace control characters, except newlines and tabs, with visible escapes."""
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_BLANKS = re.compile("[ \t\n]+")


def join_lines(text: str) -> str:
    """Return the text on one line, with each run of newlines, tabs and spaces as one space.

    Control characters are escaped, so that they are visible here as in the full text.
    """
    return _BLANKS.sub(" ", escape_controls(text)).strip(" ")


# Only characters that cannot end the escape sequence of the link.
_ADDRESS = re.compile(r"(?:https?|mailto|ftp)[:][\x21-\x7e]{1,2000}\Z", re.I)


def address(url: str) -> str:
    """Return the URL if it is safe in a terminal hyperlink, otherwise an empty string."""
    return url if _ADDRESS.match(url) else ""


Line: TypeAlias = str

RESET = "\x1b[0m"
TAB = "    "
# The two columns to the left of all text; a mark in them identifies the speaker.
GUTTER = "  "


class Span(Struct, frozen=True):
    """A piece of text in one style; `link` is the target of a terminal hyperlink.

    If `fills` is set, the terminal fills the rest of the line with the span's background.
    """

    text: str
    style: str = ""
    link: str = ""
    fills: bool = False

    def with_text(self, text: str) -> "Span":
        return Span(text, self.style, self.link, self.fills)

    def with_style(self, style: str) -> "Span":
        return Span(self.text, style, self.link, self.fills)


Row: TypeAlias = list[Span]


def count_cells(text: str) -> int:
    """Return the number of terminal cells that a text without control characters takes."""
    return len(text) if text.isascii() else max(0, wcswidth(text))


def width_of(row: Iterable[Span]) -> int:
    return sum(count_cells(span.text) for span in row)


def join_styles(*styles: str) -> str:
    """Combine styles; later styles override earlier ones."""
    return ";".join(filter(None, styles))


def fill_row(row: Iterable[Span], ground: str) -> Row:
    """Return a row with the background of `ground`, extended to the terminal's right edge.

    The terminal itself fills the line, before the text is written. If spaces were used instead,
    they would be copied with the text, and would wrap in a window that becomes narrower.
    """
    lit = [span.with_style(join_styles(ground, span.style)) for span in row]
    return [Span("", ground, fills=True), *lit] if has_background(ground) else lit


def has_background(style: str) -> bool:
    return "48;" in style


def format_row(row: Iterable[Span], *, links: bool = True) -> Line:
    """Return a row as terminal output; adjacent spans of the same style share escape sequences."""
    sent: list[str] = []
    for (style, link, fills), spans in groupby(row, _look):
        text = "".join(span.text for span in spans)
        # The text should be harmless already. This is the last place to make sure.
        if not text.isprintable():
            text = escape_controls(text).replace("\n", " ")
        if fills:
            text = f"\x1b[K{text}"
        if style:
            text = f"\x1b[{style}m{text}{RESET}"
        sent.append(f"\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link and links else text)
    return "".join(sent)


def _look(span: Span) -> tuple[str, str, bool]:
    return span.style, span.link, span.fills


# The points at which a row may end: after spaces, and around characters that are their own word.
_PIECES = re.compile(
    "[ \t]+|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff"
    "\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd]\ufe0f?"
    "|[^ \t\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff"
    "\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd]+"
)
# Characters that may not start a row.
_CLOSING = frozenset("、。，．！？：；）］｝」』】〉》〕ー々")


class Wrap:
    """Fills rows word by word. `row` is the last row, which is still incomplete.

    A word that is longer than a row is broken or, if `breaks` is false, extends beyond the width.
    """

    __slots__ = ("_at", "_breaks", "_space", "_word", "_word_cells", "row", "width")

    def __init__(self, width: int, *, breaks: bool = True) -> None:
        self.width = max(1, width)
        self._breaks = breaks
        self.row: Row = []
        self._at = 0
        self._space: Row = []
        self._word: Row = []
        self._word_cells = 0

    def copy(self) -> "Wrap":
        twin = Wrap(self.width, breaks=self._breaks)
        twin.row, twin._at = self.row[:], self._at
        twin._space, twin._word = self._space[:], self._word[:]
        twin._word_cells = self._word_cells
        return twin

    def add(self, spans: Iterable[Span]) -> Iterator[Row]:
        """Add spans and yield the rows that are completed; a newline in a span ends the row."""
        for span in spans:
            first, *rest = span.text.split("\n")
            yield from self._add(span, first)
            for part in rest:
                yield from self.end()
                yield from self._add(span, part)

    def _add(self, span: Span, text: str) -> Iterator[Row]:
        for piece in _PIECES.findall(text):
            if piece[0] in " \t":
                yield from self._close_word()
                self._space.append(span.with_text(piece.replace("\t", TAB)))
                continue
            if self._is_own_word(piece):
                yield from self._close_word()
            size = count_cells(piece)
            self._word.append(span.with_text(piece))
            self._word_cells += size

    def _is_own_word(self, piece: str) -> bool:
        """Return whether a row may end before this piece although no space precedes it."""
        if not self._word or piece in _CLOSING:
            return False
        before = self._word[-1].text
        return _is_wide(piece) or _is_wide(before)

    def _close_word(self) -> Iterator[Row]:
        word, size = self._word, self._word_cells
        if not word:
            return
        self._word, self._word_cells = [], 0
        gap = width_of(self._space) if self._space else 0
        if self._at and self._at + gap + size > self.width:
            yield self._turn()
            gap = 0
        if self._space and (self._at or gap + size <= self.width):
            self.row += self._space
            self._at += gap
        self._space = []
        if self._at + size <= self.width or not self._breaks:
            self.row += word
            self._at += size
            return
        for span in word:
            yield from self._broken(span)

    def _broken(self, span: Span) -> Iterator[Row]:
        """Break a word that is longer than a row; yield the rows that are full."""
        graphemes: list[str] = []
        for grapheme in iter_graphemes(span.text):
            size = count_cells(grapheme)
            if self._at and self._at + size > self.width:
                self.row.append(span.with_text("".join(graphemes)))
                yield self._turn()
                graphemes = []
            graphemes.append(grapheme)
            self._at += size
        self.row.append(span.with_text("".join(graphemes)))

    def _turn(self) -> Row:
        row, self.row, self._at, self._space = self.row, [], 0, []
        return row

    def end(self) -> Iterator[Row]:
        """Yield the last row, even if it is empty."""
        yield from self._close_word()
        yield self._turn()


def _is_wide(piece: str) -> bool:
    return not piece[0].isascii() and count_cells(piece[0]) == 2


def wrap_spans(spans: Iterable[Span], width: int, *, breaks: bool = True) -> Iterator[Row]:
    """Yield the spans as rows of at most `width` cells.

    Without `breaks`, long words are not broken.
    """
    wrap = Wrap(width, breaks=breaks)
    yield from wrap.add(spans)
    yield from wrap.end()


# The start of a second column, after two or more spaces.
_COLUMN = re.compile(r" *(?:\S+ )*\S+ {2,}(?=\S)")


def hang_lines(text: str, style: str, width: int, *, breaks: bool = True) -> Iterator[Row]:
    """Yield the rows of each line, with a hanging indent.

    Continuation rows align with the line's second column, or else with its indent.
    """
    for line in text.split("\n"):
        column = _COLUMN.match(line)
        lead = line[: column.end()] if column else ""
        if not lead or count_cells(lead) > width // 2:
            lead = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        indent = count_cells(lead)
        before = Span(lead, style)
        for row in wrap_spans([Span(line[len(lead) :], style)], width - indent, breaks=breaks):
            yield [before, *row] if lead else row
            before = Span(" " * indent)


def mark_rows(mark: Span, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with a mark in the gutter of the first one."""
    for row in rows:
        yield [mark, *row] if row or mark.text != GUTTER else row
        mark = Span(GUTTER)


def chop_spans(spans: Iterable[Span], width: int) -> Iterator[Row]:
    """Yield the spans as full rows, cut at any point. Spaces are kept."""
    width = max(2, width)
    row: Row = []
    at = 0
    for span in spans:
        size = count_cells(span.text)
        if at + size <= width:
            row.append(span)
            at += size
            continue
        graphemes: list[str] = []
        for grapheme in iter_graphemes(span.text):
            size = count_cells(grapheme)
            if at + size > width:
                row.append(span.with_text("".join(graphemes)))
                yield row
                row, graphemes, at = [], [], 0
            graphemes.append(grapheme)
            at += size
        row.append(span.with_text("".join(graphemes)))
    yield row


def take_cells(spans: Iterable[Span], width: int) -> Row:
    """Return as much of the spans as fits into `width` cells."""
    return next(chop_spans(spans, width)) if width >= 2 else []


def clip_spans(spans: Iterable[Span], width: int) -> Row:
    """Return one row of at most `width` cells; an ellipsis marks text that was cut off."""
    spans = list(spans)
    if width_of(spans) <= width:
        return spans
    return [*take_cells(spans, max(2, width - 1)), Span("…", spans[-1].style)]


def strip_row(row: Row) -> Row:
    """Return a row without trailing spaces, which would wrap in a narrower window."""
    row = row[:]
    while row:
        last = row.pop()
        if text := last.text.rstrip(" "):
            row.append(last.with_text(text))
            break
    return row


# Plain text for terminals without redrawing: lines break between words.


def wrap_text(text: str, columns: int) -> str:
    """Break lines that are longer than `columns` cells; with 0, return the text unchanged."""
    if not columns:
        return text
    rows: list[str] = []
    for line in text.split("\n"):
        if count_cells(line) <= columns:
            rows.append(line)
            continue
        for row in hang_lines(line, "", columns, breaks=False):
            rows.append("".join(span.text for span in row))
    return "\n".join(rows)


class Flow:
    """Wraps streaming text. `feed` returns the text that can be written now; `close`, the rest."""

    def __init__(self, columns: int) -> None:
        """Create a flow; with 0 `columns`, text is not wrapped."""
        self._columns = columns
        self._wrap = Wrap(columns, breaks=False)
        self._written = 0

    def feed(self, text: str) -> str:
        if not self._columns:
            return text
        full = [f"{self._rest(row, 0)}\n" for row in self._wrap.add([Span(text)])]
        now = self._wrap.row
        return "".join(full) + self._rest(now, sum(len(span.text) for span in now))

    def close(self) -> str:
        return "\n".join(self._rest(row, 0) for row in self._wrap.end()) if self._columns else ""

    def _rest(self, row: Row, written: int) -> str:
        """Return the part of a row that has not been written yet.

        Record that `written` characters of the open row are written from now on.
        """
        text = "".join(span.text for span in row)[self._written :]
        self._written = written
        return text
