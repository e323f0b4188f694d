"""What the driver says beside the answer's own events, and how an answer ended."""

from typing import TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.stream.events import AnswerEvent
from clew.providers.base import Failure
from clew.providers.failure_kinds import Overflow


class Asking(Struct, frozen=True, kw_only=True):
    """An attempt begins; `attempt` counts from 1 for each model."""

    model: str
    attempt: int
    stream: bool


class Waiting(Struct, frozen=True, kw_only=True):
    """Nothing was seen for a while: a hint, not a failure. `limit_s` is when the attempt is given up."""

    silent_s: float
    limit_s: float


class Retrying(Struct, frozen=True, kw_only=True):
    """An attempt failed and another follows, after a pause and within a visible budget."""

    failure: Failure
    attempt: int
    max_attempts: int | None
    delay_s: float
    budget_left_s: float | None
    whole: bool = False


class HeldByRateLimit(Struct, frozen=True, kw_only=True):
    """The request waits because another one was told to: the service's rate limit is shared."""

    delay_s: float


class Streamed(Struct, frozen=True, kw_only=True):
    """An event of the service, as it came; only told where somebody asked for them."""

    event: Json


class Withdrawn(Struct, frozen=True, kw_only=True):
    """What was shown of this message is void: an attempt follows that begins anew."""

    message: Json


class FellBack(Struct, frozen=True, kw_only=True):
    """The next model of the chain is asked from here on."""

    failure: Failure
    model: str


class Shrunk(Struct, frozen=True, kw_only=True):
    """The request goes out again with less room for its answer, once."""

    failure: Failure
    max_tokens: int


DriverEvent: TypeAlias = (
    Asking
    | Waiting
    | Retrying
    | HeldByRateLimit
    | Streamed
    | Withdrawn
    | FellBack
    | Shrunk
    | AnswerEvent
)


class Answered(Struct, frozen=True, kw_only=True):
    """A whole message."""

    message: Json
    model: str
    request_id: str | None = None
    attempts: int = 1


class Incomplete(Struct, frozen=True, kw_only=True):
    """What was complete of a message, kept; it may hold tool calls that were ready to run."""

    message: Json
    failure: Failure
    model: str
    request_id: str | None = None
    attempts: int = 1


class GaveUp(Struct, frozen=True, kw_only=True):
    """No message came. `why` says what ended the attempts, `failure` what the last one met.

    `retry_in_s` is after how long the service would answer again, where it says so.
    """

    failure: Failure
    why: str
    retry_in_s: float | None = None
    model: str
    attempts: int
    elapsed_s: float


class CompactionDue(Struct, frozen=True, kw_only=True):
    """The conversation does not fit the model; only a shorter one will be answered.

    `failure` is the service's refusal; None if the count said so before anything was sent.
    """

    failure: Failure | None
    overflow: Overflow
    model: str


Ended: TypeAlias = Answered | Incomplete | GaveUp | CompactionDue
