"""Events that `Answering` emits in addition to the response's own, and its possible outcomes."""

from typing import TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.stream.events import AnswerEvent
from clew.providers.base import Failure
from clew.providers.failure_kinds import Overflow


class Asking(Struct, frozen=True, kw_only=True):
    """An attempt begins. `attempt` counts from 1 for each model."""

    model: str
    attempt: int
    stream: bool


class Waiting(Struct, frozen=True, kw_only=True):
    """Nothing arrived for a while.

    This is a hint, not a failure; the attempt ends after `limit_s`.
    """

    silent_s: float
    limit_s: float


class Retrying(Struct, frozen=True, kw_only=True):
    """An attempt failed, and another one follows after a pause.

    `max_attempts` and `budget_left_s` are the limits for further attempts, if any.
    """

    failure: Failure
    attempt: int
    max_attempts: int | None
    delay_s: float
    budget_left_s: float | None
    whole: bool = False


class HeldByRateLimit(Struct, frozen=True, kw_only=True):
    """The request waits because the service rate-limited another request of this program."""

    delay_s: float


class Streamed(Struct, frozen=True, kw_only=True):
    """A raw event of the service. Emitted only on request."""

    event: Json


class Withdrawn(Struct, frozen=True, kw_only=True):
    """The part of the message shown so far is discarded, because another attempt starts over."""

    message: Json


class FellBack(Struct, frozen=True, kw_only=True):
    """The next model of the chain is used from here on."""

    failure: Failure
    model: str


class Shrunk(Struct, frozen=True, kw_only=True):
    """The request is sent again, once, with a smaller maximum output."""

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
    """A complete message."""

    message: Json
    model: str
    request_id: str | None = None
    attempts: int = 1


class Incomplete(Struct, frozen=True, kw_only=True):
    """An incomplete message with its completed blocks, possibly tool calls ready to run."""

    message: Json
    failure: Failure
    model: str
    request_id: str | None = None
    attempts: int = 1


class GaveUp(Struct, frozen=True, kw_only=True):
    """No message arrived.

    `why` is the reason for giving up, and `failure` describes how the last attempt failed.
    `retry_in_s` is the time after which the service would respond again, if it reported one.
    """

    failure: Failure
    why: str
    retry_in_s: float | None = None
    model: str
    attempts: int
    elapsed_s: float


class CompactionDue(Struct, frozen=True, kw_only=True):
    """The session does not fit the model's context window and must be compacted first.

    `failure` is the service's refusal, or None if the token count already showed that the session
    does not fit, so that nothing was sent.
    """

    failure: Failure | None
    overflow: Overflow
    model: str


Ended: TypeAlias = Answered | Incomplete | GaveUp | CompactionDue
