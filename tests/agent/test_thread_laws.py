"""The law of message threads: the model always sees what it would see without threads.

An independent service (`clew.testing.threads`) is the judge: it rebuilds each conversation from its
stored state, on top of the service that binds thinking. The requests come from the real provider
and driver, over a connection that breaks.
"""

import asyncio
import copy
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG
from clew.core.messages import factories
from clew.core.normalize.prefix import with_bound
from clew.core.stream.events import MessageFinished, MessageStarted
from clew.providers.answer import Answering
from clew.providers.answer_events import Answered, DriverEvent, Ended, GaveUp, Incomplete
from clew.providers.anthropic import AnthropicProvider, MessagesAttempt
from clew.providers.base import ModelRequest
from clew.providers.endpoint import Endpoint
from clew.providers.failure_kinds import find_effective_status
from clew.providers.message_threads import Threads
from clew.providers.request_body import build
from clew.system.transport.seam import Head, HttpRequest, TransportError
from clew.testing.strict import find_complaint
from clew.testing.threads import Holding, ThreadRefusal, estimate_prompt_tokens
from tests.agent.test_preserved_laws import AT, Life, _block
from tests.providers.fakes import VirtualClock

Json = dict[str, Any]
QUICK = range(250)
CHUNK = 250
DEEP = [range(start, start + CHUNK) for start in range(3_000_000, 3_010_000, CHUNK)]
# As long as it is in sessions: a service that ignores threads shows the model a much shorter prompt.
INSTRUCTIONS = {"type": "text", "text": "Do as you are told. " * 400}
CODES = (
    "thread_not_found",
    "thread_already_continued",
    "thread_continue_in_flight",
    "thread_fingerprint_mismatch",
    "thread_unsupported_request",
)


class Watched(AnthropicProvider):
    """The real provider; `asked` is the request of the last attempt."""

    asked: ModelRequest

    def stream(self, request: ModelRequest) -> MessagesAttempt:
        self.asked = request
        return super().stream(request)


class Line:
    """A connection to the service, which breaks now and then."""

    def __init__(self, life: "ThreadedLife") -> None:
        self._life = life

    def exchange(self, request: HttpRequest) -> "OneExchange":
        return OneExchange(self._life, request)

    def warm(self, url: str) -> None:
        del url

    async def aclose(self) -> None:
        pass


class OneExchange:
    def __init__(self, life: "ThreadedLife", request: HttpRequest) -> None:
        self._life = life
        self._request = request
        self._pieces: list[bytes] = []
        self._breaks = False
        self.bytes_received = 0

    async def open(self) -> Head:
        status, kind, pieces, self._breaks = self._life.serve(self._request)
        self._pieces = pieces
        self.bytes_received += 100
        return Head(status=status, headers={"content-type": kind})

    async def read(self) -> bytes:
        if self._pieces:
            self.bytes_received += len(self._pieces[0])
            return self._pieces.pop(0)
        if self._breaks:
            raise TransportError("reset", "the connection broke")
        return b""

    async def close(self, *, answered: bool = False) -> None:
        del answered
        self._pieces = []


