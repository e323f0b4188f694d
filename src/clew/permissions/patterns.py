"""Patterns as rules spell them: paths (gitignore's language), commands, domains, tool names.

Owns the translation into regular expressions and the question whether two path patterns can name
the same file. Every expression built here comes to an end (see `clew.permissions.patterns`). Path
patterns are compared with gitignore's own reader in the tests.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec, PathSpec
    from pathspec.pattern import Pattern


# Patterns with stars as regular expressions that come to an end.


# More are a flood, not a choice.
MOST_ALTERNATIVES = 1000


def starred(pieces: Sequence[str], anything: str) -> str:
    """The expressions of what stands between stars, as one; `anything` is what a star stands for."""
    first, *rest = pieces
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>{anything}*?{part})" for part in inner) + f"{anything}*{last}"


def below(chunks: Sequence[str]) -> str:
    """The expressions of what stands between `**`, each beginning with a slash, as one."""
    first, *rest = chunks
    if not rest:
        return first
    *inner, last = rest
    middle = "".join(rf"(?>(?:/[^/]++)*?{part}(?=/|\Z))" for part in inner)
    return f"{first}{middle}(?:/[^/]++)*{last}"


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
    return first + "".join(f"(?>(?:/.+?)??{part}(?=/))" for part in inner) + _DEEP + last


def _tame(patterns: Iterable["Pattern"]) -> bool:
    """Tames those that could run wild; whether there were any."""
    wild = [pattern for pattern in patterns if _is_wild(pattern)]
    for pattern in wild:
        # The library's base class does not name what all of its patterns have.
        pattern.regex = re.compile(tamed(pattern.regex.pattern), pattern.regex.flags)  # type: ignore[attr-defined]
    return bool(wild)


def _is_wild(pattern: "Pattern") -> bool:
    regex = getattr(pattern, "regex", None)  # a remark has none
    return regex is not None and (regex.pattern.count(_STAR) > 1 or _DEEP in regex.pattern)


def compile_ignore_rules(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Lines of a .gitignore; what reads them is loaded here, for a turn without a search needs none."""
    from pathspec import GitIgnoreSpec

    spec = GitIgnoreSpec.from_lines(lines)
    return GitIgnoreSpec(spec.patterns, backend="simple") if _tame(spec.patterns) else spec


def compile_path_rules(lines: Iterable[str]) -> "PathSpec[Pattern]":
    """Patterns in gitignore's language, of which none takes back what another says."""
    from pathspec import PathSpec

    spec = PathSpec.from_lines("gitignore", lines)
    return PathSpec(spec.patterns, backend="simple") if _tame(spec.patterns) else spec


# More are a flood, and none that somebody wrote by hand: whoever reads rules refuses them.
MOST_PATTERNS = 64

GLOB = re.compile(r"[*?\[\\]")


def normalize_text(text: str) -> str:
    """One spelling for what looks the same: composed and decomposed letters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def segment_regex(segment: str) -> str:
    """One part of a path pattern, without slashes, as a regular expression."""
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
    """A pattern of the shell with each bracket expression as a star: what a range holds depends on
    the locale, and where an expression ends on what lies in it. Shells go no deeper by it."""
    if "[" not in pattern:
        return pattern
    return "/".join(
        re.sub(r"\*+", "*", re.sub(r"\[.*\]", "*", s)) if "[" in s else s
        for s in pattern.split("/")
    )


def class_end(segment: str, start: int) -> int:
    """The position after the `]` that closes a class begun before `start`; 0 if none does."""
    i = start + 1 if segment[start : start + 1] in ("!", "^") else start
    end = segment.find("]", i + 1)
    return end + 1


def class_regex(body: str) -> str:
    negated = body[0] in "!^"
    rest = body[1:] if negated else body
    inside = ""
    while rest:
        if rest[1:2] == "-" and len(rest) > 2:
            # A range written backwards names nothing.
            inside += f"{re.escape(rest[0])}-{re.escape(rest[2])}" if rest[0] <= rest[2] else ""
            rest = rest[3:]
        else:
            inside += re.escape(rest[0])
            rest = rest[1:]
    if not inside:
        return "[^/]" if negated else "(?!)"
    return f"(?!/)[{'^' if negated else ''}{inside}]"


def make_path_regex(base: str, segments: tuple[str, ...], *, floating: bool, itself: bool) -> str:
    """The expression of a pattern below `base`: what it names and everything beneath that.

    `floating`: at any depth below the base. `itself`: a last `**` names the folder before it too.
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
    """`*.{pem,key}` as the patterns it stands for; of a bomb no more than show that it is one."""
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
    """A command rule: `*` is any text, ` *` at the end leaves the word before it whole."""
    tail = ""
    if pattern.endswith(":*") or (pattern.endswith(" *") and pattern.count("*") == 1):
        pattern, tail = pattern[:-2].rstrip(), r"(?:\s.*)?"
    return re.compile(starred(literals(pattern), ".") + tail, re.S)


def literals(pattern: str) -> list[str]:
    """What stands between a pattern's stars."""
    return [re.escape(part) for part in re.split(r"\*+", pattern)]


def read_literal_head(pattern: str) -> str:
    """What stands before a command rule's first star, the colon of `:*` left out."""
    head = pattern[:-2] if pattern.endswith(":*") else pattern
    return head.partition("*")[0]


def make_domain_regex(pattern: str) -> re.Pattern[str]:
    """`*.example.com`: any subdomain. Elsewhere a star stays between two dots."""
    pattern = pattern.strip().lower().rstrip(".")
    if pattern == "*":
        return re.compile(".*", re.S)
    head = ""
    if pattern.startswith("*."):
        head, pattern = r"(?:[^.]+\.)+", pattern[2:]
    return re.compile(head + starred(literals(pattern), "[^.]"))


def make_word_regex(pattern: str) -> re.Pattern[str]:
    """A tool's name or an input's value: `*` is any text."""
    return re.compile(starred(literals(pattern), "."), re.S)


def may_meet(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether some path could be named by both patterns, given as segments from the root.

    `left` is the shell's, whose stars do not stand for a dot at the head of a name.
    `**` is any number of segments; a segment with stars or classes is compared by what its plain
    ends leave open. Answers yes when in doubt: the question is asked before letting something run.
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
    """What follows the last sign of a pattern that can stand for more than itself."""
    return re.split(r"[*?\[\]\\]", segment)[-1]
