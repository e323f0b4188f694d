"""Takes secrets out of text that leaves the process: logs, errors, exports.

Owns the one function `mask`; what secrets look like is in `clew.system.config.secret_search`, which is imported
when something is masked. It must be linear in the text and never show more than the head that tells
which kind of secret stood there.

Decision: docs/decisions/110-keys-and-secrets.md
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

HIDDEN = "[masked]"
# Shorter values are words that any text may hold.
LEAST_CHARS = 6
# What stands behind an excerpt that was cut.
AFTER_A_CUT = ".'\")"
SECRET_HEADER = re.compile(r"auth|cookie|secret|token|(?<!idempotency-)key", re.I)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace every secret in a text: those named in `secrets`, and those of a known shape."""
    from clew.system.config.secret_search import find_secret_spans

    text = remove_secrets(text, secrets)
    return _hidden(text, find_secret_spans(text))


def mask_member(name: str, text: str) -> str:
    """Replace every secret in the value of a field, of which the name may tell that it is one."""
    from clew.system.config.secret_search import find_member_spans

    return _hidden(text, find_member_spans(name, text))


def mask_lines(lines: list[str]) -> list[str]:
    """Replace every secret in a text that was split, also one that goes over several lines."""
    from clew.system.config.secret_search import find_line_spans

    return [_hidden(line, spans) for line, spans in zip(lines, find_line_spans(lines), strict=True)]


def _hidden(text: str, spans: list[tuple[int, int]]) -> str:
    pieces = []
    at = 0
    for begin, end in spans:
        pieces += [text[at:begin], HIDDEN]
        at = end
    return "".join([*pieces, text[at:]])


def remove_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets named; for texts that must stay as they are but for these."""
    for secret in _longest_first(secrets):
        text = text.replace(secret, HIDDEN)
    return text


def without_cut(text: str, secrets: Iterable[str]) -> str:
    """The same of an excerpt: it may end inside a secret, so the beginning of one at its end goes too."""
    for secret in _longest_first(secrets):
        text = text.replace(secret, HIDDEN)
        at = text.rfind(secret[:LEAST_CHARS])
        if at >= 0 and secret.startswith(text[at:].rstrip(AFTER_A_CUT)):
            text = text[:at] + HIDDEN
    return text


def remove_all_secrets(value: Any, secrets: Iterable[str]) -> Any:
    """A decoded JSON value with every text in it treated so."""
    return _all(value, tuple(secrets), remove_secrets)


def mask_cut(text: str, secrets: Iterable[str]) -> str:
    """The same without secrets of a known shape either: for what a server says of a request."""
    return mask(without_cut(text, secrets))


def mask_all_cut(value: Any, secrets: Iterable[str]) -> Any:
    return _all(value, tuple(secrets), mask_cut)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name carries a credential, whatever a gateway calls it."""
    return SECRET_HEADER.search(name) is not None


def _longest_first(secrets: Iterable[str]) -> list[str]:
    return sorted({s for s in secrets if len(s) >= LEAST_CHARS}, key=len, reverse=True)


def _all(value: Any, secrets: tuple[str, ...], hide: Callable[[str, Iterable[str]], str]) -> Any:
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, list):
        return [_all(item, secrets, hide) for item in value]
    if isinstance(value, dict):
        return {hide(key, secrets): _all(item, secrets, hide) for key, item in value.items()}
    return value
