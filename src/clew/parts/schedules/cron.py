"""Parse cron expressions, and find the next matching minute. Does no I/O.

Times are local, without a time zone. As usual in cron, if both the day of the month and the day of
the week are restricted, a day needs to match only one of them.
"""

import re
from datetime import datetime, timedelta

from msgspec import Struct

# Durations in the form `90s`, `5m`, `2h`, `1d`, `1h30m`. No I/O.


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SPAN = re.compile(r"(?:[0-9]+[smhd])+", re.I)
# An upper limit far beyond any use, so that adding a duration to a date can't overflow.
MOST_S = 3650 * 86400
MOST_DIGITS = 12
PIECE = re.compile(r"([0-9]+)([smhd])", re.I)


def parse_span(text: str) -> int | None:
    """Return a duration in seconds, or None if the text is not a valid duration."""
    if not SPAN.fullmatch(text):
        return None
    pieces = PIECE.findall(text)
    if any(len(count) > MOST_DIGITS for count, _ in pieces):
        return MOST_S
    return min(sum(int(count) * SECONDS[unit.lower()] for count, unit in pieces), MOST_S)


def format_span(count: int) -> str:
    """Format a number of seconds as a duration."""
    text = ""
    for unit, length in reversed(SECONDS.items()):
        amount, count = divmod(count, length)
        text += f"{amount}{unit}" if amount else ""
    return text or "0s"


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
# February 29 recurs within eight years at most.
MOST_DAYS = 8 * 366 + 1


class Cron(Struct, frozen=True, kw_only=True):
    """A parsed cron expression: the matching minutes, hours, days and months."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # Whether the day of the month or of the week, respectively, is unrestricted (`*`).
    any_day: bool
    any_weekday: bool

    def fits_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_month = day.day in self.days
        by_week = day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week

    def after(self, moment: datetime) -> datetime | None:
        """Return the first matching minute after `moment`, or None if there can't be one."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for i in range(MOST_DAYS):
            day = (start + timedelta(days=i)).replace(hour=0, minute=0) if i else start
            if not self.fits_day(day):
                continue
            for hour in sorted(hour for hour in self.hours if hour >= day.hour):
                first = day.minute if hour == day.hour else 0
                minutes = [minute for minute in self.minutes if minute >= first]
                if minutes:
                    return day.replace(hour=hour, minute=min(minutes))
        return None


def read(text: str) -> Cron:
    """Parse a cron expression. Raise ValueError with the problem if it is invalid."""
    fields = SHORT.get(text.strip().lower(), text).split()
    if len(fields) != 5:
        raise ValueError(
            f'"{text}": expected five fields: minute, hour, day of the month, month, day of the week'
        )
    minute, hour, day, month, weekday = fields
    weekdays = field("day of the week", weekday, 0, 7, DAYS)
    return Cron(
        minutes=field("minute", minute, 0, 59),
        hours=field("hour", hour, 0, 23),
        days=field("day of the month", day, 1, 31),
        months=field("month", month, 1, 12, MONTHS),
        weekdays=frozenset(weekday % 7 for weekday in weekdays),
        any_day=day.startswith("*"),
        any_weekday=weekday.startswith("*"),
    )


def field(
    name: str, text: str, least: int, most: int, names: tuple[str, ...] = ()
) -> frozenset[int]:
    values: set[int] = set()
    for part in text.lower().split(","):
        match = PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f'{name}: invalid value "{part}" (expected a number, range, * or step)'
            )
        first, last, step = match.groups()
        begin = least if first == "*" else number(name, first, least, most, names)
        end = most if first == "*" or (step and last is None) else begin
        if last is not None:
            end = number(name, last, least, most, names)
        if end < begin or step == "0":
            raise ValueError(f'{name}: "{part}" matches nothing')
        values.update(range(begin, end + 1, int(step or 1)))
    return frozenset(values)


def number(name: str, word: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if word in names:
        return names.index(word) + (least if names is MONTHS else 0)
    if not (word.isascii() and word.isdigit()) or not least <= int(word) <= most:
        raise ValueError(f'{name}: "{word}" must be a number from {least} to {most}')
    return int(word)
