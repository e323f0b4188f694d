"""Judges whether the value after a name is a secret: by the words of the name and the look of the value.

Must be linear in the value. The rules are stated in docs/sessions.md.
"""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["password", "token", "key", "weak key", ""]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Words after the one that tells what a value is.
_SUFFIXES = _words(
    """
    value plain plaintext raw prod production live test dev staging default str string text base
    hex env var old new backup
    """
)
_PASSWORDS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "userpass",
    "dbpass",
    "authpass",
)
_TOKENS = (
    "token",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "creds",
    "jwt",
    "bearer",
    "psk",
)
_TOKEN_WORDS = frozenset(["auth", "authorization", "pat", "dsn", "sas", "cookie", "apikey"])
_TOKEN_PAIRS = frozenset([("connection", "string"), ("webhook", "url"), ("access", "code")])
_KEYS = ("apikey", "secretkey", "accesskey", "privatekey", "authkey", "licensekey", "accountkey")
_KEY_WORDS = _words(
    """
    api access secret private auth signing encryption master account shared preshared service
    client app application license consumer deploy admin root subscription write hmac crypto aes
    jwt webhook integration storage sdk project ssh django flask rails cookie
    """
)
_WEAK = frozenset(["key", "sig", "signature", "salt", "seed"])
# Tokens and keys that are none.
_HARMLESS = _words(
    """
    public pub primary foreign sort partition cache idempotency publishable page next
    continuation cursor max min num input output stop eos bos pad unk mask cls sep hot unique
    lookup i18n
    """
)

_PLACEHOLDER = re.compile(
    r"""(?ix)
    \$(?-i:[A-Z_][A-Z0-9_]*|[a-z_]+|[0-9@*\#?])["']?$ | \$[{(] | %\w+%$ | %[sdrv](?:[:/@,]%[sdrv])*$ | <[^>]*>?$ | \{\{ | \{[\w.\[\]"']*\}?$
    | [*x.\u2022\u2026_-]+$ | x{6,} | @\w+@$ | \[\w*\]?$
    | (?:your|insert|enter|replace|change|add|put)(?:[ _-].*|me|here|this|it)?$
    | (?:true|false|null|nil|none|undefined|yes|no|on|off|default|empty|todo|tbd|example|placeholder)$
    | \[?(?:masked|redacted|hidden|removed|filtered|omitted|secret)\]?$
    | (?:os|process|import|env|self|this|args|opts|options|config|cfg|settings|ctx|request|req|params)[.\[]
    """
)
_TYPES = _words(
    """
    str string bytes text int integer number bool boolean char object any void varchar value
    optional required password passwd token key secret auth file stdin prompt bearer basic flag
    option name type hidden input field label username user email login and or is the for with
    from that this are was not must can will const final private static readonly unknown never
    passphrase path which when where has have used invalid missing incorrect wrong options flags
    args arguments parameter parameters as in on of if be by to an it its via then than into
    should may instead expired failed error empty plaintext encrypted hash hashed
    """
)
_LABEL = re.compile(
    r"(?i)\b(?:password|passphrase|must|please|enter|your|required|invalid|incorrect|forgot|reset|"
    r"confirm|is|the|at least|does|not|for|to|of|and|or)\b"
)
_CODE = re.compile(r"[A-Za-z_$][\w$]*(?:[(\[{<]|(?:\.|::|->|\?\.)[A-Za-z_$])")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_]*")
_CALLED = re.compile(r"[\w.]{0,80}[(\[]")
# The name of another field, in humps or with underlines.
_FIELD = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)+|[a-z]+(?:[A-Z][a-z]+)+|[A-Z][A-Z_]+")
_PATTERN = re.compile(r"[\[\](){}\\^*|<>]")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_HUMP = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PATH = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://)")
_PARTS = re.compile(r"[A-Za-z0-9]+")
# A part of a name rather than of a random value: a word, words in humps, a short number.
_WORD = re.compile(r"(?:[A-Z]*[a-z]*(?:[A-Z]+[a-z]+)*[A-Z]{0,3}\d{0,3}|[A-Z]+\d{0,3}|v?\d{1,8})")

LONGEST_CHARS = 2_000
LOOKED_AT_CHARS = 200
LEAST_PASSWORD = 3
LEAST_TOKEN = 8
LEAST_KEY = 16
# Names in humps change between kinds of characters at every fifth place; random ones at every other.
RANDOM_CHANGES = 0.34


