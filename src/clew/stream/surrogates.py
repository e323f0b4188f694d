r"""Characters that a sender cut in half: `"\ud83d"` at the end of one delta, `"\ude00"` in the next.

Senders that count in UTF-16 do that. Half a character cannot be printed, stored or sent, so halves
are joined where both came, and replaced by U+FFFD where one did not.
"""

from typing import Any

from clew.messages.encoding import mend


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
        return mend(self._pieces[0] + self._waits) if self._waits else self._pieces[0]


def hold_back(text: str) -> tuple[str, str]:
    """The text that can be shown now, and a first half at its end that waits for its second."""
    if not has_half(text):
        return text, ""
    waits = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return mend(text[: len(text) - len(waits)]), waits


def mend_all(value: Any) -> Any:
    """A decoded JSON value with every string mended, keys included."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, list):
        return [mend_all(item) for item in value]
    if isinstance(value, dict):
        return {mend(key): mend_all(item) for key, item in value.items()}
    return value
