"""From a response that is no answer to a `Failure` that says what came.

Owns how an error's body is read, whatever it is: the API's JSON, a gateway's web page, nothing.
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from clew.providers.base import Failure, FailureKind, Json
from clew.providers.failure_kinds import is_busy
from clew.providers.reported import Reported, error_object, reported
from clew.providers.waits import http_date_s, reset_after_s, retry_after_s
from clew.stream.events import StreamFault

EXCERPT_CHARACTERS = 300
# Anthropic's, OpenAI's, Azure's, Bedrock's and Mistral's.
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
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.I | re.S)
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.I | re.S)


def failure_of_response(
    status: int, headers: Mapping[str, str], body: bytes, *, wall_s: float
) -> Failure:
    """Why a response with this status is no answer."""
    error, document = error_object(body)
    told = reported(error)
    said = told.message or words_of(body)
    if 300 <= status < 400 and (elsewhere := words_of(headers.get("location", "").encode())):
        # A key is sent to nobody but the address that a person named.
        said = f"it leads to {elsewhere}; if that is the service, name it as the base URL"
    failure = Failure(
        kind="status",
        message=f"HTTP {status}: {said}" if said else f"HTTP {status} without a word",
        status=status,
        error_type=_bedrock_type(headers) or told.error_type,
        error_code=told.error_code,
        request_id=_request_id(headers, document),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "").lower()),
        details=told.details,
    )
    return _with_wait(failure, told, headers, wall_s)


def failure_of_fault(
    fault: StreamFault, *, headers: Mapping[str, str], wall_s: float | None = None
) -> Failure:
    """Return the failure of an attempt whose stream broke its own rules or told of an error.

    `headers` are those of the response that the stream came with.
    """
    told = reported(fault.error or {})
    said = told.message if fault.kind == "error_event" and told.message else fault.message
    shown = f": {fault.excerpt!r}" if fault.excerpt else ""
    failure = Failure(
        kind=FAULTS_OF_THE_LINE.get(fault.kind, "event"),
        message=f"{said}{shown}",
        status=200,
        error_type=told.error_type or fault.error_type,
        error_code=told.error_code,
        request_id=fault.request_id,
        details=told.details,
    )
    return _with_wait(failure, told, headers, wall_s)


def _with_wait(
    failure: Failure, told: Reported, headers: Mapping[str, str], wall_s: float | None
) -> Failure:
    """Return the failure with the wait that is asked for: by a header, by the error itself, or,
    where a limit was reached, by the moment at which it is refilled."""
    their_now_s = http_date_s(headers.get("date"))
    now_s = wall_s if their_now_s is None else their_now_s
    wait_s = retry_after_s(headers, wall_s=wall_s)
    if wait_s is None:
        wait_s = told.retry_after_s
    if wait_s is None and is_busy(failure):
        wait_s = reset_after_s(told.headers or headers, now_s=now_s)
    return failure if wait_s is None else replace(failure, retry_after_s=wait_s)


def _bedrock_type(headers: Mapping[str, str]) -> str | None:
    """Return the exception that Bedrock names beside its body: `ThrottlingException:http://...`."""
    return headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2] or None


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


def _request_id(headers: Mapping[str, str], document: Json) -> str | None:
    named = (headers.get(name) for name in REQUEST_ID_HEADERS)
    found = next(filter(None, named), None) or document.get("request_id")
    return found if isinstance(found, str) else None
