"""The positions of the keys and values in a JSON text, for messages that name the line.

Owns the map from a key path to offsets and line numbers. The text must be valid JSON: the scanner
reads tokens and validates nothing. Loading settings must never call it, because loading needs only
values.
"""

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.regex import lazy_pattern

Path = tuple[str | int, ...]

TOKEN = lazy_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.S)


class Member(Struct, frozen=True, kw_only=True):
    """One value of the text, with its key if it is in an object.

    `text[start:end]` is the value, and `text[key_start:end]` includes the key.
    """

    path: Path
    key_start: int
    start: int
    end: int


class Positions(Struct, frozen=True, kw_only=True):
    """All values by path. If a key occurs more than once, its last occurrence applies."""

    members: dict[Path, Member]
    newlines: tuple[int, ...]

    def line(self, path: Path) -> int:
        """Return the line of a value, or of its nearest existing ancestor."""
        while path not in self.members:
            path = path[:-1]
        return bisect_right(self.newlines, self.members[path].key_start) + 1


class OpenContainer(Struct):
    """An object or array whose end has not been reached."""

    path: Path
    key_start: int
    start: int
    is_array: bool
    count: int = 0
    key: str | None = None
    key_at: int = 0
    awaits_value: bool = False


def key_of(token: str) -> str:
    """Return a key with its JSON escapes decoded."""
    if "\\" not in token:
        return token[1:-1]
    import msgspec

    return msgspec.json.decode(token, type=str)


@lru_cache(maxsize=4)
def scan(text: str) -> Positions:
    """Return the positions of all values. The result is cached, because lookups come in groups."""
    members: dict[Path, Member] = {}
    stack: list[OpenContainer] = []

    def close(path: Path, key_start: int, start: int, end: int) -> None:
        members[path] = Member(path=path, key_start=key_start, start=start, end=end)

    for match in TOKEN.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        top = stack[-1] if stack else None
        if token in "}]":
            done = stack.pop()
            close(done.path, done.key_start, done.start, end)
        elif token == ",":
            assert top is not None, "the text is not valid JSON"
            top.count += 1
            top.awaits_value = False
        elif token == ":":
            assert top is not None, "the text is not valid JSON"
            top.awaits_value = True
        elif top is not None and not top.is_array and not top.awaits_value:
            top.key, top.key_at = key_of(token), start
        else:
            path, key_start = place(top, start)
            if token in "{[":
                stack.append(
                    OpenContainer(
                        path=path, key_start=key_start, start=start, is_array=token == "["
                    )
                )
            else:
                close(path, key_start, start, end)
    newlines = tuple(m.start() for m in re.finditer("\n", text))
    return Positions(members=members, newlines=newlines)


def place(top: OpenContainer | None, start: int) -> tuple[Path, int]:
    """Return the path of the value that begins at `start`, and the position of its key."""
    if top is None:
        return (), start
    if top.is_array:
        return (*top.path, top.count), start
    assert top.key is not None, "the text is not valid JSON"
    return (*top.path, top.key), top.key_at


def join_path(path: Path) -> str:
    """Format a path for display, for example `permissions.allow[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def split_path(text: str) -> Path:
    """Parse a path written by `join_path`. Keys that contain a dot cannot be expressed."""
    parts: list[str | int] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", text):
        parts.append(int(index) if index else name)
    return tuple(parts)


# Edits of one value in a JSON text that leave all other bytes unchanged.


def set_value(text: str, path: Path, value: Any) -> str:
    """Return the text with the value at `path` set. Missing parent objects are created.

    A path that ends in an array's length appends to the array.
    """
    text = text if text.strip() else "{}\n"
    positions = scan(text)
    holder = path
    while holder and not may_hold(text, positions, holder):
        holder = holder[:-1]
    for key in reversed(path[len(holder) :]):
        value = [value] if isinstance(key, int) else {key: value}
    member = positions.members.get(holder)
    if member is None:
        return inserted(text, positions, holder[:-1], holder[-1], value)
    written = encoded(value, indent_of(text, member.key_start), unit_of(text))
    return text[: member.start] + written + text[member.end :]


def may_hold(text: str, positions: Positions, path: Path) -> bool:
    """Return whether a path's parent is an object or array, as the path's last part requires."""
    around = positions.members.get(path[:-1])
    return around is not None and text[around.start] == ("[" if isinstance(path[-1], int) else "{")


def inserted(text: str, positions: Positions, parent: Path, key: str | int, value: Any) -> str:
    """Return the text with a new last entry in the object or array at `parent`."""
    holder = positions.members[parent]
    unit = unit_of(text)
    last = last_child(positions, parent)
    outer = indent_of(text, holder.key_start)
    on_one_line = last is not None and "\n" not in text[holder.start : holder.end]
    inner = outer if on_one_line else outer + unit
    name = "" if isinstance(key, int) else msgspec.json.encode(key).decode() + ": "
    written = name + encoded(value, inner, unit)
    if on_one_line and last is not None:
        return text[: last.end] + ", " + written + text[last.end :]
    if last is not None:
        return text[: last.end] + f",\n{inner}" + written + text[last.end :]
    return text[: holder.start + 1] + f"\n{inner}{written}\n{outer}" + text[holder.end - 1 :]


def remove_value(text: str, path: Path) -> str:
    """Return the text without the entry at `path`, its comma and its line."""
    positions = scan(text)
    member = positions.members[path]
    siblings = children(positions, path[:-1])
    place = siblings.index(member)
    if len(siblings) == 1:
        holder = positions.members[path[:-1]]
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if place == 0:
        return text[: member.key_start] + text[siblings[1].key_start :]
    return text[: siblings[place - 1].end] + text[member.end :]


def children(positions: Positions, parent: Path) -> list[Member]:
    depth = len(parent) + 1
    inside = [m for p, m in positions.members.items() if len(p) == depth and p[:-1] == parent]
    return sorted(inside, key=lambda m: m.start)


def last_child(positions: Positions, parent: Path) -> Member | None:
    inside = children(positions, parent)
    return inside[-1] if inside else None


def indent_of(text: str, position: int) -> str:
    """Return the indentation of the line that contains `position`."""
    head = text.rfind("\n", 0, position) + 1
    match = re.compile(r"[ \t]*").match(text, head)
    return match[0] if match else ""


def unit_of(text: str) -> str:
    """Return the indentation unit of the text, two spaces by default."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def encoded(value: Any, indent: str, unit: str) -> str:
    compact = msgspec.json.encode(value)
    if not isinstance(value, (dict, list)) or not value:
        return compact.decode()
    pretty = msgspec.json.format(compact, indent=1).decode()
    first, *rest = pretty.split("\n")
    lines = [first]
    for line in rest:
        bare = line.lstrip(" ")
        lines.append(indent + unit * (len(line) - len(bare)) + bare)
    return "\n".join(lines)
