"""Whatever an error object holds, it is read into the same fields and never raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.events import StreamFault
from clew.providers.base import Failure
from clew.providers.failure_kinds import (
    Overflow,
    category_of,
    find_affordable_output,
    find_effective_status,
    is_missing_model,
    overflow_of,
    why_no_credit,
)
from clew.providers.refusal import (
    MAX_QUOTED,
    Reported,
    error_object,
    make_fault_failure,
    make_response_failure,
    reported,
)


def test_a_gateways_quote_is_told_and_read() -> None:
    raw = json.dumps({"error": {"message": "Slow down. Try again in 9s", "type": "x"}})
    quoted = {"message": "Provider returned error", "code": 429, "metadata": {"raw": raw}}
    said = reported(quoted)
    assert said.message == "Provider returned error: Slow down. Try again in 9s"
    assert (said.error_code, said.retry_after_s) == ("429", 9.0)
    plain = reported({"message": "", "metadata": {"raw": "upstream went away"}})
    assert plain.message == "upstream went away"
    assert reported({"message": "no", "metadata": {"raw": "no"}}).message == "no"
    assert reported({"message": "no", "metadata": {"raw": 7}}).message == "no"


def test_quotes_within_quotes_are_read_to_a_depth() -> None:
    error: dict[str, Any] = {"message": "the first"}
    for n in range(MAX_QUOTED + 2):
        error = {"message": f"gateway {n}", "metadata": {"raw": json.dumps({"error": error})}}
    assert "the first" not in reported(error).message
    assert reported(error).message.startswith(f"gateway {MAX_QUOTED + 1}: gateway {MAX_QUOTED}")


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"resets_in_seconds": 1800}, 1800.0),
        ({"metadata": {"retry_after_seconds": 1.5}}, 1.5),
        ({"retry_after": -1}, None),
        ({"retry_after": 1e12}, None),
        ({"retry_after": "3"}, None),
        ({"details": [{"retryDelay": "2s"}, 7]}, 2.0),
        ({"details": [{"retryDelay": "soon"}, {"retryDelay": 3}]}, None),
        ({"details": {"retryDelay": "2s"}}, None),
        ({"message": 7}, None),
    ],
)
def test_a_wait_in_the_body_is_read(error: dict[str, Any], seconds: float | None) -> None:
    assert reported(error).retry_after_s == seconds


def test_googles_reason_and_violations_are_read() -> None:
    parts = [
        {"reason": "RATE_LIMIT_EXCEEDED"},
        {"violations": [{"quotaId": "PerDay"}, "odd"]},
        {"violations": "odd"},
    ]
    said = reported({"status": "RESOURCE_EXHAUSTED", "details": parts})
    assert said == Reported(
        error_type="RESOURCE_EXHAUSTED",
        error_code="RATE_LIMIT_EXCEEDED",
        details={"quotaId": "PerDay"},
    )


def test_headers_that_are_no_texts_are_left_out() -> None:
    quoted = {"metadata": {"headers": {"X-RateLimit-Reset": "3", "odd": 7}}}
    assert reported(quoted).headers == {"x-ratelimit-reset": "3"}
    assert reported({"metadata": {"headers": "odd"}}).headers == {}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'[{"error":{"code":400}}]', {"code": 400}),
        (b"[1]", {}),
        (b"[]", {}),
        (b'{"error":"words","code":7}', {"error": "words", "code": 7, "message": "words"}),
        (b'{"message":"bare"}', {"message": "bare"}),
        (b"no json", {}),
    ],
)
def test_the_error_object_is_found_in_whatever_holds_it(body: bytes, error: dict[str, Any]) -> None:
    assert error_object(body)[0] == error


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "type", "code", "status", "details", "metadata", "raw", "headers"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["error", "message", "type", "code", "details"]), anything))
def test_no_error_object_raises(document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    failure = make_response_failure(429, {}, body, wall_s=0)
    for judge in (
        overflow_of,
        why_no_credit,
        find_affordable_output,
        category_of,
        find_effective_status,
    ):
        judge(failure)
    error = document.get("error")
    fault = StreamFault(
        kind="error_event", message="x", error=error if isinstance(error, dict) else None
    )
    assert make_fault_failure(fault, headers={}).kind == "error_event"


def status(code: int | None, message: str = "no", **more: Any) -> Failure:
    return Failure(kind="status", message=message, status=code, **more)


def in_stream(**more: Any) -> Failure:
    return Failure(kind="error_event", message="no", status=200, **more)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (status(503), 503),
        (status(None, error_type="invalid_request_error"), 400),
        (status(400), 400),
        (status(400, error_type="INVALID_ARGUMENT", error_code="API_KEY_INVALID"), 401),
        (status(424), 424),
        (status(424, error_type="ModelStreamErrorException"), 500),
        (in_stream(error_code="502"), 502),
        (in_stream(error_type="InternalServerError"), 500),
        (in_stream(error_type="tokens", error_code="rate_limit_exceeded"), 429),
        (in_stream(error_type="RESOURCE_EXHAUSTED"), 429),
        (in_stream(error_type="of_tomorrow", error_code="9"), None),
        (Failure(kind="connect", message="no"), None),
    ],
)
def test_an_error_in_a_stream_stands_for_a_status(failure: Failure, expected: int | None) -> None:
    assert find_effective_status(failure) == expected


@pytest.mark.parametrize(
    ("failure", "category"),
    [
        (status(401), "authentication_failed"),
        (status(402), "billing_error"),
        (status(404), "model_not_found"),
        (status(422), "invalid_request"),
        (status(429), "rate_limit"),
        (status(503, "The model is overloaded"), "overloaded"),
        (status(503), "server_error"),
        (status(418), "unknown"),
        (Failure(kind="truncated", message="cut", status=200), "unknown"),
        (in_stream(error_type="api_error"), "server_error"),
        (Failure(kind="reset", message="cut"), "unknown"),
    ],
)
def test_a_failure_has_a_category_that_readers_know(failure: Failure, category: str) -> None:
    assert category_of(failure) == category


def test_a_word_about_money_counts_only_where_money_can_be_the_matter() -> None:
    assert why_no_credit(status(500, "credit balance service is down")) is None
    assert why_no_credit(status(403, "Insufficient balance")) is not None
    assert is_missing_model(status(404, error_type="NotFoundError"))


def test_a_limit_of_a_minute_that_one_request_fits_into_is_no_full_window() -> None:
    said = "Request too large for x on tokens per min (TPM): Limit 30000, Requested 20000."
    assert overflow_of(status(429, said)) is None
    assert overflow_of(status(403, "prompt is too long")) is None
    parts = (
        "This endpoint's maximum context length is 1,000 tokens. However, you requested about 1200 "
        "tokens (900 of text input, 300 in the output)."
    )
    assert overflow_of(status(400, parts)) == Overflow(input_tokens=900, limit_tokens=1000)
    counts = {"n_prompt_tokens": "many", "n_ctx": 0}
    named = status(400, error_type="exceed_context_size_error", details=counts)
    assert overflow_of(named) == Overflow()


def test_a_stream_that_broke_its_rules_asks_for_no_wait() -> None:
    fault = StreamFault(kind="cut_short", message="cut", excerpt="abc")
    failure = make_fault_failure(fault, headers={"x-ratelimit-reset": "30"})
    assert (failure.kind, failure.message) == ("truncated", "cut: 'abc'")
    assert failure.retry_after_s is None
    busy = StreamFault(kind="error_event", message="x", error={"type": "rate_limit_error"})
    assert make_fault_failure(busy, headers={"x-ratelimit-reset": "30"}).retry_after_s == 30.0
