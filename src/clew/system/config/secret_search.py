"""Find the positions of secrets in text. Each pattern is compiled when some text first needs it.

The text is searched once for all words with which a match can start. Only rules whose word was
found are tried, each at the position of its word. Must take time linear in the text (`make bench
ONLY=mask`).

RE2 would keep any expression linear, but it is a compiled dependency, does not support lookbehind,
and scans the entire text for each rule. Here, each rule reads a bounded part of the text at the
positions of its words.
"""

import re
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

from clew.system.config import secret_shapes as shapes
from clew.system.config.gitleaks_rules import ROWS
from clew.system.config.secret_shapes import (
    LONGEST_CHARS,
    is_called,
    is_dense,
    is_random,
    is_secret,
    is_wordy,
    kind_of,
    measure_changes,
    measure_entropy,
)

Span: TypeAlias = tuple[int, int]
# Identifiers and timestamps, the most frequent values in a session.
_PLAIN_FACT = re.compile(
    r"[a-z_]{0,24}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9:.TZ-]{0,32}"
)
# Searches text from the position where a word of the rule begins.
Finder: TypeAlias = Callable[[str, int], Iterable[Span]]

# Random values without a name: values shorter than this are too often identifiers.
RUN_CHARS = (32, 128)
RUN_CHANGES = 0.42
RUN_ENTROPY = 4.2
# Values that are common in lock files, web pages and public keys.
_PUBLIC = re.compile(
    r"(?i:sha\d{1,3}[-:=]|h1:|zh:|md5[-:=]|nonce-|integrity|AAAA[BCE]|[a-z]{2,12}_\d\d[A-Za-z0-9]+$)"
)
_PUBLIC_BEFORE = re.compile(r"(?i:(?:sha\d{1,3}|h1|zh|md5|base64|nonce|mappings)[-:=,]?[\"']?)\Z")
_BEFORE_CHARS = 80
_NAME_BEFORE = re.compile(r"[\w$.-]{0,80}\Z")
_SETS_BEFORE = re.compile(
    r"(?i:\b(?:set|env|arg|setx|setenv|configure set|config set)[ \t]{1,4})[\w$.:/-]{0,80}\Z"
)
_WORD_OF_HTTP = re.compile(r"\b(?:https?|xh|xhs|ht)[ \t][^\n|;&]{0,200}\Z")
_SHELL_BEFORE = re.compile(
    r"(?:^|[\s;&|(\"'`{]|\\n)(?:export\s{1,4}|-e\s{1,3}|--env[ =]|set\s{1,3})?[A-Z][A-Z0-9_]{0,80}\Z"
)
_PLACEHOLDER_TOKEN = re.compile(r"[$<{*%[(]|x{6}|X{6}|\.{3}|your|YOUR")


def find_secret_spans(text: str) -> list[Span]:
    """Return the positions of secrets, in order and without overlaps."""
    sure = merged([*_found(text), *_keys(text)])
    ends = [end for _, end in sure]
    # A token keeps the prefix that identifies it.
    extra_spans = [
        span
        for span in _runs(text)
        if (at := bisect_left(ends, span[1] - 2)) == len(ends) or sure[at][0] >= span[1]
    ]
    return merged([*sure, *extra_spans]) if extra_spans else sure


def find_member_spans(name: str, text: str) -> list[Span]:
    """Return the positions of secrets in a field's value.

    The name of the field may indicate that the value is a secret.
    """
    if not kind_of(name) and _PLAIN_FACT.fullmatch(text):
        return []
    if is_secret(name, text, is_quoted=True) or _is_basic(name, text):
        return [(0, len(text))]
    lead = f"{name}: "
    if any(word in name.lower() for word in ("authorization", "cookie")):
        spans = find_secret_spans(lead + text)
        return merged((max(a - len(lead), 0), b - len(lead)) for a, b in spans if b > len(lead))
    return find_secret_spans(text)


def merged(spans: Iterable[Span]) -> list[Span]:
    together: list[Span] = []
    for begin, end in sorted(spans):
        if begin >= end:
            continue
        if together and begin <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((begin, end))
    return together


