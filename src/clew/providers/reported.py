"""Read an error object of any service into the same fields.

Owns the spellings: Anthropic's and OpenAI's `type`, `code` and `message`; Google's `status` and typed
`details`; OpenRouter's numeric `code` and the upstream error in `metadata.raw`; the counts that
llama.cpp puts beside its message. Must never decide what follows an error (that is `retry`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from clew.providers.base import Json
from clew.providers.waits import seconds_in_words, seconds_of_text

# How deep an error may be quoted inside another one's text.
MAX_QUOTED = 3
# A number beyond it is a moment, not a wait.
LONGEST_S = 1e9
# Members that say after how many seconds to come back.
_WAITS = ("resets_in_seconds", "retry_after", "retry_after_seconds")
# Members beside the message that say how long a prompt was and what the window holds: llama.cpp's
# server_error_to_json writes both.
_COUNTS = ("n_prompt_tokens", "n_ctx")


class Reported(Struct, frozen=True, kw_only=True):
    """What an error object says; None and empty where it says nothing."""

    message: str = ""
    error_type: str | None = None
    # A service's own name or number for the error, as text.
    error_code: str | None = None
    details: Json | None = None
    retry_after_s: float | None = None
    # The headers of the service behind a gateway, by lower-case name, where it quotes them.
    headers: Mapping[str, str] = {}


def reported(error: Json) -> Reported:
    """Return what an error object says, whoever wrote it."""
    return _reported(error, MAX_QUOTED)


def _reported(error: Json, depth: int) -> Reported:
    parts = list(_parts(error))
    message = error.get("message")
    said = message if isinstance(message, str) else ""
    upstream = _upstream(error, depth)
    if upstream is not None and upstream.message and upstream.message not in said:
        said = f"{said}: {upstream.message}" if said else upstream.message
    return Reported(
        message=said,
        error_type=_name(error.get("type")) or _name(error.get("status")),
        error_code=_name(error.get("code")) or _reason(parts),
        details=_details(error, parts),
        retry_after_s=_retry_after_s(error, parts, upstream),
        headers=_headers(error),
    )


def _headers(error: Json) -> Mapping[str, str]:
    metadata = error.get("metadata")
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    told = headers.items() if isinstance(headers, dict) else ()
    return {name.lower(): value for name, value in told if isinstance(value, str)}


def _name(value: Any) -> str | None:
    """Return a type or code as text: some services send numbers, some the word `None`."""
    if type(value) is int:
        return str(value)
    return value if isinstance(value, str) and value not in ("", "None") else None


def _parts(error: Json) -> Iterator[Json]:
    """Yield the typed parts of Google's `details` (google.rpc.ErrorInfo, RetryInfo, QuotaFailure)."""
    details = error.get("details")
    for part in details if isinstance(details, list) else ():
        if isinstance(part, dict):
            yield part


def _reason(parts: list[Json]) -> str | None:
    return next((said for part in parts if (said := _name(part.get("reason")))), None)


def _details(error: Json, parts: list[Json]) -> Json | None:
    details = error.get("details")
    if isinstance(details, dict):
        return details
    found: Json = {name: error[name] for name in _COUNTS if type(error.get(name)) is int}
    for part in parts:
        violations = part.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict):
                found |= violation
    return found or None


def _retry_after_s(error: Json, parts: list[Json], upstream: Reported | None) -> float | None:
    """Return the wait that the object itself names; its members come before its words."""
    for part in parts:
        delay = part.get("retryDelay")
        if isinstance(delay, str) and (seconds := seconds_of_text(delay)) is not None:
            return seconds
    metadata = error.get("metadata")
    for member in (error, metadata if isinstance(metadata, dict) else {}):
        for name in _WAITS:
            value = member.get(name)
            if isinstance(value, int | float) and 0 <= value < LONGEST_S:
                return float(value)
    if upstream is not None and upstream.retry_after_s is not None:
        return upstream.retry_after_s
    message = error.get("message")
    return seconds_in_words(message) if isinstance(message, str) else None


def _upstream(error: Json, depth: int) -> Reported | None:
    """Return the error that a gateway quotes from the service behind it."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or not raw or not depth:
        return None
    inner = error_object(raw.encode())
    return _reported(inner[0], depth - 1) if inner[0] else Reported(message=raw)


def error_object(body: bytes) -> tuple[Json, Json]:
    """Return the error object of a body and the document around it; both empty if there is none.

    Google sends a list of one document where a stream was asked for.
    """
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}, {}
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        return {}, {}
    error = document.get("error")
    if isinstance(error, str):
        return document | {"message": error}, document
    return (error if isinstance(error, dict) else document), document
