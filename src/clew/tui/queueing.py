"""What was sent while a turn runs: said to it meanwhile, or kept until it has ended. Editable until heard."""

from collections.abc import Iterator

from msgspec import Struct

from clew.tui.entry import Entry
from clew.tui.render.rows import Line, Span, clipped, line
from clew.tui.render.safe import one_line
from clew.tui.render.theme import Theme

SHOWN = 4


class Queued(Struct, frozen=True, kw_only=True):
    """With a `uuid` the running turn will hear it between two rounds; without, the next turn begins with it."""

    entry: Entry
    uuid: str = ""
    when: str = "after this"


class Queue:
    """The oldest first."""

    def __init__(self) -> None:
        self._queued: list[Queued] = []

    def __bool__(self) -> bool:
        return bool(self._queued)

    def __iter__(self) -> Iterator[Queued]:
        return iter(self._queued)

    def add(self, queued: Queued) -> None:
        self._queued.append(queued)

    def heard(self, uuid: str) -> Queued | None:
        """The turn heard it: it waits no longer."""
        found = next((each for each in self._queued if each.uuid == uuid), None)
        if found is not None:
            self._queued.remove(found)
        return found

    def next(self) -> Entry | None:
        """What the next turn begins with."""
        found = next((each for each in self._queued if not each.uuid), None)
        if found is None:
            return None
        self._queued.remove(found)
        return found.entry

    def take_last(self) -> Queued | None:
        return self._queued.pop() if self._queued else None

    def take_all(self) -> list[Queued]:
        taken, self._queued = self._queued, []
        return taken

    def lines(self, width: int, theme: Theme) -> list[Line]:
        shown = self._queued[-SHOWN:]
        rows = [self._row(each, theme) for each in shown]
        if rows:
            before = len(self._queued) - len(shown)
            more = f" ({before} before it)" if before else ""
            rows[-1].append(Span(f"  Up edits it{more}", theme["quiet"]))
        return [line(clipped(row, width)) for row in rows]

    def _row(self, queued: Queued, theme: Theme) -> list[Span]:
        return [
            Span(f"  {queued.when}: ", theme["marker"]),
            Span(one_line(queued.entry.text)[:500]),
        ]
