"""A session as it goes by: what is said for good goes out once, what still changes is asked for.

Owns the order of what is shown. Whoever has a terminal gives the events to `feed` and prints what
comes back above everything else, for good; `tail` is what stands below that and is drawn anew
whenever there is time for it. What was given out is never given out again.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from clew.engine.events import EngineEvent, TurnEnded
from clew.messages.messages import Message
from clew.stream.events import BlockFinished, TextDelta
from clew.tui.render.abilities import Abilities
from clew.tui.render.rows import Line, Span, line, wrapped
from clew.tui.render.safe import visible
from clew.tui.render.theme import Theme

Json: TypeAlias = dict[str, Any]

SPOKEN = ("user", "assistant")


class Transcript:
    """`width` may change at any time: what comes from then on fits the new one."""

    def __init__(self, width: int, theme: Theme, abilities: Abilities | None = None) -> None:
        self.width = width
        self.theme = theme
        self.abilities = abilities or Abilities()
        self._pending = ""
        self._folds: dict[str, str] = {}

    def feed(self, event: EngineEvent | TurnEnded) -> list[Line]:
        """What an event adds to that which stays."""
        match event:
            case TextDelta():
                *whole, self._pending = (self._pending + event.text).split("\n")
                return [each for text in whole for each in self._rows(text)]
            case BlockFinished():
                last, self._pending = self._pending, ""
                return list(self._rows(last)) if last else []
        return []

    def tail(self, width: int, rows: int) -> list[Line]:
        """What still changes, in at most so many rows: styles alone, neither links nor pictures."""
        self.width = width
        return list(self._rows(self._pending))[-rows:] if self._pending and rows > 0 else []

    def prompt(self, text: str) -> list[Line]:
        """What a person said."""
        return [line([Span("> ", self.theme["person"]), *row]) for row in self._wrap(text)]

    def note(self, text: str, *, part: str = "notice") -> list[Line]:
        """A line of the program's own; `part` names its style."""
        return [line(row) for row in wrapped([Span(visible(text), self.theme[part])], self.width)]

    def history(self, messages: Iterable[Json], rows: int = 400) -> list[Line]:
        """The end of what was said before, in about so many rows."""
        said = [str(Message(each).text) for each in messages if each.get("type") in SPOKEN]
        return [each for text in said[-rows:] for each in self._rows(text)][-rows:]

    @property
    def folded(self) -> list[str]:
        """The names of what was shown in part, the newest last; `see` shows each in whole."""
        return list(self._folds)

    def see(self, name: str) -> list[Line]:
        """What was folded, in whole; nothing for a name that is not known."""
        return list(self._rows(self._folds[name])) if name in self._folds else []

    def _wrap(self, text: str) -> Iterator[list[Span]]:
        return wrapped([Span(visible(text))], self.width - 2)

    def _rows(self, text: str) -> Iterator[Line]:
        return (line(row) for row in wrapped([Span(visible(text))], self.width))
