"""A call of a tool as one story: what it is, what was said about it, how it goes, what became of it.

While it runs it is a few rows that change; when it has ended it goes out whole, once. Pure.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from clew.hooks.progress import HookFinished
from clew.tui.render.agents import Agent
from clew.tui.render.folding import Folds, lines_of
from clew.tui.render.look import Look
from clew.tui.render.results import Answer
from clew.tui.render.results import lines as result_lines
from clew.tui.render.rows import Line, Row, Span, clipped, line, wrapped
from clew.tui.render.safe import one_line, visible

Json: TypeAlias = dict[str, Any]

# Of what a running call prints.
PROGRESS_ROWS = 3
# The parameter that says what a call does: of several the first.
_TELLING = ("file_path", "notebook_path", "pattern", "path", "url", "query", "subject", "description",
            "command", "prompt", "skill", "task_id")  # fmt: skip
_TITLE_CHARACTERS = 300
BLANKS = " \t\n"
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


def stopped(look: Look) -> Line:
    """Below the head of a call that its turn's end cut off."""
    return line([Span(f"{INDENT}stopped", look.theme["quiet"])])


class Story:
    """One call, and the agents that work for it."""

    def __init__(self, block: Json) -> None:
        self.block = block
        self.title = title_of(block)
        self.state = "writing"
        self.written = 0
        self.progress = ""
        self.agents: list[Agent] = []
        self._hooks: list[str] = []

    def ready(self, block: Json) -> None:
        """Its input is whole."""
        self.block, self.title, self.state = block, title_of(block), "waiting"

    def runs(self, block: Json, title: str) -> None:
        """`title`: what its tool says; a tool that is not there, or says its name alone, says nothing."""
        self.ready(block)
        self.state = "running"
        if title not in ("", block.get("name")):
            self.title = one_line(title)

    def hook(self, finished: HookFinished) -> None:
        """What a hook had to say; one that only agreed is not mentioned."""
        ran = finished.ran
        words = one_line(ran.trouble or (ran.stderr if ran.exit_code else ""))
        if words or finished.outcome != "success":
            self._hooks.append(
                f"hook {finished.name}: {finished.outcome}: {words or finished.title}"
            )

    def told(self, entry: Json, display: str, look: Look, folds: Folds) -> list[Line]:
        """What stands below the head, once it has an end."""
        answer = Answer(str(self.block.get("name", "")), self.title, entry, display)
        inner = look.narrowed(len(INDENT))
        below = [line(row) for row in self._beside(inner)] + result_lines(answer, inner, folds)
        return [INDENT + row if row else "" for row in below]

    def head(self, look: Look, *, is_error: bool = False) -> list[Line]:
        mark = Span("● ", look.theme["error" if is_error else "done"])
        rows = wrapped([Span(self.title, look.theme["tool"])], look.width - 2)
        return [
            line([mark if number == 0 else Span(INDENT), *row]) for number, row in enumerate(rows)
        ]

    def live(self, look: Look) -> list[Line]:
        """How it goes, in few rows."""
        theme = look.theme
        rows: list[Row] = [self._now(look)]
        inner = look.narrowed(len(INDENT))
        rows += ([Span(INDENT), *agent.live(inner)] for agent in self.agents)
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

    def _beside(self, look: Look) -> Iterator[Row]:
        """The command, where the title has other words for it; what hooks said; what an agent did."""
        given = self.block.get("input")
        command = given.get("command") if isinstance(given, dict) else None
        if isinstance(command, str) and visible(command.strip(BLANKS)) not in self.title:
            # As the question shows it: nothing is overwritten, no sequence is taken out.
            for number, words in enumerate(command.strip("\n").split("\n")[:PROGRESS_ROWS]):
                sign = "$ " if number == 0 else "  "
                yield clipped([Span(f"{sign}{visible(words.expandtabs(8))}", look.theme["quiet"])],
                              look.width)  # fmt: skip
        for words in self._hooks:
            yield from wrapped([Span(words, look.theme["notice"])], look.width)
        for agent in self.agents:
            if agent.calls:
                yield [Span(agent.counted, look.theme["quiet"])]
