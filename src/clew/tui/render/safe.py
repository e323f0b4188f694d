"""What a model, a tool or a file says, made harmless for a terminal. Pure.

Whatever could move the cursor, set a title, change colours or turn the direction of writing is shown
as an escape that can be read; joiners and selectors that emoji and scripts need stay.

Decision: docs/decisions/261-untrusted-text-on-terminals.md
"""

import re

from clew.messages.unseen import UNSEEN

# Signs without a width, with which two different words look the same.
_WITHOUT_WIDTH = "\xad\u034f\u115f\u1160\u180e\u200b\u2060-\u2064\u3164\uffa0"
# Of ASCII all but tab and line end; halves of pairs; and joiners that join nothing, as after ASCII.
_HARMFUL = re.compile(
    f"[\x00-\x08\x0b-\x1f\x7f{UNSEEN}{_WITHOUT_WIDTH}\ud800-\udfff]|(?<![^\x00-\x7f])[\u200c\u200d]"
)


def visible(text: str) -> str:
    """The text with line ends and tabs as the only control characters."""
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_BLANKS = re.compile("[ \t\n]+")


def one_line(text: str) -> str:
    """The text as a part of a line: line ends, tabs and runs of spaces are a space, and nothing else is,
    so that a control character is seen here as where the text stands whole."""
    return _BLANKS.sub(" ", visible(text)).strip(" ")


# Of an address: nothing that could end the sequence it stands in.
_ADDRESS = re.compile(r"(?:https?|mailto|ftp)[:][\x21-\x7e]{1,2000}\Z", re.I)


def address(url: str) -> str:
    """An address that may stand in a terminal's own link; empty if it may not."""
    return url if _ADDRESS.match(url) else ""
