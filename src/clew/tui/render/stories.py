"""A call of a tool as one story: what it is, what was said about it, how it goes, what became of it.

While it runs it is a few rows that change; when it has ended it goes out whole, once. Pure.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from clew.hooks.progress import HookFinished
from clew.tui.render.folding import Folds, lines_of
from clew.tui.render.look import Look
from clew.tui.render.results import Answer
from clew.tui.render.results import lines as result_lines
from clew.tui.render.rows import Line, Row, Span, clipped, line, wrapped
from clew.tui.render.safe import one_line, visible

Json: TypeAlias = dict[str, Any]

# Of what a running call prints.
PROGRESS_ROWS = 3
# The parameter that says what a call does.
_TELLING = ("command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description",
            "prompt", "skill", "subject", "task_id")  # fmt: skip
_TITLE_CHARACTERS = 300
INDENT = "  "


def title_of(block: Json) -> str:
    """A call in a line, where its tool is not there to say it."""
    name, given = one_line(str(block.get("name", ""))), block.get("input")
    words = (
        [given[k] for k in _TELLING if isinstance(given.get(k), str)]
        if isinstance(given, dict)
        else []
    )
    first = one_line(words[0][:_TITLE_CHARACTERS]) if words else ""
    return f"{name}: {first}" if first else name


class Story:
    """One call; `agents` are the conversations that it began, by their ids."""

    def __init__(self, block: Json) -> None:
        self.block = block
        self.title = title_of(block)
        self.state = "writing"
        self.written = 0
        self.progress = ""
        self.agent: Agent | None = None
        self._hooks: list[str] = []

    def ready(self, block: Json) -> None:
        """Its input is whole."""
        self.block, self.title, self.state = block, title_of(block), "waiting"

    def runs(self, block: Json, title: str) -> None:
        self.block, self.title, self.state = block, one_line(title), "running"

    def hook(self, finished: HookFinished) -> None:
        """What a hook had to say; one that only agreed is not mentioned."""
        ran = finished.ran
        words = one_line(ran.trouble or (ran.stderr if ran.exit_code else ""))
        if words or finished.outcome != "success":
            self._hooks.append(
                f"hook {finished.name}: {finished.outcome}: {words or finished.title}"
            )

    def told(self, entry: Json, display: str, look: Look, folds: Folds) -> list[Line]:
        """The whole story, once it has an end."""
        answer = Answer(str(self.block.get("name", "")), self.title, entry, display)
        mark = Span("● ", look.theme["error" if answer.is_error else "done"])
        inner = look.narrowed(len(INDENT))
        below = [line(row) for row in self._beside(inner)] + result_lines(answer, inner, folds)
        return [*self._head(mark, look), *(INDENT + row if row else "" for row in below)]

    def stopped(self, look: Look) -> list[Line]:
        """The story of a call that the turn's end cut off."""
        mark = Span("● ", look.theme["error"])
        words = line([Span(f"{INDENT}stopped", look.theme["quiet"])])
        return [*self._head(mark, look), words]

    def live(self, look: Look) -> list[Line]:
        """How it goes, in few rows."""
        theme = look.theme
        rows: list[Row] = [self._now(look)]
        inner = look.narrowed(len(INDENT))
        if self.agent is not None:
            rows += ([Span(INDENT), *row] for row in self.agent.live(inner))
        for words in lines_of(self.progress)[-PROGRESS_ROWS:]:
            text = visible(words[-4 * look.width :].expandtabs(8))
            rows.append([Span(INDENT), *clipped([Span(text, theme["quiet"])], inner.width)])
        return [line(row) for row in rows]

    def _now(self, look: Look) -> Row:
        state = {"waiting": " (waits)", "writing": " …"}.get(self.state, "")
        if self.state == "writing" and self.written > 1000:
            state = f" … {self.written // 1000:,} kB"
        mark = Span("○ ", look.theme["running"])
        return clipped([mark, Span(self.title, look.theme["tool"]), Span(state, look.theme["quiet"])],
                       look.width)  # fmt: skip

    def _head(self, mark: Span, look: Look) -> list[Line]:
        rows = wrapped([Span(self.title, look.theme["tool"])], look.width - 2)
        return [
            line([mark if number == 0 else Span(INDENT), *row]) for number, row in enumerate(rows)
        ]

    def _beside(self, look: Look) -> Iterator[Row]:
        """The command, where the title has other words for it; what hooks said; what an agent did."""
        given = self.block.get("input")
        command = given.get("command") if isinstance(given, dict) else None
        if isinstance(command, str) and command.strip() not in self.title:
            for number, words in enumerate(lines_of(command)[:PROGRESS_ROWS]):
                sign = "$ " if number == 0 else "  "
                yield clipped([Span(f"{sign}{visible(words.expandtabs(8))}", look.theme["quiet"])],
                              look.width)  # fmt: skip
        for words in self._hooks:
            yield from wrapped([Span(words, look.theme["notice"])], look.width)
        if self.agent is not None and self.agent.calls:
            yield [Span(self.agent.counted, look.theme["quiet"])]


class Agent:
    """A conversation that a call began, as one line that changes."""

    def __init__(self, kind: str, description: str) -> None:
        self.kind = kind
        self.description = description
        self.calls = 0
        self.doing = ""
        self.is_done = False

    @property
    def counted(self) -> str:
        return f"{self.calls} calls" if self.calls != 1 else "1 call"

    def live(self, look: Look) -> Iterator[Row]:
        count = f" · {self.counted}" if self.calls else ""
        name = one_line(": ".join(filter(None, (self.kind, self.description))))
        doing = f" · {one_line(self.doing)}" if self.doing else ""
        yield clipped([Span("↳ ", look.theme["running"]), Span(name), Span(count + doing, look.theme["quiet"])],
                      look.width)  # fmt: skip
