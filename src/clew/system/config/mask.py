"""Mask secrets in text that leaves the process: logs, errors, exports.

Owns `mask` and its variants. The module `clew.system.config.secret_search`, which recognizes
secrets, is imported only when text is masked. Masking must take time linear in the length of the
text, and must reveal at most the prefix that identifies the kind of secret.

Decision: docs/decisions/110-keys-and-secrets.md
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from clew.core.regex import lazy_pattern

HIDDEN = "[masked]"
# A shorter value may occur in any text by chance.
LEAST_CHARS = 6
# Characters that may follow a cut-off excerpt.
AFTER_A_CUT = ".'\")"
SECRET_HEADER = lazy_pattern(r"auth|cookie|secret|token|(?<!idempotency-)key", re.I)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask every secret in a string: those listed in `secrets`, and those with a known format."""
    from clew.system.config.secret_search import find_secret_spans

    text = remove_secrets(text, secrets)
    return _hidden(text, find_secret_spans(text))


def mask_member(name: str, text: str) -> str:
    """Mask every secret in the value of a field. The name of the field may indicate a secret."""
    from clew.system.config.secret_search import find_member_spans

    return _hidden(text, find_member_spans(name, text))


def mask_lines(lines: list[str]) -> list[str]:
    """Mask every secret in lines of text, including secrets that span several lines."""
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
    """Return the text with the listed secrets masked, and everything else unchanged."""
    for secret in _longest_first(secrets):
        text = text.replace(secret, HIDDEN)
    return text


def without_cut(text: str, secrets: Iterable[str]) -> str:
    """Return a truncated excerpt with the listed secrets masked, even a secret that was cut off."""
    for secret in _longest_first(secrets):
        text = text.replace(secret, HIDDEN)
        at = text.rfind(secret[:LEAST_CHARS])
        if at >= 0 and secret.startswith(text[at:].rstrip(AFTER_A_CUT)):
            text = text[:at] + HIDDEN
    return text


def remove_all_secrets(value: Any, secrets: Iterable[str]) -> Any:
    """Return a decoded JSON value with the listed secrets masked in all its strings."""
    return _all(value, tuple(secrets), remove_secrets)


def mask_cut(text: str, secrets: Iterable[str]) -> str:
    """Mask secrets in an excerpt from a server.

    These are the listed secrets, even if they were cut off, and secrets with known formats.
    """
    return mask(without_cut(text, secrets))


def mask_all_cut(value: Any, secrets: Iterable[str]) -> Any:
    return _all(value, tuple(secrets), mask_cut)


def is_secret_header(name: str) -> bool:
    """Return whether a header with this name contains a credential for a service or a gateway."""
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
