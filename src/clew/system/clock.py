"""The clock: the current time, and how times are formatted.

Times for users are local. Times for programs are in UTC with a Z, so that they can be compared.
"""

from datetime import UTC, datetime
from uuid import uuid4

# The session's clock and IDs, which the pure parts receive as arguments.


def get_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_id() -> str:
    return str(uuid4())


def local_time() -> datetime:
    """Return the current local time."""
    return datetime.now()


def format_local(moment_s: float, *, seconds: bool = False) -> str:
    """Format a time for users: `2026-01-31 12:00`."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return _local(moment_s).strftime(form)


def format_stamp(moment_s: float, *, utc: bool) -> str:
    """Format a time so that it can be compared with user input: `2026-01-31T12:00:00`."""
    moment = datetime.fromtimestamp(moment_s, UTC) if utc else _local(moment_s)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _local(moment_s: float) -> datetime:
    """Return a local time without a time zone.

    `TZ` may name a zone that is more than a day away from UTC, which Python cannot represent.
    """
    return datetime.fromtimestamp(moment_s)


def format_local_timestamp(timestamp: str) -> str:
    """Format a recorded timestamp as local time.

    If the timestamp is invalid, return its first characters unchanged.
    """
    try:
        return format_local(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError, OSError):
        return timestamp[:16]
