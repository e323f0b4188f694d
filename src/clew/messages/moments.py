"""Times in the one written form that every known reader accepts."""

from __future__ import annotations


def written(epoch_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`: milliseconds since 1970 in UTC, three decimals and a Z."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
