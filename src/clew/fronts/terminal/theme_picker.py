"""Let the user choose a theme, with a preview of the selected one."""

import os
from collections.abc import Iterator

from clew.core.input import Pick
from clew.fronts.dialog import Choice
from clew.fronts.render import results
from clew.fronts.render.markdown import Markdown
from clew.fronts.render.rows import Line, Row, Span, fill_row, format_row, take_cells
from clew.fronts.render.theme import Theme, choose_theme
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.stage import Stage

PROMPT = "Count every coin in the purse"
PROSE = "The **first coin** was missing, because of the slice in `total()`."
DIFF = {
    "oldStart": 1,
    "newStart": 1,
    "lines": [" def total(coins):", "-    return sum(coins[1:])", "+    return sum(coins)"],
}


async def pick_theme(stage: Stage, pick: Pick, *, is_light: bool | None) -> str:
    """Let the user choose a theme; return the command line that sets it, or "" without a choice."""
    names = [row.line.rpartition(" ")[2] for row in pick.rows]

    def body(width: int) -> list[Line]:
        name = names[chooser.selected]
        theme = choose_theme(name, os.environ, is_light=is_light)
        return [format_row(row) for row in draw_sample(theme, width)]

    choices = [Choice(label=row.label) for row in pick.rows]
    chooser = Chooser(pick.title, choices, body=body, at=pick.at)
    answer = await stage.answered(stage.show(chooser))
    return "" if answer is None else pick.rows[answer.chosen[0]].line


def draw_sample(theme: Theme, width: int) -> Iterator[Row]:
    """Yield a prompt, a response and a diff in a theme."""
    prompt = take_cells([Span("> ", theme["marker"]), Span(PROMPT, theme["person"])], width)
    yield fill_row(prompt, theme["person_line"])
    markdown = Markdown(theme, width)
    yield from markdown.feed(PROSE)
    yield from markdown.finish()
    yield from results.rows_of([DIFF], "purse.py", theme, width)
