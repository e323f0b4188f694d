"""What a turn does, line by line: words as they come, all else as the screen tells it, once it stands."""

import os
from collections.abc import Callable
from typing import TextIO

from clew.agent.events import EngineEvent, Signalled
from clew.core.json_object import Json
from clew.core.stream.events import BlockDropped, BlockFinished, TextDelta
from clew.fronts.render.recalled import MODEL, Titles
from clew.fronts.render.rows import Flow, Line, escape_controls, wrap_text
from clew.fronts.render.theme import BARE
from clew.fronts.render.transcript import Transcript

# What is written on where nothing is drawn: one stream, and whether somebody still reads it.


class Paper:
    """From the moment the terminal is gone, what is written goes to nobody."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        # Asked once: of one that was closed it would be untrue.
        self.is_terminal = out.isatty()
        self.is_gone = False
        self.closed: Callable[[], object] = lambda: None

    @property
    def columns(self) -> int:
        """0 where it has no width, or does not tell."""
        if not self.is_terminal or self.is_gone:
            return 0
        try:
            return os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            return 0

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            if not self.is_terminal:
                raise
            self.gone()

    def gone(self) -> None:
        """Somebody found that the terminal was closed."""
        if self.is_gone:
            return
        self.is_gone = True
        # What could not be written is still held, and the interpreter writes it at its end.
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, self._out.fileno())
        os.close(nobody)
        self.closed()


# Lines are made whole, and broken between words where the terminal would break them inside of one.
LINE_CELLS = 1_000
RECALLED_ROWS = 200


class LineWriter:
    """Knows only whether the last thing written ended its line."""

    def __init__(self, paper: Paper, *, see_with: str = "/see") -> None:
        """`see_with`: what is typed to see what was shown in part; empty where nobody can type."""
        self._paper = paper
        self._is_mid_line = False
        # The words that come now, said to be the model's.
        self._words: Flow | None = None
        # Whether a person wants to hear that something waits for them.
        self.rings = True
        self._transcript = Transcript(LINE_CELLS, BARE, see_with=see_with, announces=True)

    def line(self, text: str) -> None:
        self._end_line()
        if text:
            self._transcript.interrupted()
            self._write(f"{wrap_text(escape_controls(text), self._paper.columns)}\n")

    def history(self, messages: list[Json], titles: Titles) -> None:
        """What was said before, so that whoever resumes sees where they are; `titles`: of calls."""
        self._lines(self._transcript.history(messages, RECALLED_ROWS, titles))

    @property
    def folded(self) -> list[str]:
        """The names of what was shown in part."""
        return self._transcript.folded

    def whole(self, name: str) -> list[Line]:
        return self._transcript.see(name)

    def ring(self) -> None:
        """A person is waited for: the turn has ended, or something is asked."""
        if self.rings and self._paper.is_terminal:
            self._paper.write("\x07")

    async def emit(self, event: EngineEvent) -> None:
        match event:
            case TextDelta():
                self._transcript.interrupted()
                if self._words is None:
                    self._end_line()
                    self._words = Flow(self._paper.columns)
                    self._write(self._words.feed(MODEL))
                self._write(self._words.feed(escape_controls(event.text)))
            case BlockFinished() | BlockDropped() if event.block.get("type") == "text":
                self._end_line()
            case Signalled() if self._paper.is_terminal:
                # Written as it is: of all that a hook may say, only such signals come this way.
                self._paper.write(event.sequence)
            case _:
                self._lines(self._transcript.feed(event))

    def _lines(self, lines: list[Line]) -> None:
        if lines:
            self._end_line()
            columns = self._paper.columns
            self._write("".join(f"{wrap_text(line, columns)}\n" for line in lines))

    def _write(self, text: str) -> None:
        if text:
            self._paper.write(text)
            self._is_mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._words is not None:
            words, self._words = self._words, None
            self._write(words.close())
        if self._is_mid_line:
            self._write("\n")
