"""The output of line mode: streamed text as it arrives, and everything else as on the screen.

Nothing that was printed is changed later.
"""

import os
from collections.abc import Callable
from typing import TextIO

from clew.agent.events import EngineEvent, Signalled
from clew.core.json_object import Json
from clew.core.stream.events import BlockDropped, BlockFinished, TextDelta
from clew.fronts.render.folders import Folders
from clew.fronts.render.recalled import MODEL, Titles
from clew.fronts.render.rows import Flow, Line, escape_controls, wrap_text
from clew.fronts.render.theme import BARE
from clew.fronts.render.transcript import Transcript

# The output stream, and whether it can still be read.


class Paper:
    """The output stream of line mode. Once the terminal is gone, output is discarded."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        # Asked only once, because the answer is wrong for a closed terminal.
        self.is_terminal = out.isatty()
        self.is_gone = False
        self.closed: Callable[[], object] = lambda: None

    @property
    def columns(self) -> int:
        """The width of the terminal, or 0 if it is unknown."""
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
        """Record that the terminal was closed; discard further output."""
        if self.is_gone:
            return
        self.is_gone = True
        # The interpreter flushes buffered output at exit, which must not fail.
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, self._out.fileno())
        os.close(nobody)
        self.closed()


# Lines are laid out in full and broken between words where the terminal would break inside one.
LINE_CELLS = 1_000
RECALLED_ROWS = 200


class LineWriter:
    """Writes the session line by line; keeps track only of whether the last line is complete."""

    def __init__(self, paper: Paper, *, see_with: str = "/see") -> None:
        """Create the writer.

        `see_with` is the command that expands collapsed output; it is empty if the user cannot
        type one.
        """
        self._paper = paper
        self._is_mid_line = False
        # The response text that is streaming now.
        self._words: Flow | None = None
        # Whether the bell rings when clew waits for the user.
        self.rings = True
        self._transcript = Transcript(LINE_CELLS, BARE, see_with=see_with, announces=True)

    def line(self, text: str) -> None:
        self._end_line()
        if text:
            self._transcript.interrupted()
            self._write(f"{wrap_text(escape_controls(text), self._paper.columns)}\n")

    def history(self, messages: list[Json], titles: Titles) -> None:
        """Print the earlier messages of a resumed session.

        `titles` returns the title of a tool call.
        """
        self._lines(self._transcript.history(messages, RECALLED_ROWS, titles))

    def show_in_full(self) -> None:
        """Show long output in full from here on."""
        self._transcript.is_verbose = True

    @property
    def folders(self) -> Folders:
        """The folders to which paths are relative."""
        return self._transcript.folders

    @folders.setter
    def folders(self, folders: Folders) -> None:
        self._transcript.folders = folders

    @property
    def folded(self) -> list[str]:
        """The names of the collapsed outputs."""
        return self._transcript.folded

    def whole(self, name: str) -> list[Line]:
        return self._transcript.see(name)

    def ring(self) -> None:
        """Ring the bell, because the turn has ended or a question is open."""
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
                # Written unchanged, because only harmless signals of hooks are passed on.
                self._paper.write(event.sequence)
            case _:
                self.feed(event)

    def feed(self, event: EngineEvent) -> None:
        """Print the lines that an event adds to the output."""
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
