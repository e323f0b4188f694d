"""What a turn does, line by line: text as it comes, all else as the screen tells it, once it stands."""

import os
from typing import Any, TextIO, TypeAlias

from clew.engine.events import EngineEvent, Signalled
from clew.stream.events import BlockDropped, BlockFinished, TextDelta
from clew.tui.render.recalled import MODEL
from clew.tui.render.rows import Line, cells, hanging
from clew.tui.render.safe import visible
from clew.tui.render.theme import BARE
from clew.tui.render.transcript import Transcript

Json: TypeAlias = dict[str, Any]

# What a turn shows is wrapped by the terminal; whoever has the lines read out hears them whole.
LINE_CELLS = 1_000
RECALLED_ROWS = 200


class Telling:
    """Writes to one stream; knows only whether the last thing written ended its line."""

    def __init__(self, out: TextIO, *, see_with: str = "/see") -> None:
        """`see_with`: what is typed to see what was shown in part; empty where nobody can type."""
        self._out = out
        self._is_mid_line = False
        # Whether the words that come now were said to be the model's.
        self._is_speaking = False
        # Whether a person wants to hear that something waits for them.
        self.rings = True
        self._transcript = Transcript(LINE_CELLS, BARE, see_with=see_with, announces=True)

    def line(self, text: str) -> None:
        self._end_line()
        if text:
            self._transcript.interrupted()
            self._write(f"{self._at_words(visible(text))}\n")

    def _at_words(self, text: str) -> str:
        """Lines that end between words where the terminal would break them inside of one."""
        columns = os.get_terminal_size(self._out.fileno()).columns if self._out.isatty() else 0
        if not columns:
            return text
        return "\n".join(
            row
            for each in text.split("\n")
            for row in (
                [each]
                if cells(each) <= columns
                else ["".join(span.text for span in row) for row in hanging(each, "", columns)]
            )
        )

    def history(self, messages: list[Json]) -> None:
        """What was said before, so that whoever resumes sees where they are."""
        self._lines(self._transcript.history(messages, RECALLED_ROWS))

    @property
    def folded(self) -> list[str]:
        """The names of what was shown in part."""
        return self._transcript.folded

    def whole(self, name: str) -> list[Line]:
        return self._transcript.see(name)

    def ring(self) -> None:
        """A person is waited for: the turn has ended, or something is asked."""
        if self.rings and self._out.isatty():
            self._out.write("\x07")
            self._out.flush()

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case TextDelta():
                self._transcript.interrupted()
                if not self._is_speaking:
                    self._end_line()
                    self._write(MODEL)
                self._is_speaking = True
                self._write(visible(event.text))
            case BlockFinished() | BlockDropped() if event.block.get("type") == "text":
                self._is_speaking = False
                self._end_line()
            case Signalled() if self._out.isatty():
                # Written as it is: of all that a hook may say, only such signals come this way.
                self._out.write(event.sequence)
                self._out.flush()
            case _:
                self._lines(self._transcript.feed(event))

    def _lines(self, lines: list[Line]) -> None:
        if lines:
            self._end_line()
            self._is_speaking = False
            self._write("".join(f"{line}\n" for line in lines))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._is_mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._write("\n")