def folded(text: str) -> str:
    """Return the text in lower case with its length unchanged, unlike `str.lower`."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("\u0130", "I").lower()


def _found(text: str) -> Iterator[Span]:
    words, finders, wanted = _table()
    done: dict[int, int] = {}
    lower = folded(text)
    at = -1
    # Continue one character after the last match, because words may overlap.
    while match := words.search(lower, at + 1):
        at = match.start()
        for number, start, find in finders[match[0]]:
            if at < done.get(number, 0) or not lower.startswith(start, at):
                continue
            for span in find(text, at):
                done[number] = max(span[1], done.get(number, 0))
                yield span
    for word, find in wanted:
        if word in lower:
            yield from find(text, 0)


Table: TypeAlias = tuple[
    re.Pattern[str], dict[str, list[tuple[int, str, Finder]]], list[tuple[str, Finder]]
]


@cache
def _table() -> Table:
    """Return a pattern for all start words, the rules for each word, and the other rules."""
    rules: list[tuple[str, Finder]] = []
    wanted: list[tuple[str, Finder]] = []
    for _, starts, keywords, names, exceeded, allowed, pattern in ROWS:
        least = float(exceeded)
        for start in starts.split():
            if names:
                find = _named(names, pattern, least)
            else:
                find = _shaped(pattern, least, allowed, len(start))
            rules.append((start, find))
        wanted += [(word, _searched(pattern, least)) for word in keywords.split()]
    for least_chars, prefixes in shapes.PREFIXES:
        rules += [(p.lower(), _prefixed(p, least_chars)) for p in prefixes.split()]
    for starts, pattern in shapes.TOKENS:
        rules += [(start, _checked(pattern, _any)) for start in starts.split()]
    for starts, pattern in shapes.COMMANDS:
        rules += [(start, _grouped(pattern)) for start in starts.split()]
    rules += [
        ("sk-", _checked(r"<START>sk-([A-Za-z0-9_-]{12,400}+)", is_random)),
        ("authoriz", _authorization),
        ("cookie", _cookie),
        ("-b", _cookie_option),
        ("-cookie", _cookie_option),
        ("://", _userinfo),
        ("-u", _user_option),
        ("-a ", _auth_option),
        ("password", _grouped(shapes.SQL_PASSWORD)),
        ("kind", _manifest),
        ("auth", _basic_auth),
    ]
    rules += [(word, _assigned) for word in shapes.NAME_WORDS if word]
    finders: dict[str, list[tuple[int, str, Finder]]] = {}
    word = ""
    for number, (start, find) in sorted(enumerate(rules), key=lambda rule: rule[1][0]):
        # A word that begins with another word is tried where the shorter one was found.
        word = word if word and start.startswith(word) else start
        finders.setdefault(word, []).append((number, start, find))
    return re.compile(_trie(finders)), finders, wanted


def _trie(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words and reads each letter once.

    No word may be a prefix of another.
    """
    by_letter: dict[str, list[str]] = {}
    for word in words:
        if word:
            by_letter.setdefault(word[0], []).append(word[1:])
    parts = [re.escape(letter) + _trie(rest) for letter, rest in sorted(by_letter.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})" if parts else ""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern after expanding its names in angle brackets."""
    for name in ("START", "QUOTE", "GREATER", "SPACE", "LINE_END"):
        pattern = pattern.replace(f"<{name}>", getattr(shapes, name))
    return re.compile(pattern, re.ASCII)


def _groups(match: re.Match[str]) -> Iterator[Span]:
    """Yield the spans of a match's groups, or of the entire match if it has none."""
    if match.re.groups:
        yield from (match.span(n) for n in range(1, match.re.groups + 1) if match[n] is not None)
    else:
        yield match.span()


def _grouped(pattern: str) -> Finder:
    """Return a rule that yields the groups of a match, without those that are placeholders."""

    def find(text: str, at: int) -> Iterator[Span]:
        match = compiled(pattern).match(text, at)
        if match:
            yield from (s for s in _groups(match) if not _PLACEHOLDER_TOKEN.match(text, s[0]))

    return find


