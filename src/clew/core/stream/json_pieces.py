"""One JSON object from bytes, or a fault that says why not."""

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.encoding import read_float, read_int, repair_surrogates
from clew.core.stream.events import FaultKind, StreamFault, make_excerpt

# Characters that a sender cut in half: `"\ud83d"` at the end of one delta, `"\ude00"` in the next.


def has_half(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def join_halves(text: str) -> str:
    """The text with the halves that meet made one; a half alone stays, and no codec takes it."""
    if not has_half(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class GrowingText:
    """A text in pieces, joined once."""

    __slots__ = ("_pieces", "_waits")

    def __init__(self, start: str) -> None:
        self._pieces = [start]
        self._waits = ""

    def add(self, piece: str) -> str:
        """What can be shown now: a first half at the end waits for its second."""
        if not piece.isascii() or self._waits:
            piece, self._waits = hold_back(self._waits + piece)
        self._pieces.append(piece)
        return piece

    def whole(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return repair_surrogates(self._pieces[0] + self._waits) if self._waits else self._pieces[0]


def hold_back(text: str) -> tuple[str, str]:
    """The text that can be shown now, and a first half at its end that waits for its second."""
    if not has_half(text):
        return text, ""
    waits = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return repair_surrogates(text[: len(text) - len(waits)]), waits


def mend_all(value: Any) -> Any:
    """A decoded JSON value with every string mended, keys included."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [mend_all(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): mend_all(item) for key, item in value.items()}
    return value


MAX_DEPTH = 200
NEVER_TOO_DEEP_BYTES = 2 * MAX_DEPTH  # every level opens and closes

# What the pieces of a text are called; see `surrogates.py` for what may stand at their ends.
_GROWING = ("text", "thinking", "partial_json")

_decode = msgspec.json.Decoder().decode


def parse_object(data: bytes) -> Json | StreamFault:
    """Strict JSON; a half character (a lone surrogate) is let through in deltas, else replaced.

    The two halves of a character may come in two deltas, so there the accumulator joins them.
    """
    try:
        value = _decode(data)
    except UnicodeDecodeError:
        return _fault("invalid_utf8", "an event holds bytes that are not UTF-8", data)
    except (ValueError, RecursionError) as error:
        return _second_reading(data, error)
    return _checked(value, data)


def too_deep(value: Any, text: bytes | str) -> bool:
    """Whether lists and objects are nested deeper than others can write again.

    Decoders stop at about a thousand levels, but what one stack could just read, a longer one
    cannot write: such a value would lie in a session that nobody can save.
    """
    if len(text) <= NEVER_TOO_DEEP_BYTES:
        return False
    if isinstance(text, str):
        brackets = text.count("[") + text.count("{")
    else:
        brackets = text.count(b"[") + text.count(b"{")
    return brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [i for item in level for i in (item.values() if isinstance(item, dict) else item)]
    return depth


def _second_reading(data: bytes, error: Exception) -> Json | StreamFault:
    """What msgspec refuses but JSON allows: half characters and numbers beyond a double."""
    try:
        value = json.loads(
            data, parse_constant=_no_constant, parse_float=read_float, parse_int=read_int
        )
    except (ValueError, RecursionError):
        return _fault("invalid_json", f"an event is not JSON: {error}", data)
    checked = _checked(value, data)
    return checked if isinstance(checked, StreamFault) else _mended(checked)


def _mended(event: Json) -> Json:
    """The event without half characters, but for those of a delta that grows a text."""
    mended: Json = mend_all(event)
    delta = event.get("delta")
    if isinstance(delta, dict):
        growing = {name: delta[name] for name in _GROWING if isinstance(delta.get(name), str)}
        mended["delta"] |= growing
    return mended


def _checked(value: Any, data: bytes) -> Json | StreamFault:
    if not isinstance(value, dict):
        message = f"an event is a {type(value).__name__}, not an object"
        return _fault("malformed_event", message, data)
    if too_deep(value, data):
        message = f"an event is nested deeper than {MAX_DEPTH} levels"
        return _fault("malformed_event", message, data)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fault(kind: FaultKind, message: str, data: bytes) -> StreamFault:
    return StreamFault(kind=kind, message=message, excerpt=make_excerpt(data))


# The input of a tool while it arrives as pieces of JSON text.


TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

# A preview is computed anew when the text grew by a sixteenth: all previews together stay linear.
_GROWTH = 16


class Preview(Struct, frozen=True, kw_only=True):
    """What a tool's input looks like so far; for display, never for a tool."""

    value: Any
    characters: int


class UnreadableInput(Struct, frozen=True, kw_only=True):
    """Why this text is no input; `raw` is all of it."""

    reason: Literal["invalid_json", "not_an_object"]
    message: str
    raw: str


class InputBuffer:
    """The pieces of one block's input, joined once."""

    __slots__ = ("_characters", "_pieces", "_preview", "blank")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._characters = 0
        self.blank = True  # nothing but white space so far
        self._preview = Preview(value={}, characters=0)

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._characters += len(piece)
        self.blank = self.blank and not piece.strip()

    def finish(self) -> Json | UnreadableInput:
        return {} if self.blank else read_input(self._text())

    def preview(self) -> Preview:
        """The latest preview; while little has come since, the one before."""
        grown = self._characters - self._preview.characters
        if grown >= max(1, self._preview.characters // _GROWTH):
            self._preview = _preview(self._text(), self._preview)
        return self._preview

    def _text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


def read_input(raw: str) -> Json | UnreadableInput:
    """The object written in `raw`, strictly: a number that no double holds is none."""
    try:
        value = _decode(join_halves(raw))
    except (ValueError, RecursionError) as error:
        # How deep a decoder goes differs from one Python to the next.
        message = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        return UnreadableInput(reason="invalid_json", message=message, raw=repair_surrogates(raw))
    if too_deep(value, raw):
        return UnreadableInput(reason="invalid_json", message=TOO_DEEP, raw=repair_surrogates(raw))
    if isinstance(value, dict):
        return value
    message = f"the input is a {type(value).__name__}, not an object"
    return UnreadableInput(reason="not_an_object", message=message, raw=raw)


def _preview(text: str, before: Preview) -> Preview:
    from jiter import from_json  # only those who show previews pay for it

    try:
        value = from_json(repair_surrogates(text).encode(), partial_mode="trailing-strings")
    except ValueError:
        value = before.value
    return Preview(value=value, characters=len(text))
