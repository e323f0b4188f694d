"""Pygments lexers that compile their rules on first use.

Pygments takes 0.8 MB of memory, so this module is imported with the first lexer.
"""

import re
from typing import Any

from pygments import unistring
from pygments.lexer import Lexer, RegexLexerMeta

# The classes that list all letters cause half of a table's cost; `\w` differs in a few characters.
_LETTERS = (
    (f"[{unistring.xid_start}]", r"[^\W\d]"),
    (f"[{unistring.xid_continue}]", r"\w"),
)


class _Unmade:
    """A rule's regular expression, which is compiled on first use."""

    __slots__ = ("_flags", "_match", "_regex")

    def __init__(self, regex: Any, flags: int) -> None:
        self._regex = regex
        self._flags = flags
        self._match: Any = None

    def made(self) -> Any:
        """Compile the expression if necessary, and return its match function."""
        if self._match is None:
            # Pygments' word lists build their expression on request.
            get = getattr(self._regex, "get", None)
            written = str(self._regex if get is None else get())
            for letters, short in _LETTERS:
                written = written.replace(letters, short)
            self._match = re.compile(written, self._flags).match
        return self._match


class _Tables(dict[str, Any]):
    """The compiled rules of the lexer states used so far; other states are compiled on first use."""

    def __init__(self, unmade: dict[str, Any]) -> None:
        super().__init__()
        self._unmade = unmade

    def __missing__(self, state: str) -> Any:
        rules = self[state] = [
            (match.made() if isinstance(match, _Unmade) else match, kind, then)
            for match, kind, then in self._unmade[state]
        ]
        return rules


class _LateTables(RegexLexerMeta):
    def _process_regex(self, regex: Any, rflags: int, state: str) -> _Unmade:
        return _Unmade(regex, rflags)

    def process_tokendef(self, name: Any, tokendefs: Any = None) -> _Tables:
        base: Any = super()
        return _Tables(base.process_tokendef(name, tokendefs))


def late(kind: Any) -> Lexer:
    """Return a lexer that compiles its rules on first use."""
    lexer_class: Any = kind
    if isinstance(kind, RegexLexerMeta):
        lexer_class = type.__call__(_LateTables, kind.__name__, (kind,), {"__doc__": kind.__doc__})
    lexer: Lexer = lexer_class()
    return lexer
