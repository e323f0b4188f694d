"""Message threads.

Which messages are sent of a stored conversation, and the effect of rejections.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic.types as sdk
import pytest
from anthropic.lib.threads import _thread_state
from anthropic.types.beta import message_create_params
from msgspec.structs import replace

from clew.core.catalog.lookup import CATALOG
from clew.providers.anthropic import AnthropicProvider, provider_from_environment
from clew.providers.base import Failure, ModelRequest, Off
from clew.providers.message_threads import (
    BETA,
    LIFETIME_S,
    MARGIN_S,
    MOST_HELD,
    HeldThread,
    ThreadedRequest,
    Threads,
    code_of,
    follows,
)
from clew.providers.preferences import wants_threads
from clew.providers.request_body import build
from clew.system.config.environment import freeze
from clew.testing.preserved import Preserving
from clew.testing.server import LoopbackServer
from clew.testing.threads import Holding, Taken, ThreadRefusal

Json = dict[str, Any]
CODES = ("thread_not_found", "thread_already_continued", "thread_continue_in_flight")
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
SYSTEM = "Do as you are told. " * 100


def user(words: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def said(words: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": words}]}


def asking(*messages: Json, **more: Any) -> ModelRequest:
    given: Json = {"model": "opus", "system": SYSTEM, "tools": [TOOL], "session_id": "s"}
    return ModelRequest(messages=list(messages), in_thread=True, **(given | more))


class Scene:
    """Requests of one endpoint, on a clock of the test's own."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.now = 1000.0

    def ask(self, *messages: Json, **more: Any) -> ThreadedRequest:
        request = asking(*messages, **more)
        model = CATALOG.entry(request.model)
        return ThreadedRequest(
            self.threads,
            request,
            model,
            lambda asked: build(asked, model),
            api_version="2026-10-21",
            now_s=lambda: self.now,
        )

    def answered(self, *messages: Json, **more: Any) -> ThreadedRequest:
        """A request that was answered with `Yes.`."""
        asked = self.ask(*messages, **more)
        answer(asked)
        return asked


