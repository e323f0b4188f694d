"""The prompt being edited: its text, its pasted content, and its layout on the terminal.

Each placeholder in the text represents one paste and is deleted as a unit. A paste is not sent if
its placeholder is no longer in the text; undo restores both. prompt_toolkit does the editing.
"""

import base64
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes

from clew.agent.conversation import words_of
from clew.core.input import Pasted, as_typed, lift_pastes, make_placeholder
from clew.core.json_object import Json
from clew.fronts.render.rows import (
    TAB,
    Line,
    Span,
    clip_spans,
    count_cells,
    escape_controls,
    format_row,
    join_lines,
)
from clew.fronts.render.theme import Theme
from clew.system.files import read_content
from clew.system.process.programs import find_own_program
from clew.system.process.run import Programs

# A submitted prompt: the text, and the content of its placeholders.


class SubmittedText(Struct, frozen=True, kw_only=True):
    """A submitted prompt: the text and the pasted content.

    `pasted` may include content whose placeholder is no longer in the text; only `meant` is sent.
    """

    text: str
    pasted: tuple[Pasted, ...] = ()

    @property
    def meant(self) -> tuple[Pasted, ...]:
        """The pasted content whose placeholders are in the text, in the order of the text."""
        placed = [(self.text.find(make_placeholder(paste)), paste) for paste in self.pasted]
        return tuple(paste for at, paste in sorted(placed, key=lambda pair: pair[0]) if at >= 0)


IMAGE_MARK = re.compile(r"\[Image #\d+\]")


def as_submitted(contents: Iterable[str | list[Json]]) -> SubmittedText:
    """Combine the contents of several messages into one prompt, and renumber their images."""
    texts: list[str] = []
    pasted: list[Pasted] = []
    for content in contents:
        blocks = [] if isinstance(content, str) else content
        text = content if isinstance(content, str) else words_of(content)
        images = [
            Pasted(number=number, data=base64.b64decode(block["source"]["data"]))
            for number, block in enumerate(
                (block for block in blocks if block["type"] == "image"), len(pasted) + 1
            )
        ]
        marks = [make_placeholder(image) for image in images]
        for mark in IMAGE_MARK.findall(text)[: len(marks)]:
            text = text.replace(mark, "\0", 1)
        for mark in marks:
            text = text.replace("\0", mark, 1) if "\0" in text else f"{text} {mark}".lstrip()
        texts.append(text)
        pasted += images
    return SubmittedText(text="\n".join(texts), pasted=tuple(pasted))


# The meaning of a paste: text, or the image file whose name was dropped on the terminal.


PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
# The limit of the API; `Read` shrinks larger images.
PICTURE_MAX_BYTES = 5 << 20
NAME_MAX_CHARACTERS = 4_096
# Programs that print the image in the clipboard, by platform and environment variable.
CLIPBOARDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("linux", "WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("linux", "DISPLAY", ("xclip", "-selection", "clipboard", "-t", "image/png", "-o")),
    ("darwin", "", ("pngpaste", "-")),
)


def read_picture(text: str, cwd: str) -> bytes | None:
    """Return the image in the file that the text names, or None if it does not name an image."""
    name = text.strip()
    if "\n" in name or len(name) > NAME_MAX_CHARACTERS:
        return None
    name = _unquoted(name)
    if not name.lower().endswith(PICTURES):
        return None
    try:
        path = Path(cwd, Path(name).expanduser())
        if path.stat().st_size > PICTURE_MAX_BYTES:
            return None
        data = read_content(path)
    except (OSError, ValueError, RuntimeError):
        return None  # file not found, invalid name, or unknown home folder
    return data if Pasted(number=0, data=data).media_type else None


def _unquoted(name: str) -> str:
    """Return a dropped file name without quotes, backslashes or URL syntax added by terminals."""
    if name.startswith("file://"):
        return unquote(urlsplit(name).path)
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        return name[1:-1]
    return name.replace("\\ ", " ").replace("\\(", "(").replace("\\)", ")")


async def from_clipboard(environ: Mapping[str, str]) -> bytes | str:
    """Return the image in the clipboard, or a message for the user."""
    wanted = [argv for system, needs, argv in CLIPBOARDS if _fits(system, needs, environ)]
    for argv in wanted:
        if find_own_program(argv[0], environ.get("PATH")) is None:
            continue
        programs = Programs(os.curdir, environ)
        try:
            data = await programs.printed(argv, most_bytes=PICTURE_MAX_BYTES)
        finally:
            await programs.aclose()
        if data and Pasted(number=0, data=data).media_type:
            return data
        return "No image in the clipboard"
    names = " or ".join(argv[0] for argv in wanted)
    return f"To paste images, install {names}" if names else "No clipboard available"


