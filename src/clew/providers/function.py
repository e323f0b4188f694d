"""A program's own function in place of a model service.

The function gets each request in the format of the Messages API and yields the answer in pieces
(`clew.core.stream.pieces`). It runs in a separate task, because context managers must exit in the
task that entered them. Must never let an exception from the function end the session.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from uuid import uuid4

from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG, ModelCatalog
from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import format_error
from clew.core.stream.pieces import PieceError, PieceWriter
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Attempt, Description, Failure, ModelRequest, ProviderFunction
from clew.providers.endpoint import Endpoint
from clew.system.transport.seam import Transport

# How many pieces may be queued before the function has to wait.
MOST_WAITING = 64
# Wakes a reader that is still waiting when the function ends.
END = object()
# Fields of a request that are decoded JSON. The function receives copies, so it may change them.
COPIED = ("messages", "system", "tools", "tool_choice", "output_format", "extra")


class FunctionProvider(AnthropicProvider):
    """The function `answer` as a provider. Nothing is sent to a service."""

    is_function = True

    def __init__(
        self, answer: ProviderFunction, transport: Transport, *, catalog: ModelCatalog = CATALOG
    ) -> None:
        endpoint = Endpoint(base_url="program:provider", betas_allowed=False)
        super().__init__(endpoint, transport, catalog=catalog)
        self.answer = answer

    def warm(self) -> None:
        """Do nothing, because no connection is used."""

    def stream(self, request: ModelRequest) -> Attempt:
        return FunctionAttempt(self, request)

    def adjustments(self, request: ModelRequest) -> tuple[str, ...]:
        del request
        return ()

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        del request
        message = "the program's provider does not support token counting"
        return Failure(kind="configuration", message=message)

    def describe(self) -> Description:
        name = getattr(self.answer, "__name__", type(self.answer).__name__)
        return Description(name="a function of the program", endpoint=name, credentials="none")


class FunctionAttempt:
    """One call of the function; see `clew.providers.base.Attempt`."""

    request_id: str | None = None
    refusal: Failure | None = None

    def __init__(self, provider: FunctionProvider, request: ModelRequest) -> None:
        self._provider = provider
        self._request = request
        self._writer = PieceWriter(message_id=f"msg_{uuid4().hex}", model=request.model)
        self._pieces: asyncio.Queue[object] = asyncio.Queue(MOST_WAITING)
        self._running: asyncio.Task[None] | None = None
        self._ready: deque[Json | Failure] = deque()
        self._has_ended = False
        self.bytes_received = 0

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def __aiter__(self) -> AsyncIterator[Json | Failure]:
        return self

    async def __anext__(self) -> Json | Failure:
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="provider")
            self._running.add_done_callback(self._wake)
        while not self._ready:
            if self._has_ended:
                raise StopAsyncIteration
            if self._pieces.empty() and self._running.done():
                self._close(self._running)
            elif (piece := await self._pieces.get()) is not END:
                self._take(piece)
        return self._ready.popleft()

    async def aclose(self) -> None:
        self._has_ended = True
        self._ready.clear()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        request = self._request
        copies = {name: decode(encode(getattr(request, name))) for name in COPIED}
        pieces = self._provider.answer(replace(request, **copies))
        try:
            async for piece in pieces:
                self.bytes_received += len(piece) if isinstance(piece, str) else 1
                await self._pieces.put(piece)
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()

    def _wake(self, running: asyncio.Task[None]) -> None:
        if self._pieces.empty():
            self._pieces.put_nowait(END)
        if not running.cancelled():
            running.exception()  # `_close` reads it, unless the attempt was closed before.

    def _take(self, piece: object) -> None:
        if isinstance(piece, Failure):
            self._fail(piece)
        elif self.bytes_received > (limit := self._provider.max_stream_bytes):
            self._fail(Failure(kind="content", message=f"the answer is larger than {limit} bytes"))
        else:
            try:
                self._ready.extend(self._writer.feed(piece))
            except (PieceError, TypeError) as error:  # TypeError: input that is not JSON.
                self._fail(Failure(kind="configuration", message=str(error)))

    def _close(self, running: asyncio.Task[None]) -> None:
        """Emit the end of the answer, or the function's exception as a failure."""
        self._has_ended = True
        if running.cancelled():
            self._fail(Failure(kind="configuration", message="the provider was cancelled"))
        elif (error := running.exception()) is not None:
            import logging  # Slow to import, and most sessions never need it.

            logging.getLogger("clew.provider").error("the provider failed", exc_info=error)
            message = f"the provider raised {format_error(error)}"
            self._fail(Failure(kind="configuration", message=message))
        else:
            self._ready.extend(self._writer.close())

    def _fail(self, failure: Failure) -> None:
        self._ready.append(self._provider.hidden(failure))
        self._has_ended = True
