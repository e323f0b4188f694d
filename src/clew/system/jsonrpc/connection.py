"""A connection to a peer: requests that can be awaited, and answers to the peer's requests.

Owns the futures of requests, the tasks that answer the peer, and one timer. The caller provides
`send`, which transmits messages, and passes received messages to `deliver`, on the same loop. A
request never raises because of what the peer did: its outcome is a value. Messages are not queued,
so a call costs two writes and two reads. (The official MCP SDK takes 400 to 500 ms to import, and
is only used in tests.)
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from clew.core.json_object import Json
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.peer import (
    Dialect,
    Ended,
    Event,
    Odd,
    Outcome,
    OwedMessage,
    Peer,
    PeerFailure,
    PeerRequest,
    PeerWithdrawn,
    Progressed,
    Told,
)
from clew.system.jsonrpc.wire import Id, Message, Params, RpcFault

OnProgress: TypeAlias = Callable[[Json], None]


class PeerHandler(Protocol):
    """The handler of the peer's requests.

    `asked` returns a result or a fault, and raises only cancellations.
    """

    async def asked(self, method: str, params: Params) -> Any | RpcFault: ...

    def told(self, method: str, params: Params) -> None: ...

    def odd(self, why: str) -> None: ...


class Connection:
    """A connection to a peer.

    `group` contains the tasks that answer the peer; the owner of the group ends them.
    """

    def __init__(
        self,
        send: Callable[[Json], None],
        host: PeerHandler,
        dialect: Dialect,
        group: asyncio.TaskGroup,
    ) -> None:
        self._send = send
        self._host = host
        self._group = group
        self._dialect = dialect
        self._peer = Peer(dialect)
        self._loop = asyncio.get_running_loop()
        self._futures: dict[Id, asyncio.Future[Outcome]] = {}
        self._progress: dict[Id, OnProgress] = {}
        self._answers: dict[Id, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._lost = ""

    @property
    def is_lost(self) -> bool:
        return bool(self._lost)

    def next_id(self) -> int:
        """Return the ID of the next request, for callers that need the ID inside the request."""
        return self._peer.next_id()

    async def request(
        self,
        method: str,
        params: Params = None,
        *,
        identity: Id | None = None,
        patience_s: float | None = None,
        limit_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """Send a request and wait for its outcome.

        If the wait is cancelled, tell the peer to cancel the request.
        """
        if self._lost:
            return PeerFailure(kind="lost", message=self._lost)
        identity = self.next_id() if identity is None else identity
        message = self._peer.ask(
            identity,
            method,
            params,
            now_s=self._loop.time(),
            patience_s=patience_s,
            limit_s=limit_s,
        )
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._futures[identity] = future
        if on_progress is not None:
            self._progress[identity] = on_progress
        try:
            self._send(message)
            self._watch_time()
            return await future
        finally:
            self._futures.pop(identity, None)
            self._progress.pop(identity, None)
            cancellation = self._peer.give_up(identity, "the request was cancelled")
            if cancellation is not None and not self._lost:
                self._send(cancellation)

    def notify(self, method: str, params: Params = None) -> None:
        if not self._lost:
            self._send(wire.make_notification(method, params))

    def deliver(self, messages: Iterable[Message]) -> None:
        """Process received messages."""
        self._take(self._peer.feed(messages, now_s=self._loop.time()))

    def deliver_bytes(self, payload: bytes) -> None:
        self.deliver(wire.read(payload, batches=self._dialect.batches))

    def fail(self, identity: Id, why: str) -> None:
        """End a request whose answer can no longer arrive."""
        self._take(self._peer.fail(identity, PeerFailure(kind="invalid", message=why)))

    def waits_for(self, identity: Id) -> bool:
        future = self._futures.get(identity)
        return future is not None and not future.done()

    def odd(self, why: str) -> None:
        self._host.odd(why)

    def lose(self, why: str) -> None:
        """Mark the connection as lost. All pending requests end now."""
        if not self._lost:
            self._lost = why or "the connection ended"
            self._take(self._peer.lost(self._lost))
            if self._timer is not None:
                self._timer.cancel()

    # -- received messages

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Ended():
                    future = self._futures.get(event.id)
                    if future is not None and not future.done():
                        future.set_result(event.outcome)
                case Progressed():
                    listener = self._progress.get(event.id)
                    if listener is not None:
                        listener(event.params)
                case Told():
                    self._host.told(event.method, event.params)
                case PeerRequest():
                    self._answers[event.id] = self._group.create_task(self._answer(event))
                case PeerWithdrawn():
                    task = self._answers.get(event.id)
                    if task is not None:
                        task.cancel()
                case OwedMessage():
                    self._send(event.message)
                case Odd():
                    self._host.odd(event.why)

    async def _answer(self, request: PeerRequest) -> None:
        try:
            result = await self._host.asked(request.method, request.params)
        finally:
            self._answers.pop(request.id, None)
        if not self._peer.answered(request.id) or self._lost:
            return
        if isinstance(result, RpcFault):
            self._send(wire.make_refusal(request.id, result))
        else:
            self._send(wire.make_success(request.id, result))

    # -- time

    def _watch_time(self) -> None:
        """Set the timer to the earliest deadline of a pending request."""
        due_at = self._peer.due_at()
        if due_at is None or (self._timer is not None and self._timer_at <= due_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due_at
        self._timer = self._loop.call_at(due_at, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._take(self._peer.expire(now_s=self._loop.time()))
        self._watch_time()
