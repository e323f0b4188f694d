"""The base class of the providers for all wires except the Messages API.

A wire is a subclass that builds a body from a `ModelRequest` and names its paths and its decoder.
The decoder gets a `Stamp` to record the origin of blocks. Attempts, failures, limits and
credentials are those of the Messages API. Must never send a credential of its own.
"""

from abc import ABC, abstractmethod
from urllib.parse import quote

from clew.core.catalog.services import CUSTOM
from clew.core.json_object import Json
from clew.core.stream.events import StreamFault
from clew.core.stream.json_pieces import parse_object
from clew.core.stream.message_writer import Stamp
from clew.providers.anthropic import (
    AnthropicProvider,
    MessagesAttempt,
    StreamDecoder,
)
from clew.providers.base import Attempt, Description, Failure, ModelRequest
from clew.providers.endpoint import Endpoint
from clew.providers.request_body import Built
from clew.providers.writing import encode_request
from clew.system.transport.seam import HttpRequest


def name_service(endpoint: Endpoint) -> str:
    """Return the name of the service in the table of services, or else the host of its address."""
    if endpoint.service not in ("", CUSTOM):
        return endpoint.service
    return endpoint.shown.partition("://")[2].partition("/")[0]


class ForeignProvider(AnthropicProvider, ABC):
    """One endpoint of a wire whose events are converted to those of the Messages API."""

    wire_name = ""
    title = ""

    # -- what a wire defines

    @abstractmethod
    def build(self, request: ModelRequest) -> Built:
        """Return the body of a request."""

    def names(self, request: ModelRequest) -> dict[str, str]:
        """Return the full names of tools whose names are shortened in the request."""
        del request
        return {}

    @abstractmethod
    def path(self, kind: str, model: str) -> str:
        """Return the wire's own path for a kind of request: `ask`, `whole` or `count`."""

    @abstractmethod
    def new_decoder(self, stamp: Stamp) -> StreamDecoder:
        """Return a decoder for the events of one response."""

    @abstractmethod
    def decode_body(self, body: bytes, stamp: Stamp) -> list[Json | StreamFault]:
        """Return the events of a response that was not streamed."""

    def amend(self, request: ModelRequest, refused: Failure) -> ModelRequest | None:
        """Handle a rejection; return the request if it can be sent in another form, or None."""
        del request, refused
        return None

    def build_count(self, request: ModelRequest) -> Json | None:
        """Return the body of a request that only counts tokens, or None if the wire can't count."""
        del request
        return None

    count_member = ""

    # -- what all wires share

    def stamp(self, request: ModelRequest) -> Stamp:
        return Stamp(
            service=name_service(self.endpoint),
            wire=self.wire_name,
            model=self.catalog.entry(request.model).id,
            names=self.names(request),
        )

    def stream(self, request: ModelRequest) -> Attempt:
        stamp = self.stamp(request)

        def amended(refused: Failure) -> HttpRequest | None:
            other = self.amend(request, refused)
            return None if other is None else self.foreign_http(other)

        return MessagesAttempt(
            self,
            self.foreign_http(request),
            amended=amended,
            new_decoder=lambda: self.new_decoder(stamp),
            decode_body=lambda body: self.decode_body(body, stamp),
        )

    def foreign_http(self, request: ModelRequest) -> HttpRequest:
        built = self.build(request)
        kind = "ask" if request.stream else "whole"
        model = self.catalog.entry(request.model).id
        return self._http(
            self.path(kind, quote(model, safe="")),
            built,
            request,
            stream=request.stream,
            kind=kind,
            model=model,
        )

    def adjustments(self, request: ModelRequest) -> tuple[str, ...]:
        return self.build(request).adjusted

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        body = self.build_count(request)
        if body is None:
            message = f"{self.title} does not support token counting"
            return Failure(kind="configuration", message=message)
        if (missing := self.missing_credentials()) is not None:
            return missing
        model = self.catalog.entry(request.model).id
        http_request = self._http(
            self.path("count", quote(model, safe="")),
            Built(body=body, betas=()),
            request,
            stream=False,
            kind="count",
            model=model,
        )
        counted = await self._count(http_request)
        return self.hidden(counted) if isinstance(counted, Failure) else counted

    def counted_in(self, body: bytes) -> int | None:
        answer = parse_object(body)
        tokens = None if isinstance(answer, StreamFault) else answer.get(self.count_member)
        return tokens if type(tokens) is int else None

    def describe(self) -> Description:
        return Description(
            name=self.title,
            endpoint=self.endpoint.shown,
            credentials=self.endpoint.credentials,
        )

    def written(self, body: Json, agent_id: str | None) -> bytes:
        del agent_id  # Every request converts all messages again, so no encoding can be reused.
        return encode_request(body)
