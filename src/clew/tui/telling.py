"""What a turn does, line by line: words as they come, all else as the screen tells it, once it stands."""

from typing import Any, TypeAlias

from clew.engine.events import EngineEvent, Signalled
from clew.stream.events import BlockDropped, BlockFinished, TextDelta
from clew.tui.paper import Paper
from clew.tui.render.flow import Flow, at_words
from clew.tui.render.recalled import MODEL, Titles
from clew.tui.render.rows import Line
from clew.tui.render.safe import visible
from clew.tui.render.theme import BARE
from clew.tui.render.transcript import Transcript

Json: TypeAlias = dict[str, Any]

# Lines are made whole, and broken between words where the terminal would break them inside of one.
LINE_CELLS = 1_000
RECALLED_ROWS = 200


class Telling:
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
            self._write(f"{at_words(visible(text), self._paper.columns)}\n")

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
                self._write(self._words.feed(visible(event.text)))
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
            self._write("".join(f"{at_words(line, columns)}\n" for line in lines))

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
