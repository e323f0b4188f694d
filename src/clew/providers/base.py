"""The provider interface: one request, one attempt, and failures as values.

Owns the types shared by all providers and by the code above them: `ModelRequest`, `Attempt`,
`Provider`, `Failure`. Must never decide whether to retry (see `retry`), and must not depend on a
wire format (see each provider's own module).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.normalize.prefix import Behavior

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Display: TypeAlias = Literal["summarized", "omitted"]
CacheTtl: TypeAlias = Literal["5m", "1h"]


class Adaptive(Struct, frozen=True, kw_only=True, tag="adaptive"):
    """Thinking whose length the model decides.

    Fields:
        display: Whether the answer shows the thinking; None selects the service's default.
    """

    display: Display | None = None


class ThinkingBudget(Struct, frozen=True, kw_only=True, tag="enabled"):
    """Thinking with a token budget, at least 1024 and below the request's `max_tokens`.

    Fields:
        tokens: The maximum number of thinking tokens.
        display: Whether the answer shows the thinking; None selects the service's default.
    """

    tokens: int
    display: Display | None = None


class Off(Struct, frozen=True, kw_only=True, tag="disabled"):
    """Thinking is off."""


Thinking: TypeAlias = Adaptive | ThinkingBudget | Off


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request to a model. `None` leaves a choice to the model's entry in the catalog.

    `messages` are in the API's format; they must never be mutated.

    Fields:
        max_tokens: The maximum number of tokens in the answer; None is the model's own limit.
        system: The system prompt.
        tools: The tools that the model may call.
        tool_choice: Whether the model must or must not call a tool.
        thinking: The kind of thinking; None is the model's default.
        effort: How much the model thinks.
        output_format: The format of the answer, such as a JSON schema.
        stop_sequences: Strings that end the answer.
        user_id: The end user, for the service's records.
        cache: How long the service caches the request; None disables caching.
        betas: Features of the service to turn on.
        session_id: The session's ID.
        agent_id: The subagent's ID; None in the session itself.
        input_tokens: The number of tokens in system, tools and messages, if it was counted.
        most_input_tokens: The highest possible number of input tokens, for a spending
            limit.
        task_budget_tokens: The token budget for the task, sent to the model.
        unshared_tail: How many messages at the end carry no cache mark: 1 for an
            instruction that is sent only once, so that the mark stays on the last message
            that later requests share.
        compares_with: The ID of an earlier message. The service should compare the cached
            prefix of this request with that of the request for that message. Empty for a
            session's first request; None requests no comparison.
        warms: Only fill the prompt cache with the prefix, and request no response.
        in_thread: Whether this is a turn of a session, so that the next request continues
            from its response. With message threads on, the service may store the
            conversation until then.
        retry_count: The retry number sent to the service, set by `Answering`.
        thought_binding: What the service should do with thinking blocks that do not match
            the preceding content.
        stream: False requests the entire response at once; the attempt then yields the
            same events all together.
        extra: Top-level fields of the body that clew does not know, sent unchanged.
    """

    model: str
    messages: list[Json]
    max_tokens: int | None = None
    input_tokens: int | None = None
    most_input_tokens: int | None = None
    system: list[Json] | str | None = None
    tools: list[Json] | None = None
    tool_choice: Json | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    output_format: Json | None = None
    task_budget_tokens: int | None = None
    stop_sequences: list[str] | None = None
    user_id: str | None = None
    cache: CacheTtl | None = "5m"
    unshared_tail: int = 0
    betas: tuple[str, ...] = ()
    compares_with: str | None = None
    warms: bool = False
    session_id: str | None = None
    agent_id: str | None = None
    in_thread: bool = False
    retry_count: int = 0
    thought_binding: Behavior = ""
    stream: bool = True
    extra: Json | None = None


