"""Regular expressions that are compiled with their first use.

Compiling all of those that clew has was a twelfth of what a headless prompt costs, and a prompt uses a few.
"""

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """Becomes the pattern it stands for with the first question."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        # From now on the method is at hand, as fast as the pattern's own.
        self.__dict__[name] = found
        return found


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but a fault of the expression is raised with the first use. Only the methods of the
    pattern may be used: `re.match(pattern, text)` takes a compiled one."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
