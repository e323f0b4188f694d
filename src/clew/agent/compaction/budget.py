"""How much of a window may be used before a conversation is shortened, and what each part may take.

Pure. A window is shared out once for each model: room for the answer, the size at which a person is
warned, the size at which the conversation is shortened, and how much of it survives word for word.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

# What an answer needs of the window, and how far off an estimate may be.
ANSWER_TOKENS = 20_000
MARGIN_TOKENS = 13_000
# Where nobody knows the window, the parts of one of this size.
USUAL_WINDOW = 200_000
LEAST_WINDOW = 4_000

Step: TypeAlias = Literal["nothing", "warn", "free", "shorten"]


class Room(Struct, frozen=True, kw_only=True):
    """A window shared out, in tokens; `auto` and `warn` are None where the window is not known."""

    window: int | None
    auto: int | None
    warn: int | None
    # What survives a compaction: the last exchanges, the files, one file, the last prompt's words.
    kept: int
    files: int
    file: int
    quote: int
    # How long a summary may become, and how much a request for one may hold.
    summary: int
    question: int
    # Old results are taken out where that frees so much, and, with nothing cached, from here on.
    freed: int
    cold: int


def divide_window(
    window: int | None, *, output: int | None = None, at: float | None = None
) -> Room:
    """The parts of a window. `at` is when to shorten: a part of the window up to 1, else tokens."""
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
    """When to shorten a conversation with `model`, by a setting: a number, or one for each pattern
    of names, the first that fits."""
    if isinstance(setting, Mapping):
        values = (value for pattern, value in setting.items() if fnmatchcase(model, str(pattern)))
        return at_of(next(values, None), model)
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not setting > 0:
        return None
    return float(setting)


def choose_step(size: int, room: Room, *, freeable: int, is_cold: bool) -> Step:
    """What to do before a request of this size. Old results are taken out where that is enough, or
    where nothing is cached that it could spoil."""
    if room.auto is None or room.warn is None:
        return "nothing"
    pays = freeable >= room.freed
    if size >= room.auto:
        return "free" if pays and size - freeable < room.warn else "shorten"
    if is_cold and pays and size >= room.cold:
        return "free"
    return "warn" if size >= room.warn else "nothing"
