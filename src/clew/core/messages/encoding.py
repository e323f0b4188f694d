"""Read any JSON that a writer may have produced, and write JSON that every reader accepts.

`msgspec` parses first. Input that it rejects (lone surrogates, bad UTF-8, control characters, huge
numbers) is parsed by a lenient parser, and input too deep for recursion by an iterative one. Every
string and number in the result can be encoded again: a number beyond the range of a double is a
`Decimal`. Only input that is not JSON raises `ValueError`.

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
# Matches any escape. The group matches only half of a surrogate pair whose other half is missing.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SPACE = lazy_pattern(r"[ \t\n\r]*")
# `str.splitlines`, which some readers use, treats these as line endings. JSON allows them
# unescaped, but clew escapes them.
_LINE_ENDS = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)
# The most digits that Python converts to an int by default.
_LONGEST_INT = 4300
_BEYOND = (float("inf"), float("-inf"))


def decode(line: bytes) -> Any:
    """Return the value in `line`, ignoring stray bytes around it.

    Raise ValueError if the rest is not JSON.
    """
    try:
        return _read(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(line)


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object in `line`, or an empty object if `line` contains anything else."""
    try:
        value = decode(line)
    except ValueError:
        return {}
    return value if type(value) is dict else {}


def decode_lines(lines: bytes, count: int) -> list[Any] | None:
    """Decode `count` lines in one call; return None if they must be decoded one by one."""
    try:
        values = _read_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return values if len(values) == count else None


def _decode_leniently(line: bytes) -> Any:
    text = strip_marks(line).decode("utf-8", "replace")
    if not text:
        raise ValueError("only whitespace" if line else "empty")
    if "\\u" in text:
        text = _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text)
    import json  # imported only for lines that msgspec rejects

    try:
        try:
            return json.loads(text, strict=False, parse_int=read_int, parse_float=read_float)
        except RecursionError:
            return _decode_deep(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # some of Python's messages end with this word
        raise ValueError(f"{what} at character {error.pos}") from None


def strip_marks(line: bytes) -> bytes:
    """Strip the NULs, BOM and whitespace that crashes and editors leave around a line."""
    return line.strip(b"\0 \t\r\n").removeprefix(BOM).strip(b"\0 \t\r\n")


def read_int(digits: str) -> Any:
    return int(digits) if len(digits) <= _LONGEST_INT else _beyond_double(digits)


def read_float(digits: str) -> Any:
    value = float(digits)
    return _beyond_double(digits) if value in _BEYOND else value


def _beyond_double(digits: str) -> Any:
    """Return a number that neither a double nor an int can hold, as a `Decimal`.

    Return None if even the exponent is too long.
    """
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(digits)
    except InvalidOperation:  # the exponent has twenty digits
        return None


def _decode_deep(text: str) -> Any:
    """Parse JSON with an explicit stack, so that deep nesting cannot exhaust the call stack."""
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
            raise ValueError(f"expected a key and a colon at character {end}")
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
                raise ValueError(
                    f"expected a comma or a closing bracket at character {position - 1}"
                )
            value = holders.pop()
        else:
            if past_space(position) != len(text):
                raise ValueError(f"extra data at character {position}")
            return value


def encode(value: Any, *, beyond_double: Literal["number", "string"] = "number") -> bytes:
    """Encode `value` as compact JSON in valid UTF-8, on a single line.

    Numbers beyond the range of a double are written as numbers, or as strings for readers that
    might reject them.
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
    """Join surrogate pairs in `text` into characters and replace lone surrogates with U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text(value: str) -> str:
    return _write(repair_surrogates(value)).decode()


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each child of a dict or list, with the JSON text that precedes the child."""
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
    """Yield the text of `value`, traversed with an explicit stack."""
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
