"""Parse Markdown into blocks, line by line while the text arrives.

The parser follows the appendix of the CommonMark specification: a line is matched against the open
containers and may open new ones; the rest of the line belongs to one leaf block. Each line is
parsed once, and memory is bounded: a growing paragraph is passed to the sink in parts. Tables are
supported in addition to CommonMark. Link reference definitions have no effect on earlier text. This
module does no I/O.
"""

import re
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.markdown.inline import PARAGRAPH_CHARACTERS, find_cut, read_html

Kind: TypeAlias = Literal["paragraph", "heading", "rule", "code", "html", "table", "empty"]

# A marker nested deeper than this is text.
DEPTH_MOST = 16
# A longer line is processed in parts; a table row may be longer.
PIECE_CHARACTERS = 1_000
ROW_CHARACTERS = 8_000


class Container(Struct, frozen=True):
    """A block quote or a list item.

    `mark` is empty for a block quote; `number` is the number of an item in an ordered list.
    `offset` is the indent of the item's content.
    """

    serial: int
    mark: str = ""
    offset: int = 0
    number: int | None = None

    @property
    def is_item(self) -> bool:
        return self.mark != ""


Path: TypeAlias = tuple[Container, ...]


class Leaf(Struct, frozen=True, kw_only=True):
    """A leaf block at its start. `has_gap` means that a blank line precedes the block."""

    kind: Kind
    path: Path
    has_gap: bool = False
    level: int = 0
    # The info string of a code fence, or the header row of a table.
    info: str = ""
    # The alignment of each table column: "", "left", "right" or "center".
    columns: tuple[str, ...] = ()


class Sink(Protocol):
    """The receiver of parsed blocks.

    A leaf begins, receives text and ends before the next one begins.
    """

    def begin(self, leaf: Leaf) -> None: ...

    def text(self, text: str, *, ends: bool) -> None:
        """Receive part of a paragraph, or a line of another kind of leaf.

        If `ends` is false, the rest of the line follows in a later call.
        """
        ...

    def stand(self) -> None: ...


_HEADING = re.compile(r"(#{1,6})(?: +(.*?))??(?: +#+)? *\Z")
_FENCE = re.compile(r"(`{3,})([^`]*)\Z|(~{3,})(.*)\Z")
_RULE = re.compile(r"(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})\Z")
_UNDERLINE = re.compile(r"(=+|-+) *\Z")
_ITEM = re.compile(r"([-+*]|(\d{1,9})([.)]))( +|\Z)")
_COLUMN = re.compile(r" *(:?)-+(:?) *\Z")
_PIPE = re.compile(r"(?<!\\)\|")


