"""What a refused request was refused for, read from the failure that the log keeps."""

import re
from typing import Any

from clew.normalize.shapes import MEDIA

_TOO_LARGE = 413
_COMPLAINTS = (
    "exceed",
    "too large",
    "too many",
    "could not process",
    "not match",
    "maximum",
    "dimension",
    "invalid",
    "unsupported",
    "password",
)
_SUBJECTS = {"image": ("image",), "document": ("pdf", "document")}


def refused_media(entry: dict[str, Any]) -> frozenset[str]:
    """The kinds of block that a failed request's failure complains about; often none."""
    if (
        entry.get("apiErrorStatus") == _TOO_LARGE
        or entry.get("apiErrorType") == "request_too_large"
    ):
        return MEDIA
    words = _words(entry).lower()
    if not any(complaint in words for complaint in _COMPLAINTS):
        return frozenset()
    return frozenset(
        kind for kind, subjects in _SUBJECTS.items() if any(s in words for s in subjects)
    )


_UNKNOWN_KIND = re.compile(r"Input tag '([^']{1,100})'")


def refused_kinds(entry: dict[str, Any]) -> frozenset[str]:
    """The kinds of block of which the service says that it knows none; often none."""
    return frozenset(_UNKNOWN_KIND.findall(_words(entry)))


def _words(entry: dict[str, Any]) -> str:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    said = (
        [b.get("text") for b in content if type(b) is dict] if type(content) is list else [content]
    )
    said += [entry.get("errorDetails"), entry.get("apiError"), entry.get("error")]
    return "\n".join(words for words in said if type(words) is str)
