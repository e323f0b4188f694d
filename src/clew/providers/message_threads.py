"""Message threads: the service stores each conversation, so that a request sends only new messages.

Owns the decision for each request: the entire conversation without a thread, the entire
conversation as a new thread, or only the new messages. Also owns how an error or a response changes
that decision for the next request. The rules come from the vendor's page "Message threads", and
from the types and the thread helper in `anthropic` 2.12 (beta `message-threads-2026-08-12`). The
model must always see exactly the entire conversation: if that is not certain, the entire
conversation is sent. Does no I/O.
"""

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import Model
from clew.core.json_object import Json, list_of, object_of
from clew.core.messages.views import Usage
from clew.core.normalize.tokens import estimate_message_tokens
from clew.core.regex import lazy_pattern
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import MessageFinished, StreamFault, ToolUseUnusable
from clew.providers.base import Failure, ModelRequest
from clew.providers.failure_kinds import find_effective_status, overflow_of
from clew.providers.refusal import make_fault_failure
from clew.providers.request_body import Built

Mode: TypeAlias = Literal["none", "create", "continue"]
Whose: TypeAlias = tuple[str | None, str | None]

BETA = "message-threads-2026-08-12"
# How long the service stores a conversation after its last request, and how long before the end of
# that time clew stops relying on it, because the next request must arrive in time.
LIFETIME_S = 300.0
MARGIN_S = 10.0
# The maximum number of cache marks in a request of a thread: the service adds one itself.
MAX_MARKS = 3
# The maximum number of stored conversations to remember: a session and its subagents.
MOST_HELD = 32

NOT_FOUND = "thread_not_found"
UNSUPPORTED = "thread_unsupported_request"
# Errors of a request that continues a thread. Starting a new thread helps.
_REPLAYED = (
    NOT_FOUND,
    "thread_already_continued",
    "thread_continue_in_flight",
    "thread_fingerprint_mismatch",
)
_CODES = (*_REPLAYED, UNSUPPORTED)
# Errors of services without threads: "thread: Extra inputs are not permitted", "Unexpected value(s)
# `message-threads-2026-08-12` for the `anthropic-beta` header".
_OF_THREADS = lazy_pattern(rf"\bthread\b|(?<!diagnostics\.)previous_message_id|{BETA}", re.I)
# Fields of a body that may differ between requests of a thread.
_VARYING = frozenset({"messages", "max_tokens", "stream", "metadata", "diagnostics"})
# Stop reasons after which the next request may continue the thread. It is not known whether the
# service stores a refused response. A paused response is continued in the same message. Unknown
# stop reasons are not relied on.
_KEPT_ENDINGS = frozenset({"end_turn", "tool_use", "stop_sequence", "max_tokens"})
_CONTEXT_MANAGEMENT = "context_management"
# Statuses of a rejected request that may be accepted with the entire conversation.
_REFUSED = (400, 404, 422)


class HeldThread(Struct, frozen=True, kw_only=True):
    """A conversation that the service stores under a response's ID, including that response."""

    message_id: str
    front: Any
    messages: list[Json]
    answer: list[Json]
    # The prompt's length in tokens, as reported by the service.
    prompt_tokens: int
    until_s: float
    # Whether this is the first response of a thread that replaced a lost one.
    replaces_lost: bool = False


class Threads:
    """The conversations that an endpoint stores, and the models that do not support threads."""

    def __init__(self) -> None:
        self._held: dict[Whose, HeldThread] = {}
        self._models_without: set[str] = set()
        self._is_without = False
        # Models for which a response proved that the service restores the conversation. Some
        # gateways ignore the field `thread`, and may route each model to a different service.
        self._proven: set[str] = set()
        # Models whose threads do not support `context_management`.
        self._omitting: set[str] = set()

    def takes(self, model: str) -> bool:
        """Return whether requests to this model may use threads."""
        return not self._is_without and model not in self._models_without

    def omits(self, model: str) -> bool:
        """Return whether requests to this model leave out `context_management`."""
        return model in self._omitting

    def take(
        self, whose: Whose, front: Any, messages: list[Json], now_s: float
    ) -> HeldThread | None:
        """Remove and return the stored thread that these messages continue, or return None."""
        thread = self._held.pop(whose, None)
        self._held = {key: other for key, other in self._held.items() if now_s < other.until_s}
        if thread is None or now_s >= thread.until_s or thread.front != front:
            return None
        return thread if follows(messages, thread) else None

    def keep(self, whose: Whose, thread: HeldThread) -> None:
        """Remember a thread that the service stores."""
        self._held.pop(whose, None)
        self._held[whose] = thread
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]

    def is_proven(self, model: str) -> bool:
        """Return whether threads are known to work with this model.

        They work if the model sees the entire conversation although only new messages were sent.
        """
        return model in self._proven

    def prove(self, model: str) -> None:
        """Record that threads work with this model."""
        self._proven.add(model)

    def stop(self, model: str) -> None:
        """Stop using threads with this model."""
        self._models_without.add(model)

    def stop_all(self) -> None:
        """Stop using threads with this endpoint."""
        self._is_without = True

    def omit(self, model: str) -> None:
        """Leave `context_management` out of this model's requests from now on."""
        self._omitting.add(model)


