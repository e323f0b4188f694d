"""Times as people read them: by the clock of this place. Programs get UTC, with a Z."""

from datetime import UTC, datetime


def here(moment_s: float, *, seconds: bool = False) -> str:
    """`2026-01-31 12:00`."""
    form = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    return datetime.fromtimestamp(moment_s).astimezone().strftime(form)


def stamp(moment_s: float, *, utc: bool) -> str:
    """`2026-01-31T12:00:00`, to compare with what somebody typed."""
    moment = datetime.fromtimestamp(moment_s, UTC)
    return (moment if utc else moment.astimezone()).strftime("%Y-%m-%dT%H:%M:%S")


def written_here(timestamp: str) -> str:
    """A time as logs write it; what is none is shown as far as it goes."""
    try:
        return here(datetime.fromisoformat(timestamp).timestamp())
    except (ValueError, OverflowError, OSError):
        return timestamp[:16]
