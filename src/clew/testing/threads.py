"""A service with message threads, each stored for five minutes after its last request.

It checks requests independently and deliberately shares no code with
`clew.providers.message_threads`. It rebuilds every request from its stored state, refuses what the
vendor's page "Message threads" lists (with the codes of `anthropic` 2.12), and records what the
model was shown. It must never repair a request, and does no I/O.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.testing.strict import count_marks

Rule: TypeAlias = Callable[[Json], Json]

BETA = "message-threads-2026-08-12"
LIFETIME_S = 300.0
MAX_MARKS = 3
CHARS_PER_TOKEN = 4
MOST_SHOWN = 64
# Members that a continued request may not repeat, and those that may change between requests.
CREATE_ONLY = ("system", "tools")
FREE = frozenset(
    {"messages", "thread", "max_tokens", "stream", "metadata", "diagnostics", *CREATE_ONLY}
)
# Body members without thread support, if the service is configured to refuse them.
FEATURES = ("context_management", "fallbacks", "thinking")


class ThreadRefusal(Struct, frozen=True, kw_only=True):
    """The service's error response."""

    status: int
    message: str
    code: str | None = None
    unsupported: tuple[str, ...] = ()

    @property
    def error(self) -> Json:
        """The error object of the response body."""
        kind = "not_found_error" if self.status == 404 else "invalid_request_error"
        error: Json = {"type": kind, "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
            if self.unsupported:
                error["details"]["unsupported"] = list(self.unsupported)
        return error


class _State(Struct, kw_only=True):
    """A conversation up to and including an answer, stored under the answer's ID."""

    body: Json
    at_s: float
    is_paused: bool
    is_continued: bool = False
    is_in_flight: bool = False


class Taken(Struct, frozen=True, kw_only=True):
    """A complete request as the model sees it. `kept` tells whether its answer will be stored."""

    body: Json
    previous_id: str | None
    kept: bool
    # The number of leading messages that were already stored.
    known: int = 0


class Holding:
    """A service that calls `rule` with the entire conversation, whatever part of it was sent.

    `unsupported`: body fields (from `FEATURES`) that threads don't support. `forgets` is called for
    each answer and returns whether to lose it. `has_threads`: False for a gateway that drops
    `thread` and answers only the messages in the request.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        now_s: Callable[[], float],
        unsupported: frozenset[str] = frozenset(),
        forgets: Callable[[], bool] = lambda: False,
        has_threads: bool = True,
    ) -> None:
        self.rule = rule
        self.has_threads = has_threads
        # The last complete requests that the model was shown, and the refusals.
        self.shown: deque[Json] = deque(maxlen=MOST_SHOWN)
        self.refusals: list[ThreadRefusal] = []
        self._now_s = now_s
        self._unsupported = unsupported
        self._forgets = forgets
        self._states: dict[str, _State] = {}

    def take(self, body: Json, betas: str) -> Taken | ThreadRefusal:
        """Return the complete request that a body represents, or why it is refused."""
        turn = self._take(body, betas)
        if isinstance(turn, ThreadRefusal):
            self.refusals.append(turn)
        else:
            self.shown.append(turn.body)
        return turn

    def keep(self, turn: Taken, message: Json) -> None:
        """Store the conversation that the model saw, with its answer, under the answer's ID."""
        if turn.previous_id is not None:
            previous = self._states[turn.previous_id]
            previous.is_continued = previous.is_in_flight = True
        if not turn.kept or message["stop_reason"] == "refusal" or self._forgets():
            return
        messages = turn.body["messages"]
        new = [_unmarked(message) for message in messages[turn.known :]]
        answer = {"role": "assistant", "content": message["content"]}
        full_body = turn.body | {"messages": [*messages[: turn.known], *new, answer]}
        is_paused = message["stop_reason"] == "pause_turn"
        self._states[message["id"]] = _State(
            body=full_body, at_s=self._now_s(), is_paused=is_paused
        )

    def settle(self, turn: Taken) -> None:
        """Release the previous state after the answer was sent or its client left."""
        if turn.previous_id is not None:
            self._states[turn.previous_id].is_in_flight = False

    def _take(self, body: Json, betas: str) -> Taken | ThreadRefusal:
        thread = body.get("thread")
        plain = {name: value for name, value in body.items() if name != "thread"}
        if thread is None or not self.has_threads:
            return Taken(body=plain, previous_id=None, kept=False)
        if BETA not in betas.split(","):
            return _refused("thread: Extra inputs are not permitted")
        kind = thread.get("type")
        members = {"type", "previous_message_id"} if kind == "continue" else {"type"}
        if kind not in ("create", "continue") or set(thread) != members:
            return _refused("thread: Input should be a create or a continue object")
        if unsupported := self._refuses(body):
            names = " and ".join(unsupported)
            return _refused(
                f"thread: {names} cannot be combined with `thread`",
                "thread_unsupported_request",
                unsupported,
            )
        if kind == "create":
            return Taken(body=plain, previous_id=None, kept=True)
        return self._continued(plain, str(thread["previous_message_id"]))

    def _refuses(self, body: Json) -> tuple[str, ...]:
        names = [name for name in FEATURES if name in body and name in self._unsupported]
        if count_marks(body) > MAX_MARKS:
            names.append("cache_control")
        return tuple(names)

    def _continued(self, body: Json, previous_id: str) -> Taken | ThreadRefusal:
        for name in CREATE_ONLY:
            if name in body:
                return _refused(f"{name}: cannot be set when continuing a thread")
        state = self._states.get(previous_id)
        if state is None or self._now_s() - state.at_s > LIFETIME_S:
            self._states.pop(previous_id, None)
            words = f"No usable thread state was found for {previous_id}"
            return ThreadRefusal(status=404, message=words, code="thread_not_found")
        if state.is_in_flight:
            words = f"Another request is still continuing from {previous_id}"
            return _refused(words, "thread_continue_in_flight")
        if state.is_continued:
            return _refused(f"{previous_id} has already been continued", "thread_already_continued")
        differing = sorted(
            name
            for name in (body.keys() | state.body.keys()) - FREE
            if _unmarked(body.get(name)) != _unmarked(state.body.get(name))
        )
        if differing:
            words = f"thread: differing field(s): {', '.join(differing)}"
            return _refused(words, "thread_fingerprint_mismatch")
        new = body["messages"]
        if not new and not state.is_paused:
            return _refused("messages: at least one message is required")
        if new and new[0].get("role") == "assistant":
            return _refused("messages: the thread ends with an assistant message")
        front = {name: state.body[name] for name in CREATE_ONLY if name in state.body}
        messages = state.body["messages"]
        full_body = front | body | {"messages": [*messages, *new]}
        return Taken(body=full_body, previous_id=previous_id, kept=True, known=len(messages))


def estimate_prompt_tokens(body: Json) -> int:
    """Return an estimate of a request's length in tokens, which grows with the request."""
    return len(json.dumps([body.get("system"), body.get("tools"), body["messages"]])) // (
        CHARS_PER_TOKEN
    )


def _refused(
    words: str, code: str | None = None, unsupported: tuple[str, ...] = ()
) -> ThreadRefusal:
    return ThreadRefusal(status=400, message=words, code=code, unsupported=unsupported)


def _unmarked(value: Any) -> Any:
    """Return a value without cache marks, which are not part of the conversation."""
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {
            name: inner if name == "input" else _unmarked(inner)
            for name, inner in value.items()
            if name != "cache_control"
        }
    return value
