"""Times as people read them: by the clock of this place. Programs get UTC, with a Z: they compare times
with those of other programs."""

from datetime import UTC, datetime
from uuid import uuid4

# The session's clock and its ids: what the pure parts are handed as arguments.


def get_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_id() -> str:
    return str(uuid4())


def local_time() -> datetime:
    """Return what the clock on the wall shows."""
    return datetime.now()


def format_local(moment_s: float, *, seconds: bool = False) -> str:
    """`2026-01-31 12:00`."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return _local(moment_s).strftime(form)


def format_stamp(moment_s: float, *, utc: bool) -> str:
    """`2026-01-31T12:00:00`, to compare with what somebody typed."""
    moment = datetime.fromtimestamp(moment_s, UTC) if utc else _local(moment_s)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _local(moment_s: float) -> datetime:
    """Without its zone: `TZ` may name one that is more than a day away, which Python knows no zone for."""
    return datetime.fromtimestamp(moment_s)


def format_local_timestamp(timestamp: str) -> str:
    """A time as logs write it; what is none is shown as far as it goes."""
    try:
        return format_local(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError, OSError):
        return timestamp[:16]
