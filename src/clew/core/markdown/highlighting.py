"""Syntax highlighting, line by line; the colors of a line depend only on earlier lines.

A line can therefore be printed as soon as it is complete, no matter how long the code grows. The
state between lines is the state stack of a Pygments lexer. A comment that spans several lines is
read in one piece, up to a limit.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pygments.lexer import Lexer, RegexLexer


Piece: TypeAlias = tuple[Any, str]
# A line as pieces of text, each after the name of its style, such as `code_string`, or none.
NamedLine: TypeAlias = list[tuple[str, str]]

# The most lines to hold until a comment ends.
HELD_LINES = 40
# A longer line is treated as data, without colors.
COLORED_CHARACTERS = 1_000
# The most rules in a row that may match nothing at one position.
TURNS_MOST = 20

# The names of parts of code by Pygments token type; a type not listed uses its parent's.
_PARTS = {
    "Keyword": "code_keyword",
    "Keyword.Type": "code_type",
    "Keyword.Constant": "code_number",
    "Name.Function": "code_name",
    "Name.Class": "code_type",
    "Name.Decorator": "code_name",
    "Name.Builtin": "code_type",
    "Name.Tag": "code_keyword",
    "Name.Attribute": "code_name",
    "Name.Exception": "code_type",
    "Literal.String": "code_string",
    "Literal.Number": "code_number",
    "Comment": "code_comment",
    "Operator": "code_operator",
    "Operator.Word": "code_keyword",
    "Generic.Deleted": "removed",
    "Generic.Inserted": "added",
    "Generic.Heading": "heading",
    "Generic.Subheading": "heading",
    "Generic.Prompt": "quiet",
}

_OPENS = re.compile(r"(?:^|\s)/\*(?!.*\*/)|<!--(?!.*-->)", re.S)
_CLOSES = re.compile(r"\*/|-->")


# File extensions that several languages claim.
_CLAIMED = {
    ".h": "c", ".m": "objective-c", ".pl": "perl", ".ts": "ts", ".v": "verilog", ".cls": "tex",
}  # fmt: skip


@cache
def _names() -> dict[str, str]:
    """Return the lexer name for each language name and file extension.

    Pygments' own search would load every candidate language and all plugins.
    """
    from pygments.lexers import LEXERS

    names: dict[str, str] = dict(_CLAIMED)
    for _, _, aliases, patterns, _ in LEXERS.values():
        for alias in aliases:
            names.setdefault(alias.lower(), aliases[0])
        for pattern in patterns if aliases else ():
            names.setdefault(pattern.removeprefix("*").lower(), aliases[0])
    return names


@cache
def find_lexer(name: str) -> "Lexer | None":
    """Return the lexer for a language, by the name given in a code fence, or None."""
    class_name = _names().get(name.lower())
    if class_name is None:
        return None
    from pygments.lexers import find_lexer_class_by_name

    from clew.core.markdown.late_lexers import late

    return late(find_lexer_class_by_name(class_name))


def find_lexer_for_file(path: str) -> "Lexer | None":
    """Return the lexer for a file, by its name or extension, or None."""
    name = path.rpartition("/")[2].lower()
    end = f".{name.rpartition('.')[2]}"
    return find_lexer(name if name in _names() and "." not in name else end)


def get_ready() -> None:
    """Load the lexer modules before the first code block needs them."""
    find_lexer("python")


def read_language(info: str) -> str:
    """Return the language name in the info string of a code fence."""
    words = info.replace(",", " ").split()
    return words[0].strip("{}.") if words else ""


class Highlighter:
    """The highlighter of one code block.

    `add` takes a line and returns the lines that are ready. Each line consists of pieces of text
    with the names of their styles, such as `code_string`.
    """

    __slots__ = ("_held", "_lexer", "_stack")

    def __init__(self, lexer: "Lexer | None") -> None:
        self._lexer = lexer
        self._stack: tuple[str, ...] = ("root",)
        self._held: list[str] = []

    def copy(self) -> "Highlighter":
        twin = Highlighter(self._lexer)
        twin._stack, twin._held = self._stack, self._held[:]
        return twin

    def add(self, line: str) -> list[NamedLine]:
        if self._lexer is None or (len(line) > COLORED_CHARACTERS and not self._held):
            return [[("", line)]]
        self._held.append(line)
        if self._waits(line):
            return []
        return self.end()

    def end(self) -> list[NamedLine]:
        lines, self._held = self._held, []
        if self._lexer is None or not lines:
            return []
        pieces, self._stack = lexed(self._lexer, "\n".join(lines) + "\n", self._stack)
        return _lines(pieces)

    def _waits(self, line: str) -> bool:
        """Return whether the line belongs to a comment that may continue on the next line."""
        if len(self._held) > 1:
            return len(self._held) < HELD_LINES and not _CLOSES.search(line)
        return bool(_OPENS.search(line))


def lexed(lexer: "Lexer", text: str, stack: tuple[str, ...]) -> tuple[list[Piece], tuple[str, ...]]:
    """Return the tokens of a text, and the state stack at its end.

    A lexer that has no rule tables, or keeps other state, starts over with each text.
    """
    from pygments.lexer import ExtendedRegexLexer, RegexLexer

    if isinstance(lexer, RegexLexer) and not isinstance(lexer, ExtendedRegexLexer):
        return _by_tables(lexer, text, stack)
    return [(kind, value) for _, kind, value in lexer.get_tokens_unprocessed(text)], stack


def _by_tables(
    lexer: "RegexLexer", text: str, stack: tuple[str, ...]
) -> tuple[list[Piece], tuple[str, ...]]:
    from pygments.token import Error, Text

    # Created with the lexer; the lexer shares some of the tables with its parent class.
    tables = getattr(lexer, "_tokens", {})
    states = list(stack)
    pieces: list[Piece] = []
    at = turns = 0
    while at < len(text):
        ruled = _ruled(lexer, tables[states[-1]], text, at) if turns < TURNS_MOST else None
        if ruled is None:
            # No rule matches this character, or the rules loop.
            is_end = text[at] == "\n"
            if is_end:
                states = ["root"]
            pieces.append((Text if is_end else Error, text[at]))
            at, turns = at + 1, 0
            continue
        tokens, end, then = ruled
        pieces += tokens
        if then is not None:
            _move(states, then)
        at, turns = end, 0 if end > at else turns + 1
    return pieces, tuple(states)


def _ruled(
    lexer: "RegexLexer", rules: Iterable[tuple[Any, Any, Any]], text: str, at: int
) -> tuple[list[Piece], int, Any] | None:
    """Return the tokens of the first matching rule, the position after them, and the transition.

    Return None if no rule matches.
    """
    from pygments.token import _TokenType

    for match, kind, then in rules:
        hit = match(text, at)
        if hit is None:
            continue
        if isinstance(kind, _TokenType):
            return [(kind, hit[0])], hit.end(), then
        pieces = [] if kind is None else [(token, value) for _, token, value in kind(lexer, hit)]
        return pieces, hit.end(), then
    return None


def _move(states: list[str], then: Any) -> None:
    """Apply a state transition: pop states, push the current state again, or push other states."""
    if isinstance(then, int):
        del states[max(1, len(states) + then) :]
    elif then == "#push":
        states.append(states[-1])
    else:
        for state in then:
            if state == "#pop":
                del states[max(1, len(states) - 1) :]
            else:
                states.append(states[-1] if state == "#push" else state)


def _lines(pieces: list[Piece]) -> list[NamedLine]:
    lines: list[NamedLine] = [[]]
    for kind, value in pieces:
        name = _part(kind)
        first, *rest = value.split("\n")
        if first:
            lines[-1].append((name, first))
        for part in rest:
            lines.append([(name, part)] if part else [])
    return lines[:-1]


@cache
def _part(kind: Any) -> str:
    while kind.parent is not None:
        part = _PARTS.get(str(kind).removeprefix("Token."))
        if part is not None:
            return part
        kind = kind.parent
    return ""
