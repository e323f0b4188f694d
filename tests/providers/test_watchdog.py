"""Silence: a hint after 20 seconds, an end after 90 without a byte or 300 without an event."""

import asyncio

import pytest

from clew.providers.answer_events import Answered, DriverEvent, GaveUp, Retrying, Waiting
from clew.providers.base import Failure, ModelRequest
from clew.providers.retry import RetryPolicy
from clew.providers.watchdog import SilenceLimits, read_limits
from clew.system.config.environment import freeze
from tests.providers.fakes import (
    BOUND_S,
    Asked,
    FakeProvider,
    Hang,
    Pause,
    Step,
    VirtualClock,
    ask,
    end,
    hello,
    start,
    text,
)
from tests.requirements import requirement

ONCE = RetryPolicy(max_attempts=1)


def stalled(steps: list[Step]) -> tuple[Asked, Failure, float]:
    """The failure of one attempt that stalls, and after how long it was told."""
    asked, ended = ask(steps, policy=ONCE)
    assert isinstance(ended, GaveUp)
    return asked, ended.failure, asked.clock.now - 1000.0


@requirement("R071", "R233", "C5")
def test_a_dead_line_is_given_up_after_ninety_seconds_before_the_head_too() -> None:
    asked, failure, after_s = stalled([Hang()])
    assert failure.kind == "stalled"
    assert all(words in failure.message for words in ("90 s", "headers"))
    assert after_s == pytest.approx(90, abs=2)
    hints = [e for e in asked.events if isinstance(e, Waiting)]
    assert [round(h.silent_s) for h in hints] == [20, 40, 60, 80]
    assert {h.limit_s for h in hints} == {90}


@requirement("R074", "C6")
def test_silence_after_silence_ends_with_the_budget() -> None:
    asked, ended = ask(*[[Hang()]] * 10, random=lambda: 0.999)
    assert isinstance(ended, GaveUp)
    assert asked.clock.now - 1000 <= 600
    assert ended.why.endswith("of 600 s is reached")
    last = [e for e in asked.events if isinstance(e, Retrying)][-1]
    assert last.budget_left_s is not None
    assert last.budget_left_s >= 5


@requirement("C6")
def test_what_an_unattended_run_waits_out_uses_up_no_budget() -> None:
    busy = Failure(kind="status", message="HTTP 529", status=529, retry_after_s=7200.0)
    cut = Failure(kind="reset", message="gone", status=200)
    quiet: list[Step] = [Pause(80), *hello()]
    asked, ended = ask(
        *[[busy]] * 12, [cut], quiet, policy=RetryPolicy(unattended=True, max_attempts=2)
    )
    assert isinstance(ended, Answered)
    assert asked.clock.now - 1000 > 12 * 7200


@requirement("R071", "C5")
def test_a_line_that_only_pings_is_given_up_after_three_hundred() -> None:
    asked, failure, after_s = stalled([start(), Hang(ping_s=10)])
    assert failure.kind == "stalled"
    assert all(words in failure.message for words in ("300 s", "pings"))
    assert after_s == pytest.approx(300, abs=3)
    assert [e for e in asked.events if isinstance(e, Waiting)]


def test_a_ping_that_is_an_event_of_the_stream_is_no_part_of_an_answer() -> None:
    steps: list[Step] = [start()]
    for _ in range(60):
        steps += [Pause(10), {"type": "ping"}]
    _, failure, after_s = stalled(steps)
    assert failure.kind == "stalled"
    assert after_s == pytest.approx(300, abs=3)


def test_slow_is_not_dead() -> None:
    steps: list[Step] = [start(), Pause(250, ping_s=15)]
    for piece in ("a", "b", "c"):
        steps += [*text(0, piece, stop=False)[1 if piece != "a" else 0 :], Pause(85)]
    steps += [{"type": "content_block_stop", "index": 0}, *end()]
    asked, ended = ask(steps)
    assert isinstance(ended, Answered)
    assert ended.message["content"] == [{"type": "text", "text": "abc"}]
    assert asked.clock.now - 1000 == pytest.approx(505)


