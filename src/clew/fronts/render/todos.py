"""Render todo lists as rows: in full below a call, or as a few rows above the prompt.

Does no I/O.
"""

from collections.abc import Iterator, Sequence

from clew.core.json_object import Json
from clew.fronts.render.rows import Row, Span, clip_spans, join_lines, wrap_spans
from clew.fronts.render.theme import Theme

_BOXES = {"completed": ("☑", "quiet"), "in_progress": ("▸", "running")}
# The fewest items that a pinned list shows; below that, a summary says more.
LEAST_ITEMS = 4


def name_todo(todo: Json) -> str:
    """Return the text of an item; the current item is named by its active form."""
    now = todo.get("activeForm") if todo.get("status") == "in_progress" else None
    return join_lines(str(now or todo.get("content", todo.get("subject", ""))))


def render_todos(todos: Sequence[Json], width: int, theme: Theme) -> Iterator[Row]:
    """Yield the rows of a todo list; each item has a box that shows its status."""
    for todo in todos:
        box, part = _BOXES.get(str(todo.get("status")), ("☐", ""))
        style = theme[part]
        for number, row in enumerate(wrap_spans([Span(name_todo(todo), style)], width - 2)):
            yield [Span(f"{box} " if number == 0 else "  ", style), *row]


def count_done(todos: Sequence[Json]) -> str:
    done = sum(todo.get("status") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


def find_current(todos: Sequence[Json]) -> int:
    """Return the index of the item in progress or, if there is none, of the next open item."""
    statuses = [todo.get("status") for todo in todos]
    if "in_progress" in statuses:
        return statuses.index("in_progress")
    return next((at for at, status in enumerate(statuses) if status != "completed"), 0)


def render_pinned(
    todos: Sequence[Json], width: int, rows: int, theme: Theme, *, is_open: bool, key: str
) -> list[Row]:
    """Return a list in at most `rows` rows, with one row per item.

    If `is_open` is false, or there is no room for items, a single row names the current item. `key`
    is the key that expands and collapses the list.
    """
    current = find_current(todos)
    room = rows - 1
    if not is_open or room < min(LEAST_ITEMS, len(todos)):
        words = f"  {count_done(todos)} · {name_todo(todos[current])}"
        hint = f" ({key} to expand)" if key and not is_open else ""
        return [clip_spans([Span(words), Span(hint, theme["quiet"])], width)]
    hint = f" ({key} to collapse)" if key else ""
    heading = clip_spans([Span(f"  {count_done(todos)}"), Span(hint, theme["quiet"])], width)
    first, last = 0, len(todos)
    if len(todos) > room:
        # The item before the current one stays in sight, and the last row counts the others.
        first = max(0, min(current - 1, len(todos) - room + 1))
        last = first + room - 1
    items = [next(render_todos([todo], 10_000, theme)) for todo in todos[first:last]]
    listed = [clip_spans([Span("  "), *row], width) for row in items]
    hidden = len(todos) - len(listed)
    more = [[Span(f"  … {hidden} more", theme["quiet"])]] if hidden else []
    return [heading, *listed, *more]
