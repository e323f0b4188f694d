"""Convert gitleaks' rules to `clew/system/config/gitleaks_rules.py`: `make secret-rules FROM=CHECKOUT`.

The script reads `config/gitleaks.toml` and `LICENSE` of a local checkout of gitleaks (MIT). The rules
are Go regular expressions (RE2). The script converts them for `re` and for the search in
`clew.system.config.secret_search`: each rule with the words that can start a match, and one group.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]
TARGET = Path(__file__).parent.parent / "src" / "clew" / "system" / "config" / "gitleaks_rules.py"

# Rules that clew replaces by its own (clew.system.config.secret_shapes), with the reason.
REPLACED = {
    "generic-api-key": "judged by name and value there",
    "curl-auth-header": "superlinear; headers are masked in any command",
    "curl-auth-user": "superlinear; `-u user:password` is masked in any command",
    "private-key": "needs an end; keys that were cut are masked too",
    "kubernetes-secret-yaml": "superlinear; every value of such a manifest is masked",
    "hashicorp-tf-password": "bound to a file name; assignments are masked anywhere",
    "nuget-config-password": "bound to a file name; attributes are masked anywhere",
    "freemius-secret-key": "bound to a file name; assignments are masked anywhere",
    "pkcs12-file": "a file name, not a text",
    "jwt": "a token of two parts, or with a part that is cut, is masked too",
}
# The text that gitleaks' generator puts around the names and the secret of a rule.
NAMES_START = (
    r"(?i)[\w.-]{0,50}?(?:",
    r"[\w.-]{0,50}?(?i:[\w.-]{0,50}?(?:",
)
NAMES_END = (r""")(?:[ \t\w.-]{0,20})[\s'"]{0,3}""", ")")
OPERATOR = r"""(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}("""
SECRET_END = r""")(?:[\x60'"\s;]|\\[nr]|$)"""
BOUNDARY = r"\b"

ALPHANUMERIC = "a-zA-Z0-9"
# Longer sets of first characters don't narrow down where a match starts.
FEW = 4
LONGEST_START = 8
MOST_STARTS = 64
# The separator between the fields of a row.
BETWEEN = " ; "


class Row(NamedTuple):
    """An expression of a rule.

    `names` is an expression for the name before the secret, if the rule has one. Each match starts
    with one of the lower-case words in `starts`; without them, each contains a word of `keywords`."""

    rule: str
    starts: tuple[str, ...]
    keywords: tuple[str, ...]
    names: str
    pattern: str
    entropy: float
    allowed: str


def rows(rules: Iterable[Json]) -> Iterator[Row]:
    for rule in rules:
        if rule["id"] in REPLACED:
            continue
        for pattern in alternatives(rule["regex"]):
            row = named(rule, pattern) or unnamed(rule, pattern)
            if row is not None:
                yield row


def named(rule: Json, pattern: str) -> Row | None:
    """Return the parts of a rule for a value after a name; clew has its own pattern for the text between."""
    start = next((s for s in NAMES_START if pattern.startswith(s)), None)
    if start is None:
        return None
    names, _, rest = pattern.removeprefix(start).partition(NAMES_END[0])
    rest = rest.removeprefix(")")
    if not rest.startswith(OPERATOR) or not rest.endswith(SECRET_END):
        raise ValueError(f"{rule['id']}: unknown form of a rule with a name")
    secret = rest.removeprefix(OPERATOR).removesuffix(SECRET_END)
    if start == NAMES_START[0]:
        secret = f"(?i:{secret})"
    plain = re.fullmatch(r"[\w.,|-]+", names)
    starts = tuple(names.lower().split("|")) if plain else tuple(rule["keywords"])
    return Row(
        rule=rule["id"],
        starts=tuple(word.strip(",") for word in starts),
        keywords=(),
        names=f"(?i:{python_regex(names, groups=0)})",
        pattern=python_regex(secret, groups=0),
        entropy=float(rule.get("entropy", 0)),
        allowed="",
    )


def unnamed(rule: Json, pattern: str) -> Row | None:
    for end in (SECRET_END, SECRET_END.replace("$", r"$|\b")):
        pattern = pattern.replace(end, r")(?![\w-])")
    pattern = re.sub(r"\(\?:\[\^([^\]]+)\]\|\\z\)$", r"(?![\1])", pattern)
    bounded = pattern.startswith((BOUNDARY, "(?i)" + BOUNDARY))
    converted = python_regex(pattern.replace(BOUNDARY, "", 1) if bounded else pattern, groups=1)
    starts = first_words(converted)
    if bounded:
        converted = "<START>" + converted
    if not starts and re.search(r"\(\[a-fA-F0-9\]\{40\}\)", converted):
        return None  # any git commit, if the text contains the name of the service
    allowed = [a["regexes"] for a in rule.get("allowlists", ()) if a.keys() == {"regexes"}]
    short = [python_regex(r, groups=0) for found in allowed for r in found if len(r) < 40]
    return Row(
        rule=rule["id"],
        starts=starts,
        keywords=() if starts else tuple(rule["keywords"]),
        names="",
        pattern=converted,
        entropy=float(rule.get("entropy", 0)),
        allowed="|".join(short) if starts == ("s.",) else "",
    )


def alternatives(pattern: str) -> list[str]:
    """Return the alternatives of a pattern, split at the outermost `|`, inside one enclosing group."""
    flags = "(?i)" if pattern.startswith("(?i)") else ""
    inside = re.fullmatch(
        r"(?P<head>(?:\(\?i\))?\\b)\((?:\\b|\(\?:)?\((?P<body>.*)\)(?:\\b)?\)(?P<end>\(\?:.*)",
        pattern,
    )
    if inside:  # two groups around the alternatives: a boundary, and the part repeated in each
        return [f"{inside['head']}({one}){inside['end']}" for one in _split(inside["body"])]
    parts = _split(pattern)
    return [parts[0], *(part if part.startswith(flags) else flags + part for part in parts[1:])]


def _split(pattern: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for at, token in _tokens(pattern):
        if token.startswith("(") and not _is_inline(token):
            depth += 1
        elif token == ")":
            depth -= 1
        elif token == "|" and not depth:
            parts.append(pattern[begin:at])
            begin = at + 1
    return [*parts, pattern[begin:]]


def python_regex(pattern: str, *, groups: int) -> str:
    """Convert a Go expression to Python, keeping the first `groups` outermost groups.

    Inline flags apply until the end of their group, across `|`. `$` is the end of the text.
    """
    written: list[str] = []
    open_flags: list[str] = [""]  # the flags that are on in each open group
    capturing: list[bool] = []
    for at, token in _tokens(pattern):
        if _is_inline(token):
            if open_flags[-1]:
                continue
            open_flags[-1] = token[:-1] + ":"
            written.append(open_flags[-1])
        elif token.startswith("("):
            is_group = token == "(" or token.startswith("(?P<")
            keeps = (
                token == "(" and groups > 0 and not any(capturing) and not _is_repeated(pattern, at)
            )
            groups -= keeps
            capturing.append(keeps)
            open_flags.append("")
            written.append("(" if keeps else "(?:" if is_group else token)
        elif token == ")":
            written.append("))" if open_flags.pop() else ")")
            capturing.pop()
        elif token == "|":
            flags = open_flags[-1]
            written.append(f")|{flags}" if flags else "|")
        elif token.startswith("["):
            written.append(token.replace("[:alnum:]", ALPHANUMERIC))
        else:
            written.append({r"\z": r"\Z", "$": r"\Z", r"\x60": "`"}.get(token, token))
    written.append(")" if open_flags.pop() else "")
    found = "".join(written)
    # Unbounded repetitions are possessive, so that a long run is read only once.
    found = re.sub(r"(\{\d+,\})(?![?+])", r"\1+", found)
    re.compile(found, re.ASCII)
    return found


def _is_inline(token: str) -> bool:
    """Return whether a token turns on flags for the following text, as in `(?i)`."""
    return token.startswith("(?") and token.endswith(")")


def _is_repeated(pattern: str, at: int) -> bool:
    depth = 0
    for place, token in _tokens(pattern[at:]):
        if token.startswith("(") and not _is_inline(token):
            depth += 1
        elif token == ")":
            depth -= 1
            if not depth:
                return pattern[at + place + 1 : at + place + 2] in ("{", "*", "+")
    raise ValueError(f"unterminated group: {pattern}")


_TOKEN = re.compile(
    r"\\x[0-9a-fA-F]{2}|\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\(\?P<\w+>|\(\?(?:[a-zA-Z-]*[:)]|<?[=!])|.",
    re.S,
)


def _tokens(pattern: str) -> Iterator[tuple[int, str]]:
    return ((match.start(), match[0]) for match in _TOKEN.finditer(pattern))


def first_words(pattern: str) -> tuple[str, ...]:
    """Return the lower-case words that matches start with; none if fewer than two characters are known."""
    parse = import_module("re._parser").parse
    words, _ = _heads(list(parse(pattern, re.ASCII)))
    found = sorted({word.lower()[:LONGEST_START] for word in words})
    return tuple(found) if min(map(len, found)) > 1 else ()


def _heads(items: list[Any]) -> tuple[list[str], bool]:
    """Return the possible beginnings of matches, and whether they are complete matches."""
    heads = [""]
    for kind, value in items:
        match str(kind):
            case "LITERAL":
                tails, is_whole = [chr(value)], True
            case "IN":
                tails, is_whole = _set(value)
            case "SUBPATTERN":
                tails, is_whole = _heads(list(value[3]))
            case "BRANCH":
                parts = [_heads(list(part)) for part in value[1]]
                tails = [tail for part, _ in parts for tail in part]
                is_whole = all(whole for _, whole in parts)
            case "MAX_REPEAT" if value[0] == value[1]:
                once, is_whole = _heads(list(value[2]))
                tails, is_whole = once, is_whole and value[0] == 1
            case "MAX_REPEAT" if value[:2] == (0, 1):
                once, is_whole = _heads(list(value[2]))
                tails = ["", *once]
            case _:
                return heads, False
        if len(heads) * len(tails) > MOST_STARTS:
            return heads, False
        heads = [head + tail for head in heads for tail in tails]
        if not is_whole:
            return heads, False
    return heads, True


def _set(items: list[Any]) -> tuple[list[str], bool]:
    literals = [chr(value) for kind, value in items if str(kind) == "LITERAL"]
    if len(literals) == len(items) and len(literals) <= FEW:
        return literals, True
    return [""], False


def module(found: Iterable[Row], version: str, licence: str) -> str:
    lines = [
        f'"""Rules of gitleaks {version}, as data. Generated by scripts/secret_rules.py; do not edit.',
        "",
        "The fields of a row are: the rule; the words that a match can start with; words that the text must",
        "contain if the start is not known; a pattern for the name before the secret; the entropy that the",
        "secret must exceed; a pattern for values that are not secrets; and a pattern for the secret, whose",
        "group is the secret if it has one.",
        '"""',
        "",
        *(f"# {line}".rstrip() for line in licence.strip().splitlines()),
        "",
        'TABLE = r"""',
    ]
    for row in found:
        fields = [
            *(row.rule, " ".join(row.starts), " ".join(row.keywords), row.names),
            *(str(row.entropy), row.allowed, row.pattern),
        ]
        if any(BETWEEN in field or '"""' in field for field in fields):
            raise ValueError(f"{row.rule}: can't be written as a line of the table")
        lines.append(BETWEEN.join(fields))
    split = f'ROWS = tuple(line.split("{BETWEEN}") for line in TABLE.strip().split("\\n"))'
    return "\n".join([*lines, '"""', split, ""])


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m scripts.secret_rules CHECKOUT_OF_GITLEAKS")
        return 2
    checkout = Path(sys.argv[1])
    rules = tomllib.loads((checkout / "config" / "gitleaks.toml").read_text("utf-8"))["rules"]
    licence = (checkout / "LICENSE").read_text("utf-8")
    words = ["git", "-C", str(checkout), "describe", "--tags", "--always"]
    version = subprocess.run(
        words, capture_output=True, encoding="utf-8", check=False
    ).stdout.strip()
    found = list(rows(rules))
    TARGET.write_text(module(found, version or "of unknown version", licence), "utf-8")
    print(f"{TARGET}: {len(found)} expressions of {len({row.rule for row in found})} rules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