def answer(
    asked: ThreadedRequest,
    *,
    name: object = "msg_1",
    content: list[Json] | None = None,
    stop: str = "end_turn",
    tokens: int = 1_000,
    **usage: Any,
) -> None:
    message = {"id": name, "type": "message", "role": "assistant", "model": "m", "content": []}
    message["usage"] = {"input_tokens": tokens, "output_tokens": 1}
    start = {"type": "message_start", "message": message}
    if not asked.is_misled(start):
        asked.hear(start)
        for index, block in enumerate(said("Yes.")["content"] if content is None else content):
            asked.hear({"type": "content_block_start", "index": index, "content_block": block})
            asked.hear({"type": "content_block_stop", "index": index})
        told = {"output_tokens": 3} | usage
        asked.hear({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": told})
        asked.hear({"type": "message_stop"})
        asked.hear({"type": "ping"})


def refusal(code: str, status: int = 400, **details: Any) -> Failure:
    told = {"error_code": code} | details
    return Failure(kind="status", message="HTTP 400: No.", status=status, details=told)


ONE, TWO, YES = user("one"), user("two"), said("Yes.")


def test_names_are_those_of_the_official_sdk() -> None:
    assert _thread_state.MESSAGE_THREADS_BETA == BETA
    assert _thread_state.CREATE_ONLY_FIELDS == ("system", "tools")
    assert "thread" in message_create_params.MessageCreateParamsBase.__annotations__
    named = [name for name in dir(sdk) if name.startswith("Thread") and name.endswith("Error")]
    assert len(named) == 5


def test_the_first_request_is_whole_and_the_next_holds_what_is_new() -> None:
    scene = Scene()
    first = scene.answered(ONE)
    whole = build(asking(ONE), CATALOG.entry("opus"))
    assert first.mode == "create"
    assert first.built.body == whole.body | {"thread": {"type": "create"}}
    assert first.built.betas == (*whole.betas, BETA)
    second = scene.ask(ONE, YES, TWO)
    body = second.built.body
    assert second.mode == "continue"
    assert body["thread"] == {"type": "continue", "previous_message_id": "msg_1"}
    assert [m["content"][0]["text"] for m in body["messages"]] == ["two"]
    assert "cache_control" in body["messages"][0]["content"][0]
    assert not {"system", "tools"} & body.keys()
    assert {n: v for n, v in body.items() if n not in ("messages", "thread")} == {
        n: v for n, v in whole.body.items() if n not in ("messages", "system", "tools")
    }


@pytest.mark.parametrize(
    "other",
    [
        asking(ONE, said("No."), TWO),
        asking(user("One"), YES, TWO),
        asking(ONE, YES),
        asking(ONE),
        asking(ONE, YES, said("More.")),
        asking(ONE, {"role": "assistant", "content": "Yes."}, TWO),
        asking(ONE, user("Yes."), TWO),
        asking(ONE, said("Yes."), TWO, model="sonnet"),
        asking(ONE, said("Yes."), TWO, system=SYSTEM + "Be brief."),
        asking(ONE, said("Yes."), TWO, tools=[]),
        asking(ONE, said("Yes."), TWO, effort="low"),
        asking(ONE, said("Yes."), TWO, tool_choice={"type": "none"}),
        asking(ONE, said("Yes."), TWO, agent_id="a"),
        asking(ONE, said("Yes."), TWO, thought_binding="drop_block"),
        asking(ONE, said("Yes."), TWO, extra={"speed": "fast"}),
    ],
)
def test_whatever_is_not_an_addition_is_sent_whole_as_a_new_thread(other: ModelRequest) -> None:
    scene = Scene()
    scene.answered(ONE)
    model = CATALOG.entry(other.model)
    asked = ThreadedRequest(
        scene.threads, other, model, lambda r: build(r, model), api_version="2026-10-21",
        now_s=lambda: scene.now,
    )  # fmt: skip
    assert asked.mode == "create"
    assert asked.built.body["messages"] == build(other, model).body["messages"]


def test_room_for_the_answer_and_marks_may_differ() -> None:
    scene = Scene()
    block = {"type": "text", "text": "Yes.", "citations": None}
    scene.answered(ONE, max_tokens=9_000)
    marked = {"role": "assistant", "content": [block | {"cache_control": {"type": "ephemeral"}}]}
    assert scene.ask(ONE, marked, TWO, max_tokens=5_000, stream=False).mode == "continue"


def test_a_thread_is_relied_on_for_less_than_its_lifetime() -> None:
    for waited, mode in (
        (LIFETIME_S - MARGIN_S - 1, "continue"),
        (LIFETIME_S - MARGIN_S, "create"),
    ):
        scene = Scene()
        scene.answered(ONE)
        scene.now += waited
        assert scene.ask(ONE, YES, TWO).mode == mode


def test_what_is_held_is_continued_once() -> None:
    scene = Scene()
    scene.answered(ONE)
    assert [scene.ask(ONE, YES, TWO).mode for _ in range(2)] == ["continue", "create"]


def test_a_request_that_did_not_arrive_leaves_the_thread_as_it_was() -> None:
    scene = Scene()
    scene.answered(ONE)
    scene.ask(ONE, YES, TWO).give_back()
    assert scene.ask(ONE, YES, TWO).mode == "continue"
    scene.ask(ONE).give_back()
    assert scene.ask(ONE, YES, TWO).mode == "create"


@pytest.mark.parametrize(
    "how",
    [
        {"stop": "refusal"},
        {"stop": "pause_turn"},
        {"stop": "compaction"},
        {"name": None},
        {"tokens": 0},
        {"iterations": [{"type": "message"}, {"type": "fallback_message"}]},
        {"content": [{"type": "tool_use", "name": "Read", "input": {}}]},
        {"content": [{"type": "tool_use", "id": "t", "name": "Read", "input": "half a fi"}]},
    ],
)
def test_an_answer_that_the_service_may_not_hold_is_followed_by_nothing(how: Json) -> None:
    scene = Scene()
    answer(scene.ask(ONE), **how)
    assert scene.ask(ONE, YES, TWO).mode == "create"


def test_a_cut_answer_is_followed_by_nothing_and_one_at_its_limit_is() -> None:
    scene = Scene()
    asked = scene.ask(ONE)
    asked.hear({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9}}})
    assert scene.ask(ONE, YES, TWO).mode == "create"
    answer(scene.ask(ONE), stop="max_tokens", iterations=[{"type": "message"}])
    assert scene.ask(ONE, YES, TWO).mode == "continue"


