"""Where each member of a JSON text stands, so that an error or a rule can name its line.

Owns the map from a path of keys to offsets and line numbers. The text must have been decoded
before: this scan walks tokens and judges nothing. It must never be on the way of an ordinary load,
which needs values only.
"""

import re
from bisect import bisect_right
from functools import lru_cache

from msgspec import Struct

Path = tuple[str | int, ...]

TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.S)


class Member(Struct, frozen=True, kw_only=True):
    """One value of the text: `text[start:end]` is the value, `text[key_start:end]` with its key."""

    path: Path
    key_start: int
    start: int
    end: int


class Positions(Struct, frozen=True, kw_only=True):
    """Every member by its path; a key written twice counts where it stands last."""

    members: dict[Path, Member]
    repeated: tuple[Member, ...]
    newlines: tuple[int, ...]

    def line(self, path: Path) -> int:
        """The line of a member, or of the nearest member around it that exists."""
        while path not in self.members:
            path = path[:-1]
        return bisect_right(self.newlines, self.members[path].key_start) + 1


class Open(Struct):
    """An object or array whose end has not come yet."""

    path: Path
    key_start: int
    start: int
    is_array: bool
    count: int = 0
    key: str | None = None
    key_at: int = 0
    awaits_value: bool = False


def key_of(token: str) -> str:
    """A key's text; the escapes that JSON writers put into keys are decoded."""
    if "\\" not in token:
        return token[1:-1]
    import msgspec

    return msgspec.json.decode(token, type=str)


@lru_cache(maxsize=4)
def scan(text: str) -> Positions:
    """Where everything stands; kept, because who asks for one place asks for the next."""
    members: dict[Path, Member] = {}
    repeated: list[Member] = []
    stack: list[Open] = []

    def close(path: Path, key_start: int, start: int, end: int) -> None:
        if path in members:
            repeated.append(members[path])
        members[path] = Member(path=path, key_start=key_start, start=start, end=end)

    for match in TOKEN.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        top = stack[-1] if stack else None
        if token in "}]":
            done = stack.pop()
            close(done.path, done.key_start, done.start, end)
        elif token == ",":
            assert top is not None, "a text that was decoded before"
            top.count += 1
            top.awaits_value = False
        elif token == ":":
            assert top is not None, "a text that was decoded before"
            top.awaits_value = True
        elif top is not None and not top.is_array and not top.awaits_value:
            top.key, top.key_at = key_of(token), start
        else:
            path, key_start = place(top, start)
            if token in "{[":
                stack.append(
                    Open(path=path, key_start=key_start, start=start, is_array=token == "[")
                )
            else:
                close(path, key_start, start, end)
    newlines = tuple(m.start() for m in re.finditer("\n", text))
    return Positions(members=members, repeated=tuple(repeated), newlines=newlines)


def place(top: Open | None, start: int) -> tuple[Path, int]:
    """The path of the value that begins at `start`, and where its key begins."""
    if top is None:
        return (), start
    if top.is_array:
        return (*top.path, top.count), start
    assert top.key is not None, "a text that was decoded before"
    return (*top.path, top.key), top.key_at


def dotted(path: Path) -> str:
    """`permissions.allow[3]`: a path as people write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def undotted(text: str) -> Path:
    """The path that `dotted` wrote; a key that holds a dot cannot be named this way."""
    parts: list[str | int] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", text):
        parts.append(int(index) if index else name)
    return tuple(parts)