class ThreadedRequest:
    """One request in a conversation: the form in which it is sent, and its effect on the thread."""

    def __init__(
        self,
        threads: Threads,
        request: ModelRequest,
        model: Model,
        build: Callable[[ModelRequest], Built],
        *,
        api_version: str,
        now_s: Callable[[], float],
    ) -> None:
        self.request = request
        self._threads = threads
        self._model = model
        self._build = build
        self._now_s = now_s
        self._whose: Whose = (request.session_id, request.agent_id)
        self._whole = build(request)
        self._front = (api_version, self._whole.betas, _front(self._whole.body))
        self._mode: Mode = "none"
        self._held: HeldThread | None = None
        self._replaces_lost = False
        self._accumulator = Accumulator(new_tool_id=lambda: "")
        self._prompt_tokens = 0
        self._is_odd = self._is_doubted = False
        if threads.takes(model.id) and _marks(self._whole.body) <= MAX_MARKS:
            thread = threads.take(self._whose, self._front, request.messages, now_s())
            self._held = thread if thread is not None and self._can_be_proven(thread) else None
            self._mode = "create" if self._held is None else "continue"

    def compare_nothing(self) -> None:
        """Stop requesting the comparison with an earlier request."""
        self.request = replace(self.request, compares_with=None)
        self._whole = self._build(self.request)

    def _new_tokens(self, thread: HeldThread) -> int:
        """Return the estimated number of tokens in the new messages."""
        return estimate_message_tokens(self.request.messages[len(thread.messages) + 1 :])

    def _can_be_proven(self, thread: HeldThread) -> bool:
        """Return whether it is known, or the response will show, that the service uses the thread.

        If the service ignores the thread, it reports too short a prompt. This is evident only if
        the new messages are short compared with the conversation.
        """
        is_proven = self._threads.is_proven(self._model.id)
        return is_proven or self._new_tokens(thread) * 2 <= thread.prompt_tokens

    @property
    def mode(self) -> Mode:
        """The form in which the request is sent."""
        return self._mode

    @property
    def built(self) -> Built:
        """The body to send, with the betas that it needs."""
        if self._mode == "none":
            return self._whole
        body = self._whole.body
        thread: Json = {"type": "create"}
        if self._held is not None:
            new = self.request.messages[len(self._held.messages) + 1 :]
            # The service stores the system prompt and the tools, and rejects a request that repeats
            # them.
            short = replace(self.request, messages=new, system=None, tools=None)
            body = self._build(short).body
            thread = {"type": "continue", "previous_message_id": self._held.message_id}
        if self._threads.omits(self._model.id):
            body = {name: value for name, value in body.items() if name != _CONTEXT_MANAGEMENT}
        return replace(
            self._whole,
            body=body | {"thread": thread},
            betas=tuple(dict.fromkeys((*self._whole.betas, BETA))),
        )

    def refused(self, failure: Failure) -> bool:
        """Handle a failure; return whether to send the request again in another form."""
        if self._mode == "none":
            return False
        code = code_of(failure)
        thread, self._held = self._held, None
        if (
            code in _REPLAYED
            and thread is not None
            and not (code == NOT_FOUND and thread.replaces_lost)
        ):
            self._replaces_lost = code == NOT_FOUND
            self._mode = "create"
        elif code == UNSUPPORTED and self._may_omit(failure):
            self._threads.omit(self._model.id)
            self._mode = "create"
        elif code or _speaks_of_threads(failure):
            self._threads.stop(self._model.id)
            self._mode = "none"
        elif thread is not None and _may_be_of_new_alone(failure):
            # A gateway that ignores threads forwards only the new messages, which are not a valid
            # conversation.
            self._mode, self._is_doubted = "none", True
        else:
            self._held = thread
            return False
        return True

    def _may_omit(self, failure: Failure) -> bool:
        """Return whether only `context_management` is unsupported and can be left out.

        It can be left out for a model that binds its thinking blocks, because such a model sees all
        its thinking blocks anyway.
        """
        unsupported = (failure.details or {}).get("unsupported")
        return (
            unsupported == [_CONTEXT_MANAGEMENT]
            and self._model.binds_thinking is True
            and not self._threads.omits(self._model.id)
        )

    def is_misled(self, first: Json) -> bool:
        """Handle the response's first event; return whether to send the request in another form.

        The event may be an error about threads. Or it may report a prompt that is too short for the
        conversation, because the service ignored the thread and the model saw only the new
        messages.
        """
        if first.get("type") == "error":
            fault = StreamFault(kind="error_event", message="", error=object_of(first.get("error")))
            return self.refused(make_fault_failure(fault, headers={}))
        thread = self._held
        if thread is None:
            return False
        if _prompt_tokens(first) >= self._least_tokens(thread):
            self._threads.prove(self._model.id)
            return False
        self._threads.stop_all()
        self._held, self._mode = None, "none"
        return True

    def _least_tokens(self, thread: HeldThread) -> int:
        """Return the minimum length of the prompt if the model sees the entire conversation."""
        if not self._threads.is_proven(self._model.id):
            return self._new_tokens(thread) + thread.prompt_tokens // 2
        # Without `context_management`, earlier models leave out the thinking of previous turns.
        keeps_thoughts = self._model.binds_thinking or _CONTEXT_MANAGEMENT in self._whole.body
        return thread.prompt_tokens if keeps_thoughts else thread.prompt_tokens // 2

    def give_back(self) -> None:
        """Put the thread back, because the request did not reach the model."""
        if self._held is not None:
            self._threads.keep(self._whose, self._held)

    def hear(self, event: Json) -> None:
        """Process an event of the response. A complete response extends the stored thread."""
        if event.get("type") == "message_start":
            self._prompt_tokens = _prompt_tokens(event)
            if self._is_doubted:
                self._threads.stop_all()
        if self._mode == "none" or self._accumulator.state == "finished":
            return
        for out in self._accumulator.feed(event):
            if isinstance(out, StreamFault | ToolUseUnusable):
                self._is_odd = True
            elif isinstance(out, MessageFinished) and out.complete and not self._is_odd:
                self._keep(out)

    def _keep(self, answer: MessageFinished) -> None:
        message = answer.message
        message_id = message.get("id")
        if (
            answer.stop_reason not in _KEPT_ENDINGS
            or not isinstance(message_id, str)
            or not self._prompt_tokens
            or _is_of_fallback(message)
        ):
            return
        self._threads.keep(
            self._whose,
            HeldThread(
                message_id=message_id,
                front=self._front,
                # A copy, because the list grows; messages themselves never change.
                messages=list(self.request.messages),
                answer=message["content"],
                prompt_tokens=self._prompt_tokens,
                until_s=self._now_s() + LIFETIME_S - MARGIN_S,
                replaces_lost=self._replaces_lost,
            ),
        )