def _prefixed(prefix: str, least_chars: int) -> Finder:
    pattern = (
        rf"<START>{re.escape(prefix)}"
        rf"((?=[A-Za-z_=.-]{{0,60}}\d)[A-Za-z0-9_=.-]{{{least_chars},400}}+)"
    )
    if not prefix.startswith(("sl.", "SG.", "dp.", "ya29", "t1.", "dt0", "hv", "mlsn", "amzn")):
        pattern = pattern.replace("=.-]", "-]")
    return _checked(pattern, is_random if least_chars > 10 and prefix.endswith("_") else _any)


def _any(_: str) -> bool:
    return True


def _checked(pattern: str, is_fine: Callable[[str], bool]) -> Finder:
    def find(text: str, at: int) -> Iterator[Span]:
        match = compiled(pattern).match(text, at)
        if match is None:
            return
        # The end of a run that is not a secret is remembered, so the run is not scanned again from
        # a later position.
        end = _end_of_run(text, match.end(1))
        yield (match.start(1) if is_fine(match[1]) else end), end

    return find


def _shaped(pattern: str, least: float, allowed: str, prefix_length: int) -> Finder:
    """Return a gitleaks rule for a token. The token's prefix stays visible, the rest is masked."""

    def find(text: str, at: int) -> Iterator[Span]:
        match = compiled(pattern).match(text, at)
        if match is None:
            return
        for begin, end in _groups(match):
            secret = text[begin:end]
            is_one = measure_entropy(secret) > least and not (
                allowed and re.fullmatch(allowed, secret)
            )
            run_end = _end_of_run(text, end)
            yield (max(begin, at + prefix_length) if is_one else run_end), run_end

    return find


_RUN_ON = re.compile(r"[A-Za-z0-9_-]{0,4000}={0,2}")


def _end_of_run(text: str, end: int) -> int:
    match = _RUN_ON.match(text, end)
    return match.end() if match else end


def _searched(pattern: str, least: float) -> Finder:
    def find(text: str, _: int) -> Iterator[Span]:
        for match in compiled(pattern).finditer(text):
            yield from (s for s in _groups(match) if measure_entropy(text[s[0] : s[1]]) > least)

    return find


def _named(names: str, pattern: str, least: float) -> Finder:
    """Return a gitleaks rule for a value that follows the name of a service."""
    full_pattern = (
        rf"{names}[ \t\w.-]{{0,20}}+(?:<QUOTE>|\s){{0,3}}(?:=|>|:{{1,3}}=|\|\||:|=>|\?=|,)"
        rf"(?:<QUOTE>|[\s=]){{0,5}}({pattern})(?![\w-])"
    )

    def find(text: str, at: int) -> Iterator[Span]:
        match = compiled(full_pattern).match(text, at)
        if (
            match
            and any(map(str.isdigit, match[1]))
            and measure_entropy(match[1]) > max(least, 2.0)
        ):
            yield match.span(1)

    return find


def _authorization(text: str, at: int) -> Iterator[Span]:
    match = compiled(shapes.AUTHORIZATION).match(text, at)
    if match is None or _PLACEHOLDER_TOKEN.match(match["value"]):
        return
    scheme = (match["scheme"] or "").lower()
    if scheme in shapes.SCHEMES or (len(match["value"]) >= 6 and is_random(match["value"])):
        yield match.span("value")


def _cookie(text: str, at: int) -> Iterator[Span]:
    match = compiled(shapes.COOKIE).match(text, at)
    if match and not _PLACEHOLDER_TOKEN.match(match["value"]):
        yield match.span("value")


def _cookie_option(text: str, at: int) -> Iterator[Span]:
    match = compiled(shapes.COOKIE_OPTION).match(text, at)
    if match and "curl" in text[max(0, at - 400) : at] and "$" not in match["value"]:
        yield match.span("value")


