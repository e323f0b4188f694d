"""The patterns in rules: paths (in gitignore syntax), commands, domains and tool names.

Owns their translation to regular expressions, and the check for whether two path patterns can match
the same file. Every expression built here runs in linear time. Tests compare path patterns with the
gitignore implementation of the `pathspec` library.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from clew.core.hosts import spell_host
from clew.core.regex import lazy_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec, PathSpec
    from pathspec.pattern import Pattern


# Patterns with stars, as regular expressions that never backtrack exponentially.


# No list written by hand has more.
MOST_ALTERNATIVES = 1000


def starred(pieces: Sequence[str], anything: str) -> str:
    """Join regular expressions for the text between stars into one expression.

    `anything` is the expression for one character that a star matches.
    """
    first, *rest = pieces
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{anything}*?{part})" for part in inner) + f"{anything}*{last}"


def below(chunks: Sequence[str]) -> str:
    """Join regular expressions for the segments between `**` into one expression.

    Each of the expressions begins with a slash.
    """
    first, *rest = chunks
    if not rest:
        return first
    *inner, last = rest
    middle = "".join(rf"(?>(?:/[^/]++)*?{part}(?=/|\Z))" for part in inner)
    return f"{first}{middle}(?:/[^/]++)*{last}"


# The pathspec library's expressions for a star, for `**` between two parts of a path, and for `**`
# before the first part.
_STAR, _DEEP, _ANYWHERE = "[^/]*", "(?:/.+)?", "^(?:.+/)?"
_SIGN = r"(?!\[\^/\]\*)(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^/(\[\\])"
# Compiled only when a line needs it, because compiling takes a millisecond.
_BETWEEN_STARS = rf"\[\^/\]\*((?:{_SIGN})*)(?=\[\^/\]\*)"


def tamed(expression: str) -> str:
    """Return the pathspec library's expression for a .gitignore line, rewritten to run fast.

    The original could backtrack exponentially.
    """
    text = re.sub(_BETWEEN_STARS, r"(?>[^/]*?\1)", expression)
    first, *rest = text.split(_DEEP)
    if not rest:
        return text
    if first.startswith(_ANYWHERE):
        first = f"^(?>(?:.+?/)??{first.removeprefix(_ANYWHERE)}(?=/))"
    *inner, last = rest
    return first + "".join(f"(?>(?:/.+?)??{part}(?=/))" for part in inner) + _DEEP + last


def _tame(patterns: Iterable["Pattern"]) -> bool:
    """Rewrite the patterns that could backtrack exponentially. Return whether there were any."""
    wild = [pattern for pattern in patterns if _is_wild(pattern)]
    for pattern in wild:
        # The library's base class does not declare this attribute, which all of its patterns have.
        pattern.regex = re.compile(tamed(pattern.regex.pattern), pattern.regex.flags)  # type: ignore[attr-defined]
    return bool(wild)


def _is_wild(pattern: "Pattern") -> bool:
    regex = getattr(pattern, "regex", None)  # a comment has none
    return regex is not None and (regex.pattern.count(_STAR) > 1 or _DEEP in regex.pattern)


def compile_ignore_rules(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Compile the lines of a .gitignore file.

    The pathspec library is imported here, because a turn without a search does not need it.
    """
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec(spec.patterns, backend="simple") if _tame(spec.patterns) else spec


def compile_path_rules(lines: Iterable[str]) -> "PathSpec[Pattern]":
    """Compile patterns in gitignore syntax, none of which is a negation."""
    from pathspec import PathSpec

    spec = PathSpec.from_lines("gitignore", lines)
    return PathSpec(spec.patterns, backend="simple") if _tame(spec.patterns) else spec


# The code that reads rules rejects a rule that expands to more patterns. No rule written by hand
# expands to as many.
MOST_PATTERNS = 64

GLOB = lazy_pattern(r"[*?\[\\]")


