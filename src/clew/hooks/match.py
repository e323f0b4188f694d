"""Which hooks an event calls: matchers over names, as the published rules read them. Pure."""

import re
from functools import lru_cache

EXACT = re.compile(r"[A-Za-z0-9_\-, |]*")
NARROW_EXACT = re.compile(r"[A-Za-z0-9_|]*")
# Two names of one tool: a matcher for either holds for both.
SAME_NAME = {"Task": "Agent", "Agent": "Task"}


def matches(matcher: str, value: str, *, narrow: bool = False) -> bool:
    """Whether a matcher holds for a value. Names are compared whole, patterns are found anywhere."""
    if matcher in ("", "*"):
        return True
    names = {value, SAME_NAME.get(value, value)}
    if narrow and NARROW_EXACT.fullmatch(matcher):
        return not names.isdisjoint(matcher.split("|"))
    if not narrow and EXACT.fullmatch(matcher):
        return not names.isdisjoint(part.strip() for part in re.split(r"[|,]", matcher))
    pattern = compiled(matcher)
    return pattern is not None and any(pattern.search(name) for name in names)


def is_readable(matcher: str) -> bool:
    return matcher == "*" or compiled(matcher) is not None


@lru_cache(maxsize=256)
def compiled(matcher: str) -> re.Pattern[str] | None:
    try:
        return re.compile(matcher)
    except re.error:
        return None
