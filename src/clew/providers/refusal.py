"""From a response that is no answer to a `Failure` that says what came.

Owns how an error's body is read, whatever it is: the API's JSON, a gateway's web page, nothing.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.providers.base import Failure, FailureKind, Json
from clew.providers.retry_after import retry_after_s

EXCERPT_CHARACTERS = 300
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.I | re.S)
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.I | re.S)


def failure_of_response(
    status: int, headers: Mapping[str, str], body: bytes, *, wall_s: float
) -> Failure:
    """Why a response with this status is no answer."""
    error, document = _api_error(body)
    error_type = error.get("type")
    message = error.get("message")
    said = message if isinstance(message, str) and message else words_of(body)
    if 300 <= status < 400 and (elsewhere := words_of(headers.get("location", "").encode())):
        # A key is sent to nobody but the address that a person named.
        said = f"it leads to {elsewhere}; if that is the service, name it as the base URL"
    return Failure(
        kind="status",
        message=f"HTTP {status}: {said}" if said else f"HTTP {status} without a word",
        status=status,
        error_type=error_type if isinstance(error_type, str) else None,
        request_id=_request_id(headers, document),
        retry_after_s=retry_after_s(headers, wall_s=wall_s),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "").lower()),
        details=details if isinstance(details := error.get("details"), dict) else None,
    )


def failure_of_content(
    headers: Mapping[str, str], body: bytes, *, kind: FailureKind = "content"
) -> Failure:
    """Why a body that came with HTTP 200 is no answer."""
    named = headers.get("content-type", "").partition(";")[0].strip() or "no content type"
    said = words_of(body)
    return Failure(
        kind=kind,
        message=f"HTTP 200 with {named} in place of an answer: {said or 'an empty body'}",
        status=200,
        request_id=_request_id(headers, {}),
    )


def words_of(body: bytes) -> str:
    """A short piece of text from whatever a body is; a web page gives its title and words."""
    text = body[:65_536].decode("utf-8", "replace")
    if "<" in text[:1000]:
        title = _TITLE.search(text)
        text = title[1] if title is not None and title[1].strip() else _TAGS.sub(" ", text)
    text = "".join(c if c.isprintable() else " " for c in text)
    short = " ".join(text.split())
    return short if len(short) <= EXCERPT_CHARACTERS else short[:EXCERPT_CHARACTERS] + "..."


def _api_error(body: bytes) -> tuple[Json, Json]:
    """The error object of a body and the document around it; both empty if it is no such thing."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}, {}
    if not isinstance(document, dict):
        return {}, {}
    error = document.get("error")
    if isinstance(error, str):
        return {"message": error}, document
    return (error if isinstance(error, dict) else document), document


def _request_id(headers: Mapping[str, str], document: Json) -> str | None:
    found = headers.get("request-id") or headers.get("x-request-id") or document.get("request_id")
    return found if isinstance(found, str) else None
