"""One side of a connection: the pending requests, their deadlines, and the received messages.

Owns IDs, deadlines and cancellation, and answers invalid messages. Has no I/O and no clock:
messages and times are passed in; events and messages to send are returned. A request ends exactly
once, with a `PeerAnswer` or a `PeerFailure`; later messages about it are ignored.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.jsonrpc import wire
from clew.system.jsonrpc.wire import Id, Message, Params, RpcFault

# `unsent`: the peer was never connected, so it did not receive the request; `lost`: the connection
# ended.
Ending: TypeAlias = Literal["refused", "timeout", "lost", "unsent", "cancelled", "invalid"]


class Dialect(Struct, frozen=True, kw_only=True):
    """The names that differ between the protocols on top of JSON-RPC."""

    cancel_method: str
    cancel_key: str
    progress_method: str
    progress_key: str
    batches: bool = False
    # The error code for cancelled requests, in protocols where even those must be answered.
    cancelled_code: int | None = None


class PeerAnswer(Struct, frozen=True, kw_only=True):
    """The successful outcome of a request."""

    result: Any


class PeerFailure(Struct, frozen=True, kw_only=True):
    """Any other outcome of a request. If the peer sent an error, `code` and `data` are from it."""

    kind: Ending
    message: str
    code: int = 0
    data: Any = None


Outcome: TypeAlias = PeerAnswer | PeerFailure


class Ended(Struct, frozen=True, kw_only=True):
    """The end of one of our requests, with its outcome."""

    id: Id
    outcome: Outcome


class PeerRequest(Struct, frozen=True, kw_only=True):
    """A request from the peer, which must be answered exactly once."""

    id: Id
    method: str
    params: Params


class Told(Struct, frozen=True, kw_only=True):
    method: str
    params: Params


class Progressed(Struct, frozen=True, kw_only=True):
    """Progress of one of our pending requests."""

    id: Id
    params: Json


class PeerWithdrawn(Struct, frozen=True, kw_only=True):
    """The peer has cancelled one of its requests."""

    id: Id


class OwedMessage(Struct, frozen=True, kw_only=True):
    """A message that must be sent, such as the answer to an invalid request."""

    message: Json


class Odd(Struct, frozen=True, kw_only=True):
    """A received message that is ignored, with the reason."""

    why: str


Event: TypeAlias = Ended | PeerRequest | Told | Progressed | PeerWithdrawn | OwedMessage | Odd


class PendingRequest(Struct, kw_only=True):
    """One of our pending requests.

    `patience_s` is how long the peer may be silent about the request. Progress restarts this time.
    """

    method: str
    patience_s: float | None
    due_at: float | None
    # The final deadline, regardless of progress.
    end_at: float | None


class Peer:
    """The state of one side. All values of `now_s` must come from the same monotonic clock."""

    __slots__ = ("_dialect", "_next", "_pending", "_serving")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._next = 0
        self._pending: dict[Id, PendingRequest] = {}
        self._serving: set[Id] = set()

    @property
    def waiting(self) -> int:
        """The number of our requests without an outcome."""
        return len(self._pending)

    def next_id(self) -> int:
        self._next += 1
        return self._next

    def ask(
        self,
        identity: Id,
        method: str,
        params: Params,
        *,
        now_s: float,
        patience_s: float | None = None,
        limit_s: float | None = None,
    ) -> Json:
        """Register a request and return the message to send."""
        end_at = None if limit_s is None else now_s + limit_s
        due_at = None if patience_s is None else now_s + patience_s
        self._pending[identity] = PendingRequest(
            method=method, patience_s=patience_s, due_at=earliest(due_at, end_at), end_at=end_at
        )
        return wire.request(identity, method, params)

    def feed(self, messages: Iterable[Message], *, now_s: float) -> list[Event]:
        return [event for message in messages for event in self._one(message, now_s)]

    def give_up(self, identity: Id, reason: str) -> Json | None:
        """Cancel one of our requests.

        Return the message for the peer, or None if the request had already ended.
        """
        if self._pending.pop(identity, None) is None:
            return None
        return self._cancellation(identity, reason)

    def fail(self, identity: Id, failure: PeerFailure) -> list[Event]:
        """End one of our requests that will not be answered, without telling the peer."""
        if self._pending.pop(identity, None) is None:
            return []
        return [Ended(id=identity, outcome=failure)]

    def lost(self, why: str) -> list[Event]:
        """Handle the loss of the connection: no pending request will be answered."""
        pending, self._pending = self._pending, {}
        withdrawn = [PeerWithdrawn(id=identity) for identity in self._serving]
        self._serving.clear()
        failure = PeerFailure(kind="lost", message=why)
        return [*(Ended(id=identity, outcome=failure) for identity in pending), *withdrawn]

    def due_at(self) -> float | None:
        """Return the time at which to call `expire` next, or None if no request can expire."""
        return min((p.due_at for p in self._pending.values() if p.due_at is not None), default=None)

    def expire(self, *, now_s: float) -> list[Event]:
        """End overdue requests.

        Return their outcomes and the messages that cancel them at the peer.
        """
        events: list[Event] = []
        for identity, pending in list(self._pending.items()):
            if pending.due_at is None or pending.due_at > now_s:
                continue
            del self._pending[identity]
            words = f"no response to {pending.method} in time"
            events.append(Ended(id=identity, outcome=PeerFailure(kind="timeout", message=words)))
            events.append(OwedMessage(message=self._cancellation(identity, "timeout")))
        return events

    def answered(self, identity: Id) -> bool:
        """Record that we answer a request of the peer.

        Return False if the peer has cancelled the request.
        """
        if identity not in self._serving:
            return False
        self._serving.remove(identity)
        return True

    # -- received messages

    def _one(self, message: Message, now_s: float) -> list[Event]:
        match message:
            case wire.Success():
                return self._ended(message.id, PeerAnswer(result=message.result))
            case wire.RpcRefusal():
                fault = message.fault
                if message.id is None:
                    return [Odd(why=f"an error for an unknown request: {fault.message}")]
                return self._ended(
                    message.id,
                    PeerFailure(
                        kind="refused", message=fault.message, code=fault.code, data=fault.data
                    ),
                )
            case wire.Notification():
                return self._told(message.method, message.params, now_s)
            case wire.RpcRequest():
                return self._asked(message)
            case _:
                return self._malformed(message)

    def _ended(self, identity: Id, outcome: Outcome) -> list[Event]:
        own_id = self._own(identity)
        if own_id is None:
            return [Odd(why=f"a response to an unknown request ({identity!r:.40})")]
        del self._pending[own_id]
        return [Ended(id=own_id, outcome=outcome)]

    def _own(self, identity: Any) -> Id | None:
        """Return an ID in the form in which we sent it, or None if it is not pending.

        Some peers return a number as a string.
        """
        if identity in self._pending:
            return identity if type(identity) is str else int(identity)
        if type(identity) is str and identity.isdecimal() and len(identity) < 16:
            return int(identity) if int(identity) in self._pending else None
        return None

    def _told(self, method: str, params: Params, now_s: float) -> list[Event]:
        fields = params if isinstance(params, dict) else {}
        if method == self._dialect.progress_method:
            return self._progressed(fields, now_s)
        if method == self._dialect.cancel_method:
            identity = fields.get(self._dialect.cancel_key)
            if not wire.is_id(identity) or identity not in self._serving:
                return []
            return self._withdrawn(identity)
        return [Told(method=method, params=params)]

    def _withdrawn(self, identity: Id) -> list[Event]:
        self._serving.remove(identity)
        code = self._dialect.cancelled_code
        if code is None:
            return [PeerWithdrawn(id=identity)]
        fault = RpcFault(code=code, message="cancelled")
        return [PeerWithdrawn(id=identity), OwedMessage(message=wire.make_refusal(identity, fault))]

    def _progressed(self, params: Json, now_s: float) -> list[Event]:
        token = params.get(self._dialect.progress_key)
        own_id = self._own(token) if wire.is_id(token) else None
        if own_id is None:
            return []
        pending = self._pending[own_id]
        if pending.patience_s is not None:
            pending.due_at = earliest(now_s + pending.patience_s, pending.end_at)
        return [Progressed(id=own_id, params=params)]

    def _asked(self, message: wire.RpcRequest) -> list[Event]:
        if message.id in self._serving:
            fault = RpcFault(code=wire.INVALID_REQUEST, message="this id is already in use")
            return [
                OwedMessage(message=wire.make_refusal(message.id, fault)),
                Odd(why="duplicate request id"),
            ]
        self._serving.add(message.id)
        return [PeerRequest(id=message.id, method=message.method, params=message.params)]

    def _malformed(self, message: wire.MalformedMessage) -> list[Event]:
        odd = Odd(why=f"{message.why}: {message.excerpt}" if message.excerpt else message.why)
        if message.kind == "request" and message.answer_to is not None:
            fault = RpcFault(code=message.code, message=message.why)
            return [OwedMessage(message=wire.make_refusal(message.answer_to, fault)), odd]
        if message.kind == "response" and message.answer_to is not None:
            own_id = self._own(message.answer_to)
            if own_id is not None:
                why = f"malformed JSON-RPC message ({message.why})"
                return [*self.fail(own_id, PeerFailure(kind="invalid", message=why)), odd]
        return [odd]

    def _cancellation(self, identity: Id, reason: str) -> Json:
        params = {self._dialect.cancel_key: identity, "reason": reason}
        return wire.make_notification(self._dialect.cancel_method, params)


def earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
