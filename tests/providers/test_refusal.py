"""Anything in place of an answer becomes a failure that says what arrived."""

import pytest

from clew.providers.refusal import make_content_failure, make_response_failure, words_of
from clew.providers.retry import parse_http_date_s, read_retry_after_s
from tests.requirements import requirement

API_ERROR = b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down","details":{"error_code":"x"}},"request_id":"req_body"}'


def test_the_apis_own_error_is_read_whole() -> None:
    failure = make_response_failure(
        429,
        {"request-id": "req_head", "retry-after": "3", "x-should-retry": "TRUE"},
        API_ERROR,
        wall_s=0,
    )
    assert failure.kind == "status"
    assert failure.message == "HTTP 429: Slow down"
    assert (failure.status, failure.error_type, failure.request_id) == (
        429,
        "rate_limit_error",
        "req_head",
    )
    assert (failure.retry_after_s, failure.should_retry) == (3.0, True)
    assert failure.details == {"error_code": "x"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "HTTP 502 without a message"),
        (b"upstream\x00 connect\n error", "HTTP 502: upstream connect error"),
        (b"<html><head><title>502 Bad\nGateway</title></head><body>x</body></html>", "HTTP 502: Bad Gateway"),
        (b"<html><title> </title><style>b{}</style><body><h1>Down</h1></body></html>", "HTTP 502: Down"),
        (b'{"error":"plain words"}', "HTTP 502: plain words"),
        (b'{"message":"from a gateway"}', "HTTP 502: from a gateway"),
        (b'{"error":{"message":7}}', 'HTTP 502: {"error":{"message":7}}'),
        (b'["no object"]', 'HTTP 502: ["no object"]'),
        (b"\xff\xfe", "HTTP 502: data that is not text"),
        (b"[" * 100_000, "HTTP 502: " + "[" * 300 + "..."),
    ],
)  # fmt: skip
def test_any_other_body_is_quoted_in_short(body: bytes, message: str) -> None:
    failure = make_response_failure(502, {}, body, wall_s=0)
    assert failure.message == message
    assert (failure.request_id, failure.retry_after_s, failure.should_retry) == (None, None, None)


def test_a_redirection_says_where_it_leads_and_is_not_followed() -> None:
    led = {"location": "https://gate\x1b.example/v1/messages"}
    failure = make_response_failure(307, led, b"<title>Moved</title>", wall_s=0)
    assert failure.message == (
        "HTTP 307: redirects to https://gate .example/v1/messages; "
        "if this is the service's address, use it as the base URL"
    )
    assert make_response_failure(307, {}, b"", wall_s=0).message == "HTTP 307 without a message"
    assert make_response_failure(400, led, b"", wall_s=0).message == "HTTP 400 without a message"


def test_a_request_id_is_found_in_the_body_where_no_header_has_it() -> None:
    assert make_response_failure(429, {}, API_ERROR, wall_s=0).request_id == "req_body"
    assert make_response_failure(429, {}, b'{"request_id":7}', wall_s=0).request_id is None


def test_a_page_in_place_of_an_answer_is_named_with_its_type() -> None:
    failure = make_content_failure(
        {"content-type": "text/html; charset=utf-8"}, b"<title>Log in</title>"
    )
    assert failure.kind == "content"
    assert failure.message == "HTTP 200 with text/html instead of an API response: Log in"
    empty = make_content_failure({}, b"")
    assert empty.message == "HTTP 200 with no content type instead of an API response: empty body"


def test_words_are_short_and_printable() -> None:
    assert words_of(b"a\x1b[31mb") == "a [31mb"
    assert len(words_of(b"x" * 10_000)) == 303


@requirement("C6")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1.x"}, None),
        ({"retry-after": "9" * 40}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 7.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:20 GMT"}, 0.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:37 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 60.0),
        ({"retry-after": "Sunday, 06-Nov-94 08:49:37 GMT"}, None),
        ({"retry-after": f"Sun, {'9' * 20} Nov 1994 08:49:37 GMT"}, None),
        ({"retry-after": f"Sun, 06 Nov 1994 {'9' * 20}:49:37 GMT"}, None),
        ({"retry-after": "Sun, 36 Nov 1994 08:49:37 GMT"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 at:noon GMT"}, None),
        ({"retry-after": "Sun, 06 Foo 1994 08:49:37 GMT"}, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:37 PST"}, None),
    ],
)  # fmt: skip
def test_a_wait_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert read_retry_after_s(headers, wall_s=784111770.0) == seconds


def test_a_leap_second_is_a_date() -> None:
    assert parse_http_date_s("Sat, 31 Dec 2016 23:59:60 GMT") == parse_http_date_s(
        "Sat, 31 Dec 2016 23:59:59 GMT"
    )
