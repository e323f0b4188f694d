"""The prompt being edited: its text, its pasted content, and its layout on the terminal.

Each placeholder in the text represents one paste and is deleted as a unit. A paste is not sent if
its placeholder is no longer in the text; undo restores both. prompt_toolkit does the editing.
"""

import base64
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes

from clew.agent.conversation import words_of
from clew.core.input import Pasted, make_placeholder
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
        # Called when the prompt is sent, stashed or cleared.
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


def lay_out(text: str, cursor: int, width: int) -> tuple[list[str], tuple[int, int]]:
    """Break text into rows at the terminal's width.

    Return the rows, and the row and column of the cursor.
    """
    width = max(2, width)
    rows: list[str] = []
    at = (0, 0)
    begin = 0
    for paragraph in text.split("\n"):
        inside = cursor - begin if begin <= cursor <= begin + len(paragraph) else None
        position = _paragraph(paragraph, inside, width, rows)
        at = position or at
        begin += len(paragraph) + 1
    return rows, at


def _paragraph(
    text: str, inside: int | None, width: int, rows: list[str]
) -> tuple[int, int] | None:
    row, used, seen = "", 0, 0
    at = None
    for grapheme in iter_graphemes(text) if not text.isascii() else text:
        glyph = TAB if grapheme == "\t" else escape_controls(grapheme)
        size = count_cells(glyph)
        if used + size > width:
            rows.append(row)
            row, used = "", 0
        if inside is not None and at is None and inside < seen + len(grapheme):
            at = (len(rows), used)
        row, used, seen = row + glyph, used + size, seen + len(grapheme)
    if inside is not None and at is None:
        if used >= width:
            rows.append(row)
            row, used = "", 0
        at = (len(rows), used)
    rows.append(row)
    return at


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
