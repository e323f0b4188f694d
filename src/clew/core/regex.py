"""Regular expressions that are compiled on first use.

Compiling all of clew's patterns took a twelfth of the run time of a headless prompt, and a prompt
uses only a few.
"""

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """A pattern that is compiled on its first attribute access."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._given = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        # Later calls find the method here and skip `__getattr__`.
        self.__dict__[name] = found
        return found


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern like `re.compile`, but compile it, and report errors in it, on first use.

    Call only methods of the pattern: `re.match(pattern, text)` needs a compiled pattern.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
