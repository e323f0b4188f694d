"""Colored lines on standard output for commands such as `clew doctor`.

No information is in the colors alone: pipes, `NO_COLOR` and simple terminals get the same text
without them. Text from files is cleaned here, so it can't control the terminal; only this module
adds escape sequences.
"""

import os
import sys
from typing import TypeAlias

from clew.core.messages.text import replace_unprintable

# A string, or the name of a style and a string.
Piece: TypeAlias = str | tuple[str, str]

# The terminal's own sixteen colors, which fit light and dark backgrounds.
_CODES = {
    "strong": "1", "quiet": "2", "good": "32", "warning": "33", "bad": "31", "match": "1;4;33",
}  # fmt: skip


def is_colored() -> bool:
    """Return whether standard output is a terminal that should get colors."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
    )


def clean(text: str) -> str:
    """Return text with its control characters, and characters that can't be encoded, replaced."""
    kept = replace_unprintable(text, kept="\n\t")
    return kept.encode("utf-8", "replace").decode("utf-8")


def print_pieces(*pieces: Piece) -> None:
    """Print one line."""
    pairs = [("", clean(p)) if isinstance(p, str) else (_CODES[p[0]], clean(p[1])) for p in pieces]
    if not is_colored():
        sys.stdout.write("".join(text for _, text in pairs) + "\n")
        return
    line = "".join(f"\x1b[{code}m{text}\x1b[0m" if code and text else text for code, text in pairs)
    sys.stdout.flush()
    # On a terminal, `sys.stdout` is replaced by a filter that escapes control characters.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.buffer.write(f"{line}\n".encode(encoding, "backslashreplace"))
    sys.stdout.buffer.flush()