class Blocks:
    """The block parser. `feed` takes text as it arrives; `finish` marks the end of the text."""

    __slots__ = ("_gap", "_is_long", "_is_mid", "_leaf", "_partial", "_serial", "_shown",
                 "_sink", "_stack", "_text", "_until")  # fmt: skip

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        # The current incomplete line, and whether a part of it has been processed.
        self._partial = ""
        self._is_mid = False
        self._stack: list[Container] = []
        self._serial = 0
        # The serial number of the newest container that contains a leaf.
        self._shown = 0
        self._gap = False
        self._leaf: Leaf | None = None
        # For a paragraph, the text not passed to the sink yet; for code, the blank lines at its
        # end.
        self._text = ""
        self._is_long = False
        # The pattern that ends the leaf: a closing fence, or an HTML end condition.
        self._until: re.Pattern[str] | None = None

    def copy(self, sink: Sink) -> "Blocks":
        twin = Blocks(sink)
        for name in self.__slots__:
            if name != "_sink":
                setattr(twin, name, getattr(self, name))
        twin._stack = self._stack[:]
        return twin

    def feed(self, text: str) -> None:
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            self._take(line.removesuffix("\r"), ends=True)
        self._partial = self._shortened(self._partial)

    def finish(self) -> None:
        if self._partial or self._is_mid:
            self._take(self._partial.removesuffix("\r"), ends=True)
            self._partial = ""
        self._close_to(0)

    def _take(self, line: str, *, ends: bool) -> None:
        line = self._shortened(line)
        self._piece(line, ends=ends)

    def _shortened(self, line: str) -> str:
        """Process the beginning of an overlong line, and return the part that is not yet processed."""
        while len(line) > (most := self._patience(line)):
            cut = line.rfind(" ", most // 2, most) + 1 or most
            self._piece(line[:cut], ends=False)
            line = line[cut:]
        return line

    def _patience(self, line: str) -> int:
        is_row = self._leaf is not None and self._leaf.kind == "table"
        return ROW_CHARACTERS if is_row or line.lstrip()[:1] == "|" else PIECE_CHARACTERS

    def _piece(self, text: str, *, ends: bool) -> None:
        was_mid, self._is_mid = self._is_mid, not ends
        if was_mid:
            self._more(text, ends=ends)
        else:
            self._line(text.expandtabs(4) if "\t" in text else text, ends=ends)

    def _more(self, text: str, *, ends: bool) -> None:
        """Continue a line whose beginning has been processed, in the same leaf."""
        if self._leaf is None or self._leaf.kind == "table":
            self._begin("paragraph")
        if self._is_paragraph:
            self._text += text
            self._hand_on()
        else:
            self._sink.text(text, ends=ends)

    # -- lines

    def _line(self, rest: str, *, ends: bool) -> None:
        matched = 0
        for container in self._stack:
            inside = self._inside(container, rest)
            if inside is None:
                break
            rest = inside
            matched += 1
        is_in = matched == len(self._stack)
        if is_in and self._goes_on(rest, ends=ends):
            return
        self._starts(rest, matched, is_in=is_in, ends=ends)

    def _inside(self, container: Container, rest: str) -> str | None:
        """Return the part of a line that is inside a container, or None if the line is outside."""
        words = rest.lstrip(" ")
        indent = len(rest) - len(words)
        if container.is_item:
            is_empty = not words and container.serial > self._shown and container is self._stack[-1]
            is_in = indent >= container.offset if words else not is_empty
            return rest[container.offset :] if is_in else None
        if indent > 3 or not words.startswith(">"):
            return None
        return words[1:].removeprefix(" ")

    def _goes_on(self, rest: str, *, ends: bool) -> bool:
        """Return whether the line belongs to the open code or HTML block; if so, process the line."""
        leaf = self._leaf
        if leaf is None or leaf.kind not in ("code", "html"):
            return False
        words = rest.lstrip(" ")
        indent = len(rest) - len(words)
        if leaf.kind == "html":
            if self._until is None and not words:
                return False
            self._sink.text(rest, ends=ends)
            if self._until is not None and self._until.search(rest):
                self._close()
            return True
        if self._until is not None:
            if indent < 4 and self._until.match(words):
                self._close()
            else:
                self._sink.text(rest[min(indent, leaf.level) :], ends=ends)
            return True
        return self._indented(rest, indent, ends=ends)

    def _indented(self, rest: str, indent: int, *, ends: bool) -> bool:
        if not rest.strip(" "):
            self._text += rest[4:] + "\n"
            return True
        if indent < 4:
            return False
        for blank in self._text.split("\n")[:-1]:
            self._sink.text(blank, ends=True)
        self._text = ""
        self._sink.text(rest[4:], ends=ends)
        return True

    def _starts(self, rest: str, matched: int, *, is_in: bool, ends: bool) -> None:
        """Open new containers, then start a new leaf or continue the open one."""
        may_go_on = self._is_paragraph
        while words := rest.lstrip(" "):
            indent = len(rest) - len(words)
            is_direct = may_go_on and is_in
            if indent > 3:
                if may_go_on:
                    break
                self._close_to(matched)
                self._begin("code")
                self._sink.text(rest[4:], ends=ends)
                return
            if words[0] == ">" and matched < DEPTH_MOST:
                self._close_to(matched)
                self._push()
                rest = words[1:].removeprefix(" ")
            elif self._leaf_begins(words, indent, matched, is_direct=is_direct, ends=ends):
                return
            else:
                inside = self._item(words, indent, matched, is_direct=is_direct)
                if inside is None:
                    break
                rest = inside
            matched += 1
            is_in, may_go_on = True, False
        self._rest(rest, matched, is_in=is_in, may_go_on=may_go_on, ends=ends)

    def _rest(self, rest: str, matched: int, *, is_in: bool, may_go_on: bool, ends: bool) -> None:
        """Process a line that starts no new block: a blank line, a table row, or text."""
        words = rest.lstrip(" ")
        if not words:
            self._close_to(matched)
            self._gap = True
        elif may_go_on:
            self._text += "\n" + words
            self._hand_on()
        elif is_in and self._leaf is not None and self._leaf.kind == "table":
            self._sink.text(words, ends=ends)
        else:
            self._close_to(matched)
            self._begin("paragraph")
            self._text = words

    def _leaf_begins(
        self, words: str, indent: int, matched: int, *, is_direct: bool, ends: bool
    ) -> bool:
        """Start a leaf if the line begins one, or turns the previous paragraph into one.

        Return whether that is the case.
        """
        if words[0] == "#" and (match := _HEADING.match(words)):
            self._alone("heading", matched, match[2] or "", level=len(match[1]))
        elif words[0] in "`~" and (match := _FENCE.match(words)):
            self._close_to(matched)
            mark = match[1] or match[3]
            self._begin("code", level=indent, info=(match[2] or match[4] or "").strip())
            self._until = re.compile(rf"{re.escape(mark[0])}{{{len(mark)},}} *\Z")
        elif words[0] == "<" and (html := read_html(words, may_be_any=not self._is_paragraph)):
            self._close_to(matched)
            self._begin("html")
            self._until = html.until
            self._sink.text(" " * indent + words, ends=ends)
            if html.until is not None and html.until.search(words):
                self._close()
        elif is_direct and not self._is_long and (match := _UNDERLINE.match(words)):
            text = self._turned_into()
            self._alone("heading", matched, text.rstrip(" "), level=1 if match[1][0] == "=" else 2)
        elif words[0] in "*-_" and _RULE.match(words):
            self._alone("rule", matched, "")
        else:
            return is_direct and self._table(words)
        return True

    def _alone(self, kind: Kind, matched: int, text: str, *, level: int = 0) -> None:
        self._close_to(matched)
        self._begin(kind, level=level)
        if text:
            self._sink.text(text, ends=True)
        self._close()

    def _table(self, words: str) -> bool:
        """Start a table if the line is a delimiter row and the line before it is a matching header.

        Return whether that is the case.
        """
        if words[0] not in "|-:" or not ("|" in words or ":" in words):
            return False
        before, _, head = self._text.rpartition("\n")
        columns = tuple(map(_stand, cells_of(words)))
        if None in columns or len(cells_of(head)) != len(columns) or "|" not in head + words:
            return False
        if before or self._is_long:
            self._text = before
            self._close()
        else:
            self._turned_into()
        self._begin("table", info=head, columns=tuple(map(str, columns)))
        return True

    def _item(self, words: str, indent: int, matched: int, *, is_direct: bool) -> str | None:
        """Open a list item and return the item's content, or None if the line does not start one."""
        match = _ITEM.match(words)
        if match is None or matched >= DEPTH_MOST:
            return None
        rest = words[match.end() :]
        number = int(match[2]) if match[2] else None
        if is_direct and (not rest or number not in (None, 1)):
            return None
        mark = match[3] or match[1]
        spaces = len(match[4])
        if not rest or spaces > 4:
            rest = " " * (spaces - 1) + rest if rest else ""
            spaces = 1
        before = self._stack[matched] if matched < len(self._stack) else None
        if number is not None and before is not None and before.mark == mark:
            number = (before.number or 0) + 1
        self._close_to(matched)
        self._push(mark=mark, offset=indent + len(match[1]) + spaces, number=number)
        return rest

    # -- open blocks

    @property
    def _is_paragraph(self) -> bool:
        return self._leaf is not None and self._leaf.kind == "paragraph"

    def _push(self, *, mark: str = "", offset: int = 0, number: int | None = None) -> None:
        self._serial += 1
        self._stack.append(Container(self._serial, mark, offset, number))

    def _begin(
        self, kind: Kind, *, level: int = 0, info: str = "", columns: tuple[str, ...] = ()
    ) -> None:
        self._close()
        path = tuple(self._stack)
        leaf = Leaf(
            kind=kind, path=path, has_gap=self._gap, level=level, info=info, columns=columns
        )
        self._leaf, self._gap, self._until, self._text, self._is_long = leaf, False, None, "", False
        self._shown = max(self._shown, path[-1].serial if path else 0)
        if kind != "paragraph":
            self._sink.begin(leaf)

    def _turned_into(self) -> str:
        """Remove the open paragraph and return its text, which becomes part of another block."""
        assert self._leaf is not None
        text, self._gap = self._text, self._leaf.has_gap
        self._leaf, self._text = None, ""
        return text

    def _hand_on(self) -> None:
        """Pass to the sink the part of a long paragraph that can no longer change."""
        while len(self._text) > PARAGRAPH_CHARACTERS:
            cut = find_cut(self._text)
            if not cut:
                return
            self._begin_words()
            self._sink.text(self._text[:cut], ends=False)
            self._text = self._text[cut:]

    def _begin_words(self) -> None:
        if not self._is_long and self._leaf is not None:
            self._sink.begin(self._leaf)
            self._is_long = True

    def _close(self) -> None:
        """Close the open leaf."""
        if self._leaf is None:
            return
        if self._is_paragraph:
            self._begin_words()
            self._sink.text(self._text.rstrip(" "), ends=True)
        elif self._leaf.kind == "code" and self._until is None and self._text:
            self._gap = True
        self._leaf, self._text, self._is_long, self._until = None, "", False, None
        self._sink.stand()

    def _close_to(self, depth: int) -> None:
        """Close the open leaf and the containers from this depth on.

        An empty list item is passed to the sink, so that its marker is shown.
        """
        self._close()
        while len(self._stack) > depth and not self._stack[-1].is_item:
            self._stack.pop()
        if len(self._stack) > depth and self._stack[-1].serial > self._shown:
            self._begin("empty")
            self._close()
        del self._stack[depth:]


_BOXES = (("[ ] ", "☐ "), ("[x] ", "☑ "), ("[X] ", "☑ "))


def replace_box(text: str) -> str:
    """Return the start of a list item's text, with `[ ]` or `[x]` replaced by a check box."""
    for written, box in _BOXES:
        if text.startswith(written):
            return box + text.removeprefix(written)
    return text


def cells_of(row: str) -> list[str]:
    """Return the cells of a table row."""
    row = row.strip(" ")
    row = row.removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return [cell.strip(" ").replace("\\|", "|") for cell in _PIPE.split(row)]


def _stand(cell: str) -> str | None:
    """Return the alignment that a cell of a delimiter row sets, or None for any other cell."""
    match = _COLUMN.match(cell)
    return None if match is None else _STANDS[match[1] + "-" + match[2]]


_STANDS = {"-": "", ":-": "left", "-:": "right", ":-:": "center"}
