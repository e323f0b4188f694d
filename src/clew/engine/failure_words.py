"""Put a request that failed into words, with what the user can do about it."""

from datetime import datetime

from clew.config.clock import here
from clew.providers.answer_events import GaveUp
from clew.providers.base import Failure
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