@pytest.mark.parametrize("code", [*CODES, "thread_fingerprint_mismatch"])
def test_a_thread_that_cannot_be_continued_is_begun_again_with_all_of_it(code: str) -> None:
    scene = Scene()
    scene.answered(ONE)
    asked = scene.ask(ONE, YES, TWO)
    assert asked.refused(refusal(code))
    assert asked.built.body["thread"] == {"type": "create"}
    assert len(asked.built.body["messages"]) == 3
    assert not asked.refused(Failure(kind="status", message="HTTP 400: No.", status=400))
    answer(asked, name="msg_2")
    assert scene.ask(ONE, YES, TWO, YES, ONE).mode == "continue"


def test_a_service_that_loses_thread_after_thread_is_sent_none() -> None:
    scene = Scene()
    scene.answered(ONE)
    messages = [ONE, YES, TWO]
    asked = scene.ask(*messages)
    assert asked.refused(refusal("thread_not_found", 404))
    answer(asked, name="msg_2")
    again = scene.ask(*messages, YES, ONE)
    assert again.refused(refusal("thread_not_found", 404))
    assert again.mode == "none"
    assert "thread" not in again.built.body
    assert BETA not in again.built.betas
    assert scene.ask(ONE).mode == "none"
    assert scene.ask(ONE, model="haiku").mode == "create"


def test_one_that_was_lost_and_then_held_may_be_lost_again() -> None:
    scene = Scene()
    messages = [ONE]
    for number in range(3):
        asked = scene.answered(*messages) if number != 1 else scene.ask(*messages)
        if number == 1:
            assert asked.refused(refusal("thread_not_found", 404))
            answer(asked)
        messages += [YES, TWO]
    asked = scene.ask(*messages)
    assert asked.refused(refusal("thread_not_found", 404))
    assert asked.mode == "create"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "thread: Extra inputs are not permitted"),
        (400, f"Unexpected value(s) `{BETA}` for the `anthropic-beta` header"),
        (422, "body.thread: unknown field"),
        (400, "previous_message_id is not supported"),
    ],
)
def test_a_service_without_threads_is_told_everything_from_then_on(status: int, words: str) -> None:
    scene = Scene()
    asked = scene.ask(ONE)
    assert asked.refused(Failure(kind="status", message=f"HTTP {status}: {words}", status=status))
    assert asked.mode == "none"
    assert not asked.refused(refusal("thread_not_found", 404))
    assert scene.ask(ONE).mode == "none"


@pytest.mark.parametrize("code", ["thread_unsupported_request", "thread_not_found"])
def test_a_refused_creation_is_not_tried_again(code: str) -> None:
    scene = Scene()
    asked = scene.ask(ONE)
    assert asked.refused(refusal(code))
    assert asked.mode == scene.ask(ONE).mode == "none"


def test_context_management_is_left_out_where_it_alone_is_in_the_way_and_changes_nothing() -> None:
    scene = Scene()
    asked = scene.ask(ONE)
    assert "context_management" in asked.built.body
    named = {"unsupported": ["context_management"]}
    assert asked.refused(refusal("thread_unsupported_request", **named))
    assert asked.mode == "create"
    assert "context_management" not in asked.built.body
    answer(asked)
    later = scene.ask(ONE, YES, TWO)
    assert "context_management" not in later.built.body
    assert later.refused(refusal("thread_unsupported_request", **named))
    assert later.mode == "none"
    assert "context_management" in later.built.body
    # Of a model that need not be shown all its thoughts, the member says that it is.
    older = scene.ask(ONE, model="claude-opus-4-6")
    assert older.refused(refusal("thread_unsupported_request", **named))
    assert older.mode == "none"


def test_a_failure_of_another_kind_is_left_to_the_policy() -> None:
    scene = Scene()
    for status in (429, 500, 529):
        assert not scene.ask(ONE).refused(Failure(kind="status", message="later", status=status))
    assert not scene.ask(ONE).refused(Failure(kind="status", message="HTTP 400: No.", status=400))
    scene.answered(ONE)
    asked = scene.ask(ONE, YES, TWO)
    long = "HTTP 400: prompt is too long: 210000 tokens > 200000 maximum"
    assert not asked.refused(Failure(kind="status", message=long, status=400))
    asked.give_back()
    assert scene.ask(ONE, YES, TWO).mode == "continue"


