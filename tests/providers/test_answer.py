"""The driver.

Attempts until there is a message; nothing is shown twice, nothing complete is lost.
"""

import asyncio

import pytest

from clew.core.stream.events import BlockDropped, BlockFinished, MessageFinished, TextDelta
from clew.providers.answer import Answering, Gate, chance
from clew.providers.answer_events import (
    Answered,
    Asking,
    CompactionDue,
    FellBack,
    GaveUp,
    HeldByRateLimit,
    Incomplete,
    Retrying,
    Shrunk,
    Withdrawn,
)
from clew.providers.base import Adaptive, Failure, ModelRequest, ThinkingBudget
from clew.providers.retry import RetryPolicy
from tests.providers.fakes import (
    Asked,
    FakeProvider,
    Hang,
    VirtualClock,
    ask,
    end,
    hello,
    start,
    text,
    tool,
)
from tests.requirements import requirement

BUSY = Failure(
    kind="status", message="HTTP 529: Overloaded", status=529, error_type="overloaded_error"
)
BROKEN = Failure(kind="status", message="HTTP 500: no", status=500, error_type="api_error")
CUT = Failure(kind="truncated", message="the connection ended too early", status=200)
OVERFLOW = "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000"


def test_an_answer_comes_through_with_its_events_and_its_message() -> None:
    asked, ended = ask(hello())
    assert asked.kinds() == ["Asking", "MessageStarted", "BlockFinished", "MessageFinished"]
    assert isinstance(ended, Answered)
    assert ended.message["content"] == [{"type": "text", "text": "hello"}]
    assert ended.message["stop_reason"] == "end_turn"
    assert (ended.model, ended.request_id, ended.attempts) == ("opus", "req_1", 1)


@requirement("R072", "R075")
def test_an_overloaded_service_is_asked_again_until_it_answers() -> None:
    asked, ended = ask(*[[BUSY]] * 8, hello())
    assert isinstance(ended, Answered)
    assert ended.attempts == 9
    pauses = [e for e in asked.events if isinstance(e, Retrying)]
    assert [p.delay_s for p in pauses] == [0.5, 1, 2, 4, 8, 15, 15, 15]
    assert [p.attempt for p in pauses] == list(range(1, 9))
    assert {p.max_attempts for p in pauses} == {None}, "the time is what bounds it"
    assert pauses[-1].budget_left_s == pytest.approx(600 - 60.5)
    assert asked.clock.now == pytest.approx(1060.5)
    assert [r.retry_count for r in asked.provider.requests] == list(range(9))


def test_giving_up_says_why_and_after_how_long() -> None:
    asked, ended = ask(*[[BROKEN]] * 20)
    assert isinstance(ended, GaveUp)
    assert (ended.why, ended.attempts, ended.failure) == ("10 attempts failed", 10, BROKEN)
    assert [e.max_attempts for e in asked.events if isinstance(e, Retrying)] == [10] * 9
    assert ended.elapsed_s == pytest.approx(75.5)
    assert len(asked.provider.requests) == 10


def test_a_service_that_stays_overloaded_is_asked_for_as_long_as_the_budget_lasts() -> None:
    _, ended = ask(*[[BUSY]] * 60)
    assert isinstance(ended, GaveUp)
    assert ended.why == "the time limit of 600 s is reached"
    assert ended.attempts == 44


def test_a_wait_beyond_the_budget_is_told_with_the_end() -> None:
    limited = Failure(kind="status", message="HTTP 429: no", status=429, retry_after_s=7200.0)
    asked, ended = ask([limited], hello())
    assert isinstance(ended, GaveUp)
    assert (ended.why, ended.retry_in_s) == ("the API requires a wait of 2 h", 7200.0)
    assert len(asked.provider.requests) == 1


def test_unattended_work_has_no_number_of_attempts_to_show() -> None:
    asked, ended = ask(*[[BUSY]] * 25, hello(), policy=RetryPolicy(unattended=True))
    assert isinstance(ended, Answered)
    pauses = [e for e in asked.events if isinstance(e, Retrying)]
    assert len(pauses) == 25
    assert {(p.max_attempts, p.budget_left_s) for p in pauses} == {(None, None)}


@requirement("R076")
def test_a_refusal_ends_it_at_once() -> None:
    refused = Failure(kind="status", message="HTTP 400: no", status=400)
    asked, ended = ask([refused], hello())
    assert isinstance(ended, GaveUp)
    assert len(asked.provider.requests) == 1


