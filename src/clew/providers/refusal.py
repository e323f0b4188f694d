"""Convert an error response to a `Failure`.

Owns the parsing of error bodies of any kind: the API's JSON, a gateway's web page, or nothing.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_object import Json, object_of, text_of
from clew.core.regex import lazy_pattern
from clew.core.stream.events import StreamFault
from clew.providers.base import Failure, FailureKind
from clew.providers.failure_kinds import is_busy
from clew.providers.retry import (
    find_seconds,
    parse_http_date_s,
    parse_seconds,
    read_retry_after_s,
    reset_after_s,
)

# Parse the error object of any service into the same fields.


# The maximum depth of errors quoted inside another error's text.
MAX_QUOTED = 3
# A larger number is a Unix time, not a wait.
LONGEST_S = 1e9
# Fields that contain the number of seconds to wait.
_WAITS = ("resets_in_seconds", "retry_after", "retry_after_seconds")
# Fields with the prompt's length and the window's size: llama.cpp's server_error_to_json writes
# both.
_COUNTS = ("n_prompt_tokens", "n_ctx")


class Reported(Struct, frozen=True, kw_only=True):
    """The fields of an error object. Fields that it does not provide are None or empty."""

    message: str = ""
    error_type: str | None = None
    # The service's own name or number for the error, as text.
    error_code: str | None = None
    details: Json | None = None
    retry_after_s: float | None = None
    # The upstream service's headers, by lower-case name, if a gateway quotes them.
    headers: Mapping[str, str] = {}


def reported(error: Json) -> Reported:
    """Parse an error object from any service."""
    return _reported(error, MAX_QUOTED)


def _reported(error: Json, depth: int) -> Reported:
    parts = list(_parts(error))
    text = text_of(error.get("message"))
    upstream = _upstream(error, depth)
    if upstream is not None and upstream.message and upstream.message not in text:
        text = f"{text}: {upstream.message}" if text else upstream.message
    return Reported(
        message=text,
        error_type=_name(error.get("type")) or _name(error.get("status")),
        error_code=_reason(parts) or _name(error.get("code")),
        details=_details(error, parts),
        retry_after_s=_retry_after_s(error, parts, upstream),
        headers=_headers(error),
    )


def _headers(error: Json) -> Mapping[str, str]:
    metadata = error.get("metadata")
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    pairs = headers.items() if isinstance(headers, dict) else ()
    return {name.lower(): value for name, value in pairs if isinstance(value, str)}


def _name(value: Any) -> str | None:
    """Return a type or code as text. Some services send a number, some the string `None`."""
    if type(value) is int:
        return str(value)
    return value if isinstance(value, str) and value not in ("", "None") else None


def _parts(error: Json) -> Iterator[Json]:
    """Yield the typed parts of Google's `details` (google.rpc.ErrorInfo, RetryInfo and others)."""
    details = error.get("details")
    for part in details if isinstance(details, list) else ():
        if isinstance(part, dict):
            yield part


def _reason(parts: list[Json]) -> str | None:
    return next((reason for part in parts if (reason := _name(part.get("reason")))), None)


def _details(error: Json, parts: list[Json]) -> Json | None:
    details = error.get("details")
    if isinstance(details, dict):
        return details
    counts: Json = {name: error[name] for name in _COUNTS if type(error.get(name)) is int}
    for part in parts:
        violations = part.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, dict):
                counts |= violation
    return counts or None


def _retry_after_s(error: Json, parts: list[Json], upstream: Reported | None) -> float | None:
    """Return the wait that the error object specifies, in seconds, or None.

    Its fields take precedence over its message.
    """
    for part in parts:
        delay = part.get("retryDelay")
        if isinstance(delay, str) and (seconds := parse_seconds(delay)) is not None:
            return seconds
    for member in (error, object_of(error.get("metadata"))):
        for name in _WAITS:
            value = member.get(name)
            if isinstance(value, int | float) and 0 <= value < LONGEST_S:
                return float(value)
    if upstream is not None and upstream.retry_after_s is not None:
        return upstream.retry_after_s
    message = error.get("message")
    return find_seconds(message) if isinstance(message, str) else None


def _upstream(error: Json, depth: int) -> Reported | None:
    """Return the upstream service's error that a gateway quotes, or None."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or not raw or not depth:
        return None
    inner = error_object(raw.encode())
    return _reported(inner[0], depth - 1) if inner[0] else Reported(message=raw)


def error_object(body: bytes) -> tuple[Json, Json]:
    """Return the error object of a body and the document around it, both empty if there is none.

    For streaming requests, Google sends a list with one document.
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