def _userinfo(text: str, at: int) -> Iterator[Span]:
    for pattern in (shapes.USERINFO, shapes.USERINFO_SLASHES):
        match = compiled(pattern).match(text, at)
        if match:
            if not _PLACEHOLDER_TOKEN.match(match["value"]):
                yield match.span("value")
            return
    match = compiled(shapes.USERINFO_TOKEN).match(text, at)
    if match and is_random(match["value"]):
        yield match.span("value")


def _user_option(text: str, at: int) -> Iterator[Span]:
    match = compiled(shapes.USER_OPTION).match(text, at)
    if match is None or (at and (text[at - 1].isalnum() or text[at - 1] == "_")):
        return
    user, value = match["user"], match["value"]
    if {user, value} <= shapes.ACCOUNTS or (user.isdigit() and value.isdigit()):
        return
    if not _PLACEHOLDER_TOKEN.match(value):
        yield match.span("value")


def _auth_option(text: str, at: int) -> Iterator[Span]:
    match = compiled(shapes.AUTH_OPTION).match(text, at)
    if match and _WORD_OF_HTTP.search(text, max(0, at - 250), at):
        yield match.span("value")


_BASIC_AUTH = r"""(?i:_?auth)<QUOTE>?\s{0,3}[:=]\s{0,3}<QUOTE>?(?P<value>[A-Za-z0-9+/]{8,2000}={0,2})(?![\w+/])"""


def _basic_auth(text: str, at: int) -> Iterator[Span]:
    """Yield the value of `"auth": "..."` as used by Docker and npm: name and password in base64."""
    match = compiled(_BASIC_AUTH).match(text, at)
    if match and _is_basic("auth", match["value"]):
        yield match.span("value")


def _is_basic(name: str, value: str) -> bool:
    if name.lower() not in ("auth", "_auth") or len(value) % 4 or len(value) > LONGEST_CHARS:
        return False
    try:
        plain = b64decode(value, validate=True)
    except ValueError:
        return False
    return b":" in plain and plain.isascii() and plain.decode("ascii").isprintable()


def _manifest(text: str, at: int) -> Iterator[Span]:
    """Yield the values of a Kubernetes secret around the line that declares its kind."""
    if not compiled(shapes.MANIFEST).match(text, at):
        return
    begin = max(text.rfind("\n---", max(0, at - shapes.MANIFEST_CHARS), at), 0)
    begin = begin or max(0, at - shapes.MANIFEST_CHARS)
    end = text.find("\n---", at, at + shapes.MANIFEST_CHARS)
    end = end if end >= 0 else min(len(text), at + shapes.MANIFEST_CHARS)
    for blocks, values in shapes.MANIFEST_BLOCKS:
        for block in compiled(blocks).finditer(text, begin, end):
            for value in compiled(values).finditer(text, *block.span(block.re.groups)):
                yield from _groups(value)
    yield end, end  # Skip everything before this position, which was searched.


def _assigned(text: str, at: int) -> Iterator[Span]:
    """Yield the value that follows a name that indicates a secret, in any notation."""
    rest = compiled(shapes.NAME_REST).match(text, at)
    end = rest.end() if rest else at
    before = _NAME_BEFORE.search(text, max(0, at - _BEFORE_CHARS), at)
    begin = before.start() if before else at
    name = text[begin:end].strip("-.$")
    if text[begin:end].startswith("n") and text[begin - 1 : begin] == "\\":
        name = name[1:]  # Remove the n of a JSON-escaped newline.
    if not kind_of(name):
        return
    is_option = text.startswith("-", begin)
    span = None
    for pattern in (shapes.PAIRED, shapes.ASSIGNED, shapes.ELEMENT, shapes.LISTED, shapes.SPACED):
        match = compiled(pattern).match(text, end)
        if match is None:
            continue
        if pattern is shapes.SPACED and not (
            is_option or _SETS_BEFORE.search(text, max(0, begin - 40), at)
        ):
            continue
        if (
            pattern is shapes.ELEMENT
            and text[begin - 1 : begin] not in ("<", ";")
            and not match["close"]
        ):
            continue
        if pattern is shapes.LISTED and not is_option and text[begin - 1 : begin] not in ('"', "'"):
            continue
        is_sure = (
            is_option
            or pattern is shapes.SPACED
            or (match[0] == "=" and _is_of_shell(text, begin, end, match.end()))
            or text[begin - 1 : begin] in ("?", "&")
        )
        if pattern is shapes.ELEMENT and not compiled(shapes.ELEMENT_REST).match(text, match.end()):
            continue
        span = _value(text, match.end(), name, is_sure=is_sure, op=_operator(match))
        if span is not None:
            break
    if span is not None:
        yield span