def follows(messages: list[Json], thread: HeldThread) -> bool:
    """Return whether the messages continue the thread.

    They do if they begin with the stored messages and the unchanged response to them.
    """
    count = len(thread.messages)
    return (
        len(messages) > count + 1
        and all(map(_is_equal, thread.messages, messages))
        and _says(messages[count], thread.answer)
        and messages[count + 1].get("role") != "assistant"
    )


def code_of(failure: Failure) -> str:
    """Return the failure's error code about threads, or an empty string."""
    codes = ((failure.details or {}).get("error_code"), failure.error_code)
    return next((code for code in _CODES if code in codes or code in failure.message), "")


def _speaks_of_threads(failure: Failure) -> bool:
    return find_effective_status(failure) in _REFUSED and bool(_OF_THREADS.search(failure.message))


def _may_be_of_new_alone(failure: Failure) -> bool:
    """Return whether an error may have occurred because only the new messages were read."""
    return find_effective_status(failure) in _REFUSED and overflow_of(failure) is None


def _front(body: Json) -> Json:
    """Return the fields of a body that must be the same in every request of a thread."""
    return {name: value for name, value in body.items() if name not in _VARYING}


def _is_equal(value: Json, other: Json) -> bool:
    return value is other or value == other


def _says(message: Json, answer: list[Json]) -> bool:
    """Return whether a message equals a response, block by block."""
    content = message.get("content")
    return (
        message.get("role") == "assistant"
        and isinstance(content, list)
        and [_plain(block) for block in content] == [_plain(block) for block in answer]
    )


def _plain(block: Json) -> Json:
    """Return a block without cache marks and empty fields, so that it can be compared."""
    return {
        name: value
        for name, value in block.items()
        if name != "cache_control" and not (name == "citations" and not value) and value is not None
    }


def _marks(body: Json) -> int:
    """Return the number of cache marks in a body. At most one is in its messages."""
    marked = [*(body.get("system") or ()), *(body.get("tools") or ())]
    last = [block for message in body["messages"][-2:] for block in _blocks(message)]
    return sum("cache_control" in block for block in (body, *marked, *last))


def _blocks(message: Json) -> list[Json]:
    return list_of(message.get("content"))


def _prompt_tokens(event: Json) -> int:
    """Return the prompt's length that the service reports for a response, or 0."""
    message = event.get("message")
    view = Usage(object_of(message.get("usage") if isinstance(message, dict) else None))
    return view.input_tokens + view.cache_read_tokens + view.cache_write_tokens


def _is_of_fallback(message: Json) -> bool:
    """Return whether a fallback model wrote the response.

    The service does not store such responses.
    """
    iterations = (message.get("usage") or {}).get("iterations")
    return any(
        isinstance(iteration, dict) and iteration.get("type") == "fallback_message"
        for iteration in (iterations if isinstance(iterations, list) else ())
    )