def test_what_a_refusal_of_new_messages_means_the_whole_request_tells() -> None:
    no = Failure(kind="status", message="HTTP 400: messages.0: unexpected tool_use_id", status=400)
    scene = Scene()
    scene.answered(ONE)
    asked = scene.ask(ONE, YES, TWO)
    assert asked.refused(no)
    assert "thread" not in asked.built.body
    assert len(asked.built.body["messages"]) == 3
    assert not asked.refused(no)
    # Nothing is learned until the whole request is answered.
    assert scene.ask(ONE).mode == "create"
    answer(asked)
    assert scene.ask(ONE, model="haiku").mode == "none"


def test_a_prompt_that_is_too_short_shows_that_the_thread_was_ignored() -> None:
    scene = Scene()
    scene.answered(ONE)
    asked = scene.ask(ONE, YES, TWO)
    assert asked.is_misled({"type": "message_start", "message": {"usage": {"input_tokens": 40}}})
    assert "thread" not in asked.built.body
    assert not asked.is_misled({"type": "message_start", "message": {}})
    assert scene.ask(ONE, model="haiku").mode == "none"


@pytest.mark.parametrize(
    ("model", "thinking", "tokens", "is_misled"),
    [
        ("opus", None, 999, True),
        ("opus", None, 1_000, False),
        ("claude-opus-4-1", Off(), 600, False),
        ("claude-opus-4-1", Off(), 400, True),
    ],
)
def test_a_proven_service_is_held_to_what_it_counted(
    model: str, thinking: Off | None, tokens: int, is_misled: bool
) -> None:
    scene = Scene()
    scene.threads.prove(CATALOG.entry(model).id)
    scene.answered(ONE, model=model, thinking=thinking)
    asked = scene.ask(ONE, YES, TWO, model=model, thinking=thinking)
    assert asked.mode == "continue"
    start = {"type": "message_start", "message": {"usage": {"input_tokens": tokens}}}
    assert asked.is_misled(start) == is_misled


def test_nothing_is_continued_that_could_hide_an_ignored_thread() -> None:
    """If the new messages are longer than everything before them, the count would not reveal it."""
    scene = Scene()
    long = user("word " * 3_000)
    scene.answered(ONE)
    assert scene.ask(ONE, YES, long).mode == "create"
    scene.answered(ONE)
    scene.answered(ONE, YES, TWO)
    assert scene.ask(ONE, YES, TWO, YES, long).mode == "continue"


def test_an_error_of_threads_at_the_head_of_a_stream_is_a_refusal() -> None:
    scene = Scene()
    scene.answered(ONE)
    asked = scene.ask(ONE, YES, TWO)
    error = {"type": "not_found_error", "message": "No.", "details": {"error_code": CODES[0]}}
    assert asked.is_misled({"type": "error", "error": error})
    assert asked.mode == "create"
    assert not asked.is_misled({"type": "error", "error": "overloaded"})


def test_a_code_is_found_wherever_a_service_writes_it() -> None:
    at = {"kind": "status", "message": "No."}
    assert code_of(Failure(**at)) == ""
    assert code_of(Failure(**at, error_code=CODES[1])) == CODES[1]
    assert code_of(Failure(kind="status", message=f"No: {CODES[2]}")) == CODES[2]


def test_too_many_marks_for_the_cache_are_sent_without_a_thread() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": f"{n}"} | mark for n in range(3)]
    scene = Scene()
    assert scene.ask(ONE, system=system).mode == "none"
    assert scene.ask(ONE, system=system[:2]).mode == "create"
    assert scene.ask({"role": "user", "content": "one"}, system=None, tools=None).mode == "create"


def test_so_many_conversations_are_remembered() -> None:
    scene = Scene()
    for number in range(MOST_HELD + 1):
        scene.answered(ONE, agent_id=str(number))
    assert scene.ask(ONE, YES, TWO, agent_id="0").mode == "create"
    assert scene.ask(ONE, YES, TWO, agent_id="1").mode == "continue"
    scene.now += LIFETIME_S
    scene.ask(ONE)
    assert scene.threads._held == {}


