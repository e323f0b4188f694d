"""Paths as the transcript shows them: relative to the session's folder or the home folder.

Does no I/O.
"""

import re
from functools import lru_cache
from posixpath import dirname

from msgspec import Struct

# A path that begins in the middle of another word is not one of these folders.
_BEFORE, _AFTER = r"(?<![\w.~/+@-])", r"(?:/(?=[^\s/])|/?(?![\w~/+@-]|\.\w))"


class Folders(Struct, frozen=True, kw_only=True):
    """The session's folder and the home folder; empty if unknown."""

    cwd: str = ""
    home: str = ""

    def shorten(self, text: str) -> str:
        """Return the text with shorter paths: `a.py`, `../other/x.py`, `~/.zshrc`."""
        if "/" not in text:
            return text
        for pattern, instead in _patterns(self.cwd, self.home):
            text = pattern.sub(instead, text)
        return text


@lru_cache(maxsize=8)
def _patterns(cwd: str, home: str) -> tuple[tuple[re.Pattern[str], "_Instead"], ...]:
    parent = dirname(cwd)
    if f"{home}/".startswith(f"{parent}/"):
        parent = ""
    names = ((cwd, "."), (parent, ".."), (home, "~"))
    return tuple(
        (re.compile(_BEFORE + re.escape(folder.rstrip("/")) + _AFTER), _Instead(name))
        for folder, name in names
        if folder.strip("/")
    )


class _Instead:
    """Replaces a folder with its short name.

    In paths of files below the folder, the short name `.` is left out.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, match: re.Match[str]) -> str:
        is_above = match[0].endswith("/") and match.end() < len(match.string)
        if not is_above:
            return self._name
        return "" if self._name == "." else f"{self._name}/"
