"""Message threads: what the service holds of each conversation, so that a request sends only what is new.

Owns the decision for each request (the whole conversation, the whole of it as a new thread, or only the
new messages) and what a refusal or an answer changes about the next one. The rules are those of the
vendor's page "Message threads" and of the types and the thread helper in `anthropic` 2.12 (beta
`message-threads-2026-08-12`). Must never let the model see anything but what the whole request says:
wherever that is not certain, the whole request is sent. PURE.
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
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import MessageFinished, StreamFault, ToolUseUnusable
from clew.providers.base import Failure, ModelRequest
from clew.providers.failure_kinds import find_effective_status, overflow_of
from clew.providers.refusal import make_fault_failure
from clew.providers.request_body import Built

Mode: TypeAlias = Literal["none", "create", "continue"]
Whose: TypeAlias = tuple[str | None, str | None]

BETA = "message-threads-2026-08-12"
# How long the service holds a conversation after its last request, and how much sooner clew stops
# relying on that: the request that continues it has to arrive in time.
LIFETIME_S = 300.0
MARGIN_S = 10.0
# A request in a thread may have one mark less than others: the service places one of its own.
MAX_MARKS = 3
# Conversations of which the service is known to hold something: a session and its subagents.
MOST_HELD = 32

NOT_FOUND = "thread_not_found"
UNSUPPORTED = "thread_unsupported_request"
# Refusals of a request that continues, after which a new thread helps.
_REPLAYED = (
    NOT_FOUND,
    "thread_already_continued",
    "thread_continue_in_flight",
    "thread_fingerprint_mismatch",
)
_CODES = (*_REPLAYED, UNSUPPORTED)
# How a service without threads complains: "thread: Extra inputs are not permitted", "Unexpected
# value(s) `message-threads-2026-08-12` for the `anthropic-beta` header".
_OF_THREADS = re.compile(rf"\bthread\b|(?<!diagnostics\.)previous_message_id|{BETA}", re.I)
# Members of a body that may differ from one request of a thread to the next.
_VARYING = frozenset({"messages", "max_tokens", "stream", "metadata", "diagnostics"})
# Answers that the next request may follow. The service may hold a refused answer or not; a paused one is
# continued in the same message; one of an unknown kind is not relied on.
_KEPT_ENDINGS = frozenset({"end_turn", "tool_use", "stop_sequence", "max_tokens"})
_CONTEXT_MANAGEMENT = "context_management"
# A request that is refused with one of these may be in order as a whole.
_REFUSED = (400, 404, 422)


class HeldThread(Struct, frozen=True, kw_only=True):
    """What the service holds under the id of an answer: the conversation up to and including it."""

    message_id: str
    front: Any
    messages: list[Json]
    answer: list[Json]
    # How long the prompt was, as the service counted it.
    prompt_tokens: int
    until_s: float
    # Whether this is the first answer of a thread that replaced one the service did not find.
    replaces_lost: bool = False


class Threads:
    """The conversations that one endpoint holds, and for which models it holds none."""

    def __init__(self) -> None:
        self._held: dict[Whose, HeldThread] = {}
        self._models_without: set[str] = set()
        self._is_without = False
        # Models of which an answer showed that the service rebuilt a conversation: some gateways ignore
        # the member, and may pass each model's requests on to another service.
        self._proven: set[str] = set()
        # Models whose requests are held only without `context_management`.
        self._omitting: set[str] = set()

    def takes(self, model: str) -> bool:
        """Whether requests to this model may be part of a thread."""
        return not self._is_without and model not in self._models_without

    def omits(self, model: str) -> bool:
        """Whether requests to this model leave `context_management` out."""
        return model in self._omitting

    def take(
        self, whose: Whose, front: Any, messages: list[Json], now_s: float
    ) -> HeldThread | None:
        """Take what the service holds if these messages follow it; nobody else can continue it then."""
        thread = self._held.pop(whose, None)
        self._held = {key: other for key, other in self._held.items() if now_s < other.until_s}
        if thread is None or now_s >= thread.until_s or thread.front != front:
            return None
        return thread if follows(messages, thread) else None

    def keep(self, whose: Whose, thread: HeldThread) -> None:
        """Remember what the service holds."""
        self._held.pop(whose, None)
        self._held[whose] = thread
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]

    def is_proven(self, model: str) -> bool:
        """Whether this model was shown a whole conversation of which only a part was sent."""
        return model in self._proven

    def prove(self, model: str) -> None:
        """Rely on threads of this model."""
        self._proven.add(model)

    def stop(self, model: str) -> None:
        """Send no thread to this model any more."""
        self._models_without.add(model)

    def stop_all(self) -> None:
        """Send no thread to this endpoint any more."""
        self._is_without = True

    def omit(self, model: str) -> None:
        """Leave `context_management` out of this model's requests from now on."""
        self._omitting.add(model)


