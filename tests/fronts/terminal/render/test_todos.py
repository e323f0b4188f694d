"""The pinned todo list as rows."""

from clew.fronts.render.rows import format_row
from clew.fronts.render.theme import BARE
from clew.fronts.render.todos import render_pinned


def pinned(*statuses: str, rows: int = 8, is_open: bool = True, key: str = "k") -> list[str]:
    todos = [
        {"content": f"do {number}", "activeForm": f"doing {number}", "status": status}
        for number, status in enumerate(statuses, 1)
    ]
    return [
        format_row(row) for row in render_pinned(todos, 30, rows, BARE, is_open=is_open, key=key)
    ]


def test_a_list_that_fits_shows_every_item() -> None:
    assert pinned("completed", "in_progress", "pending") == [
        "  1 of 3 done (k to collapse)",
        "  ☑ do 1",
        "  ▸ doing 2",
        "  ☐ do 3",
    ]


def test_a_long_list_shows_the_items_around_the_current_one() -> None:
    shown = pinned(*["completed"] * 5, "in_progress", *["pending"] * 4, rows=5, key="")
    assert shown == ["  5 of 10 done", "  ☑ do 5", "  ▸ doing 6", "  ☐ do 7", "  … 7 more"]
    last = pinned(*["completed"] * 9, "pending", rows=5)
    assert last[1:] == ["  ☑ do 8", "  ☑ do 9", "  ☐ do 10", "  … 7 more"]


def test_a_list_that_is_collapsed_or_has_no_room_is_one_row() -> None:
    statuses = ("completed", "pending", "pending", "pending")
    assert pinned(*statuses, is_open=False) == ["  1 of 4 done · do 2 (k to ex…"]
    assert pinned(*statuses, rows=3) == ["  1 of 4 done · do 2"]
    assert pinned("completed", is_open=False, key="") == ["  1 of 1 done · do 1"]
