"""The first line of clew's own transcripts: the version of the format, and the session's origin.

A transcript of a newer format can be read but not continued, because an older clew would not know
what its lines mean.
"""

from pathlib import Path

from clew.core.json_object import Json
from clew.core.messages.encoding import decode_object
from clew.core.messages.errors import SessionError

FORMAT = 1
LONGEST_HEADER_BYTES = 1 << 16


def read_header(path: Path) -> Json:
    """Return the object in the first line of a file; an empty one if there is none to read."""
    try:
        with path.open("rb") as file:
            return decode_object(file.readline(LONGEST_HEADER_BYTES))
    except OSError:
        return {}


def require_known_format(path: Path) -> None:
    """Raise `SessionError` if a newer clew wrote the session, so that it can only be read."""
    header = read_header(path)
    version = header.get("format") if header.get("type") == "clew-session" else None
    if isinstance(version, int) and version > FORMAT:
        raise SessionError(
            f"session {path.stem} was written by clew {header.get('version', '')} in a newer"
            f" format ({version}; this version supports up to {FORMAT}), so it can be read but not"
            f" changed; update clew"
        )