def test_an_answer_of_another_wire_is_none() -> None:
    held = HeldThread(
        message_id="m", front=(), messages=[ONE], answer=[], prompt_tokens=1, until_s=1.0
    )
    assert not follows([ONE, {"role": "assistant", "content": None}, TWO], held)
    assert follows([ONE, {"role": "assistant", "content": []}, TWO], held)


# -- over a real line


def thinks(body: Json) -> Json:
    return {"content": [{"thinking": "Hm."}, f"Answer {len(body['messages'])}."]}


async def turns(
    service: Holding, count: int, between: Callable[[int, AnthropicProvider], None] | None = None
) -> tuple[list[Json], LoopbackServer]:
    """So many turns of a conversation; the messages at its end."""
    async with LoopbackServer(service, strict=True) as server:
        provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
        provider.threads = Threads()
        messages: list[Json] = [user("one")]
        for number in range(count):
            if between is not None:
                between(number, provider)
            content = await asked(provider, asking(*messages))
            messages += [{"role": "assistant", "content": content}, user(f"and {number}")]
        await provider.aclose()
        return messages, server


async def asked(provider: AnthropicProvider, request: ModelRequest) -> list[Json]:
    attempt = provider.stream(request)
    blocks: dict[int, Json] = {}
    async for event in attempt:
        assert not isinstance(event, Failure), event
        if event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            for name, piece in event["delta"].items():
                if name != "type":
                    blocks[event["index"]][name] += piece
    await attempt.aclose()
    return [blocks[index] for index in sorted(blocks)]


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kinds(server: LoopbackServer) -> list[tuple[str, int | None]]:
    return [((r.body.get("thread") or {}).get("type", "none"), r.status) for r in server.requests]


def test_a_conversation_with_preserved_thinking_is_continued() -> None:
    service = Holding(Preserving(thinks), now_s=Time())
    _, server = asyncio.run(turns(service, 4))
    assert kinds(server) == [("create", 200)] + [("continue", 200)] * 3
    assert [len(body["messages"]) for body in service.shown] == [1, 3, 5, 7]
    assert all(body["system"] == service.shown[0]["system"] for body in service.shown)
    assert max(r.size_bytes for r in server.requests[1:]) < server.requests[0].size_bytes / 2


def test_what_expired_is_told_once_more() -> None:
    service_time, own_time = Time(), Time()

    def between(number: int, provider: AnthropicProvider) -> None:
        provider.monotonic_s = own_time
        if number == 2:
            service_time.now += LIFETIME_S + 1  # a clock that stood still while the machine slept

    service = Holding(Preserving(thinks), now_s=service_time)
    _, server = asyncio.run(turns(service, 4, between))
    assert kinds(server) == [
        ("create", 200), ("continue", 200), ("continue", 404), ("create", 200), ("continue", 200),
    ]  # fmt: skip
    assert [len(body["messages"]) for body in service.shown] == [1, 3, 5, 7]


def test_a_lenient_gateway_that_ignores_threads_is_found_out() -> None:
    service = Holding(thinks, now_s=Time(), has_threads=False)
    _, server = asyncio.run(turns(service, 3))
    assert kinds(server) == [("create", 200), ("continue", 200), ("none", 200), ("none", 200)]
    assert [len(body["messages"]) for body in service.shown] == [1, 1, 3, 5]


def test_an_answer_in_one_piece_is_held_and_found_out_alike() -> None:
    for has_threads, seen in (
        (True, ["create", "continue"]),
        (False, ["create", "continue", "none"]),
    ):
        service = Holding(thinks, now_s=Time(), has_threads=has_threads)

        async def main(service: Holding = service) -> list[str]:
            async with LoopbackServer(service, strict=True) as server:
                provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
                provider.threads = Threads()
                content = await asked(provider, asking(ONE, stream=False))
                answer = {"role": "assistant", "content": content}
                await asked(provider, asking(ONE, answer, TWO, stream=False))
                await provider.aclose()
                return [kind for kind, _ in kinds(server)]

        assert asyncio.run(main()) == seen