EXCERPT_CHARACTERS = 300
# A body is not text if more than one character in this many can't be decoded.
UNREADABLE_SHARE = 10
# Header names of Anthropic, OpenAI, Azure, Bedrock and Mistral.
REQUEST_ID_HEADERS = (
    "request-id",
    "x-request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
)
FAULTS_OF_THE_LINE: dict[str, FailureKind] = {
    "error_event": "error_event",
    "unfinished_event": "truncated",
    "no_message": "truncated",
    "cut_short": "truncated",
}
_TITLE = lazy_pattern(r"<title[^>]*>(.*?)</title", re.I | re.S)
_TAGS = lazy_pattern(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.I | re.S)


def make_response_failure(
    status: int, headers: Mapping[str, str], body: bytes, *, wall_s: float
) -> Failure:
    """Return the failure for a response with an error status."""
    error, document = error_object(body)
    report = reported(error)
    text = report.message or words_of(body)
    # Web servers repeat the status in their pages.
    text = text.removeprefix(str(status)).lstrip()
    if 300 <= status < 400 and (elsewhere := words_of(headers.get("location", "").encode())):
        # A key is only ever sent to the address that the user configured.
        text = f"redirects to {elsewhere}; if this is the service's address, use it as the base URL"
    failure = Failure(
        kind="status",
        message=f"HTTP {status}: {text}" if text else f"HTTP {status} without a message",
        status=status,
        error_type=_bedrock_type(headers) or report.error_type,
        error_code=report.error_code,
        request_id=_request_id(headers, document),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "").lower()),
        details=report.details,
    )
    return _with_wait(failure, report, headers, wall_s)


def make_fault_failure(
    fault: StreamFault, *, headers: Mapping[str, str], wall_s: float | None = None
) -> Failure:
    """Return the failure of an attempt whose stream was invalid or reported an error.

    `headers` are those of the response that contained the stream.
    """
    report = reported(fault.error or {})
    text = report.message if fault.kind == "error_event" and report.message else fault.message
    excerpt = f": {fault.excerpt!r}" if fault.excerpt else ""
    failure = Failure(
        kind=FAULTS_OF_THE_LINE.get(fault.kind, "event"),
        message=f"{text}{excerpt}",
        status=200,
        error_type=report.error_type or fault.error_type,
        error_code=report.error_code,
        request_id=fault.request_id,
        details=report.details,
    )
    return _with_wait(failure, report, headers, wall_s)


def _with_wait(
    failure: Failure, report: Reported, headers: Mapping[str, str], wall_s: float | None
) -> Failure:
    """Return the failure with the time to wait.

    The time comes from a header, from the error itself, or, if a limit was reached, from the time
    at which the limit resets.
    """
    their_now_s = parse_http_date_s(headers.get("date"))
    now_s = wall_s if their_now_s is None else their_now_s
    wait_s = read_retry_after_s(headers, wall_s=wall_s)
    if wait_s is None:
        wait_s = report.retry_after_s
    if wait_s is None and is_busy(failure):
        wait_s = reset_after_s(report.headers or headers, now_s=now_s)
    return failure if wait_s is None else replace(failure, retry_after_s=wait_s)


def _bedrock_type(headers: Mapping[str, str]) -> str | None:
    """Return the exception that Bedrock names in a header (`ThrottlingException:...`), or None."""
    return headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2] or None


def make_content_failure(
    headers: Mapping[str, str], body: bytes, *, kind: FailureKind = "content"
) -> Failure:
    """Return the failure for a body with HTTP 200 that is not a response of the API."""
    media_type = headers.get("content-type", "").partition(";")[0].strip() or "no content type"
    text = words_of(body)
    return Failure(
        kind=kind,
        message=f"HTTP 200 with {media_type} instead of an API response: {text or 'empty body'}",
        status=200,
        request_id=_request_id(headers, {}),
    )


def words_of(body: bytes) -> str:
    """Return a short excerpt of a body: a web page's title, or the beginning of the text."""
    text = body[:65_536].decode("utf-8", "replace")
    if text.count("\ufffd") > len(text) // UNREADABLE_SHARE:
        return "data that is not text"
    if "<" in text[:1000]:
        title = _TITLE.search(text)
        text = title[1] if title is not None and title[1].strip() else _TAGS.sub(" ", text)
    text = "".join(c if c.isprintable() else " " for c in text)
    short = " ".join(text.split())
    return short if len(short) <= EXCERPT_CHARACTERS else short[:EXCERPT_CHARACTERS] + "..."


def find_request_id(headers: Mapping[str, str]) -> str | None:
    """Return the request ID in a response's headers, under any service's header name, or None."""
    return next(filter(None, (headers.get(name) for name in REQUEST_ID_HEADERS)), None)


def _request_id(headers: Mapping[str, str], document: Json) -> str | None:
    request_id = find_request_id(headers) or document.get("request_id")
    return request_id if isinstance(request_id, str) else None