def _fits(system: str, needs: str, environ: Mapping[str, str]) -> bool:
    return sys.platform.startswith(system) and (not needs or bool(environ.get(needs)))


# The cells before the text, for the sign of the prompt.
PROMPT_INDENT = 2
# Longer pastes appear as a placeholder in the prompt; the model receives them in full.
INLINE_CHARACTERS, INLINE_LINES = 1_000, 5


class PromptEditor:
    """The prompt being edited.

    Keys edit `buffer`; the methods handle pastes and earlier prompts.
    """

    def __init__(self) -> None:
        self.buffer = Buffer(multiline=True)
        self._pasted: dict[int, Pasted] = {}
        self._count = 0
        # Where the cursor was moved to by rows, and the column that it keeps meanwhile.
        self._moved = (-1, 0)
        # Called when the prompt is sent, stashed or cleared, because the next one begins.
        self.on_take: Callable[[], object] = lambda: None

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    def take(self) -> SubmittedText:
        """Return the text and pasted content, and clear the prompt."""
        entry = self.look()
        self.buffer.reset()
        self._pasted.clear()
        # A reset is silent; without this, suggestions for the old text would stay on the screen.
        self.buffer.on_text_changed()
        self.on_take()
        return entry

    def clear(self) -> None:
        """Clear the prompt. Undo restores the text and the pasted content."""
        self.buffer.save_to_undo_stack()
        self.buffer.text = ""
        self.on_take()

    def look(self) -> SubmittedText:
        return SubmittedText(text=self.text.strip("\n"), pasted=tuple(self._pasted.values()))

    def put(self, entry: SubmittedText) -> None:
        """Replace the prompt with an earlier prompt for editing."""
        self.buffer.document = Document(entry.text)
        for paste in entry.pasted:
            self._pasted[paste.number] = paste
            self._count = max(self._count, paste.number)

    def put_back(self, entry: SubmittedText) -> None:
        """Insert an earlier prompt before the current text."""
        current = self.look()
        both = [text for text in (entry.text, current.text) if text]
        self.put(SubmittedText(text="\n".join(both), pasted=(*entry.pasted, *current.pasted)))

    def put_back_sent(self, text: str) -> None:
        """Insert a prompt that was sent before, with its pasted text as placeholders again."""
        pasted = []
        text, lifted = lift_pastes(as_typed(text))
        for paste in lifted:
            # Another paste of the current text may have the same number.
            self._count += 1
            renumbered = Pasted(number=self._count, data=paste.data)
            text = text.replace(make_placeholder(paste), f"\0{self._count}\0", 1)
            pasted.append(renumbered)
        for renumbered in pasted:
            text = text.replace(f"\0{renumbered.number}\0", make_placeholder(renumbered), 1)
        self.put_back(SubmittedText(text=text, pasted=tuple(pasted)))

    def paste(self, text: str) -> None:
        """Insert a paste: as text with visible control characters, or as a placeholder if long."""
        if len(text) <= INLINE_CHARACTERS and text.count("\n") < INLINE_LINES:
            self.buffer.insert_text(escape_controls(text))
        else:
            self.attach(text.encode())

    def attach(self, data: bytes) -> None:
        self._count += 1
        paste = Pasted(number=self._count, data=data)
        self._pasted[paste.number] = paste
        self.buffer.insert_text(make_placeholder(paste))

    def delete_before(self) -> None:
        """Handle Backspace: delete one character, or a whole placeholder."""
        before = self.buffer.document.text_before_cursor
        marks = (make_placeholder(paste) for paste in self._pasted.values())
        mark = next((mark for mark in marks if before.endswith(mark)), "")
        self.buffer.delete_before_cursor(len(mark) or 1)

    def lines(self, width: int, rows: int) -> tuple[list[str], tuple[int, int]]:
        """Return at most `rows` rows around the cursor, and the cursor's position within them."""
        laid, (row, column) = lay_out(self.text, self.buffer.cursor_position, width)
        first = max(0, min(row - rows // 2, len(laid) - rows))
        return laid[first : first + rows], (row - first, column)

    def move_row(self, step: int, width: int) -> bool:
        """Move the cursor to the row above (-1) or below (1); return False if there is none.

        Through shorter rows, the cursor keeps its column.
        """
        _, (row, column) = lay_out(self.text, self.buffer.cursor_position, width)
        position, kept_column = self._moved
        if position == self.buffer.cursor_position:
            column = kept_column
        target = find_position(self.text, width, row + step, column)
        if target is None:
            return False
        self.buffer.cursor_position = target
        self._moved = target, column
        return True


def lay_out(text: str, cursor: int, width: int) -> tuple[list[str], tuple[int, int]]:
    """Break text into rows between words, and in words that are longer than a row.

    Return the rows, and the row and column of the cursor. A row is one cell narrower than `width`,
    which leaves room for the cursor, or for a space, at its end.
    """
    rows: list[str] = []
    at = (0, 0)
    for begin, end in _find_rows(text, width):
        if begin <= cursor:
            at = len(rows), count_cells(_draw(text[begin : min(cursor, end)]))
        rows.append(_draw(text[begin:end]))
    return rows, at


def find_position(text: str, width: int, row: int, column: int) -> int | None:
    """Return the position at or before a column of a row; None if there is no such row."""
    if row < 0:
        return None
    for begin, end in islice(_find_rows(text, width), row, row + 1):
        position, cells, last = begin, 0, 0
        for grapheme in iter_graphemes(text[begin:end]):
            cells += count_cells(_draw(grapheme))
            if cells > column:
                return position
            last = len(grapheme)
            position += last
        # The end of a row that continues below is the beginning of the next row.
        return position - last if text[end : end + 1] not in ("", "\n") else position
    return None


def _draw(text: str) -> str:
    return text if text.isprintable() else escape_controls(text.replace("\t", TAB))


def _find_rows(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where each row begins and ends."""
    begin = 0
    for paragraph in text.split("\n"):
        is_simple = paragraph.isascii() and paragraph.isprintable()
        breaks = (_break_simple if is_simple else _break)(paragraph, max(1, width - 1))
        for first, last in pairwise([0, *breaks, len(paragraph)]):
            yield begin + first, begin + last
        begin += len(paragraph) + 1


def _break_simple(text: str, width: int) -> Iterator[int]:
    """Yield the positions at which rows begin; each character takes a cell.

    Rows break after spaces. A space after a full row stays on that row.
    """
    begin = 0
    while len(text) - begin > width:
        if text[begin + width] == " ":
            begin += width + 1
        else:
            space = text.rfind(" ", begin, begin + width)
            begin = space + 1 if space >= 0 else begin + width
        yield begin


def _break(text: str, width: int) -> Iterator[int]:
    """Yield the positions at which rows begin, in a text with any characters.

    Rows also break next to wide characters.
    """
    begin = at = used = after_space = cells_after_space = 0
    was_wide = False
    for grapheme in iter_graphemes(text):
        cells = count_cells(_draw(grapheme))
        if used + cells > width and at > begin and not (grapheme == " " and used == width):
            if after_space > begin and not was_wide and cells < 2:
                begin, used = after_space, used - cells_after_space
            else:
                begin, used = at, 0
            yield begin
        used, at, was_wide = used + cells, at + len(grapheme), cells > 1
        if grapheme == " ":
            after_space, cells_after_space = at, used
    if used > width:
        yield len(text)  # The cursor does not fit after the space at the end.


# Messages sent while a turn runs: for its next step, or for after it. They can be edited until
# received.


SHOWN = 4


class Queued(Struct, frozen=True, kw_only=True):
    """A queued message.

    The message will have the ID `uuid` in the conversation. If `is_for_step` is set, the running
    turn receives the message at its next step; otherwise, the message starts the next turn.
    """

    entry: SubmittedText
    uuid: str = ""
    is_for_step: bool = False
    when: str = "Queued until this turn ends"


class Queue:
    """The queued messages, oldest first."""

    def __init__(self) -> None:
        self._queued: list[Queued] = []

    def __bool__(self) -> bool:
        return bool(self._queued)

    def __iter__(self) -> Iterator[Queued]:
        return iter(self._queued)

    def add(self, queued: Queued) -> None:
        self._queued.append(queued)

    def heard(self, uuid: str) -> Queued | None:
        """Remove and return a message that the turn has received; None if it is not queued."""
        entry = next((entry for entry in self._queued if entry.uuid == uuid), None)
        if entry is not None:
            self._queued.remove(entry)
        return entry

    def next(self) -> Queued | None:
        """Remove and return the message that starts the next turn, or None."""
        queued = next((queued for queued in self._queued if not queued.is_for_step), None)
        if queued is not None:
            self._queued.remove(queued)
        return queued

    def take_last(self) -> Queued | None:
        return self._queued.pop() if self._queued else None

    def take_all(self) -> list[Queued]:
        entries, self._queued = self._queued, []
        return entries

    def lines(self, width: int, theme: Theme) -> list[Line]:
        shown_entries = self._queued[-SHOWN:]
        rows = [self._row(entry, theme) for entry in shown_entries]
        if rows:
            before = len(self._queued) - len(shown_entries)
            note = f" ({before} more)" if before else ""
            rows[-1].append(Span(f"  ↑ to edit{note}", theme["quiet"]))
        return [format_row(clip_spans(row, width)) for row in rows]

    def _row(self, queued: Queued, theme: Theme) -> list[Span]:
        return [
            Span(f"  {queued.when}: ", theme["marker"]),
            Span(join_lines(queued.entry.text)[:500]),
        ]
