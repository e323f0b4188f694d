"""What a call changed in a file: lines with their numbers, in the colours of the language. Pure."""

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeGuard

from clew.tui.render.code import Colours, lexer_for
from clew.tui.render.rows import Row, Span, chopped, joined
from clew.tui.render.theme import Theme

Json: TypeAlias = dict[str, Any]

_SIDES = {"+": ("added", "added_line"), "-": ("removed", "removed_line")}


def is_patch(value: Any) -> TypeGuard[list[Json]]:
    """Whether this is a list of hunks as tools leave it; logs of other programs may hold anything."""
    return isinstance(value, list) and bool(value) and all(map(_is_hunk, value))


def _is_hunk(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("lines"), list):
        return False
    numbers = (value.get("oldStart"), value.get("newStart"))
    return all(type(n) is int for n in numbers) and all(type(x) is str for x in value["lines"])


def counted(patch: list[Json]) -> str:
    """How many lines came and went."""
    lines = [line[:1] for hunk in patch for line in hunk["lines"]]
    return f"+{lines.count('+')} -{lines.count('-')}"


def rows_of(patch: list[Json], path: str, theme: Theme, width: int) -> Iterator[Row]:
    """All hunks, with a sign between them."""
    last = max(hunk["newStart"] + len(hunk["lines"]) for hunk in patch)
    digits = len(str(max(last, *(hunk["oldStart"] for hunk in patch))))
    for number, hunk in enumerate(patch):
        if number:
            yield [Span(" " * digits + " ⋮", theme["quiet"])]
        yield from _hunk(hunk, path, theme, width, digits)


def created(content: str, path: str, theme: Theme, width: int) -> Iterator[Row]:
    """A file that is new: all its lines came."""
    lines = content.removesuffix("\n").split("\n")
    hunk = {"oldStart": 0, "newStart": 1, "lines": [f"+{line}" for line in lines]}
    return rows_of([hunk], path, theme, width)


def _hunk(hunk: Json, path: str, theme: Theme, width: int, digits: int) -> Iterator[Row]:
    lexer = lexer_for(path)
    # Each side is code of its own: what stands only in the other is not before it.
    colours = {"-": Colours(lexer, theme), "+": Colours(lexer, theme)}
    old, new = hunk["oldStart"], hunk["newStart"]
    for line in hunk["lines"]:
        sign, text = line[:1] or " ", line[1:]
        if sign == "\\":
            yield [Span(f"{' ' * digits} {line}", theme["quiet"])]
            continue
        sides = "-+" if sign == " " else sign
        spans = [colours[side].line(text) for side in sides if side in colours][-1:]
        yield from _line(spans[0] if spans else [Span(text)], sign, old if sign == "-" else new,
                         theme, width, digits)  # fmt: skip
        old += sign != "+"
        new += sign != "-"


def _line(
    spans: Row, sign: str, number: int, theme: Theme, width: int, digits: int
) -> Iterator[Row]:
    part, ground = _SIDES.get(sign, ("quiet", ""))
    lit = [span.with_style(joined(span.style, theme[ground])) for span in spans]
    before = [
        Span(f"{number:>{digits}} ", theme["quiet"]),
        Span(f"{sign} ", joined(theme[part], theme[ground])),
    ]
    for row in chopped(lit, width - digits - 3):
        yield [*before, *row]
        before = [Span(" " * (digits + 1)), Span("  ", theme[ground])]
