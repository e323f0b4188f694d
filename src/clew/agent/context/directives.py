"""Parsing of memory files: imports, directives and path scopes.

This module only reads text. `@path` in prose imports a file; in code it is plain text. A first line
that contains only `@override` or `@append` decides whether the file replaces the earlier ones or
adds to them. A front matter block with `paths:` limits a rule to matching files.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.regex import lazy_pattern
from clew.system.config import frontmatter

Stance: TypeAlias = Literal["append", "override"]

_DIRECTIVE = lazy_pattern(r"\A\s*@(override|append)[ \t]*(?:\n|\Z)")
_FENCE = lazy_pattern(r"^ {0,3}(`{3,}|~{3,})")
_SPAN = lazy_pattern(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_IMPORT = lazy_pattern(r"(?:(?<=\s)|\A)@((?:\\ |[^\s\\\0])+)")
_BRACES = lazy_pattern(r"\{([^{}]*)\}")
MAX_ALTERNATIVES = 64
_ENDS = ".,;:!?)]}'\"*"


class Directed(Struct, frozen=True, kw_only=True):
    """A memory file's text without its directives, and the values of the directives."""

    text: str
    stance: Stance = "append"
    paths: tuple[str, ...] = ()


def read_directives(text: str) -> Directed:
    """Parse a file's front matter and its first line."""
    head = frontmatter.read(text)
    paths, text = head.texts("paths"), head.body
    first = _DIRECTIVE.match(text)
    if first is None:
        return Directed(text=text.strip(), paths=paths)
    stance: Stance = "override" if first[1] == "override" else "append"
    return Directed(text=text[first.end() :].strip(), stance=stance, paths=paths)


def expand_alternatives(pattern: str) -> list[str]:
    """Expand `{a,b}` in a pattern into at most `MAX_ALTERNATIVES` patterns."""
    patterns = [pattern]
    while len(patterns) < MAX_ALTERNATIVES:
        matches = [
            (candidate, match) for candidate in patterns if (match := _BRACES.search(candidate))
        ]
        if not matches:
            break
        candidate, match = matches[0]
        patterns.remove(candidate)
        patterns += [
            candidate[: match.start()] + w + candidate[match.end() :] for w in match[1].split(",")
        ]
    return patterns[:MAX_ALTERNATIVES]


def find_imports(text: str) -> list[str]:
    """Return the paths that `text` imports, in order and without duplicates.

    Code blocks and code spans are ignored.
    """
    prose = _SPAN.sub(" ` ", _without_fences(text))
    paths: dict[str, None] = {}
    for match in _IMPORT.finditer(prose):
        path = match[1].rstrip(_ENDS).replace("\\ ", " ")
        if path and (path[0].isalnum() or path[0] in "./~_"):
            paths[path] = None
    return list(paths)


def _without_fences(text: str) -> str:
    kept_lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            is_end = mark is not None and mark[1].startswith(fence)
            fence = "" if is_end else fence
        elif mark is not None:
            fence = mark[1]
        else:
            kept_lines.append(line)
    return "\n".join(kept_lines)