@requirement("R064")
def test_what_was_shown_of_a_broken_attempt_is_withdrawn_before_the_next() -> None:
    asked, ended = ask([start("msg_a"), *text(0, "hal", stop=False), CUT], hello("whole"))
    assert isinstance(ended, Answered)
    withdrawn = [e for e in asked.events if isinstance(e, Withdrawn)]
    assert [w.message["id"] for w in withdrawn] == ["msg_a"]
    assert asked.kinds("Asking", "Retrying") == [
        "MessageStarted",
        "Withdrawn",
        "MessageStarted",
        "BlockFinished",
        "MessageFinished",
    ]
    assert "".join(e.text for e in asked.events if isinstance(e, TextDelta)) == "halwhole"


@requirement("W7")
def test_after_a_completed_block_nothing_is_asked_again_and_what_is_complete_stays() -> None:
    attempt = [
        start(),
        *text(0, "I read it."),
        *tool(1, '{"file":"a"}'),
        *tool(2, '{"fi', stop=False),
        CUT,
    ]
    asked, ended = ask(attempt, hello())
    assert isinstance(ended, Incomplete)
    assert len(asked.provider.requests) == 1
    assert ended.failure == CUT
    assert [b["type"] for b in ended.message["content"]] == ["text", "tool_use"]
    assert asked.kinds("Asking", "MessageStarted") == [
        "BlockFinished",
        "BlockFinished",
        "ToolUseReady",
        "BlockDropped",
        "MessageFinished",
    ]
    finished = asked.events[-1]
    assert isinstance(finished, MessageFinished)
    assert not finished.complete


def test_half_a_text_stays_when_nothing_better_will_come() -> None:
    half = [start(), *text(0, "half a", stop=False), CUT]
    asked, ended = ask(*[half] * 10)
    assert isinstance(ended, Incomplete)
    assert ended.message["content"] == [{"type": "text", "text": "half a"}]
    assert len([e for e in asked.events if isinstance(e, Withdrawn)]) == 9
    assert asked.kinds()[-2:] == ["BlockFinished", "MessageFinished"]


def test_an_empty_beginning_is_withdrawn_when_nothing_better_will_come() -> None:
    asked, ended = ask(*[[start(), CUT]] * 10)
    assert isinstance(ended, GaveUp)
    assert len([e for e in asked.events if isinstance(e, Withdrawn)]) == 10


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([], "truncated"),
        ([start()], "truncated"),
        ([start(), *text(0, "a", stop=False)], "truncated"),
        ([*text(0, "a")], "event"),
        ([start(), start()], "event"),
        ([start(), {"type": "content_block_stop", "index": 3}], "event"),
        ([start(), {"type": "content_block_start", "index": "x"}], "event"),
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}], "error_event"),
    ],
)  # fmt: skip
def test_a_stream_that_breaks_its_rules_is_a_failed_attempt(events: list, kind: str) -> None:
    asked, ended = ask(events, hello())
    assert isinstance(ended, Answered)
    [retried] = [e for e in asked.events if isinstance(e, Retrying)]
    assert retried.failure.kind == kind


def test_an_error_event_is_judged_by_its_type() -> None:
    error = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no", "details": {"error_code": "x"}},
    }
    _, ended = ask([error], hello())
    assert isinstance(ended, GaveUp)
    assert ended.failure.error_type == "invalid_request_error"
    assert ended.failure.details == {"error_code": "x"}


def test_a_stream_without_its_last_word_is_whole_if_a_stop_reason_came() -> None:
    asked, ended = ask([start(), *text(0, "a"), end()[0]])
    assert isinstance(ended, Answered)
    assert "StreamFault" in asked.kinds()


def test_when_streams_keep_breaking_the_whole_answer_is_asked_for_once() -> None:
    request = ModelRequest(
        model="opus", messages=[], thinking=ThinkingBudget(tokens=30_000), max_tokens=32_000
    )
    asked, ended = ask([CUT], [CUT], [CUT], [CUT], hello(), request=request)
    assert isinstance(ended, Answered)
    assert [r.stream for r in asked.provider.requests] == [True, True, True, False, True]
    whole, after = asked.provider.requests[3:]
    assert (whole.max_tokens, whole.thinking) == (21_000, ThinkingBudget(tokens=20_999))
    assert (after.max_tokens, after.thinking) == (32_000, ThinkingBudget(tokens=30_000))
    assert [e.stream for e in asked.events if isinstance(e, Asking)][3] is False


