"""The session's clock and its ids: what the pure parts are handed as arguments."""

from datetime import UTC, datetime
from uuid import uuid4


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    return str(uuid4())
