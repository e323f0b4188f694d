"""What a person is writing: the text, what was pasted into it, and how both stand on the terminal.

Owns the placeholders: each stands for one thing pasted, is deleted as one, and is not sent once it is
gone from the text; an undo brings both back. Editing is prompt_toolkit's.
"""

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes

from clew.commands.pasted import Pasted, placeholder
from clew.tui.entry import Entry
from clew.tui.render.rows import TAB, cells
from clew.tui.render.safe import visible

# What is longer stands as a placeholder in the line; the model is given it in whole.
INLINE_CHARACTERS, INLINE_LINES = 1_000, 5


class Prompt:
    """`buffer` is edited by keys; everything else is asked of and told to this."""

    def __init__(self) -> None:
        self.buffer = Buffer(multiline=True)
        self._pasted: dict[int, Pasted] = {}
        self._count = 0

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def is_empty(self) -> bool:
        return not self.buffer.text

    def take(self) -> Entry:
        """What was written; the prompt is empty after it."""
        entry = self.look()
        self.buffer.reset()
        self._pasted.clear()
        return entry

    def look(self) -> Entry:
        return Entry(text=self.text.strip("\n"), pasted=tuple(self._pasted.values()))

    def put(self, entry: Entry) -> None:
        """Has it edited again, in the place of what stands here."""
        self.buffer.document = Document(entry.text)
        for one in entry.pasted:
            self._pasted[one.number] = one
            self._count = max(self._count, one.number)

    def put_back(self, entry: Entry) -> None:
        """Has it edited again, before what stands here."""
        here = self.look()
        both = [each for each in (entry.text, here.text) if each]
        self.put(Entry(text="\n".join(both), pasted=(*entry.pasted, *here.pasted)))

    def paste(self, text: str) -> None:
        """Long text goes in as a placeholder; short text as it is, without what rules a terminal."""
        if len(text) <= INLINE_CHARACTERS and text.count("\n") < INLINE_LINES:
            self.buffer.insert_text(visible(text))
        else:
            self.attach(text.encode())

    def attach(self, data: bytes) -> None:
        self._count += 1
        one = Pasted(number=self._count, data=data)
        self._pasted[one.number] = one
        self.buffer.insert_text(placeholder(one))

    def delete_before(self) -> None:
        """What Backspace takes: a character, or the whole of a placeholder."""
        before = self.buffer.document.text_before_cursor
        marks = (placeholder(one) for one in self._pasted.values())
        mark = next((mark for mark in marks if before.endswith(mark)), "")
        self.buffer.delete_before_cursor(len(mark) or 1)

    def lines(self, width: int, rows: int) -> tuple[list[str], tuple[int, int]]:
        """The part around the cursor, in at most so many rows, and where the cursor is in it."""
        laid, (row, column) = laid_out(self.text, self.buffer.cursor_position, width)
        first = max(0, min(row - rows // 2, len(laid) - rows))
        return laid[first : first + rows], (row - first, column)


def laid_out(text: str, cursor: int, width: int) -> tuple[list[str], tuple[int, int]]:
    """Text in rows that are full, as a terminal would lay it, and the row and column of a position."""
    width = max(2, width)
    rows: list[str] = []
    at = (0, 0)
    begin = 0
    for paragraph in text.split("\n"):
        inside = cursor - begin if begin <= cursor <= begin + len(paragraph) else None
        found = _paragraph(paragraph, inside, width, rows)
        at = found or at
        begin += len(paragraph) + 1
    return rows, at


def _paragraph(
    text: str, inside: int | None, width: int, rows: list[str]
) -> tuple[int, int] | None:
    row, used, seen = "", 0, 0
    at = None
    for grapheme in iter_graphemes(text) if not text.isascii() else text:
        shown = TAB if grapheme == "\t" else visible(grapheme)
        size = cells(shown)
        if used + size > width:
            rows.append(row)
            row, used = "", 0
        if inside is not None and at is None and inside < seen + len(grapheme):
            at = (len(rows), used)
        row, used, seen = row + shown, used + size, seen + len(grapheme)
    if inside is not None and at is None:
        if used >= width:
            rows.append(row)
            row, used = "", 0
        at = (len(rows), used)
    rows.append(row)
    return at