def _operator(match: re.Match[str]) -> str:
    """Return the operator between name and value, including a space before `=` if there is one."""
    return f" {match['op']}" if match["op"] == "=" and match[0][:1] in " \t" else match["op"]


def _is_of_shell(text: str, begin: int, end: int, at: int) -> bool:
    """Return whether `NAME=value` is written as in a shell, without spaces around the sign."""
    return (
        bool(_SHELL_BEFORE.search(text, max(0, begin - 20), end))
        and not text[at : at + 1].isspace()
    )


_PASSWORD_VALUE = rf"{shapes.PLAIN}{{1,300}}+"
# A token contains `=` only at its end, so that text consisting of names and signs is read only
# once.
_TOKEN_LETTER = shapes.PLAIN.replace("[^", "[^=:")
_TOKEN_VALUE = rf"{_TOKEN_LETTER}{{1,{LONGEST_CHARS}}}+(?::{_TOKEN_LETTER}{{1,300}}+)?={{0,3}}"
_SHELL_VALUE = rf"[^\s\"'`<>\\]{{1,{LONGEST_CHARS}}}+"
_SCHEME = re.compile(r"(?i:(?:bearer|basic|token)\s{1,3})")


def _value(text: str, at: int, name: str, *, is_sure: bool, op: str) -> Span | None:
    lead = compiled(shapes.BEFORE_VALUE).match(text, at)
    at = lead.end() if lead else at
    opening = compiled(shapes.QUOTE).match(text, at)
    if opening:
        begin, end = opening.end(), _closing(text, opening[0], opening.end())
        if end is None:
            end = begin
        else:
            is_wrapped = lead is not None and lead[0].endswith("(")
            value = text[begin:end]
            fine = is_secret(
                name, value, is_quoted=True, is_sure=is_sure and bool(value.split()[:1])
            )
            is_loose = is_wrapped or (op == "," and not is_sure)
            return (begin, end) if fine and not (is_loose and not _is_mixed(value)) else None
        at = begin
    scheme = _SCHEME.match(text, at)
    at = scheme.end() if scheme else at
    pattern = _PASSWORD_VALUE if kind_of(name) == "password" else _TOKEN_VALUE
    if is_sure and op == "=" and text[at - 1 : at] == "=":
        pattern = _SHELL_VALUE
    match = compiled(pattern).match(text, at)
    if match is None:
        return None
    value = match[0].rstrip(".:,;)]}")
    end = at + len(value)
    if not is_sure and is_called(text, at) and text[match.end() : match.end() + 1] in ("(", "["):
        return None
    if not is_sure and not _ends_there(text, end, op, value):
        return None
    return (at, end) if is_secret(name, value, is_quoted=False, is_sure=is_sure) else None


def _is_mixed(value: str) -> bool:
    return (is_random(value) and not is_wordy(value)) or not (
        value.isalpha() or _NAME_OF_SOMETHING.fullmatch(value)
    )


_NAME_OF_SOMETHING = re.compile(r"[\w.:/$ -]*")


def _closing(text: str, quote: str, begin: int) -> int | None:
    """Return the end of a quoted value, or None if it is too long or its line ends first."""
    end = text.find(quote, begin, begin + LONGEST_CHARS)
    while quote in ('"', "'") and end > begin and text[end - 1] == "\\" and text[end - 2] != "\\":
        end = text.find(quote, end + 1, begin + LONGEST_CHARS)
    if end < 0 or "\n" in text[begin:end]:
        return None
    return end


_REST_OF_LINE = re.compile(r"[ \t]{0,8}(?:[#;]|//|\r?\n|\\[nr]|\Z|[\"'`<])")