class ThreadedRequest:
    """One request of a conversation: the form in which it goes out, and what becomes of its thread."""

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
        """Say no more which request the service is to compare this one with."""
        self.request = replace(self.request, compares_with=None)
        self._whole = self._build(self.request)

    def _new_tokens(self, thread: HeldThread) -> int:
        """About how long the new messages are."""
        return estimate_message_tokens(self.request.messages[len(thread.messages) + 1 :])

    def _can_be_proven(self, thread: HeldThread) -> bool:
        """Whether the prompt of the answer would tell the whole conversation from the new messages."""
        is_proven = self._threads.is_proven(self._model.id)
        return is_proven or self._new_tokens(thread) * 2 <= thread.prompt_tokens

    @property
    def mode(self) -> Mode:
        """The form of the request."""
        return self._mode

    @property
    def built(self) -> Built:
        """The body and betas to send now."""
        if self._mode == "none":
            return self._whole
        body = self._whole.body
        thread: Json = {"type": "create"}
        if self._held is not None:
            new = self.request.messages[len(self._held.messages) + 1 :]
            # The service keeps the system prompt and the tools, and refuses a request that repeats them.
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
        """Whether the request is sent once more in another form, now that it was refused so."""
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
            # A gateway that ignores threads passes on messages that are no conversation.
            self._mode, self._is_doubted = "none", True
        else:
            self._held = thread
            return False
        return True

    def _may_omit(self, failure: Failure) -> bool:
        """Whether `context_management` alone is in the way, and a member that changes nothing here:
        a model that binds its thoughts is shown all of them anyway."""
        unsupported = (failure.details or {}).get("unsupported")
        return (
            unsupported == [_CONTEXT_MANAGEMENT]
            and self._model.binds_thinking is True
            and not self._threads.omits(self._model.id)
        )

    def is_misled(self, first: Json) -> bool:
        """Whether the request is sent once more in full, now that its answer begins so: with an error of
        threads, or with a prompt that is too short for the conversation, because the service ignored the
        thread and showed the model the new messages alone."""
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
        """How long the prompt is at least, if the model is shown the whole conversation."""
        if not self._threads.is_proven(self._model.id):
            return self._new_tokens(thread) + thread.prompt_tokens // 2
        # Without this member, earlier models leave out what they thought in turns that are over.
        keeps_thoughts = self._model.binds_thinking or _CONTEXT_MANAGEMENT in self._whole.body
        return thread.prompt_tokens if keeps_thoughts else thread.prompt_tokens // 2

    def give_back(self) -> None:
        """The request did not reach the model: what it would have continued can be continued again."""
        if self._held is not None:
            self._threads.keep(self._whose, self._held)

    def hear(self, event: Json) -> None:
        """Take in an event of the answer; a whole answer is what the next request may follow."""
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
                # A copy: what grows is the list, never a message.
                messages=list(self.request.messages),
                answer=message["content"],
                prompt_tokens=self._prompt_tokens,
                until_s=self._now_s() + LIFETIME_S - MARGIN_S,
                replaces_lost=self._replaces_lost,
            ),
        )


def follows(messages: list[Json], thread: HeldThread) -> bool:
    """Whether messages are those that are held, the answer to them as it came, and new ones."""
    count = len(thread.messages)
    return (
        len(messages) > count + 1
        and all(map(_is_equal, thread.messages, messages))
        and _says(messages[count], thread.answer)
        and messages[count + 1].get("role") != "assistant"
    )


def code_of(failure: Failure) -> str:
    """Return the error code of threads that a failure has; empty if it has none."""
    codes = ((failure.details or {}).get("error_code"), failure.error_code)
    return next((code for code in _CODES if code in codes or code in failure.message), "")


def _speaks_of_threads(failure: Failure) -> bool:
    return find_effective_status(failure) in _REFUSED and bool(_OF_THREADS.search(failure.message))


def _may_be_of_new_alone(failure: Failure) -> bool:
    """Whether a refusal may be one of the new messages alone, and none of the conversation."""
    return find_effective_status(failure) in _REFUSED and overflow_of(failure) is None


def _front(body: Json) -> Json:
    """What must be the same in every request of a thread."""
    return {name: value for name, value in body.items() if name not in _VARYING}


def _is_equal(value: Json, other: Json) -> bool:
    return value is other or value == other


def _says(message: Json, answer: list[Json]) -> bool:
    """Whether a message of a request is an answer as it came, block by block."""
    content = message.get("content")
    return (
        message.get("role") == "assistant"
        and isinstance(content, list)
        and [_plain(block) for block in content] == [_plain(block) for block in answer]
    )


def _plain(block: Json) -> Json:
    """A block without what is no part of the conversation: empty members and marks for the cache."""
    return {
        name: value
        for name, value in block.items()
        if name != "cache_control" and not (name == "citations" and not value) and value is not None
    }


def _marks(body: Json) -> int:
    """How many marks for the cache a body has; of its messages one has any."""
    marked = [*(body.get("system") or ()), *(body.get("tools") or ())]
    last = [block for message in body["messages"][-2:] for block in _blocks(message)]
    return sum("cache_control" in block for block in (body, *marked, *last))


def _blocks(message: Json) -> list[Json]:
    return list_of(message.get("content"))


def _prompt_tokens(event: Json) -> int:
    """How long the service says that the prompt of an answer was; 0 if it does not say so."""
    message = event.get("message")
    view = Usage(object_of(message.get("usage") if isinstance(message, dict) else None))
    return view.input_tokens + view.cache_read_tokens + view.cache_write_tokens


def _is_of_fallback(message: Json) -> bool:
    """Whether another model than the one that was asked wrote the answer: the service holds none such."""
    iterations = (message.get("usage") or {}).get("iterations")
    return any(
        isinstance(iteration, dict) and iteration.get("type") == "fallback_message"
        for iteration in (iterations if isinstance(iterations, list) else ())
    )
