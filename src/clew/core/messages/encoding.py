"""JSON that is read whatever its writer did, and written so that every reader can read it.

Reading: `msgspec` first; what it refuses (lone surrogates, bad UTF-8, control characters, huge
numbers) goes to a lenient reading, and what is too deep for a recursive parser to an iterative one.
Every string that comes out can be encoded again, and so can every number: one that no double holds
is a `Decimal`. Only what is not JSON is refused, as a ValueError.

Decision: docs/decisions/012-json-reading-and-writing.md
"""

from __future__ import annotations

import re

import msgspec

from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Literal

_read = msgspec.json.Decoder().decode
_read_lines = msgspec.json.Decoder().decode_lines
_write = msgspec.json.Encoder(decimal_format="number").encode
_write_cautiously = msgspec.json.Encoder(decimal_format="string").encode

BOM = b"\xef\xbb\xbf"
# An escape; with a group it is half of a pair of surrogates, and the other half is not there.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SPACE = lazy_pattern(r"[ \t\n\r]*")
# Line ends to `str.splitlines`, which some readers cut a file with; legal in JSON, escaped by us.
_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)
# The most digits Python turns into an int without being told to.
_LONGEST_INT = 4300
_BEYOND = (float("inf"), float("-inf"))


def decode(line: bytes) -> Any:
    """The value written in `line`, whatever stray marks surround it; ValueError if it is none."""
    try:
        return _read(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object written in `line`; an empty one if it holds none."""
    try:
        value = decode(line)
    except ValueError:
        return {}
    return value if type(value) is dict else {}


def decode_lines(lines: bytes, count: int) -> list[Any] | None:
    """The values of `count` lines that `decode` reads, in less time; None if it must be asked of each."""
    try:
        values = _read_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return values if len(values) == count else None


def _decode_leniently(line: bytes) -> Any:
    text = strip_marks(line).decode("utf-8", "replace")
    if not text:
        raise ValueError("nothing but space" if line else "empty")
    if "\\u" in text:
        text = _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)
    import json  # only broken lines pay for it

    try:
        try:
            return json.loads(text, strict=False, parse_int=read_int, parse_float=read_float)
        except RecursionError:
            return _decode_deep(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # some of Python's words for it end so
        raise ValueError(f"{what} at character {error.pos}") from None


def strip_marks(line: bytes) -> bytes:
    """`line` without the marks that crashes and editors leave around it: NULs, a BOM, space."""
    return line.strip(b"\0 \t\r\n").removeprefix(BOM).strip(b"\0 \t\r\n")


def read_int(digits: str) -> Any:
    return int(digits) if len(digits) <= _LONGEST_INT else _beyond_double(digits)


def read_float(digits: str) -> Any:
    value = float(digits)
    return _beyond_double(digits) if value in _BEYOND else value


def _beyond_double(digits: str) -> Any:
    """A number that no double and no ordinary int holds, as it was written."""
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(digits)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def _decode_deep(text: str) -> Any:
    """Reads JSON with a stack of its own, so that depth costs memory and not the process."""
    from json import JSONDecoder

    scalar = JSONDecoder(strict=False, parse_int=read_int, parse_float=read_float).raw_decode
    holders: list[Any] = []
    keys: list[str] = []
    position = 0

    def past_space(start: int) -> int:
        match = _SPACE.match(text, start)
        return start if match is None else match.end()

    def past_key(start: int) -> int:
        key, end = scalar(text, past_space(start))
        end = past_space(end)
        if type(key) is not str or text[end : end + 1] != ":":
            raise ValueError(f"a key and a colon expected at character {end}")
        keys.append(key)
        return end + 1

    while True:
        position = past_space(position)
        opener = text[position : position + 1]
        value: Any
        if opener in ("{", "["):
            value = {} if opener == "{" else []
            inside = past_space(position + 1)
            if text[inside : inside + 1] not in ("}", "]"):
                holders.append(value)
                position = past_key(inside) if opener == "{" else inside
                continue
            position = inside + 1
        else:
            value, position = scalar(text, position)
        while holders:
            holder = holders[-1]
            in_object = type(holder) is dict
            if in_object:
                holder[keys.pop()] = value
            else:
                holder.append(value)
            position = past_space(position)
            mark = text[position : position + 1]
            position += 1
            if mark == ",":
                position = past_key(position) if in_object else position
                break
            if mark != ("}" if in_object else "]"):
                raise ValueError(f"a comma or an end expected at character {position - 1}")
            value = holders.pop()
        else:
            if past_space(position) != len(text):
                raise ValueError(f"more than one value, at character {position}")
            return value


def encode(value: Any, *, beyond_double: Literal["number", "string"] = "number") -> bytes:
    """`value` as compact JSON in valid UTF-8 on one line, by anybody's idea of a line.

    Numbers that no double holds go as they are; as strings to readers who might refuse them.
    """
    write = _write if beyond_double == "number" else _write_cautiously
    try:
        line = write(value)
    except (UnicodeEncodeError, RecursionError):
        line = "".join(_pieces(value, write)).encode()
    for raw, escaped in _LINE_ENDS:
        if raw in line:
            line = line.replace(raw, escaped)
    return line


def repair_surrogates(text: str) -> str:
    """`text` with the halves of a character that meet made one, and U+FFFD for a half alone."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text(value: str) -> str:
    return _write(repair_surrogates(value)).decode()


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Each member or element, with what is written before it."""
    comma = ""
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{comma}{_text(str(key))}:", member
            comma = ","
    else:
        for element in value:
            yield comma, element
            comma = ","


def _pieces(value: Any, write: Callable[[Any], bytes]) -> Iterator[str]:
    """The text of `value`, walked with a stack of its own."""
    open_now: list[tuple[Iterator[tuple[str, Any]], str]] = [(iter((("", value),)), "")]
    while open_now:
        children, closer = open_now[-1]
        for before, child in children:
            yield before
            if isinstance(child, dict) and child:
                yield "{"
                open_now.append((_children(child), "}"))
                break
            if isinstance(child, list | tuple) and child:
                yield "["
                open_now.append((_children(child), "]"))
                break
            yield _text(child) if isinstance(child, str) else write(child).decode()
        else:
            yield closer
            open_now.pop()
