"""The token budget of a context window: when to compact, and how large each part may be.

A window is divided once per model: space for the response, the size at which the user is warned,
the size at which the conversation is compacted, and how much of it is kept verbatim. This module
does no I/O.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

# Tokens reserved for a response, and the margin for estimation errors.
ANSWER_TOKENS = 20_000
MARGIN_TOKENS = 13_000
# The window size that limits are derived from if the model's window is unknown.
USUAL_WINDOW = 200_000
LEAST_WINDOW = 4_000

Step: TypeAlias = Literal["nothing", "warn", "free", "shorten"]


class Room(Struct, frozen=True, kw_only=True):
    """A window's budget in tokens; `auto` and `warn` are set only for a known window."""

    window: int | None
    auto: int | None
    warn: int | None
    # How much is kept after a compaction: recent messages, all files together, one file, and the
    # text of the last prompt.
    kept: int
    files: int
    file: int
    quote: int
    # The maximum size of a summary, and of the request for one.
    summary: int
    question: int
    # Old results are removed if this frees at least `freed` tokens; with a cold cache, only if the
    # conversation has at least `cold` tokens.
    freed: int
    cold: int


def divide_window(
    window: int | None, *, output: int | None = None, at: float | None = None
) -> Room:
    """Return the budget of a window.

    `at` sets the size at which to compact: a fraction of the window if at most 1, otherwise a
    number of tokens.
    """
    size = max(LEAST_WINDOW, window or USUAL_WINDOW)
    answer = min(output or ANSWER_TOKENS, ANSWER_TOKENS, size // 5)
    auto = size - answer - min(MARGIN_TOKENS, size // 15)
    if at is not None:
        wanted = round(size * at) if at <= 1 else round(at)
        auto = max(size // 10, min(wanted, size - answer))
    is_known = window is not None
    return Room(
        window=window,
        auto=auto if is_known else None,
        warn=auto - min(20_000, auto // 8) if is_known else None,
        kept=min(20_000, auto // 6),
        files=min(25_000, auto // 6),
        file=min(5_000, auto // 20),
        quote=min(8_000, auto // 10),
        summary=min(16_000, size // 8),
        question=auto * 7 // 10,
        freed=min(20_000, auto // 8),
        cold=auto // 2,
    )


def at_of(setting: Any, model: str) -> float | None:
    """Return the compaction threshold for `model` from a setting; None if not set or invalid.

    The setting is a number, or a mapping from model name patterns to numbers; the first match is
    used.
    """
    if isinstance(setting, Mapping):
        values = (value for pattern, value in setting.items() if fnmatchcase(model, str(pattern)))
        return at_of(next(values, None), model)
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not setting > 0:
        return None
    return float(setting)


def choose_step(size: int, room: Room, *, freeable: int, is_cold: bool) -> Step:
    """Return what to do before a request of this size.

    Old results are removed if this is sufficient, or if the cache is cold, because their removal
    then costs nothing.
    """
    if room.auto is None or room.warn is None:
        return "nothing"
    pays = freeable >= room.freed
    if size >= room.auto:
        return "free" if pays and size - freeable < room.warn else "shorten"
    if is_cold and pays and size >= room.cold:
        return "free"
    return "warn" if size >= room.warn else "nothing"
