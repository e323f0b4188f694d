"""Expand a skill's text: arguments, variables, and commands whose output is inserted. Does no I/O.

Inserted text is never expanded again, so an argument cannot introduce a command or another
argument.

Decision: docs/decisions/136-trust-in-projects.md
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

# A command between !` and `, at the start of a line or after white space; or a fenced block of
# commands.
SHELL = re.compile(
    r"(?:(?<=\s)|\A)!`([^`\n]+)`|^```![ \t]*\n(.*?)^```[ \t]*$",
    re.S | re.M,
)
MARK = re.compile(
    r"\\(\$)|\$ARGUMENTS\[(\d{1,3})\]|\$(ARGUMENTS)\b|\$(\d{1,3})\b|\$\{(\w+)\}|\$([A-Za-z_]\w*)"
)
FROM_ZERO = re.compile(r"(?<!\\)(?:\$0\b|\$ARGUMENTS\[)")


class ExpansionCommand(Struct, frozen=True, kw_only=True):
    """A command in a skill's text, to be replaced by the command's output."""

    line: str


Piece: TypeAlias = str | ExpansionCommand


def fill_places(rule: str, places: Mapping[str, str]) -> str:
    """Return a rule with its `${...}` variables replaced by their values.

    An unknown variable is left in place, so that the rule matches nothing.
    """
    for name, value in places.items():
        if value:
            rule = rule.replace(f"${{{name}}}", value)
    return rule


def expand(
    body: str,
    arguments: str,
    *,
    names: Sequence[str] = (),
    places: Mapping[str, str] | None = None,
) -> list[Piece]:
    """Return a skill's text in pieces: expanded text, and commands to run.

    `arguments` is the text that follows the skill's name; `places` contains the values of `${...}`
    variables. `$1` is the first argument, unless the text counts from `$0` (or `$ARGUMENTS[0]`). If
    the text uses no arguments, they are appended at its end.
    """
    values = _Values(body, arguments, names, places or {})
    pieces: list[Piece] = []
    end = 0
    for match in SHELL.finditer(body):
        pieces.append(values.put_into(body[end : match.start()]))
        pieces.append(ExpansionCommand(line=values.put_into(match[1] or match[2]).strip()))
        end = match.end()
    pieces.append(values.put_into(body[end:]))
    if arguments and not values.were_used:
        pieces.append(f"\n\nARGUMENTS: {arguments}")
    return [piece for piece in pieces if piece]


class _Values:
    def __init__(
        self, body: str, arguments: str, names: Sequence[str], places: Mapping[str, str]
    ) -> None:
        self._given = arguments
        self._words = split(arguments)
        self._base = 0 if FROM_ZERO.search(body) else 1
        self._by_name = dict(zip(names, self._words, strict=False))
        if len(self._words) > len(names) > 0:
            self._by_name[names[-1]] = " ".join(self._words[len(names) - 1 :])
        self._names = names
        self._places = places
        self.were_used = False

    def put_into(self, text: str) -> str:
        return MARK.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        escaped, index, all_arguments, number, place, name = match.groups()
        if escaped:
            return escaped
        if place is not None:
            return self._places.get(place, match[0])
        if name is not None and name not in self._names:
            return match[0]
        self.were_used = True
        if all_arguments:
            return self._given
        if name is not None:
            return self._by_name.get(name, "")
        at = int(index) if index is not None else int(number) - self._base
        # A number without an argument stays as written: `$2` may belong to awk.
        return self._words[at] if 0 <= at < len(self._words) else match[0]


def split(arguments: str) -> list[str]:
    """Split arguments into words as a shell does."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