FailureKind: TypeAlias = Literal[
    "budget",  # Nothing was sent: the request could cost more than the session may.
    "configuration",  # Nothing was sent: no key, an unsupported proxy type, an invalid URL.
    "connect",  # No connection: refused, unreachable, unknown host.
    "no_server",  # No connection: this machine refused it, so nothing listens at the port.
    "connect_timeout",
    "proxy",  # The proxy did not open a tunnel.
    "tls",  # The certificate was rejected, or the server does not use TLS.
    "reset",  # The connection broke.
    "stalled",  # The watchdog timed out because nothing arrived.
    "protocol",  # not HTTP, or invalid HTTP
    "status",  # An HTTP status that is not 200.
    "content",  # status 200 without an API response: a web page, or a mismatch of body and headers
    "event",  # An invalid stream event: malformed JSON, wrong order.
    "error_event",  # The service's own `error` event after HTTP 200.
    "truncated",  # The stream ended before the message did.
]


class Failure(Struct, frozen=True, kw_only=True):
    """The reason why an attempt ended without a complete message.

    None of its strings contains a secret.

    Fields:
        kind: What kind of failure it is, such as `status` or `connection`.
        status: The HTTP status, if there was one.
        error_type: The service's name for the error.
        request_id: The service's ID of the request.
        retry_after_s: How long to wait before the next attempt, in seconds.
        should_retry: Whether the service wants another attempt; None if it did not say.
        error_code: The service's own name or number for the error, if it has one in
            addition to its type.
        details: The service's details about the refusal, such as which limit was reached.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    error_type: str | None = None
    error_code: str | None = None
    request_id: str | None = None
    retry_after_s: float | None = None
    should_retry: bool | None = None
    details: Json | None = None


class Attempt(Protocol):
    """One request in progress: yields decoded API events, then at most one `Failure`.

    Iterating raises nothing except CancelledError. This is an object, not a generator, so that a
    cancellation takes effect at the await in progress.
    """

    @property
    def bytes_received(self) -> int:
        """The number of bytes received so far, headers and pings included."""
        ...

    @property
    def request_id(self) -> str | None: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers, with lower-case names. Empty until they arrive."""
        ...

    @property
    def refusal(self) -> Failure | None:
        """The failure that the head of an error response describes, or None before it arrives.

        The body may still be incomplete. A connection that breaks while the body is read does not
        change the failure.
        """
        ...

    def __aiter__(self) -> AsyncIterator[Json | Failure]: ...

    async def __anext__(self) -> Json | Failure: ...

    async def aclose(self) -> None:
        """Release the attempt's resources. Idempotent; leaves nothing running."""
        ...


class Description(Struct, frozen=True, kw_only=True):
    """The provider's name, its endpoint and the kind of its credentials, for display.

    No field contains a secret.
    """

    name: str
    endpoint: str
    credentials: str


class Cap(Protocol):
    """Limits what the requests of a session may cost (`agent.spending_cap`).

    `owner` is the object that requests one response. Its reservation lasts until `release`.
    """

    async def hold(self, owner: object, request: ModelRequest) -> ModelRequest | Failure:
        """Reserve the highest cost of a request, and return the request.

        The request is limited to what the session may still spend. Return a `Failure` if that is
        too little.
        """
        ...

    def release(self, owner: object) -> None: ...


class Provider(Protocol):
    """A service that responds to requests.

    Deliberately small: shared behavior belongs in the layers above.
    """

    def stream(self, request: ModelRequest) -> Attempt: ...

    async def count_tokens(self, request: ModelRequest) -> int | Failure: ...

    def describe(self) -> Description: ...

    async def aclose(self) -> None: ...


# A program's own provider: it yields the pieces of an answer (`clew.core.stream.pieces`), and may
# end with a `Failure`.
ProviderFunction: TypeAlias = Callable[[ModelRequest], AsyncIterator[str | Json | Failure]]

# A program's function that may change the messages of each request. It receives copies.
PrepareFunction: TypeAlias = Callable[[list[Json]], list[Json]]
