"""The Messages API over HTTP: one attempt with its events and its failure as a value.

Owns the wire format of one request and one response. Must never retry (see `retry` and `answer`),
and no failure's text may contain a credential.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.catalog.models import choose_other_version
from clew.core.json_object import Json
from clew.core.stream.decode import EventDecoder, events_of_body
from clew.core.stream.events import StreamFault
from clew.core.stream.json_pieces import parse_object
from clew.providers.base import Attempt, Description, Failure, ModelRequest
from clew.providers.endpoint import (
    VERSION_HEADER,
    Endpoint,
    read_endpoint,
    request_headers,
    with_header,
)
from clew.providers.failure_kinds import (
    is_unauthenticated,
    refuses_diagnostics,
    refuses_version,
)
from clew.providers.message_threads import ThreadedRequest, Threads
from clew.providers.refusal import (
    find_request_id,
    make_content_failure,
    make_response_failure,
)
from clew.providers.request_body import Built, build, build_count, without_conflict
from clew.providers.writing import Writing
from clew.system.config.environment import freeze
from clew.system.transport.http import HttpTransport
from clew.system.transport.network import read_network
from clew.system.transport.seam import Exchange, Head, HttpRequest, Transport, TransportError

MESSAGES = "/v1/messages?beta=true"
COUNT_TOKENS = "/v1/messages/count_tokens?beta=true"
MAX_REFUSAL_BYTES = 65_536
REFUSAL_TIMEOUT_S = 10.0
# The limit for a response that is not streamed, and for one event of a stream: twice the maximum
# size of a request, because later requests must contain the response.
MAX_ANSWER_BYTES = 64 << 20
# The limit for a stream, framing included: the longest response of any model, with one character
# per event.
MAX_STREAM_BYTES = 256 << 20
COUNT_TIMEOUT_S = 60.0
# The strings of a failure that come from the service and might contain a credential.
HIDDEN = ("message", "error_type", "error_code", "request_id")
# Failures that happen before the service can have received a request.
NOT_SENT = ("configuration", "connect", "no_server", "connect_timeout", "proxy", "tls")
# The last events of a stream. After them, only HTTP's own end can follow.
LAST_WORDS = ("message_stop", "error")


class CredentialError(Exception):
    """Raised if there are no usable credentials.

    The text says why and what to do, and contains no secret.
    """


# Adds credentials to the first request and returns it. The second request, if any, is one whose
# credentials the service rejected, so different ones are used.
Authorize: TypeAlias = Callable[[HttpRequest, HttpRequest | None], Awaitable[HttpRequest]]


class AnthropicProvider:
    """One endpoint of the Messages API, with its connections and the catalog of its models."""

    # Whether a function of the program provides the answers instead of a service.
    is_function = False

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport,
        *,
        catalog: ModelCatalog = CATALOG,
        wall_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self.transport = transport
        self.catalog = catalog
        self.wall_s = wall_s
        self.monotonic_s = monotonic_s
        # The conversations that the endpoint stores, or None if it must not store any.
        self.threads: Threads | None = None
        # Remembers for later sessions which version of the API the endpoint supports.
        self.remember_version: Callable[[str, str], None] = lambda _address, _version: None
        # Remembers for later sessions that the endpoint rejects the comparison of requests.
        self.remember_refusal: Callable[[str], None] = lambda _address: None
        # Adds credentials that must be fetched, renewed or computed from the request.
        self.authorize: Authorize | None = None
        # Whether rejected credentials can be replaced by new ones.
        self.renews = False
        self.refusal_timeout_s = REFUSAL_TIMEOUT_S
        self.max_answer_bytes = MAX_ANSWER_BYTES
        self.max_stream_bytes = MAX_STREAM_BYTES
        self._writing = Writing()

    def warm(self) -> None:
        """Start connecting (TLS) for the first request while the caller still prepares it."""
        self.transport.warm(self.endpoint.base_url)

    def stream(self, request: ModelRequest) -> Attempt:
        endpoint = self.endpoint
        request = without_conflict(request, self.catalog.entry(request.model))
        threaded = None
        if self.threads is not None and request.in_thread and endpoint.betas_allowed:
            threaded = ThreadedRequest(
                self.threads,
                request,
                self.catalog.entry(request.model),
                self._built,
                api_version=endpoint.api_version,
                now_s=self.monotonic_s,
            )
        built = self._built(request) if threaded is None else threaded.built
        without = partial(self._plain, request, threaded) if "diagnostics" in built.body else None
        return MessagesAttempt(
            self, self.wire(built, request), threaded=threaded, without_diagnostics=without
        )

    def _built(self, request: ModelRequest) -> Built:
        """Return the body of a request with the entire conversation."""
        endpoint = self.endpoint
        return build(
            request,
            self.catalog.entry(request.model),
            betas_allowed=endpoint.betas_allowed,
            api_version=endpoint.api_version,
            diagnoses=endpoint.diagnoses,
        )

    def _plain(self, request: ModelRequest, threaded: ThreadedRequest | None) -> HttpRequest:
        """Return a request that does not ask the service to compare it with an earlier one."""
        plain = replace(request, compares_with=None)
        if threaded is None:
            return self.wire(self._built(plain), plain)
        threaded.compare_nothing()
        return self.wire(threaded.built, plain)

    def wire(self, built: Built, request: ModelRequest) -> HttpRequest:
        """Return the HTTP request for a body that asks for a response."""
        return self._http(MESSAGES, built, request, stream=request.stream)

    def adjustments(self, request: ModelRequest) -> tuple[str, ...]:
        """Return notes on what was changed in a request because the model does not support it."""
        model = self.catalog.entry(request.model)
        return build(request, model, api_version=self.endpoint.api_version).adjusted

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        missing = self.missing_credentials()
        if missing is not None:
            return missing
        model = self.catalog.entry(request.model)
        endpoint = self.endpoint
        built = build_count(
            request,
            model,
            betas_allowed=endpoint.betas_allowed,
            api_version=endpoint.api_version,
        )
        http_request = self._http(COUNT_TOKENS, built, request, stream=False)
        counted = await self._count(http_request)
        other = self.other_version(counted, http_request) if isinstance(counted, Failure) else None
        if other is not None:
            counted = await self._count(with_header(http_request, VERSION_HEADER, other))
            self.take_version(other, counted if isinstance(counted, Failure) else None)
        return self.hidden(counted) if isinstance(counted, Failure) else counted

    async def _count(self, http_request: HttpRequest) -> int | Failure:
        try:
            sent = await self.authorized(http_request)
            counted = await self._count_with(sent)
            if self.renews and isinstance(counted, Failure) and is_unauthenticated(counted):
                counted = await self._count_with(await self.authorized(http_request, rejected=sent))
        except CredentialError as error:
            return Failure(kind="configuration", message=str(error))
        return counted

    async def _count_with(self, http_request: HttpRequest) -> int | Failure:
        exchange = self.transport.exchange(http_request)
        try:
            async with asyncio.timeout(COUNT_TIMEOUT_S):
                return await self._counted(exchange)
        except TransportError as error:
            return failure_of_transport(error, None)
        except TimeoutError:
            return Failure(kind="stalled", message=f"no token count within {COUNT_TIMEOUT_S:g} s")
        finally:
            await exchange.close()

    def other_version(self, refused: Failure, http_request: HttpRequest) -> str | None:
        """Return another API version to retry with if the service rejected this one, or None."""
        if self.endpoint.pins_version or not refuses_version(refused):
            return None
        spoken = dict(http_request.headers).get(VERSION_HEADER)
        return None if spoken is None else choose_other_version(spoken)

    def take_version(self, version: str, failure: Failure | None) -> None:
        """Use this version from now on, unless it was rejected as well."""
        if failure is not None and (failure.status is None or refuses_version(failure)):
            return
        self.endpoint = replace(self.endpoint, api_version=version)
        self.remember_version(self.endpoint.shown, version)

    def take_no_diagnostics(self, failure: Failure | None) -> None:
        """Stop requesting comparisons if the service accepted the request without them."""
        if failure is None:
            self.endpoint = replace(self.endpoint, diagnoses=False)
            self.remember_refusal(self.endpoint.shown)

    async def _counted(self, exchange: Exchange) -> int | Failure:
        head = await exchange.open()
        if head.status != 200:
            body = await words_of_refusal(exchange, self.refusal_timeout_s)
            return make_response_failure(head.status, head.headers, body, wall_s=self.wall_s())
        body = await rest_of(exchange, self.max_answer_bytes)
        tokens = self.counted_in(body)
        return make_content_failure(head.headers, body) if tokens is None else tokens

    def counted_in(self, body: bytes) -> int | None:
        """Return the token count in a count response, or None if the response is invalid."""
        answer = parse_object(body)
        tokens = None if isinstance(answer, StreamFault) else answer.get("input_tokens")
        return tokens if type(tokens) is int else None

    def describe(self) -> Description:
        return Description(
            name="Messages API",
            endpoint=self.endpoint.shown,
            credentials=self.endpoint.credentials,
        )

    async def aclose(self) -> None:
        await self.transport.aclose()

    def decoder(self) -> "StreamDecoder":
        """Return a decoder for a streamed response."""
        return EventDecoder(max_event_bytes=self.max_answer_bytes)

    def events_of_body(self, body: bytes) -> list[Json | StreamFault]:
        """Return the events of a response that was not streamed."""
        return events_of_body(body)

    def written(self, body: Json, agent_id: str | None) -> bytes:
        return self._writing.body(body, agent_id)

    def missing_credentials(self) -> Failure | None:
        endpoint = self.endpoint
        if endpoint.hindrance:
            return Failure(kind="configuration", message=endpoint.hindrance)
        if not endpoint.wants_credentials or endpoint.api_key or endpoint.auth_token:
            return None
        advice = endpoint.advice or (
            "run `clew login` or set ANTHROPIC_API_KEY; for another service, set its key and name "
            "the model as SERVICE/MODEL (see clew models)"
        )
        message = f"no API key for {endpoint.shown}: {advice}"
        return Failure(kind="configuration", message=message)

    async def authorized(
        self, request: HttpRequest, *, rejected: HttpRequest | None = None
    ) -> HttpRequest:
        """Return the request with credentials. Raise `CredentialError` if there are none."""
        return request if self.authorize is None else await self.authorize(request, rejected)

    def hidden(self, failure: Failure) -> Failure:
        """Return the failure with all credentials masked, in case the service echoed one."""
        texts = {name: getattr(failure, name) for name in HIDDEN}
        return replace(failure, **self.endpoint.hide_all(texts | {"details": failure.details}))

    def _http(
        self,
        path: str,
        built: Built,
        request: ModelRequest,
        *,
        stream: bool,
        kind: str = "",
        model: str = "",
    ) -> HttpRequest:
        kind = kind or ("count" if path == COUNT_TOKENS else "ask" if stream else "whole")
        return HttpRequest(
            method="POST",
            url=self.endpoint.url_for(kind, path, model or str(built.body.get("model", ""))),
            headers=request_headers(
                self.endpoint,
                betas=built.betas,
                stream=stream,
                retry_count=request.retry_count,
                session_id=request.session_id,
                agent_id=request.agent_id,
            ),
            body=self.written(built.body, request.agent_id),
        )


def provider_from_environment(
    environ: Mapping[str, str], *, catalog: ModelCatalog = CATALOG, proxy: str | None = None
) -> AnthropicProvider:
    """Return the provider that the environment variables configure. Nothing is connected yet."""
    environment = freeze(environ)
    transport = HttpTransport(read_network(environment, proxy=proxy))
    provider = AnthropicProvider(read_endpoint(environment), transport, catalog=catalog)
    provider.max_stream_bytes = environment.number("max_answer_bytes") or MAX_STREAM_BYTES
    return provider


class StreamDecoder(Protocol):
    """Decodes the bytes of a stream, in any wire format, into events of the Messages API."""

    def feed(self, chunk: bytes) -> list[Json | StreamFault]: ...

    def close(self) -> list[Json | StreamFault]: ...


class MessagesAttempt:
    """One request in progress; see `clew.providers.base.Attempt`."""

    def __init__(
        self,
        provider: AnthropicProvider,
        request: HttpRequest,
        threaded: ThreadedRequest | None = None,
        without_diagnostics: Callable[[], HttpRequest] | None = None,
        amended: Callable[[Failure], HttpRequest | None] | None = None,
        new_decoder: Callable[[], "StreamDecoder"] | None = None,
        decode_body: Callable[[bytes], list[Json | StreamFault]] | None = None,
    ) -> None:
        """Set up the attempt; the provider's own decoders are the default.

        `without_diagnostics` builds the request without the field `diagnostics`, for a service
        that rejects it. `amended` returns another form of the request that may succeed after a
        rejection.
        """
        self._amended = amended
        self._new_decoder = new_decoder or provider.decoder
        self._decode_body = decode_body or provider.events_of_body
        self._provider = provider
        self._request = request
        # Tracks the message thread, and whether the response began as expected.
        self._threaded = threaded
        self._has_begun = threaded is None
        self._without_diagnostics = without_diagnostics
        self._is_plain = False
        # The request as it was sent, the one whose credentials the service rejected, and whether
        # the credentials were renewed after that.
        self._sent = request
        self._rejected: HttpRequest | None = None
        self._has_renewed = False
        self._exchange: Exchange = provider.transport.exchange(request)
        # The API version with which the request was sent again, and the bytes received before that.
        self._other_version: str | None = None
        self._bytes_before = 0
        self._streamed = ("accept", "text/event-stream") in request.headers
        self._head: Head | None = None
        self._refusal: Failure | None = None
        self._decoder: StreamDecoder | None = None
        self._stream_bytes = 0
        self._ready: deque[Json | Failure] = deque()
        self._ended = False
        self._answered = False

    @property
    def bytes_received(self) -> int:
        return self._bytes_before + self._exchange.bytes_received

    @property
    def headers(self) -> Mapping[str, str]:
        return {} if self._head is None else self._head.headers

    @property
    def refusal(self) -> Failure | None:
        return self._refusal

    @property
    def request_id(self) -> str | None:
        request_id = find_request_id(self.headers)
        return None if request_id is None else self._provider.endpoint.hide_in_id(request_id)

    def __aiter__(self) -> AsyncIterator[Json | Failure]:
        return self

    async def __anext__(self) -> Json | Failure:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._advance()
        event = self._ready.popleft()
        if not isinstance(event, Failure) and event.get("type") in LAST_WORDS:
            self._answered = True
            if event["type"] == "error":
                hidden: Json = self._provider.endpoint.hide_all(event)
                return hidden
        return event

    async def aclose(self) -> None:
        self._ended = True
        self._ready.clear()
        await self._exchange.close(answered=self._answered)

    async def _advance(self) -> None:
        """Read the head, or the next piece of the body."""
        try:
            if self._head is None:
                await self._open()
            else:
                await self._read()
        except TransportError as error:
            failure = failure_of_transport(error, self.request_id)
            if self._head is not None:
                failure = replace(failure, status=self._head.status)
            elif error.kind in NOT_SENT:
                self._give_back()
            self._fail(failure)

    async def _open(self) -> None:
        if (missing := self._provider.missing_credentials()) is not None:
            self._fail(missing)
            return
        if self._provider.authorize is not None and not await self._authorize():
            return
        self._head = await self._exchange.open()
        headers = self._head.headers
        if self._head.status != 200:
            self._refusal = self._provider.hidden(self._refused(b""))
            failure = self._refused(await self._words_of_refusal())
            if await self._is_asked_again(failure) or await self._is_asked_otherwise(failure):
                return
            self._learn(failure)
            self._give_back()
            self._fail(failure)
            return
        self._learn(None)
        if _is_page(headers):
            self._fail(make_content_failure(headers, await self._words_of_refusal()))
        elif _is_json(headers) or not (self._streamed or _is_stream(headers)):
            await self._whole(headers)
        else:
            self._decoder = self._new_decoder()

    async def _authorize(self) -> bool:
        """Add credentials to the request. Return False if there are none."""
        try:
            rejected, self._rejected = self._rejected, None
            self._sent = await self._provider.authorized(self._request, rejected=rejected)
        except CredentialError as error:
            self._fail(Failure(kind="configuration", message=str(error)))
            return False
        self._exchange = self._provider.transport.exchange(self._sent)
        return True

    async def _is_asked_again(self, refused: Failure) -> bool:
        """Send the request again if that may help, and return whether it was sent.

        It is sent with new credentials, with another API version, or without a field that the
        service does not support.
        """
        other = self._provider.other_version(refused, self._request)
        if is_unauthenticated(refused) and self._provider.renews and not self._has_renewed:
            self._rejected, self._has_renewed = self._sent, True
            request = self._request
        elif other is not None and self._other_version is None:
            self._other_version = other
            request = self._request
        elif self._without_diagnostics is not None and refuses_diagnostics(refused):
            request, self._without_diagnostics = self._without_diagnostics(), None
            self._is_plain = True
        elif self._amended is not None and (other_form := self._amended(refused)) is not None:
            request, self._amended = other_form, None
        else:
            return False
        await self._ask_again(request)
        return True

    async def _is_asked_otherwise(self, refused: Failure) -> bool:
        """Send the request again in another form if the message thread failed.

        Return whether it was sent again.
        """
        if self._threaded is None or not self._threaded.refused(refused):
            return False
        await self._ask_in_its_form()
        return True

    async def _is_misled(self, events: list[Json | StreamFault]) -> bool:
        """Return whether the response shows that the model did not see the entire conversation.

        The request is then sent again in another form.
        """
        first = next((e for e in events if isinstance(e, StreamFault) or e["type"] != "ping"), None)
        if self._has_begun or first is None:
            return False
        self._has_begun = True
        if self._threaded is None or isinstance(first, StreamFault):
            return False
        if not self._threaded.is_misled(first):
            return False
        self._has_begun = False
        await self._ask_in_its_form()
        return True

    async def _ask_in_its_form(self) -> None:
        assert self._threaded is not None
        await self._ask_again(self._provider.wire(self._threaded.built, self._threaded.request))

    async def _ask_again(self, request: HttpRequest) -> None:
        await self._exchange.close()
        self._bytes_before += self._exchange.bytes_received
        if self._other_version is not None:
            request = with_header(request, VERSION_HEADER, self._other_version)
        self._request = request
        self._exchange = self._provider.transport.exchange(request)
        self._head = self._refusal = None
        self._decoder = None
        self._stream_bytes = 0
        self._ended = False

    def _give_back(self) -> None:
        if self._threaded is not None:
            self._threaded.give_back()

    def _learn(self, failure: Failure | None) -> None:
        """Remember what the endpoint supports, judging by its response to a request sent again."""
        if self._other_version is not None:
            self._provider.take_version(self._other_version, failure)
        if self._is_plain:
            self._provider.take_no_diagnostics(failure)

    def _refused(self, body: bytes) -> Failure:
        assert self._head is not None
        wall_s = self._provider.wall_s()
        return make_response_failure(self._head.status, self._head.headers, body, wall_s=wall_s)

    async def _words_of_refusal(self) -> bytes:
        return await words_of_refusal(self._exchange, self._provider.refusal_timeout_s)

    async def _read(self) -> None:
        assert self._decoder is not None
        piece = await self._exchange.read()
        if piece:
            self._stream_bytes += len(piece)
            events = self._decoder.feed(piece)
            if await self._is_misled(events):
                return
            self._take(events)
            limit = self._provider.max_stream_bytes
            if self._stream_bytes > limit and not self._ended:
                raise TransportError("content", f"the response is larger than {limit} bytes")
        else:
            self._ended = True
            self._take(self._decoder.close())

    async def _whole(self, headers: Mapping[str, str]) -> None:
        """Process a response that was not streamed, as if its events came from a stream."""
        body = await rest_of(self._exchange, self._provider.max_answer_bytes)
        self._ended = True
        events = self._decode_body(body)
        if any(isinstance(event, StreamFault) for event in events):
            self._fail(make_content_failure(headers, body))
        elif not await self._is_misled(events):
            self._take(events)

    def _take(self, events: list[Json | StreamFault]) -> None:
        """Pass on the events before the first invalid one. Nothing after it can be trusted."""
        for event in events:
            if isinstance(event, StreamFault):
                self._fail(self._failure_of(event))
                return
            if self._threaded is not None:
                self._threaded.hear(event)
            self._ready.append(event)

    def _failure_of(self, fault: StreamFault) -> Failure:
        if fault.kind == "error_event":
            return Failure(kind="error_event", message=fault.message, status=200)
        if fault.kind == "no_message":
            return make_content_failure(self.headers, fault.excerpt.encode())
        excerpt = f": {fault.excerpt!r}" if fault.excerpt else ""
        return Failure(
            kind="truncated" if fault.kind == "unfinished_event" else "event",
            message=f"{fault.message}{excerpt}",
            status=200,
            request_id=self.request_id,
        )

    def _fail(self, failure: Failure) -> None:
        """End the attempt with a failure. Data that has not arrived yet is not read."""
        self._ready.append(self._provider.hidden(failure))
        self._ended = True


async def rest_of(exchange: Exchange, limit_bytes: int) -> bytes:
    """Return the rest of a body. Raise `TransportError` if it exceeds the limit."""
    pieces: list[bytes] = []
    size = 0
    while piece := await exchange.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit_bytes:
            raise TransportError("content", f"the response is larger than {limit_bytes} bytes")
    return b"".join(pieces)


async def words_of_refusal(exchange: Exchange, timeout_s: float) -> bytes:
    """Return the body of an error response, as much of it as arrives in time.

    The head already determines the failure, so a body that is cut off, delayed, endless or
    unreadable does not change it.
    """
    body = bytearray()
    with contextlib.suppress(TransportError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            while len(body) < MAX_REFUSAL_BYTES and (piece := await exchange.read()):
                body += piece
    return bytes(body)


def failure_of_transport(error: TransportError, request_id: str | None) -> Failure:
    return Failure(
        kind=error.kind, message=error.message, status=error.status, request_id=request_id
    )


def _is_stream(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "")
    return "event-stream" in kind or "vnd.amazon.eventstream" in kind


def _is_json(headers: Mapping[str, str]) -> bool:
    return "json" in headers.get("content-type", "")


def _is_page(headers: Mapping[str, str]) -> bool:
    return "html" in headers.get("content-type", "")