@requirement("C5")
def test_time_the_machine_slept_through_is_not_silence() -> None:
    async def main() -> None:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, [start(), Pause(70), *text(0, "a"), *end()]))

        async def sleep_through() -> None:
            for _ in range(3):
                await clock.sleep(15)
                clock.jump(3600)

        async with asyncio.TaskGroup() as group:
            group.create_task(sleep_through())
            ended = group.create_task(asked.run(ModelRequest(model="opus", messages=[])))
        assert isinstance(ended.result(), Answered)
        assert "Retrying" not in asked.kinds()

    asyncio.run(main())


@pytest.mark.no_cover
def test_a_slow_reader_is_nobodys_silence() -> None:
    async def main() -> None:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, hello()))

        async def slow(event: DriverEvent) -> None:
            asked.events.append(event)
            await clock.sleep(1000)

        ended = await asked.answering.run(ModelRequest(model="opus", messages=[]), slow)
        assert isinstance(ended, Answered)
        assert "Waiting" not in asked.kinds()

    asyncio.run(main())


def test_an_answer_in_one_piece_has_a_limit_of_its_own() -> None:
    request = ModelRequest(model="opus", messages=[], stream=False)
    asked, ended = ask([Pause(250), *hello()], request=request)
    assert isinstance(ended, Answered)
    assert {e.limit_s for e in asked.events if isinstance(e, Waiting)} == {300}
    _, ended = ask([Hang()], request=request, policy=ONCE)
    assert isinstance(ended, GaveUp)
    assert ended.failure.message.startswith("no response within 300 s")


@requirement("R072")
def test_a_stalled_attempt_is_followed_by_another() -> None:
    asked, ended = ask([start(), *text(0, "a", stop=False), Hang()], hello())
    assert isinstance(ended, Answered)
    [retried] = [e for e in asked.events if isinstance(e, Retrying)]
    assert retried.failure.kind == "stalled"
    assert "not even" in retried.failure.message


def test_a_cancel_while_the_watchdog_ends_the_attempt_is_a_cancel() -> None:
    """Both happen in the same turn of the loop; the outer cancellation must win."""

    async def main() -> None:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, [Hang()]), limits=SilenceLimits(bytes_s=5))
        task = asyncio.create_task(asked.run(ModelRequest(model="opus", messages=[])))
        await clock.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_an_error_of_whoever_takes_the_hint_is_not_hidden() -> None:
    async def broken(event: DriverEvent) -> None:
        if isinstance(event, Waiting):
            raise BrokenPipeError

    async def main() -> None:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, [Pause(60), *hello()]))
        await asked.answering.run(ModelRequest(model="opus", messages=[]), broken)

    with pytest.raises(BrokenPipeError):
        asyncio.run(main())


def test_an_error_of_whoever_takes_the_hint_ends_the_wait_for_a_dead_line() -> None:
    async def broken(event: DriverEvent) -> None:
        if isinstance(event, Waiting):
            raise BrokenPipeError

    async def main() -> None:
        clock = VirtualClock()
        asked = Asked(clock, FakeProvider(clock, [Hang()]))
        async with asyncio.timeout(BOUND_S):
            await asked.answering.run(ModelRequest(model="opus", messages=[]), broken)

    with pytest.raises(BrokenPipeError):
        asyncio.run(main())


def test_the_limits_can_be_set_by_variables_and_nonsense_leaves_the_usual() -> None:
    said = {
        "CLEW_WAIT_HINT_MS": "5000",
        "CLEW_BYTES_TIMEOUT_MS": "30500",
        "CLEW_EVENTS_TIMEOUT_MS": "soon",
        "API_TIMEOUT_MS": "900000",
    }
    assert read_limits(freeze(said)) == SilenceLimits(hint_s=5, bytes_s=30.5, whole_s=900)
    assert read_limits(freeze({"CLEW_BYTES_TIMEOUT_MS": "0"})) == SilenceLimits()