@requirement("R064")
def test_the_next_model_is_asked_and_what_the_first_showed_is_withdrawn() -> None:
    shown = [start("msg_a"), *text(0, "hal", stop=False), BUSY]
    asked, ended = ask(shown, shown, shown, hello(), fallbacks=("sonnet", "haiku"))
    assert isinstance(ended, Answered)
    assert ended.model == "sonnet"
    assert [r.model for r in asked.provider.requests] == ["opus", "opus", "opus", "sonnet"]
    assert [e.model for e in asked.events if isinstance(e, FellBack)] == ["sonnet"]
    assert len([e for e in asked.events if isinstance(e, Withdrawn)]) == 3
    assert [e.attempt for e in asked.events if isinstance(e, Asking)] == [1, 2, 3, 1]


def test_the_chain_of_models_is_gone_through_to_its_end() -> None:
    asked, ended = ask(*[[BUSY]] * 6, *[[BROKEN]] * 10, fallbacks=("sonnet", "haiku"))
    assert isinstance(ended, GaveUp)
    models = [r.model for r in asked.provider.requests]
    assert models == ["opus"] * 3 + ["sonnet"] * 3 + ["haiku"] * 10


@requirement("R078", "W8")
def test_an_overflow_shrinks_the_answer_once() -> None:
    refused = Failure(kind="status", message=OVERFLOW, status=400)
    asked, ended = ask(
        [refused], hello(), request=ModelRequest(model="opus", messages=[], thinking=Adaptive())
    )
    assert isinstance(ended, Answered)
    assert [e.max_tokens for e in asked.events if isinstance(e, Shrunk)] == [4000]
    assert asked.provider.requests[1].max_tokens == 4000
    assert asked.clock.slept == []


@requirement("W8")
def test_a_second_overflow_means_that_compaction_is_due() -> None:
    refused = Failure(kind="status", message=OVERFLOW, status=400)
    asked, ended = ask([refused], [refused], hello())
    assert isinstance(ended, CompactionDue)
    assert (ended.overflow.input_tokens, ended.overflow.limit_tokens) == (195_000, 200_000)
    assert len(asked.provider.requests) == 2


@requirement("W8")
def test_a_conversation_that_was_counted_too_long_is_not_sent() -> None:
    request = ModelRequest(model="claude-haiku-4-5", messages=[], input_tokens=199_000)
    asked, ended = ask(hello(), request=request)
    assert isinstance(ended, CompactionDue)
    assert ended.failure is None
    assert asked.provider.requests == []


@requirement("R074", "W7")
def test_others_wait_for_the_same_moment_and_then_continue() -> None:
    limited = Failure(kind="status", message="HTTP 429", status=429, retry_after_s=30.0)

    async def main() -> None:
        clock, gate = VirtualClock(), Gate()
        first = Asked(clock, FakeProvider(clock, [limited], hello()), gate=gate)
        second = Asked(clock, FakeProvider(clock, hello()), gate=gate)
        request = ModelRequest(model="opus", messages=[])
        async with asyncio.TaskGroup() as group:
            one = group.create_task(first.run(request))
            await first.seen("Retrying")
            two = group.create_task(second.run(request))
        assert isinstance(one.result(), Answered)
        assert isinstance(two.result(), Answered)
        held = [e.delay_s for e in second.events if isinstance(e, HeldByRateLimit)]
        assert held == [pytest.approx(30.0, abs=1)]
        assert clock.now >= 1030
        assert gate.left_s(clock.now) == 0

    asyncio.run(main())


def test_a_wait_that_ends_the_turn_holds_no_later_request() -> None:
    limited = Failure(kind="status", message="HTTP 429: no", status=429, retry_after_s=7200.0)
    gate = Gate()
    _, ended = ask([limited], gate=gate)
    assert isinstance(ended, GaveUp)
    assert gate.left_s(0) == 0


def test_a_gate_only_ever_waits_longer() -> None:
    gate = Gate()
    assert gate.left_s(5) == 0
    gate.hold(20)
    gate.hold(10)
    assert gate.left_s(5) == 15


def test_chance_is_from_zero_to_below_one() -> None:
    assert all(0 <= chance() < 1 for _ in range(100))


def cancelled_while(steps: list, seen: str) -> Asked:
    """Cancels the driver once an event of this kind was emitted and it waits again."""

    async def main() -> Asked:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, steps))
        task = asyncio.create_task(asked.run(ModelRequest(model="opus", messages=[])))
        await asked.seen(seen)
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(a.closed for a in asked.provider.attempts)
        others = asyncio.all_tasks() - {asyncio.current_task(), clock._turning}
        assert {t.get_name() for t in others} == set()
        return asked

    return asyncio.run(main())


