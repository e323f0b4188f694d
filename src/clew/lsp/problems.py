"""What a language server finds wrong with files: which of it is new, and how it is told.

Pure. A problem is the same one as before wherever it moved to: its file, its words and its weight make
it, not its line. The words are a program's about somebody's code: data.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from clew.jsonrpc.wire import a_list, a_text, an_object
from clew.lsp.protocol import SEVERITIES, start_of

Json: TypeAlias = dict[str, Any]

MOST_OF_FILE = 10
MOST = 30
MAX_WORDS = 300
ERROR, WARNING = 1, 2


class Problem(Struct, frozen=True, kw_only=True):
    """`line` and `column` are the server's, from 0."""

    severity: int
    message: str
    line: int
    column: int
    source: str = ""
    code: str = ""

    @property
    def key(self) -> tuple[int, str, str]:
        return self.severity, self.message, self.code


Found: TypeAlias = Mapping[str, Sequence[Problem]]


def problems_of(given: Any) -> tuple[Problem, ...]:
    return tuple(problem_of(an_object(one)) for one in a_list(given))


def problem_of(one: Json) -> Problem:
    line, column = start_of(one.get("range"))
    severity, code = one.get("severity"), one.get("code")
    return Problem(
        severity=severity if severity in SEVERITIES else ERROR,
        message=" ".join(a_text(one.get("message")).split()),
        line=line,
        column=column,
        source=a_text(one.get("source")),
        code=str(code) if type(code) in (int, str) else "",
    )


def new_ones(before: Found, now: Found) -> dict[str, list[Problem]]:
    """The errors and warnings that were not there before, by file; of a file that nothing was known
    of, the errors."""
    new: dict[str, list[Problem]] = {}
    for path, problems in now.items():
        known = Counter(problem.key for problem in before.get(path, ()))
        weight = WARNING if path in before else ERROR
        for problem in problems:
            if known[problem.key] > 0:
                known[problem.key] -= 1
            elif problem.severity <= weight:
                new.setdefault(path, []).append(problem)
    return new


def told(found: Mapping[str, Iterable[Problem]], shown_path: Mapping[str, str]) -> list[str]:
    """A line for each, the heaviest first, within bounds."""
    lines: list[str] = []
    for path in sorted(found):
        problems = sorted(found[path], key=lambda one: (one.severity, one.line, one.column))
        name = shown_path.get(path, path)
        lines += [line_of(name, one) for one in problems[:MOST_OF_FILE]]
        if len(problems) > MOST_OF_FILE:
            lines.append(f"{name}: and {len(problems) - MOST_OF_FILE} more")
    if len(lines) > MOST:
        lines[MOST:] = [f"... and {len(lines) - MOST} lines more"]
    return lines


def line_of(name: str, one: Problem) -> str:
    words = one.message if len(one.message) <= MAX_WORDS else one.message[:MAX_WORDS] + "..."
    by = " ".join(filter(None, (one.source, one.code)))
    return (
        f"{name}:{one.line + 1}:{one.column + 1}: {SEVERITIES[one.severity]}: {words}"
        f"{f' ({by})' if by else ''}"
    )
