"""The page over the prompt: it reads as much as it shows, and searches what it has not read yet."""

import asyncio
from collections.abc import Iterator

import pytest

from clew.fronts.render.theme import BARE
from clew.fronts.terminal.viewer import PORTION, Viewer

ROWS = 12


def seen(viewer: Viewer) -> list[str]:
    return viewer.lines(80, ROWS, BARE)[0]


@pytest.mark.parametrize("size", [3, 100_000])
def test_only_what_is_visible_is_read_and_drawn_until_more_is_wanted(size: int) -> None:
    async def opened() -> None:
        read = 0

        def rows() -> Iterator[str]:
            nonlocal read
            for number in range(size):
                read += 1
                yield f"row {number} of many"

        viewer = Viewer("Output", rows())
        assert read == min(size, PORTION)
        assert seen(viewer)[1] == "row 0 of many"
        assert len(seen(viewer)) == min(size + 2, ROWS)
        # The end and a match that were not read yet are reached as soon as they are.
        viewer.press("G")
        while viewer.load():
            pass
        assert seen(viewer)[-2] == f"row {size - 1} of many"
        assert viewer.text.count("\n") == size - 1

    asyncio.run(opened())


def test_a_search_goes_on_in_what_is_read_later_in_both_directions_and_in_color() -> None:
    async def opened() -> None:
        lines = [f"\x1b[31mrow\x1b[0m {number}\x1b[K" for number in range(3 * PORTION)]
        viewer = Viewer("Output", iter(lines))
        seen(viewer)
        viewer.press("/")
        assert viewer.is_typing
        viewer.field.text = f"ROW {2 * PORTION}"
        viewer.press("enter")
        assert "Searching" in seen(viewer)[-1]
        while viewer.load():
            pass
        assert seen(viewer)[1] == f"\x1b[7mrow {2 * PORTION}\x1b[0m"
        viewer.press("n")
        assert "No more matches" in seen(viewer)[-1]
        viewer.press("/")
        viewer.field.text = "9"
        viewer.press("escape")
        assert not viewer.is_typing
        viewer.press("up")
        viewer.press("N")
        viewer.press("n")
        assert f"row {2 * PORTION}" in seen(viewer)[1]
        viewer.press("escape")
        assert viewer.answer.result() is None

    asyncio.run(opened())


def test_a_match_is_marked_where_folding_case_changes_the_length() -> None:
    async def opened() -> None:
        viewer = Viewer("Output", iter(["Straße und mehr"]))
        viewer.press("/")
        viewer.field.text = "mehr"
        viewer.press("enter")
        assert seen(viewer)[1] == "\x1b[7mStraße und mehr\x1b[0m"

    asyncio.run(opened())
