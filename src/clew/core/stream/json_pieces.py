"""Parse one JSON object from bytes, or return a fault with the reason."""

import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.encoding import read_float, read_int, repair_surrogates
from clew.core.stream.events import FaultKind, StreamFault, make_excerpt

# Surrogate pairs that a server split: `"\ud83d"` at the end of one delta, `"\ude00"` in the next.


def has_half(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def join_halves(text: str) -> str:
    """Join adjacent surrogate halves; a lone half stays, although no codec can encode it."""
    if not has_half(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class GrowingText:
    """Text that arrives in pieces and is joined on demand."""

    __slots__ = ("_pieces", "_waits")

    def __init__(self, start: str) -> None:
        self._pieces = [start]
        self._waits = ""

    def add(self, piece: str) -> str:
        """Add a piece and return the displayable text; a high surrogate at the end is held back."""
        if not piece.isascii() or self._waits:
            piece, self._waits = hold_back(self._waits + piece)
        self._pieces.append(piece)
        return piece

    def whole(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return repair_surrogates(self._pieces[0] + self._waits) if self._waits else self._pieces[0]


def hold_back(text: str) -> tuple[str, str]:
    """Split off a high surrogate at the end, which cannot be displayed without its other half."""
    if not has_half(text):
        return text, ""
    waits = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return repair_surrogates(text[: len(text) - len(waits)]), waits


def mend_all(value: Any) -> Any:
    """Repair the surrogates in all strings of a decoded JSON value, including keys."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [mend_all(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): mend_all(item) for key, item in value.items()}
    return value


MAX_DEPTH = 200
NEVER_TOO_DEEP_BYTES = 2 * MAX_DEPTH  # every level needs two brackets

# The fields of a delta that contain pieces of text, which may start or end with half a pair.
_GROWING = ("text", "thinking", "partial_json")

_decode = msgspec.json.Decoder().decode


def parse_object(data: bytes) -> Json | StreamFault:
    """Parse strict JSON; replace lone surrogates, except in deltas.

    A surrogate pair may be split across two deltas, which the accumulator joins.
    """
    try:
        value = _decode(data)
    except UnicodeDecodeError:
        return _fault("invalid_utf8", "event is not valid UTF-8", data)
    except (ValueError, RecursionError) as error:
        return _second_reading(data, error)
    return _checked(value, data)


def too_deep(value: Any, text: bytes | str) -> bool:
    """Return whether a value is nested too deeply for other programs to encode.

    Decoders stop at about a thousand levels. A value close to that limit could be decoded but not
    encoded again, so the session could not be saved.
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
    """Parse JSON that msgspec rejects: lone surrogates and numbers beyond the range of a double."""
    try:
        value = json.loads(
            data, parse_constant=_no_constant, parse_float=read_float, parse_int=read_int
        )
    except (ValueError, RecursionError):
        return _fault("invalid_json", f"event is not valid JSON: {error}", data)
    checked = _checked(value, data)
    return checked if isinstance(checked, StreamFault) else _mended(checked)


def _mended(event: Json) -> Json:
    """Replace lone surrogates in an event, except in the text of a delta."""
    mended: Json = mend_all(event)
    delta = event.get("delta")
    if isinstance(delta, dict):
        growing = {name: delta[name] for name in _GROWING if isinstance(delta.get(name), str)}
        mended["delta"] |= growing
    return mended


def _checked(value: Any, data: bytes) -> Json | StreamFault:
    if not isinstance(value, dict):
        message = f"event is of type {type(value).__name__}, not an object"
        return _fault("malformed_event", message, data)
    if too_deep(value, data):
        message = f"event is nested deeper than {MAX_DEPTH} levels"
        return _fault("malformed_event", message, data)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _fault(kind: FaultKind, message: str, data: bytes) -> StreamFault:
    return StreamFault(kind=kind, message=message, excerpt=make_excerpt(data))


# A tool's input while it arrives as pieces of JSON text.


TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

# A preview is computed again when the text has grown by a sixteenth, which keeps the total cost
# linear.
_GROWTH = 16


class Preview(Struct, frozen=True, kw_only=True):
    """A tool's input so far, for display only; it is never passed to a tool."""

    value: Any
    characters: int


class UnreadableInput(Struct, frozen=True, kw_only=True):
    """Text that is not valid input for a tool, and the reason; `raw` is the entire text."""

    reason: Literal["invalid_json", "not_an_object"]
    message: str
    raw: str


class InputBuffer:
    """The pieces of one block's input, joined on demand."""

    __slots__ = ("_pieces", "_preview", "blank", "characters")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.characters = 0
        self.blank = True  # only whitespace so far
        self._preview = Preview(value={}, characters=0)

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        self.characters += len(piece)
        self.blank = self.blank and not piece.strip()

    def finish(self) -> Json | UnreadableInput:
        return {} if self.blank else read_input(self._text())

    def preview(self) -> Preview:
        """Return a preview of the input, possibly without the last few characters."""
        grown = self.characters - self._preview.characters
        if grown >= max(1, self._preview.characters // _GROWTH):
            self._preview = _preview(self._text(), self._preview)
        return self._preview

    def _text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


def read_input(raw: str) -> Json | UnreadableInput:
    """Parse the object in `raw` strictly: a number beyond the range of a double is invalid."""
    try:
        value = _decode(join_halves(raw))
    except (ValueError, RecursionError) as error:
        # The maximum depth of a decoder differs between Python versions.
        message = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        return UnreadableInput(reason="invalid_json", message=message, raw=repair_surrogates(raw))
    if too_deep(value, raw):
        return UnreadableInput(reason="invalid_json", message=TOO_DEEP, raw=repair_surrogates(raw))
    if isinstance(value, dict):
        return value
    message = f"the input is of type {type(value).__name__}, not an object"
    return UnreadableInput(reason="not_an_object", message=message, raw=raw)


def _preview(text: str, before: Preview) -> Preview:
    from jiter import from_json  # imported only for callers that show previews

    try:
        value = from_json(repair_surrogates(text).encode(), partial_mode="trailing-strings")
    except ValueError:
        value = before.value
    return Preview(value=value, characters=len(text))
