"""The retry decision is one function over values: the failure, what was spent, a random number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.providers.base import Failure, FailureKind, ModelRequest
from clew.providers.failure_kinds import RETRIED_STATUSES, Overflow, is_overload
from clew.providers.retry import (
    Again,
    CompactFirst,
    Decision,
    FallBack,
    GiveUp,
    RetryPolicy,
    Shrink,
    Spent,
    count_attempt,
    decide,
    final,
    span_in_words,
)
from tests.requirements import requirement

REQUEST = ModelRequest(model="opus", messages=[])
BUSY = Failure(
    kind="status", message="HTTP 529: Overloaded", status=529, error_type="overloaded_error"
)
LIMITED = Failure(
    kind="status", message="HTTP 429: slow", status=429, error_type="rate_limit_error"
)
CUT = Failure(kind="truncated", message="cut", status=200)


def status(code: int, message: str = "no", **more: object) -> Failure:
    return Failure(kind="status", message=f"HTTP {code}: {message}", status=code, **more)


def after(
    *failures: Failure, random: float = 0.5, policy: RetryPolicy | None = None, **spent: object
) -> Decision:
    """What is decided after these failures, one after the other."""
    so_far = Spent(**spent)
    for failure in failures:
        so_far = count_attempt(so_far, failure, policy or RetryPolicy())
    return decide(failures[-1], REQUEST, so_far, policy or RetryPolicy(), random=random)


@requirement("R073", "C6")
@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 529])
def test_these_statuses_are_tried_again(code: int) -> None:
    assert isinstance(after(status(code)), Again)
    assert code in RETRIED_STATUSES


@requirement("R073")
@pytest.mark.parametrize(
    "kind", ["connect", "no_server", "connect_timeout", "reset", "stalled", "truncated", "event", "protocol", "content"]
)  # fmt: skip
def test_a_broken_line_is_tried_again(kind: FailureKind) -> None:
    assert isinstance(after(Failure(kind=kind, message="broken")), Again)


@requirement("R073")
def test_a_server_on_this_machine_that_is_not_running_is_given_up_soon() -> None:
    refused = Failure(kind="no_server", message="refused")
    assert isinstance(after(refused, refused), Again)
    assert isinstance(after(refused, refused, refused), GiveUp)
    # Elsewhere, an address may answer again.
    assert isinstance(after(*[Failure(kind="connect", message="refused")] * 9), Again)
    # A number of retries that the user set applies here too.
    asked = RetryPolicy(max_attempts=6, counts_overloads=True)
    assert isinstance(after(*[refused] * 5, policy=asked), Again)
    assert isinstance(after(*[refused] * 6, policy=asked), GiveUp)
    assert isinstance(after(refused, policy=RetryPolicy(max_attempts=1)), GiveUp)


@requirement("R073")
def test_an_error_within_a_stream_is_judged_by_its_type() -> None:
    for error_type in ("overloaded_error", "rate_limit_error", "api_error", "timeout_error"):
        failure = Failure(kind="error_event", message="x", status=200, error_type=error_type)
        assert isinstance(after(failure), Again)
    refused = Failure(
        kind="error_event", message="x", status=200, error_type="invalid_request_error"
    )
    assert isinstance(after(refused), GiveUp)


@requirement("R076", "W7")
@pytest.mark.parametrize(
    "failure",
    [
        *(status(code) for code in (301, 400, 401, 403, 404, 405, 422, 501, 505)),
        Failure(kind="tls", message="certificate"),
        Failure(kind="configuration", message="no key"),
        Failure(kind="proxy", message="407", status=407),
    ],
    ids=lambda f: f"{f.kind} {f.status}",
)
def test_what_would_end_the_same_way_is_said_at_once(failure: Failure) -> None:
    assert isinstance(after(failure), GiveUp)


@requirement("W7")
@pytest.mark.parametrize(
    "failure",
    [
        status(429, "This request would exceed your account's monthly spend limit."),
        status(429, "no", details={"error_code": "enforced_spend_limit_reached"}),
        status(402, "no", error_type="billing_error"),
        status(400, "Your credit balance is too low"),
        status(429, "Extra usage is required for long context requests.", should_retry=True),
    ],
)
def test_a_limit_of_money_is_not_waited_out(failure: Failure) -> None:
    decision = after(failure, policy=RetryPolicy(unattended=True))
    assert isinstance(decision, GiveUp)
    assert "spending limit" in decision.why
    assert decision.retry_in_s is None


@requirement("C6")
def test_the_service_has_the_last_word_on_trying_again() -> None:
    assert isinstance(after(status(400, should_retry=True)), Again)
    said_no = after(status(529, should_retry=False))
    assert isinstance(said_no, GiveUp)
    assert "not to retry" in said_no.why


@requirement("R075", "R234", "C6")
def test_pauses_grow_by_two_up_to_a_cap_with_full_jitter() -> None:
    longest = [after(*[BUSY] * n, random=0.999999) for n in range(1, 10)]
    assert [round(d.delay_s) for d in longest if isinstance(d, Again)] == [
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        30,
        30,
    ]
    shortest = [after(*[BUSY] * n, random=0.0) for n in range(1, 10)]
    assert [d.delay_s for d in shortest if isinstance(d, Again)] == [0.0] * 9


def gives_up(decision: object, value: str, retry_in_s: float | None = None) -> bool:
    """Whether a decision ends the attempts, with this value in its reason."""
    return (
        isinstance(decision, GiveUp) and value in decision.why and decision.retry_in_s == retry_in_s
    )


@requirement("C6")
def test_ten_attempts_then_the_end_is_said_with_their_number() -> None:
    assert isinstance(after(*[LIMITED] * 9), Again)
    end = after(*[LIMITED] * 10)
    assert end == GiveUp(why="10 attempts failed")


def test_an_overload_is_tried_again_until_the_time_is_used() -> None:
    assert isinstance(after(*[BUSY] * 60, elapsed_s=500.0), Again)
    assert gives_up(after(*[BUSY] * 60, elapsed_s=595.0), "600 s")
    in_a_stream = Failure(
        kind="error_event", message="busy", status=200, error_type="overloaded_error"
    )
    loading = status(503, "Loading model")
    assert isinstance(after(*[BUSY, in_a_stream, loading] * 20), Again)
    # Other failures in between count as ever.
    assert isinstance(after(*[BUSY, status(500)] * 9), Again)
    assert after(*[BUSY, status(500)] * 10) == GiveUp(why="10 attempts failed")


def test_a_number_of_retries_that_was_asked_for_bounds_overloads_too() -> None:
    asked = RetryPolicy(max_attempts=3, counts_overloads=True)
    assert isinstance(after(BUSY, BUSY, policy=asked), Again)
    assert after(BUSY, BUSY, BUSY, policy=asked) == GiveUp(why="3 attempts failed")
    unattended = replace(asked, unattended=True)
    assert isinstance(after(*[BUSY] * 9, policy=unattended), Again)


@requirement("R074", "C6", "W7")
def test_retry_after_is_waited_and_a_little_more_so_that_not_all_come_at_once() -> None:
    for random in (0.0, 0.5, 0.999):
        decision = after(replace(LIMITED, retry_after_s=20.0), random=random)
        assert isinstance(decision, Again)
        assert 20.0 <= decision.delay_s <= 21.0
    short = after(replace(LIMITED, retry_after_s=0.0), random=0.5)
    assert short == Again(delay_s=0.5)


def test_a_wait_beyond_the_budget_is_said_and_not_begun() -> None:
    decision = after(replace(LIMITED, retry_after_s=7200.0))
    assert gives_up(decision, "2 h", retry_in_s=7200.0)
    late = after(BUSY, elapsed_s=594.9, random=0.9)
    assert gives_up(late, "600 s")
    late_with_wait = after(replace(LIMITED, retry_after_s=30.0), elapsed_s=590.0)
    assert gives_up(late_with_wait, "30 s", retry_in_s=30.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (7200, "2 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (86_400, "1 d"),
    ],
)
def test_a_wait_is_told_in_units_that_people_read(seconds: float, words: str) -> None:
    assert span_in_words(seconds) == words


@requirement("C6")
def test_unattended_work_waits_out_429_and_529_and_nothing_else() -> None:
    patient = RetryPolicy(unattended=True)
    decision = after(*[BUSY] * 200, policy=patient, elapsed_s=1e6, random=0.999999)
    assert isinstance(decision, Again)
    assert round(decision.delay_s) == 300
    waited = after(replace(LIMITED, retry_after_s=7200.0), policy=patient, elapsed_s=1e6)
    assert isinstance(waited, Again)
    assert 7200 <= waited.delay_s < 7600
    year_9999 = after(replace(LIMITED, retry_after_s=2.5e11), policy=patient, random=0.999999)
    assert isinstance(year_9999, Again)
    assert 6 * 3600 <= year_9999.delay_s < 7 * 3600
    assert isinstance(after(*[status(500)] * 10, policy=patient), GiveUp)


def test_something_in_the_way_is_tried_three_times() -> None:
    page = Failure(kind="content", message="a login page", status=200)
    assert isinstance(after(page, page), Again)
    assert gives_up(after(page, page, page), "3 attempts")
    assert isinstance(after(page, page, page, BUSY), Again)
    assert isinstance(after(Failure(kind="proxy", message="502", status=502)), Again)
    assert isinstance(after(Failure(kind="proxy", message="hung up")), Again)


def test_when_streams_keep_breaking_one_attempt_asks_for_the_whole_answer() -> None:
    assert after(CUT, CUT) == Again(delay_s=1.0)
    assert after(CUT, CUT, CUT) == Again(delay_s=2.0, whole=True)
    assert after(CUT, CUT, CUT, elapsed_s=400.0) == Again(delay_s=2.0)
    before_the_head = Failure(kind="reset", message="hung up")
    assert after(before_the_head, before_the_head, before_the_head) == Again(delay_s=2.0)
    assert after(CUT, CUT, CUT, asked_whole=True) == Again(delay_s=2.0)
    assert after(CUT, CUT, CUT, BUSY) == Again(delay_s=4.0)
    whole_already = decide(
        CUT,
        replace(REQUEST, stream=False),
        Spent(attempts=1, broken_streams=9),
        RetryPolicy(),
        random=0.0,
    )
    assert whole_already == Again(delay_s=0.0)


def test_the_next_model_is_asked_when_one_stays_overloaded_or_is_not_there() -> None:
    chain = ("sonnet", "haiku")
    assert isinstance(after(BUSY, BUSY, fallbacks=chain), Again)
    assert after(BUSY, BUSY, BUSY, fallbacks=chain) == FallBack(model="sonnet")
    assert isinstance(after(BUSY, BUSY, status(500), BUSY, fallbacks=chain), Again)
    missing = status(404, error_type="not_found_error")
    assert after(missing, fallbacks=chain) == FallBack(model="sonnet")
    assert isinstance(after(missing), GiveUp)
    assert after(*[status(500)] * 10, fallbacks=chain) == FallBack(model="sonnet")
    assert isinstance(after(status(401), fallbacks=chain), GiveUp)


@requirement("R077", "R078", "R235", "W8")
def test_an_overflow_shrinks_the_answer_once_and_then_compaction_is_due() -> None:
    said = "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000"
    decision = after(status(400, said))
    assert isinstance(decision, Shrink)
    assert decision.request.max_tokens == 4000
    assert after(status(400, said), shrunk=True) == CompactFirst(
        overflow=Overflow(input_tokens=195000, limit_tokens=200000)
    )
    too_full = said.replace("195000", "197000")
    assert isinstance(after(status(400, too_full)), CompactFirst)
    assert isinstance(after(status(413, "too large")), CompactFirst)


def test_only_what_a_failure_counts_for_is_counted() -> None:
    spent = count_attempt(
        count_attempt(Spent(fallbacks=("x",), shrunk=True), BUSY, RetryPolicy()), CUT, RetryPolicy()
    )
    assert spent == Spent(attempts=2, uncounted=1, broken_streams=1, fallbacks=("x",), shrunk=True)


failures = st.builds(
    Failure,
    kind=st.sampled_from(["status", "reset", "error_event", "content", "tls", "stalled"]),
    message=st.text(max_size=80),
    status=st.none() | st.integers(100, 599),
    error_type=st.none() | st.sampled_from(["overloaded_error", "api_error", "odd"]),
    retry_after_s=st.none() | st.floats(0, 1e9),
    should_retry=st.none() | st.booleans(),
)


@given(failures, st.integers(1, 2000), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_attended_work_always_comes_to_an_end(
    failure: Failure, attempts: int, elapsed_s: float, random: float
) -> None:
    spent = Spent(attempts=attempts, elapsed_s=elapsed_s)
    decision = decide(failure, REQUEST, spent, RetryPolicy(), random=random)
    if isinstance(decision, Again):
        assert attempts < 10 or is_overload(failure)
        assert final(failure) is None
        assert 0 <= decision.delay_s <= 600 - elapsed_s