def normalize_text(text: str) -> str:
    """Return text with composed letters, so that spellings that look the same are equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def segment_regex(segment: str) -> str:
    """Return the regular expression for one segment of a path pattern."""
    out = [""]
    i = 0
    while i < len(segment):
        char = segment[i]
        i += 1
        if char == "*":
            out.append("")
        elif char == "?":
            out[-1] += "[^/]"
        elif char == "[" and (end := class_end(segment, i)):
            out[-1] += class_regex(segment[i : end - 1])
            i = end
        elif char == "\\" and i < len(segment):
            out[-1] += re.escape(segment[i])
            i += 1
        else:
            out[-1] += re.escape(char)
    return starred(out, "[^/]")


def without_brackets(pattern: str) -> str:
    """Return a shell pattern with each bracket expression replaced by a star.

    What a range matches depends on the locale, and where the expression ends depends on its
    content. A bracket expression never matches a slash in a shell.
    """
    if "[" not in pattern:
        return pattern
    return "/".join(
        re.sub(r"\*+", "*", re.sub(r"\[.*\]", "*", s)) if "[" in s else s
        for s in pattern.split("/")
    )


def class_end(segment: str, start: int) -> int:
    """Return the index after the `]` of the class opened before `start`, or 0 if there is none."""
    i = start + 1 if segment[start : start + 1] in ("!", "^") else start
    end = segment.find("]", i + 1)
    return end + 1


def class_regex(body: str) -> str:
    negated = body[0] in "!^"
    rest = body[1:] if negated else body
    inside = ""
    while rest:
        if rest[1:2] == "-" and len(rest) > 2:
            # A reversed range matches nothing.
            inside += f"{re.escape(rest[0])}-{re.escape(rest[2])}" if rest[0] <= rest[2] else ""
            rest = rest[3:]
        else:
            inside += re.escape(rest[0])
            rest = rest[1:]
    if not inside:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{inside}]"


def make_path_regex(base: str, segments: tuple[str, ...], *, floating: bool, itself: bool) -> str:
    """Return the expression for a path pattern below `base`.

    The expression also matches everything below a path that the pattern matches. `floating` means
    that the pattern matches at any depth below the base. `itself` means that a trailing `**` also
    matches the folder before it.
    """
    chunks = [re.escape(base.rstrip("/"))]
    if floating:
        chunks.append("")
    for segment in segments:
        if segment != "**":
            chunks[-1] += "/" + segment_regex(segment)
        elif chunks[-1] or len(chunks) == 1:
            chunks.append("")
    if segments[-1:] == ("**",):
        chunks.pop()
        return below(chunks) + ("(?:/.*)?" if itself else "/.+")
    return below(chunks) + "(?:/.*)?"


def expand_braces(pattern: str) -> list[str]:
    """Return the patterns to which a pattern with braces expands, such as `*.{pem,key}`.

    If there are too many, the expansion stops just above the limit.
    """
    out: list[str] = []
    waiting = [pattern]
    while waiting and len(out) + len(waiting) <= MOST_PATTERNS:
        candidate = waiting.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", candidate)
        if match is None:
            out.append(candidate)
            continue
        choices = match[1].split(",")
        waiting += [
            candidate[: match.start()] + choice + candidate[match.end() :]
            for choice in choices[::-1]
        ]
    return out + waiting


def make_command_regex(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a command rule.

    `*` matches any text, and a trailing ` *` also matches the command without arguments.
    """
    tail = ""
    if pattern.endswith(":*") or (pattern.endswith(" *") and pattern.count("*") == 1):
        pattern, tail = pattern[:-2].rstrip(), r"(?:\s.*)?"
    return re.compile(starred(literals(pattern), ".") + tail, re.S)


def literals(pattern: str) -> list[str]:
    """Return the pieces of text between a pattern's stars, escaped for a regular expression."""
    return [re.escape(part) for part in re.split(r"\*+", pattern)]


def read_literal_head(pattern: str) -> str:
    """Return the text before a command rule's first star, without the colon of `:*`."""
    head = pattern[:-2] if pattern.endswith(":*") else pattern
    return head.partition("*")[0]


# A folder that clew made as a worktree of a repository.
WORKTREE = lazy_pattern(r"(.*)/\.claude/worktrees/[^/]+((?:/.*)?)", re.S)


def find_original(path: str) -> str:
    """Return the path in the repository that corresponds to a path in one of clew's worktrees.

    Return an empty string for any other path. A worktree is a copy of the repository, and the model
    gets one without asking, so a rule about a file also applies to its copy.
    """
    match = WORKTREE.fullmatch(path) if "/.claude/worktrees/" in path else None
    return (f"{match[1]}{match[2]}" or "/") if match else ""


def make_domain_regex(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a domain rule.

    A leading `*.`, as in `*.example.com`, matches any subdomain. Any other star matches within one
    label.
    """
    pattern = spell_host(pattern) or pattern
    if pattern == "*":
        return re.compile(".*", re.S)
    head = ""
    if pattern.startswith("*."):
        head, pattern = r"(?:[^.]+\.)+", pattern[2:]
    return re.compile(head + starred(literals(pattern), "[^.]"))


def make_word_regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for a tool name or an input value, in which `*` matches any text."""
    return re.compile(starred(literals(pattern), "."), re.S)


def may_meet(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Return whether two patterns, given as segments from the root, could match the same path.

    `left` is a shell pattern, whose stars do not match a leading dot. `**` matches any number of
    segments. Segments with stars or classes are compared by their literal ends. In case of doubt,
    the result is True, because it determines whether something may run.
    """
    reached = [(0, 0)]
    seen = set(reached)
    while reached:
        i, j = reached.pop()
        if i == len(left) and j == len(right):
            return True
        after = steps(left, right, i, j) - seen
        seen |= after
        reached += after
    return False


def steps(left: tuple[str, ...], right: tuple[str, ...], i: int, j: int) -> set[tuple[int, int]]:
    a = left[i] if i < len(left) else None
    b = right[j] if j < len(right) else None
    out: set[tuple[int, int]] = set()
    if a == "**":
        out.add((i + 1, j))
        if b is not None and b != "**":
            out.add((i, j + 1))
    if b == "**":
        out.add((i, j + 1))
        if a is not None and a != "**":
            out.add((i + 1, j))
    if a is not None and b is not None and "**" not in (a, b) and segments_meet(a, b):
        out.add((i + 1, j + 1))
    return out


def segments_meet(a: str, b: str) -> bool:
    a, b = normalize_text(a).casefold(), normalize_text(b).casefold()
    if a[0] in "*?[" and b[0] == ".":
        return False
    wild_a, wild_b = GLOB.search(a), GLOB.search(b)
    if wild_a is None and wild_b is None:
        return a == b
    if wild_a is None:
        return re.fullmatch(segment_regex(b), a, re.S) is not None
    if wild_b is None:
        return re.fullmatch(segment_regex(a), b, re.S) is not None
    head_a, head_b = a[: wild_a.start()], b[: wild_b.start()]
    tail_a, tail_b = plain_tail(a), plain_tail(b)
    heads = head_a.startswith(head_b) or head_b.startswith(head_a)
    tails = tail_a.endswith(tail_b) or tail_b.endswith(tail_a)
    return heads and tails


def plain_tail(segment: str) -> str:
    """Return the text after the last wildcard of a segment."""
    return re.split(r"[*?\[\]\\]", segment)[-1]