def _ends_there(text: str, end: int, op: str, value: str) -> bool:
    """Return whether a value may end at a position.

    A word that is followed by more words is part of a sentence or a call.
    """
    if not value.replace("-", "").replace("_", "").isalpha():
        return True
    return op != " =" and _REST_OF_LINE.match(text, end) is not None


def _keys(text: str) -> Iterator[Span]:
    """Yield the positions of private keys, including those that are cut off."""
    if "PRIVATE KEY" in text:
        begins = list(compiled(shapes.KEY_BEGIN).finditer(text))
        limits = [*(begin.start() for begin in begins[1:]), len(text)]
        for begin, limit in zip(begins, limits, strict=False):
            limit = min(limit, begin.end() + shapes.LONGEST_KEY_CHARS)
            end = compiled(shapes.KEY_END).search(text, begin.end(), limit)
            if end is None:
                end = compiled(shapes.KEY_CUT).match(text, begin.end(), limit)
            if end is not None:
                yield begin.end(), end.end()
    if "rivate-" in text:
        for begin in compiled(shapes.PUTTY).finditer(text):
            limit = begin.end() + shapes.LONGEST_KEY_CHARS
            end = compiled(shapes.PUTTY_END).search(text, begin.end(), limit)
            end = end or compiled(shapes.KEY_CUT).match(text, begin.end(), limit)
            if end is not None:
                yield begin.end(), end.end()


def _runs(text: str) -> Iterator[Span]:
    """Yield values that look randomly generated, regardless of what precedes them."""
    least, most = RUN_CHARS
    for match in compiled(shapes.RUN).finditer(text):
        if not least <= match.end() - match.start() <= most + 40:
            continue
        run = match[0]
        begin = match.start() + run.rfind("=", 0, len(run.rstrip("=")) - 1) + 1
        value = text[begin : match.end()].rstrip("=.")
        if least <= len(value) <= most and _is_token(value) and not _is_public(text, begin, value):
            yield begin, match.end()


def _is_token(value: str) -> bool:
    return (
        is_dense(value)
        and measure_changes(value) >= RUN_CHANGES
        and measure_entropy(value) >= RUN_ENTROPY
    )


def _is_public(text: str, begin: int, value: str) -> bool:
    if _PUBLIC.match(value) or _PUBLIC_BEFORE.search(text, max(0, begin - 20), begin):
        return True
    return _is_line_of_data(text, begin, begin + len(value))


def _is_line_of_data(text: str, begin: int, end: int) -> bool:
    """Return whether a run is a line in a block of data, next to lines of similar length."""
    match = _LINE_BEFORE.search(text, max(0, begin - 140), begin)
    following = _LINE_AFTER.match(text, end)
    size = end - begin
    return (match is not None and len(match[1]) >= size) or (
        following is not None and (match is not None or text[begin - 1 : begin] in ("", "\n"))
    )


_LINE_BEFORE = re.compile(
    r"[ \t]{0,40}([A-Za-z0-9+/=_-]{20,128})[\"',+ ]{0,4}\r?\n[ \t]{0,40}[\"']?\Z"
)
_LINE_AFTER = re.compile(
    r"[=\"',+ ]{0,6}\r?\n[ \t]{0,40}[\"']?[A-Za-z0-9+/]{1,128}={0,2}[\"',+)]{0,3}(?:\r?\n|\Z)"
)


def find_line_spans(lines: list[str]) -> list[list[Span]]:
    """Return the positions of secrets in each line of a text, searching the joined text."""
    text = "\n".join(lines)
    spans: Any = iter([*find_secret_spans(text), (len(text) + 1, len(text) + 1)])
    begin, end = next(spans)
    spans_by_line: list[list[Span]] = []
    at = 0
    for line in lines:
        line_spans: list[Span] = []
        while begin < at + len(line):
            line_spans.append((max(begin - at, 0), min(end - at, len(line))))
            if end > at + len(line):
                break
            begin, end = next(spans)
        spans_by_line.append(merged(line_spans))
        at += len(line) + 1
    return spans_by_line
