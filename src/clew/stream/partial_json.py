"""The input of a tool while it arrives as pieces of JSON text.

Two readings that never mix. `finish()` is strict and the only one whose result may run: `""` is the
empty object, anything but a whole JSON object is `Unreadable`. `preview()` is tolerant, closes what
is open, and is for the eye only: half a path or half a command must never be taken for one.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from clew.messages.encoding import mend
from clew.stream.events import Json
from clew.stream.objects import MAX_DEPTH, too_deep
from clew.stream.surrogates import join_halves

_decode = msgspec.json.Decoder().decode

TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

# A preview is computed anew when the text grew by a sixteenth: all previews together stay linear.
_GROWTH = 16


class Preview(Struct, frozen=True, kw_only=True):
    """What a tool's input looks like so far; for display, never for a tool."""

    value: Any
    characters: int


class Unreadable(Struct, frozen=True, kw_only=True):
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

    def finish(self) -> Json | Unreadable:
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


def read_input(raw: str) -> Json | Unreadable:
    """The object written in `raw`, strictly: a number that no double holds is none."""
    try:
        value = _decode(join_halves(raw))
    except (ValueError, RecursionError) as error:
        # How deep a decoder goes differs from one Python to the next.
        message = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        return Unreadable(reason="invalid_json", message=message, raw=mend(raw))
    if too_deep(value, raw):
        return Unreadable(reason="invalid_json", message=TOO_DEEP, raw=mend(raw))
    if isinstance(value, dict):
        return value
    message = f"the input is a {type(value).__name__}, not an object"
    return Unreadable(reason="not_an_object", message=message, raw=raw)


def _preview(text: str, before: Preview) -> Preview:
    from jiter import from_json  # only those who show previews pay for it

    try:
        value = from_json(mend(text).encode(), partial_mode="trailing-strings")
    except ValueError:
        value = before.value
    return Preview(value=value, characters=len(text))