@lru_cache(1_000)
def kind_of(name: str) -> Kind:
    """What a value is by the words of its name."""
    words = [word.lower() for word in _NAME_WORD.findall(name[-80:])]
    while len(words) > 1 and words[-1] in _SUFFIXES:
        words.pop()
    if not words:
        return ""
    last = words[-1]
    if last.endswith(_PASSWORDS) or last in ("pass", "pw"):
        return "password"
    if not _HARMLESS.isdisjoint(words):
        return ""
    if last.endswith(_TOKENS) or last in _TOKEN_WORDS or tuple(words[-2:]) in _TOKEN_PAIRS:
        return "token"
    if last.endswith(_KEYS) or (last == "key" and not _KEY_WORDS.isdisjoint(words)):
        return "key"
    return "weak key" if last in _WEAK or words[-2:] == ["session", "id"] else ""


def is_secret(name: str, value: str, *, is_quoted: bool, is_sure: bool = False) -> bool:
    """Whether a value belongs hidden. `is_sure`: where nothing but a literal can stand, as after an
    option of a command or in the environment of one."""
    kind = kind_of(name)
    if not kind or _PLACEHOLDER.match(value) or value.lower() in _TYPES:
        return False
    if _FIELD.fullmatch(value) and kind_of(value):
        return False
    if kind == "password":
        return _is_password(value, is_quoted=is_quoted, is_sure=is_sure)
    if len(value) < LEAST_TOKEN or any(c.isspace() for c in value) or _PATTERN.search(value):
        return False
    if _ALPHABET in value.lower() or (
        _PATH.match(value) and (is_wordy(value) or not is_random(value))
    ):
        return False
    if (
        not (is_quoted or is_sure)
        and (_CODE.match(value) or value[0].isalpha())
        and is_wordy(value)
    ):
        return False
    if kind == "weak key":
        return (
            len(value) > LEAST_KEY
            and not _HEX.fullmatch(value)
            and not _UUID.fullmatch(value)
            and is_dense(value)
        )
    if kind == "token" and is_sure:
        return True
    return is_random(value) or (
        # Letters alone: too long for a word, and not several.
        len(value) >= 20 and value.isascii() and value.isalpha() and changes(value) != 0.0
    )


def _is_password(value: str, *, is_quoted: bool, is_sure: bool) -> bool:
    if len(value) < LEAST_PASSWORD:
        return False
    if is_quoted or is_sure:
        spaced = any(c.isspace() for c in value)
        if spaced and (len(value) > 100 or _LABEL.search(value) or value[0].isupper()):
            return False
        return not (is_quoted and _LABEL.fullmatch(value))
    if _CODE.match(value) and (not is_random(value) or is_wordy(value)):
        return False
    return _IDENTIFIER.fullmatch(value) is None or (
        len(value) >= LEAST_TOKEN and value.isalpha() and value.islower()
    )


def is_called(text: str, at: int) -> bool:
    """Whether a name at this place is that of a function."""
    return _CALLED.match(text, at) is not None


def is_random(value: str) -> bool:
    """Whether a value was hardly chosen by a person: some part of it is neither a word nor a number."""
    value = value[:LOOKED_AT_CHARS]
    if len(value) < LEAST_TOKEN or entropy(value) < (3.0 if len(value) >= 16 else 2.5):
        return False
    parts = _PARTS.findall(value)
    if all(_WORD.fullmatch(part) for part in parts):
        return changes(value) >= RANDOM_CHANGES and len(parts) * 12 <= len(value)
    return True


def is_wordy(value: str) -> bool:
    """Whether a value is made of words for the greater part, as names in programs are."""
    value = value[:LOOKED_AT_CHARS]
    humps = [hump for hump in _HUMP.findall(value) if _VOWEL.search(hump)]
    return sum(map(len, humps)) * 5 >= sum(map(str.isalnum, value)) * 3


_VOWEL = re.compile(r"[aeiouyAEIOUY]")


def is_dense(value: str) -> bool:
    """Whether a value has small and capital letters and digits, mixed as only random ones are."""
    return (
        any(map(str.islower, value))
        and any(map(str.isupper, value))
        and any(map(str.isdigit, value))
        and changes(value) >= RANDOM_CHANGES
        and entropy(value) >= 3.7
    )


def changes(value: str) -> float:
    """The share of places where letters and digits change between small, capital and digit."""
    kinds = [2 if c.isdigit() else c.isupper() for c in value if c.isalnum()]
    return sum(a != b for a, b in pairwise(kinds)) / max(len(kinds) - 1, 1)


def entropy(value: str) -> float:
    """Bits of a character (Shannon), from how often each occurs."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())