class ThreadedLife(Life):
    """A conversation to which everything happens, as do its connection and its service."""

    def __init__(self, seed: int, runner: asyncio.Runner) -> None:
        super().__init__(seed)
        self.faults = Random(-seed)
        self.runner = runner
        self.clock = VirtualClock()
        self.seen: Counter[str] = Counter()
        self.has_control = self.faults.random() < 0.9
        self.is_calm = self.faults.random() < 0.4
        self.is_strict = self.faults.random() < 0.5
        features = [frozenset({"context_management"}), frozenset({"thinking"})]
        self.holding = Holding(
            self.service,
            now_s=self.clock.now_s,
            unsupported=self.faults.choice(features) if self.faults.random() < 0.1 else frozenset(),
            forgets=lambda: self.faults.random() < 0.02,
            has_threads=self.faults.random() < 0.88,
        )
        self.provider = Watched(
            Endpoint(base_url="http://service", api_key="key", diagnoses=True),
            Line(self),
            monotonic_s=self.clock.now_s,
        )
        self.provider.threads = Threads()
        self.stale: dict[Any, Any] = {}
        self.requests = self._requests()

    def _template(self) -> ModelRequest:
        system = [INSTRUCTIONS, *self.system]
        return replace(super()._template(), system=system, session_id="s")

    # -- the service

    def serve(self, request: HttpRequest) -> tuple[int, str, list[bytes], bool]:
        body = json.loads(request.body)
        betas = next((v for k, v in request.headers if k == "anthropic-beta"), "")
        thread = body.get("thread")
        kind = "none" if thread is None else thread["type"]
        self.seen[kind] += 1
        if not self.is_calm and (fault := self._fault(kind)) is not None:
            return fault
        taken = self.holding.take(body, betas)
        if isinstance(taken, ThreadRefusal):
            self.seen[str(taken.code)] += 1
            return _error(taken.status, taken.error)
        refusal = self.service.refusal(taken.body, betas)
        if refusal is None and self.is_strict and not self.holding.has_threads:
            refusal = find_complaint(taken.body)  # of new messages alone
        if refusal is not None:
            return _error(400, {"type": "invalid_request_error", "message": refusal})
        message = self._message(taken.body, betas)
        self.holding.keep(taken, message)
        self.holding.settle(taken)
        pieces = [_event(event) for event in _events(message)]
        if self.is_calm or self.faults.random() < 0.9:
            return 200, "text/event-stream", pieces, False
        cut = self.faults.randrange(len(pieces))
        self.seen["cut"] += 1
        if self.faults.random() < 0.5:
            return 200, "text/event-stream", pieces[:cut], True
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return (
            200,
            "text/event-stream",
            [*pieces[:cut], _event({"type": "error", "error": error})],
            False,
        )

    def _fault(self, kind: str) -> tuple[int, str, list[bytes], bool] | None:
        draw = self.faults.random()
        if draw < 0.03:
            status = self.faults.choice((429, 500, 529))
            return _error(status, {"type": "api_error", "message": "later"})
        if draw < 0.04:
            raise TransportError("connect", "no connection")
        if draw < 0.05:
            raise TransportError("reset", "the connection broke")
        if kind != "none" and draw < 0.10:
            code = self.faults.choice(CODES)
            self.seen[f"random {code}"] += 1
            if draw < 0.095:
                return _error(404 if code == CODES[0] else 400, _coded(code))
            return (
                200,
                "text/event-stream",
                [_event({"type": "error", "error": _coded(code)})],
                False,
            )
        return None

    def _message(self, body: Json, betas: str) -> Json:
        calls = self.wants_call()
        judged = self.service.judge(body, betas)
        said = self.service.sign(body, self._answer(calls), judged.last)
        endings = ("tool_use",) if calls else ("end_turn",) * 8 + ("max_tokens", "refusal")
        content = [_block(one) for one in said]
        if self.faults.random() < 0.1:
            # No request may hold such a block: the answer does not come back as it went.
            self.seen["blank"] += 1
            content.insert(self.faults.randrange(len(content)), {"type": "text", "text": " "})
        return {
            "id": f"msg_{self.uuid()}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": self.faults.choice(endings),
            "stop_sequence": None,
            "usage": {"input_tokens": estimate_prompt_tokens(body), "output_tokens": 9},
            **({"input_transformations": judged.dropped} if judged.dropped else {}),
        }

    def _result(self, call: str) -> Json:
        made = super()._result(call)
        if self.faults.random() < 0.1:
            made["message"]["content"][0]["content"] = "word " * 20_000
        return made

    # -- a turn, as the engine has it

    def _round(self) -> bool:
        self.clock.jump(self.faults.choice((1, 1, 1, 1, 5, 60, 280, 295, 400)))
        self._lose_or_repeat_memory()
        ended: Ended | None = None
        for _ in range(4):
            request = replace(self._prepared().request, in_thread=True)
            self.sent += 1
            self.provider.endpoint = replace(self.provider.endpoint, betas_allowed=self.has_control)
            ended = self.runner.run(self._ask(request))
            if not isinstance(ended, GaveUp) or not self.requests.refused(ended.failure.message):
                break
            assert self.was_foreign, (self.seed, ended)
        if isinstance(ended, GaveUp):
            # Whatever becomes of the thread, the turn is not refused.
            assert find_effective_status(ended.failure) not in (400, 404), (self.seed, ended)
        if isinstance(ended, Answered | Incomplete):
            self._is_as_without_threads()
            return self._record(ended.message)
        if ended is None:
            self.story.add(
                [factories.make_interruption(uuid=self.uuid(), at=AT, for_tool_use=False)]
            )
        return False

    async def _ask(self, request: ModelRequest) -> Ended | None:
        answering = Answering(
            self.provider,
            new_tool_id=lambda: f"toolu_{self.uuid()}",
            fallbacks=("claude-opus-5",) if self.faults.random() < 0.5 else (),
            clock=self.clock,
            random=self.faults.random,
        )
        leaves_at = self.faults.randrange(1, 12) if self._leaves() else None

        async def heard(event: DriverEvent) -> None:
            nonlocal leaves_at
            if isinstance(event, MessageStarted):
                self._note(self.requests.dropped(event.message))
            if leaves_at is not None:
                leaves_at -= 1
                if not leaves_at:
                    raise asyncio.CancelledError

        try:
            return await answering.run(request, heard)
        except asyncio.CancelledError:
            self.seen["cancelled"] += 1
            last = next((e for e in answering.last_words if isinstance(e, MessageFinished)), None)
            if last is not None and last.message["content"]:
                self._record(last.message, is_aborted=not last.complete)
            return None

    def _leaves(self) -> bool:
        return not self.is_calm and self.faults.random() < 0.08

    def _record(self, message: Json, *, is_aborted: bool = False) -> bool:
        entries = factories.make_assistant(
            message,
            uuids=[self.uuid() for _ in message["content"] or [None]],
            at=AT,
            request_id="req_1",
            is_aborted_mid_stream=is_aborted,
            requested_model=self.provider.asked.model,
        )
        self.story.add(with_bound(entries, None if self.is_foreign else self.requests.bound))
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        for call in calls:
            self.story.add([self._result(call)])
        return bool(calls) and not is_aborted

    def _is_as_without_threads(self) -> None:
        """Check that the model saw the whole request, as it is sent without threads."""
        asked = self.provider.asked
        whole = build(asked, CATALOG.entry(asked.model), betas_allowed=self.has_control).body
        shown = self.holding.shown[-1]
        if self.provider.threads is not None and self.provider.threads.omits(asked.model):
            whole.pop("context_management", None)
            shown = {name: value for name, value in shown.items() if name != "context_management"}
        assert _plain(shown) == _plain(whole), self.seed

    # -- what happens to the process that remembers

    def _lose_or_repeat_memory(self) -> None:
        threads = self.provider.threads
        assert threads is not None
        draw = self.faults.random()
        if draw < 0.04:
            self.provider.threads = Threads()  # the session goes on in another process
        elif not self.is_calm and draw < 0.3:
            # Another copy of this conversation continues from the same answer, sooner or later.
            self.stale, threads._held = copy.copy(threads._held), self.stale or threads._held
            self.seen["stale"] += 1


