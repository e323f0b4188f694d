"""Takes secrets out of text that leaves the process: logs, errors, exports.

Owns the one function `mask` and its table of shapes. It must be linear in the text and never show
more than the head that tells which kind of secret stood there.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

# Each shape: words of which one must be there (without regard to case: finding them is a tenth of the
# work), then what stays visible, group 1, and the secret.
SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("private key-----",),
        (
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)"
            r"[\s\S]{0,20000}?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
        ),
    ),
    (("sk-",), r"\b(sk-(?:ant-|proj-)?)[A-Za-z0-9_-]{12,}"),
    (
        (
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "github_pat_",
            "glpat-",
            "xox",
            "npm_",
            "pypi-",
            "hf_",
        ),
        r"\b(gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|npm_|pypi-|hf_)[A-Za-z0-9_-]{10,}",
    ),
    (("akia", "asia", "aiza"), r"\b(AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}"),
    (("eyj",), r"\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"),
    (
        ("authorization",),
        r"(?i)(authorization[\"']?\s{0,5}[:=]\s{0,5}[\"']?[a-z]{1,20}\s+)[^\s\"',;]{6,}",
    ),
    (("bearer",), r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{16,}"),
    (
        ("://",),
        r"(?i)(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@\"']{0,100}:)[^\s/@\"']{1,200}(?=@)",
    ),
    (
        ("api", "secret", "token", "password", "passwd", "authorization", "credential"),
        (
            r"(?i)((?:api[_-]?key|secret|token|password|passwd|authorization|credential)[a-z_-]{0,20}"
            r"[\"']?\s{0,5}[:=]\s{0,5}[\"']?)(?!(?:true|false|null|none|bearer|basic|\d+)\b)[^\s\"',;&}]{6,}"
        ),
    ),
)

HIDDEN = "[masked]"
# Shorter values are words that any text may hold.
LEAST_CHARS = 6
# What stands behind an excerpt that was cut.
AFTER_A_CUT = ".'\")"
SECRET_HEADER = re.compile(r"auth|cookie|secret|token|(?<!idempotency-)key", re.I)


def mask(text: str, known: Iterable[str] = ()) -> str:
    """The text with every secret replaced: those named in `known`, and those of a known shape."""
    text = without(text, known)
    folded = text.casefold()  # as the patterns do, for which a long s is an s
    for words, shape in _shapes():
        if any(word in folded for word in words):
            text = shape.sub(lambda match: match[1] + HIDDEN, text)
    return text


@cache
def _shapes() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """Made when something is masked: most starts end without it."""
    return tuple((words, re.compile(shape)) for words, shape in SHAPES)


def without(text: str, known: Iterable[str]) -> str:
    """The text without the secrets named; for texts that must stay as they are but for these."""
    for secret in _longest_first(known):
        text = text.replace(secret, HIDDEN)
    return text


def without_cut(text: str, known: Iterable[str]) -> str:
    """The same of an excerpt: it may end inside a secret, so the beginning of one at its end goes too."""
    for secret in _longest_first(known):
        text = text.replace(secret, HIDDEN)
        at = text.rfind(secret[:LEAST_CHARS])
        if at >= 0 and secret.startswith(text[at:].rstrip(AFTER_A_CUT)):
            text = text[:at] + HIDDEN
    return text


def all_without(value: Any, known: Iterable[str]) -> Any:
    """A decoded JSON value with every text in it treated so."""
    return _all(value, tuple(known), without)


def all_without_cut(value: Any, known: Iterable[str]) -> Any:
    return _all(value, tuple(known), without_cut)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name carries a credential, whatever a gateway calls it."""
    return SECRET_HEADER.search(name) is not None


def _longest_first(known: Iterable[str]) -> list[str]:
    return sorted({s for s in known if len(s) >= LEAST_CHARS}, key=len, reverse=True)


def _all(value: Any, known: tuple[str, ...], hide: Callable[[str, Iterable[str]], str]) -> Any:
    if isinstance(value, str):
        return hide(value, known)
    if isinstance(value, list):
        return [_all(item, known, hide) for item in value]
    if isinstance(value, dict):
        return {hide(key, known): _all(item, known, hide) for key, item in value.items()}
    return value
