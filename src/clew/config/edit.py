"""Changes one member of a JSON text and leaves every other byte as its author wrote it.

Owns the splice: replace, insert, append, remove. The text must be a JSON object that was decoded
before. Nothing here touches a file (see `write`).
"""

import re
from typing import Any

import msgspec

from clew.config.positions import Member, Path, Positions, scan


def with_value(text: str, path: Path, value: Any) -> str:
    """The text with the member at `path` set; objects on the way are made where they are missing.

    A path that ends in an array's length appends to the array.
    """
    text = text if text.strip() else "{}\n"
    found = scan(text)
    holder = path
    while holder and not may_hold(text, found, holder):
        holder = holder[:-1]
    for key in reversed(path[len(holder) :]):
        value = [value] if isinstance(key, int) else {key: value}
    member = found.members.get(holder)
    if member is None:
        return inserted(text, found, holder[:-1], holder[-1], value)
    written = encoded(value, indent_of(text, member.key_start), unit_of(text))
    return text[: member.start] + written + text[member.end :]


def may_hold(text: str, found: Positions, path: Path) -> bool:
    """Whether what stands around a path is an object or an array as its last part needs one."""
    around = found.members.get(path[:-1])
    return around is not None and text[around.start] == ("[" if isinstance(path[-1], int) else "{")


def inserted(text: str, found: Positions, parent: Path, key: str | int, value: Any) -> str:
    """The text with a new last member in the object or array at `parent`."""
    holder = found.members[parent]
    unit = unit_of(text)
    last = last_child(found, parent)
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


def without(text: str, path: Path) -> str:
    """The text without the member at `path`, its comma and its line."""
    found = scan(text)
    member = found.members[path]
    siblings = children(found, path[:-1])
    place = siblings.index(member)
    if len(siblings) == 1:
        holder = found.members[path[:-1]]
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if place == 0:
        return text[: member.key_start] + text[siblings[1].key_start :]
    return text[: siblings[place - 1].end] + text[member.end :]


def children(found: Positions, parent: Path) -> list[Member]:
    depth = len(parent) + 1
    inside = [m for p, m in found.members.items() if len(p) == depth and p[:-1] == parent]
    return sorted(inside, key=lambda m: m.start)


def last_child(found: Positions, parent: Path) -> Member | None:
    inside = children(found, parent)
    return inside[-1] if inside else None


def indent_of(text: str, position: int) -> str:
    """The white space at the head of the line that holds `position`."""
    head = text.rfind("\n", 0, position) + 1
    match = re.compile(r"[ \t]*").match(text, head)
    return match[0] if match else ""


def unit_of(text: str) -> str:
    """The step by which the text is indented; two spaces where it shows none."""
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