def _coded(code: str) -> Json:
    return {
        "type": "invalid_request_error",
        "message": "No.",
        "details": {"error_code": code},
    }


def _error(status: int, error: Json) -> tuple[int, str, list[bytes], bool]:
    body = json.dumps({"type": "error", "error": error}).encode()
    return status, "application/json", [body], False


def _event(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _events(message: Json) -> list[Json]:
    start = message | {"content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": message["usage"]})
    return [*events, {"type": "message_stop"}]


def _plain(body: Json) -> Json:
    """Return a body without cache marks and diagnostics: what the model sees."""

    def unmarked(value: Any) -> Any:
        if isinstance(value, list):
            return [unmarked(one) for one in value]
        if isinstance(value, dict):
            return {k: unmarked(v) for k, v in value.items() if k != "cache_control"}
        return value

    out: Json = unmarked(body)
    out.pop("diagnostics", None)
    return out | {"messages": [_listed(message) for message in out["messages"]]}


def _listed(message: Json) -> Json:
    content = message["content"]
    return message | {
        "content": [{"type": "text", "text": content}] if isinstance(content, str) else content
    }


def hold(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        for seed in seeds:
            life = ThreadedLife(seed, runner)
            life.live()
            seen += life.seen
    return seen


@pytest.mark.no_cover
def test_the_model_is_shown_the_same_with_threads_and_without(
    record_property: Callable[[str, object], None],
) -> None:
    seen = hold(QUICK)
    assert seen["continue"] > 150
    assert all(seen[f"random {code}"] for code in CODES)
    for happened in ("thread_already_continued", "cut", "cancelled", "stale", "blank"):
        assert seen[happened], happened
    record_property("requests that continued a thread", seen["continue"])


@pytest.mark.laws
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", DEEP, ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_at_depth_too(seeds: range, record_property: Callable[[str, object], None]) -> None:
    hold(seeds)
    record_property("histories that a model sees alike with threads and without", len(seeds))
