"""Lexers of Pygments whose tables are made when a text comes into them. Pure.

A lexer compiles all of its tables when it is made, twenty milliseconds for some languages, in the middle
of an answer or before a session's end is painted; of most tables a piece of code needs a few.

Decision: docs/decisions/180-terminal-screen.md
"""

import re
from typing import Any

from pygments import unistring
from pygments.lexer import Lexer, RegexLexerMeta

# All letters one by one, half of what a table costs; `\w` is the same but for a few signs.
_LETTERS = (
    (f"[{unistring.xid_start}]", r"[^\W\d]"),
    (f"[{unistring.xid_continue}]", r"\w"),
)


class _Unmade:
    """A rule's expression as it is written."""

    __slots__ = ("_flags", "_match", "_regex")

    def __init__(self, regex: Any, flags: int) -> None:
        self._regex = regex
        self._flags = flags
        self._match: Any = None

    def made(self) -> Any:
        """What stands in a table: the function that matches at a place."""
        if self._match is None:
            # Words that stand for an expression make it when they are asked.
            get = getattr(self._regex, "get", None)
            written = str(self._regex if get is None else get())
            for letters, short in _LETTERS:
                written = written.replace(letters, short)
            self._match = re.compile(written, self._flags).match
        return self._match


class _Tables(dict[str, Any]):
    """The rules of each state that was asked for; the others wait as they are written."""

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
    """The lexer of a language, soon."""
    made: Any = kind
    if isinstance(kind, RegexLexerMeta):
        made = type.__call__(_LateTables, kind.__name__, (kind,), {"__doc__": kind.__doc__})
    lexer: Lexer = made()
    return lexer