def test_both_the_version_and_the_thread_may_be_refused() -> None:
    async def main() -> None:
        old = {"api_versions": ("2023-06-01",)}
        async with LoopbackServer({"scenario": 1, "answers": [{"text": "Hi.", "times": "always"}]},
                                  strict=True, **old) as server:  # fmt: skip
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            provider.threads = Threads()
            for _ in range(2):
                await asked(provider, asking(ONE))
            assert kinds(server) == [("create", 400), ("create", 400), ("none", 200), ("none", 200)]
            spoken = [r.header("anthropic-version") for r in server.requests]
            assert spoken == ["2026-10-21"] + ["2023-06-01"] * 3
            await provider.aclose()

    asyncio.run(main())


def test_a_refused_comparison_of_requests_leaves_the_thread() -> None:
    class Incomparable(Holding):
        def take(self, body: Json, betas: str) -> Taken | ThreadRefusal:
            if "diagnostics" in body:
                words = "diagnostics.previous_message_id: Extra inputs are not permitted"
                return ThreadRefusal(status=400, message=words)
            return super().take(body, betas)

    async def main() -> None:
        async with LoopbackServer(Incomparable(thinks, now_s=Time()), strict=True) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            provider.threads = Threads()
            content = await asked(provider, asking(ONE))
            provider.endpoint = replace(provider.endpoint, diagnoses=True)
            messages = [ONE, {"role": "assistant", "content": content}, TWO]
            await asked(provider, asking(*messages, compares_with="msg_1"))
            assert kinds(server) == [("create", 200), ("continue", 400), ("continue", 200)]
            assert "diagnostics" not in server.requests[-1].body
            assert not provider.endpoint.diagnoses
            await provider.aclose()

    asyncio.run(main())


def test_a_broken_line_before_the_request_leaves_the_thread() -> None:
    async def main() -> None:
        service = Holding(thinks, now_s=Time())
        async with LoopbackServer(service) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            provider.threads = Threads()
            content = await asked(provider, asking(ONE))
            messages = [ONE, {"role": "assistant", "content": content}, TWO]
            here, provider.endpoint = (
                provider.endpoint,
                replace(provider.endpoint, base_url="http://127.0.0.1:9"),
            )
            events = [event async for event in provider.stream(asking(*messages))]
            assert [event.kind for event in events if isinstance(event, Failure)] == ["no_server"]
            provider.endpoint = here
            await asked(provider, asking(*messages))
            assert kinds(server) == [("create", 200), ("continue", 200)]
            await provider.aclose()

    asyncio.run(main())


def test_a_cancelled_answer_is_no_answer_to_continue_from() -> None:
    async def main() -> None:
        service = Holding(thinks, now_s=Time())
        async with LoopbackServer(service) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            provider.threads = Threads()
            content = await asked(provider, asking(ONE))
            messages = [ONE, {"role": "assistant", "content": content}, TWO]
            attempt = provider.stream(asking(*messages))
            await attempt.__anext__()
            await attempt.aclose()
            await server.wait_until_idle()
            await asked(provider, asking(*messages))
            assert kinds(server) == [("create", 200), ("continue", 200), ("create", 200)]
            await provider.aclose()

    asyncio.run(main())


def test_other_requests_and_counts_are_never_part_of_a_thread() -> None:
    async def main() -> None:
        service = Holding(thinks, now_s=Time())
        async with LoopbackServer(service, strict=True) as server:
            provider = provider_from_environment({"ANTHROPIC_BASE_URL": server.url})
            provider.threads = Threads()
            await provider.count_tokens(asking(ONE))
            await asked(provider, replace(asking(ONE), in_thread=False))
            provider.endpoint = replace(provider.endpoint, betas_allowed=False)
            await asked(provider, asking(ONE))
            assert [kind for kind, _ in kinds(server)] == ["none"] * 3
            await provider.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("environ", "settings", "wanted"),
    [
        ({}, {}, False),
        ({}, {"messageThreads": True}, True),
        ({}, {"messageThreads": False}, False),
        ({"CLEW_MESSAGE_THREADS": "1"}, {}, True),
        ({"CLEW_MESSAGE_THREADS": "0"}, {"messageThreads": True}, False),
        ({"CLEW_MESSAGE_THREADS": "1"}, {"messageThreads": False}, False),
    ],
)
def test_threads_are_asked_for_and_a_no_anywhere_is_a_no(
    environ: dict[str, str], settings: Json, wanted: bool
) -> None:
    assert wants_threads(freeze(environ), settings) == wanted
