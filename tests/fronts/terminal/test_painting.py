"""The screen that is painted by differences equals the screen that is painted completely."""

import pyte
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.events import TextDelta
from clew.fronts.render.theme import DARK
from clew.fronts.render.transcript import Transcript
from clew.fronts.terminal.stage import EMPTY, Painter, Scene
from tests.fronts.terminal.render.corpus import ANSWER

COLUMNS, ROWS = 20, 8
LINES = st.lists(st.text("ab \u4e2d", max_size=9), max_size=ROWS - 1)
SCENES = st.builds(
    lambda lines, row, column: Scene(
        lines=tuple(lines), cursor=(min(row, len(lines) - 1), column) if lines else None
    ),
    LINES,
    st.integers(0, ROWS),
    st.integers(0, 9),
)


def glass() -> tuple[pyte.HistoryScreen, pyte.Stream]:
    screen = pyte.HistoryScreen(COLUMNS, ROWS, history=10_000)
    return screen, pyte.Stream(screen)


def seen(screen: pyte.HistoryScreen) -> list[str]:
    above = ["".join(line[x].data for x in range(COLUMNS)) for line in screen.history.top]
    return [row.rstrip() for row in [*above, *screen.display]]


@given(st.lists(st.tuples(SCENES, st.lists(st.text("xyz", max_size=9), max_size=4)), max_size=8))
def test_said_lines_stand_once_above_the_newest_scene(
    steps: list[tuple[Scene, list[str]]],
) -> None:
    screen, stream = glass()
    painter = Painter()
    said: list[str] = []
    for scene, above in steps:
        stream.feed(painter.paint(scene, above))
        said += above
        wanted = [line.rstrip() for line in [*said, *scene.lines]]
        rows = seen(screen)
        assert rows[: len(wanted)] == wanted
        assert not any(rows[len(wanted) :])
        if scene.cursor is not None:
            shown = len(wanted) - len(scene.lines) + scene.cursor[0]
            assert screen.cursor.y == shown - len(screen.history.top)
            assert screen.cursor.x == scene.cursor[1]
    stream.feed(painter.paint(EMPTY) + painter.erase())
    assert [row for row in seen(screen) if row] == [line for line in said if line]


def test_what_stands_already_costs_nothing_and_a_letter_little() -> None:
    painter = Painter()
    lines = tuple(f"line {number}" for number in range(20))
    painter.paint(Scene(lines=lines, cursor=(19, 3)))
    assert painter.paint(Scene(lines=lines, cursor=(19, 3))) == ""
    assert len(painter.paint(Scene(lines=(*lines[:-1], "line 19!"), cursor=(19, 4)))) < 60


def test_an_update_is_a_whole_where_the_terminal_takes_it_as_one() -> None:
    painter = Painter()
    painter.is_synchronised = True
    text = painter.paint(Scene(lines=("a", "b")))
    assert text.startswith("\x1b[?2026h")
    assert text.endswith("\x1b[?2026l")


def test_lines_that_a_narrower_terminal_broke_are_erased_too() -> None:
    painter = Painter()
    painter.paint(Scene(lines=("\x1b[2m" + "x" * 30 + "\x1b[0m", "y" * 10), cursor=(1, 4)))
    # 30 columns are two rows of twenty: the cursor stands two rows below the first.
    assert painter.rewrapped(20).startswith("\x1b[2A")


def test_a_hidden_cursor_waits_where_wrapping_does_not_move_it() -> None:
    painter = Painter()
    assert painter.paint(Scene(lines=("x" * 30, "y" * 30))).endswith("\r")
    # 30 columns are two rows of twenty; the cursor stays at the start of the second line.
    assert painter.rewrapped(20).startswith("\x1b[2A")


def test_a_delta_costs_few_bytes_however_long_the_answer_is() -> None:
    """A frame per delta, with a prompt below it: only the changes are written."""
    shown, painter, text = Transcript(80, DARK), Painter(), f"{ANSWER}\n\n" * 30
    below = ("─" * 80, "> ", "─" * 80, "  a model  a mode")
    costs = []
    for at in range(0, len(text), 12):
        above = shown.feed(TextDelta(index=0, text=text[at : at + 12]))
        scene = Scene(lines=(*shown.tail(80, 16), *below), cursor=(0, 2))
        costs.append(len(painter.paint(scene, above).encode()))
    assert len(costs) > 2_000
    assert sum(costs) / len(costs) < 420
    assert max(costs) < 4_000
    quarter = len(costs) // 4
    assert sum(costs[-quarter:]) < 1.1 * sum(costs[:quarter])
