"""Patterns with stars as regular expressions that come to an end.

A regular expression with many stars tries every way to share a text out among them: twenty are more
than a machine can try in years, and whoever writes a folder's rules, its .gitignore or the name of a file
could hang whoever reads them. Here every star but the last takes the least it can and never thinks again.
That misses nothing, because what stands between two stars has one length: found further left, it leaves
more for the rest. A star stands within a part of a path, `**` for whole parts.
"""

import re
from collections.abc import Iterable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec, PathSpec
    from pathspec.pattern import Pattern

# More are a flood, not a choice.
MOST_ALTERNATIVES = 1000


def starred(pieces: Sequence[str], anything: str) -> str:
    """The expressions of what stands between stars, as one; `anything` is what a star stands for."""
    first, *rest = pieces
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{anything}*?{one})" for one in inner) + f"{anything}*{last}"


def below(chunks: Sequence[str]) -> str:
    """The expressions of what stands between `**`, each beginning with a slash, as one."""
    first, *rest = chunks
    if not rest:
        return first
    *inner, last = rest
    found = "".join(rf"(?>(?:/[^/]++)*?{one}(?=/|\Z))" for one in inner)
    return f"{first}{found}(?:/[^/]++)*{last}"


# As the library writes a star, and a `**` between two parts of a path and before the first.
_STAR, _DEEP, _ANYWHERE = "[^/]*", "(?:/.+)?", "^(?:.+/)?"
_SIGN = r"(?!\[\^/\]\*)(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^/(\[\\])"
# Made when the first such line comes: it takes a millisecond.
_BETWEEN_STARS = rf"\[\^/\]\*((?:{_SIGN})*)(?=\[\^/\]\*)"


def tamed(expression: str) -> str:
    """What a library made of a line of a .gitignore, with the same meaning."""
    text = re.sub(_BETWEEN_STARS, r"(?>[^/]*?\1)", expression)
    first, *rest = text.split(_DEEP)
    if not rest:
        return text
    if first.startswith(_ANYWHERE):
        first = f"^(?>(?:.+?/)??{first.removeprefix(_ANYWHERE)}(?=/))"
    *inner, last = rest
    return first + "".join(f"(?>(?:/.+?)??{one}(?=/))" for one in inner) + _DEEP + last


def _tame(patterns: Iterable["Pattern"]) -> bool:
    """Tames those that could run wild; whether there were any."""
    wild = [one for one in patterns if _is_wild(one)]
    for one in wild:
        # The library's base class does not name what all of its patterns have.
        one.regex = re.compile(tamed(one.regex.pattern), one.regex.flags)  # type: ignore[attr-defined]
    return bool(wild)


def _is_wild(pattern: "Pattern") -> bool:
    regex = getattr(pattern, "regex", None)  # a remark has none
    return regex is not None and (regex.pattern.count(_STAR) > 1 or _DEEP in regex.pattern)


def ignore_rules(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Lines of a .gitignore; what reads them is loaded here, for a turn without a search needs none."""
    from pathspec import GitIgnoreSpec

    found = GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec(found.patterns, backend="simple") if _tame(found.patterns) else found


def path_rules(lines: Iterable[str]) -> "PathSpec[Pattern]":
    """Patterns in gitignore's language, of which none takes back what another says."""
    from pathspec import PathSpec

    found = PathSpec.from_lines("gitignore", lines)
    return PathSpec(found.patterns, backend="simple") if _tame(found.patterns) else found
