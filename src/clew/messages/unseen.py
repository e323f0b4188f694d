"""Characters that no page shows and that rule whoever shows them: a terminal, a line, its direction.

Owns the table beyond ASCII and how JSON spells them without writing them. Imports nothing heavy.

Decision: docs/decisions/140-host-protocol.md
"""

import re

# Control characters, directions of writing, separators of lines that are none, tags that nobody sees, marks
# of byte order. Joiners and selectors that emoji and scripts need are none of them.
UNSEEN = (
    "\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_IN_JSON = re.compile(f"[\x7f{UNSEEN}]")


def spelled(line: bytes) -> bytes:
    """A line of JSON with the same meaning, whose escapes stand for them."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _IN_JSON.sub(_escape, line.decode()).encode()


def _escape(found: "re.Match[str]") -> str:
    halves = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))
