"""What a provider is: one request in, one attempt out, and a failure as a value.

Owns the words every provider and everything above them share: `ModelRequest`, `Attempt`, `Provider`,
`Failure`. Must never decide whether to try again (that is `retry`) and never know a wire format
(that is each provider's own module).
"""

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.normalize.prefix import Behavior

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Display: TypeAlias = Literal["summarized", "omitted"]
CacheTtl: TypeAlias = Literal["5m", "1h"]


class Adaptive(Struct, frozen=True, kw_only=True, tag="adaptive"):
    """The model decides how long it thinks."""

    display: Display | None = None


class ThinkingBudget(Struct, frozen=True, kw_only=True, tag="enabled"):
    """Thinking with a ceiling, at least 1024 and below the request's `max_tokens`."""

    tokens: int
    display: Display | None = None


class Off(Struct, frozen=True, kw_only=True, tag="disabled"):
    """No thinking."""


Thinking: TypeAlias = Adaptive | ThinkingBudget | Off


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One question to a model, whole; `None` leaves a choice to the model's entry in the catalog.

    `messages` are in the form the API takes; nothing here is ever mutated.
    """

    model: str
    messages: list[Json]
    max_tokens: int | None = None
    # How long system, tools and messages are, where somebody counted.
    input_tokens: int | None = None
    system: list[Json] | str | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    output_format: Json | None = None
    # What the model is told it may spend on the whole task.
    task_budget_tokens: int | None = None
    stop_sequences: list[str] | None = None
    user_id: str | None = None
    cache: CacheTtl | None = "5m"
    # How many messages at the end carry no cache mark: 1 for an instruction that is asked once,
    # so that the mark stays on the last message that later requests share.
    unshared_tail: int = 0
    betas: tuple[str, ...] = ()
    # The message whose request the service compares the cached beginning of this one with: its id,
    # empty for a conversation's first request. None asks for no comparison.
    compares_with: str | None = None
    # Only fills the prompt cache: the same beginning, and no answer.
    warms: bool = False
    session_id: str | None = None
    agent_id: str | None = None
    # Whether this is a turn of a conversation, so that the next request follows its answer: where message
    # threads are on, the service may hold the conversation until then.
    in_thread: bool = False
    # Which try this is, told to the service; the driver sets it.
    retry_count: int = 0
    # What the service is asked to do with thoughts that do not fit what stands before them.
    thought_binding: Behavior = ""
    # False asks for the whole answer at once; the attempt then yields the same events in one go.
    stream: bool = True
    # Top-level members of the body that clew has no name for, sent as they are.
    extra: Json | None = None


FailureKind: TypeAlias = Literal[
    "configuration",  # nothing was sent: no key, a proxy of a kind clew cannot speak, a bad URL
    "connect",  # no connection: refused, unreachable, no such host
    "connect_timeout",
    "proxy",  # the proxy answered, and not with a tunnel
    "tls",  # the certificate was not accepted, or there is no TLS at the other end
    "reset",  # the connection broke
    "stalled",  # the watchdog's verdict: nothing came for too long
    "protocol",  # not HTTP, or HTTP that contradicts itself
    "status",  # an HTTP status that is not 200
    "content",  # 200, and not an answer: a web page, a body that is not what its headers say
    "event",  # an event of the stream that is not one: broken JSON, out of order
    "error_event",  # the service's own `error` event after HTTP 200
    "truncated",  # the stream ended before the message did
]


class Failure(Struct, frozen=True, kw_only=True):
    """Why an attempt ended without a whole message; its text never holds a secret."""

    kind: FailureKind
    message: str
    status: int | None = None
    error_type: str | None = None
    # The service's own name or number for the error, where it has one beside its type.
    error_code: str | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    should_retry: bool | None = None
    # The service's own words for why it says no, where it sends them (which limit, which claim).
    details: Json | None = None


class Attempt(Protocol):
    """One request on its way: decoded API events, in the end at most one `Failure`, then nothing.

    It never raises anything but CancelledError; it is an object and not a generator, so that
    cancelling it is felt where it waits.
    """

    @property
    def bytes_received(self) -> int:
        """Rises with every byte, headers and pings included: how a watcher tells slow from dead."""
        ...

    @property
    def request_id(self) -> str | None: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers by lower-case name; empty before they came."""
        ...

    @property
    def refusal(self) -> Failure | None:
        """What the head of a response that is no answer says, from then on; its words may still
        be on their way, and a line that dies over them changes nothing about it."""
        ...

    def __aiter__(self) -> AsyncIterator[Json | Failure]: ...

    async def __anext__(self) -> Json | Failure: ...

    async def aclose(self) -> None:
        """Gives back what the attempt holds. Idempotent; leaves nothing running."""
        ...


class Description(Struct, frozen=True, kw_only=True):
    """Who answers, for people: no secret in any field."""

    name: str
    endpoint: str
    credentials: str


class Provider(Protocol):
    """Someone who answers requests. Small on purpose: whatever can be said once stands above it."""

    def stream(self, request: ModelRequest) -> Attempt: ...

    async def count_tokens(self, request: ModelRequest) -> int | Failure: ...

    def describe(self) -> Description: ...

    async def aclose(self) -> None: ...
