"""Put a request that failed into words, with what the user can do about it, and into the transcript."""

from datetime import datetime

from clew.config.clock import here
from clew.messages import factories
from clew.providers.answer_events import GaveUp
from clew.providers.base import Failure, Json
from clew.providers.failure_kinds import without_credit

# A moment beyond that is no advice, and the calendar may not have it.
LONGEST_WAIT_S = 366 * 86_400.0


def api_error_words(failure: Failure) -> str:
    """Return the failure as transcripts have it."""
    status = f"{failure.status} " if failure.status else ""
    return f"API Error: {status}{failure.message}"


def with_advice(ended: GaveUp, now: str) -> str:
    """Return the failure with the time to come back, or with the reason why waiting does not help."""
    said = api_error_words(ended.failure)
    wait_s = ended.retry_in_s
    if wait_s is not None and wait_s < LONGEST_WAIT_S:
        until = here(datetime.fromisoformat(now).timestamp() + wait_s)
        return f"{said} ({ended.why}: try again at {until})"
    return said if without_credit(ended.failure) is None else f"{said} ({ended.why})"


def failed_request(
    failure: Failure,
    *,
    uuid: str,
    at: str,
    attempt: int,
    max_attempts: int | None = None,
    delay_s: float | None = None,
) -> Json:
    """Return the entry that tells of one failed request; `delay_s` is None where none follows.

    It stands on the chain, for readers of the transcript; no request holds it.
    """
    error: Json = {"message": failure.message, "formatted": api_error_words(failure)}
    known = {"status": failure.status, "type": failure.error_type, "requestId": failure.request_id}
    error |= {name: value for name, value in known.items() if value is not None}
    is_refusal = failure.kind in ("status", "error_event")
    if not is_refusal:
        code, is_tls = failure.kind, failure.kind == "tls"
        error["connection"] = {"code": code, "message": failure.message, "isSSLError": is_tls}
    more: Json = {"retryAttempt": attempt}
    if delay_s is not None:
        more["retryInMs"] = round(delay_s * 1000)
    if max_attempts is not None:
        more["maxRetries"] = max_attempts
    return factories.system(
        "api_error",
        uuid=uuid,
        at=at,
        level="error",
        error=error,
        source="request_retry" if is_refusal else "connection_retry",
        **more,
    )