@requirement("R069")
def test_a_cancel_keeps_finished_blocks_and_drops_an_unfinished_call_and_says_so() -> None:
    steps = [start(), *text(0, "Done."), *tool(1, '{"file": "a', stop=False), Hang()]
    asked = cancelled_while(steps, "InputDelta")
    said = asked.answering.last_words
    [dropped] = [e for e in said if isinstance(e, BlockDropped)]
    assert dropped.block["type"] == "tool_use"
    last = said[-1]
    assert isinstance(last, MessageFinished)
    assert (last.complete, last.message["content"]) == (False, [{"type": "text", "text": "Done."}])


@requirement("R069")
def test_a_cancel_keeps_the_text_that_was_seen() -> None:
    asked = cancelled_while([start(), *text(0, "so far", stop=False), Hang()], "TextDelta")
    [kept] = [e for e in asked.answering.last_words if isinstance(e, BlockFinished)]
    assert (kept.complete, kept.block["text"]) == (False, "so far")


@requirement("R069")
@pytest.mark.parametrize(("steps", "seen"), [([Hang()], "Asking"), ([BUSY], "Retrying")])
def test_a_cancel_before_anything_came_leaves_no_words(steps: list, seen: str) -> None:
    asked = cancelled_while(steps, seen)
    assert [e for e in asked.answering.last_words if isinstance(e, MessageFinished)] == []


def test_an_error_of_whoever_takes_the_events_is_not_hidden() -> None:
    async def broken(event: object) -> None:
        raise BrokenPipeError

    async def main() -> None:
        clock = VirtualClock()
        answering = Answering(FakeProvider(clock, hello()), new_tool_id=str, clock=clock)
        await answering.run(ModelRequest(model="opus", messages=[]), broken)

    with pytest.raises(BrokenPipeError):
        asyncio.run(main())


@requirement("R069")
@pytest.mark.parametrize("stuck_at", ["BlockFinished", "ToolUseReady", "MessageFinished"])
def test_a_cancel_while_an_event_is_being_taken_loses_none(stuck_at: str) -> None:
    taken: list[object] = []

    async def main() -> list[object]:
        stuck = asyncio.Event()

        async def take(event: object) -> None:
            if type(event).__name__ == stuck_at:
                stuck.set()
                await asyncio.Event().wait()
            taken.append(event)

        clock = VirtualClock()
        provider = FakeProvider(clock, [start(), *tool(0, '{"a": 1}'), *end("tool_use")])
        answering = Answering(provider, new_tool_id=str, clock=clock)
        task = asyncio.create_task(answering.run(ModelRequest(model="opus", messages=[]), take))
        await stuck.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [*taken, *answering.last_words]

    kinds = [type(e).__name__ for e in asyncio.run(main())]
    for once in ("BlockFinished", "ToolUseReady", "MessageFinished"):
        assert kinds.count(once) == 1


@requirement("R069")
def test_a_cancel_while_the_rest_of_a_broken_answer_is_told_loses_nothing_of_it() -> None:
    async def main() -> list[str]:
        stuck = asyncio.Event()

        async def take(event: object) -> None:
            if isinstance(event, BlockDropped):
                stuck.set()
                await asyncio.Event().wait()

        clock = VirtualClock()
        steps = [start(), *text(0, "Done."), *tool(1, "{", stop=False), CUT]
        answering = Answering(FakeProvider(clock, steps), new_tool_id=str, clock=clock)
        task = asyncio.create_task(answering.run(ModelRequest(model="opus", messages=[]), take))
        await stuck.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [type(e).__name__ for e in answering.last_words]

    assert asyncio.run(main()) == ["BlockDropped", "MessageFinished"]


@requirement("R069")
def test_a_cancel_between_the_last_event_and_the_end_of_the_run_finds_the_message() -> None:
    async def main() -> list[object]:
        async def take(event: object) -> None:
            if isinstance(event, MessageFinished):
                asyncio.get_running_loop().call_soon(task.cancel)

        clock = VirtualClock()
        answering = Answering(FakeProvider(clock, hello()), new_tool_id=str, clock=clock)
        task = asyncio.create_task(answering.run(ModelRequest(model="opus", messages=[]), take))
        with pytest.raises(asyncio.CancelledError):
            await task
        return [*answering.last_words]

    [last] = asyncio.run(main())
    assert isinstance(last, MessageFinished)
    assert last.complete
