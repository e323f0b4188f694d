"""Turns through the loop: the order of calls, what is recorded, and a history that stays valid."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from clew.agent.conversation import Conversation
from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.events import ToolFinished
from clew.agent.tools.base import ToolOutcome
from clew.core.messages import factories
from tests.agent.world import PERSON, World, asked, denied, says_ok
from tests.requirements import requirement

Json = dict[str, Any]


def call(name: str, n: int = 0) -> Json:
    return {"tool": name, "input": {"n": n}}


async def test_a_turn_without_tools_is_a_prompt_and_an_answer() -> None:
    world = World({"text": "Hello."})
    ended = await world.submit()
    assert ended.reason == "completed"
    assert world.kinds() == ["user:text", "assistant:text"]


@requirement("R253")
async def test_calls_are_answered_and_the_model_continues() -> None:
    world = World({"content": ["I read.", call("Read", 1)]}, {"text": "Done."})
    ended = await world.submit()
    assert (ended.reason, ended.rounds) == ("completed", 2)
    assert world.kinds() == [
        "user:text", "assistant:text", "assistant:tool_use", "user:tool_result", "assistant:text",
    ]  # fmt: skip
    assert world.results()[0]["content"] == "ok 1"


@requirement("R140", "R092", "W20")
async def test_readers_run_together_and_a_writer_alone() -> None:
    begun = asyncio.Event()

    async def reads(given: Json) -> ToolOutcome:
        if given["n"] == 1:
            await begun.wait()
        else:
            begun.set()
        return await says_ok(given)

    world = World(
        {"content": [call("Read", 1), call("Read", 2), call("Write", 3), call("Read", 4)]},
        {"text": "Done."},
        acts={"Read": reads, "Write": says_ok},
    )
    await world.submit()
    log = world.tools.log
    assert log.index("begin Read2") < log.index("end Read1")
    assert log.index("begin Write3") > max(log.index("end Read1"), log.index("end Read2"))
    assert log.index("begin Read4") > log.index("end Write3")
    assert [r["content"] for r in world.results()] == ["ok 2", "ok 1", "ok 3", "ok 4"]
    sent = world.requests(world.story).request.messages[2]["content"]
    assert [b["content"] for b in sent] == ["ok 1", "ok 2", "ok 3", "ok 4"]


@requirement("R028")
async def test_a_turn_can_be_followed_from_prompt_to_end() -> None:
    world = World({"content": ["I read.", call("Read", 1)]}, {"text": "Done."})
    await world.submit()
    seen = [type(event).__name__ for event in world.events]
    steps = [
        "Recorded", "Asking", "MessageStarted", "TextDelta", "BlockFinished", "ToolUseReady",
        "ToolStarted", "ToolProgressed", "ToolFinished",
        "Asking", "MessageStarted", "MessageFinished", "Recorded",
    ]  # fmt: skip
    at = 0
    for step in steps:
        assert step in seen[at:], f"{step} is missing after {seen[:at]}"
        at = seen.index(step, at) + 1


@requirement("R047")
async def test_an_unknown_tool_and_a_failing_one_are_results() -> None:
    async def fails(given: Json) -> ToolOutcome:
        return ToolOutcome(content="broken", is_error=True)

    world = World(
        {"content": [call("Nothing"), call("Write")]}, {"text": "I see."}, acts={"Write": fails}
    )
    ended = await world.submit()
    assert ended.reason == "completed"
    assert [r["is_error"] for r in world.results()] == [True, True]
    assert "no tool Nothing" in world.results()[0]["content"]


async def test_a_denied_call_does_not_run_and_says_why() -> None:
    world = World({"content": [call("Write")]}, {"text": "Then not."}, judge=lambda _: denied())
    await world.submit()
    assert world.tools.log == []
    assert "is denied here" in world.results()[0]["content"]


@pytest.mark.parametrize(
    ("verdict", "ran", "reason"),
    [
        (Granted(), ["begin Write1", "end Write1"], "completed"),
        (Granted(input={"n": 7}), ["begin Write7", "end Write7"], "completed"),
        (Refused(words="not now"), [], "completed"),
        (Refused(words="stop", stop=True), [], "denied_and_stopped"),
    ],
)
async def test_a_user_decides(verdict: Verdict, ran: list[str], reason: str) -> None:
    async def ask(question: Question) -> Verdict:
        assert "nobody said" in question.why
        return verdict

    world = World(
        {"content": [call("Write", 1)]}, {"text": "Well."}, judge=lambda _: asked(), ask=ask
    )
    ended = await world.submit()
    assert world.tools.log == ran
    assert ended.reason == reason
    assert world.next_request_complaint() is None


async def test_after_a_no_that_ends_the_turn_nobody_is_asked_again() -> None:
    asked_for: list[Json] = []

    async def ask(question: Question) -> Verdict:
        asked_for.append(question.block)
        return Refused(words="stop", stop=True)

    world = World(
        {"content": [call("Read", n) for n in range(9)]}, judge=lambda _: asked(), ask=ask
    )
    ended = await world.submit()
    assert ended.reason == "denied_and_stopped"
    assert len(asked_for) == 1
    assert len(world.results()) == 9
    assert world.next_request_complaint() is None


class TestRepetition:
    """A call that is repeated too often leads to a question, never to a silent end."""

    def answers(self, *calls: Json) -> list[Json]:
        return [*({"content": [each]} for each in calls), {"text": "Done."}]

    @pytest.mark.parametrize("together", [False, True])
    async def test_the_fifth_equal_call_in_a_row_asks_and_a_yes_begins_again(
        self, together: bool
    ) -> None:
        asked_for: list[str] = []

        async def ask(question: Question) -> Verdict:
            asked_for.append(question.why)
            return Granted()

        same = [call("Write", 1)] * 9
        answers = [{"content": same}, {"text": "Done."}] if together else self.answers(*same)
        world = World(*answers, ask=ask)
        ended = await world.submit()
        assert ended.reason == "completed"
        assert len(asked_for) == 1
        assert "5 times in a row" in asked_for[0]
        assert len(world.tools.log) == 18

    async def test_another_call_in_between_is_work(self) -> None:
        world = World(
            *self.answers(*([call("Read", 1)] * 4 + [call("Read", 2)] + [call("Read", 1)] * 4)),
            ask=self.nobody,
        )
        await world.submit()
        assert not any(r.get("is_error") for r in world.results())

    async def test_a_refusal_is_read_by_the_model_and_the_turn_continues(self) -> None:
        world = World(*self.answers(*[call("Read", 1)] * 6, call("Read", 2)), ask=self.nobody)
        ended = await world.submit()
        assert ended.reason == "completed"
        errors = [bool(r.get("is_error")) for r in world.results()]
        assert errors == [False] * 4 + [True] * 2 + [False]
        assert "nobody here" in world.results()[4]["content"]

    async def test_a_model_that_reads_no_refusal_is_ended_with_a_reason(self) -> None:
        world = World({"content": [call("Read", 1)], "times": "always"}, ask=self.nobody)
        ended = await world.submit()
        assert (ended.reason, ended.rounds, ended.is_error) == ("loop_stopped", 15, True)
        assert "15 times in a row" in ended.message
        assert world.next_request_complaint() is None

    async def test_a_denied_call_is_denied_however_often(self) -> None:
        world = World(*self.answers(*[call("Read", 1)] * 6), judge=lambda _: denied())
        await world.submit()
        assert all("is denied here" in r["content"] for r in world.results())

    @staticmethod
    async def nobody(question: Question) -> Verdict:
        return Refused(words="nobody here", by_person=False)


async def test_rounds_have_a_limit() -> None:
    world = World({"content": [call("Read")], "times": "always"}, max_rounds=3)
    ended = await world.submit()
    assert (ended.reason, ended.rounds) == ("max_turns", 3)
    assert len(world.results()) == 3


async def test_words_that_arrive_in_the_meantime_are_heard_between_two_rounds() -> None:
    async def reads(given: Json) -> ToolOutcome:
        world.conversation.say("and hurry", PERSON)
        return await says_ok(given)

    world = World({"content": [call("Read")]}, {"text": "Yes."}, acts={"Read": reads})
    await world.submit()
    assert world.kinds()[-2:] == ["user:text", "assistant:text"]
    assert world.next_request_complaint() is None


async def test_a_message_that_arrives_as_a_turn_starts_follows_its_prompt() -> None:
    """It arrives after the turn is running, and before the first step of the turn's task."""
    world = World({"text": "Yes."})
    async with asyncio.TaskGroup() as group:
        group.create_task(world.submit())
        asyncio.get_running_loop().call_soon(world.conversation.say, "and hurry", PERSON)
    prompts = [m["message"]["content"] for m in world.story.history if m["type"] == "user"]
    assert prompts == ["go", "and hurry"]


@requirement("R088", "R256")
@pytest.mark.parametrize("runs", [1, 2])
async def test_an_interrupt_while_tools_run_answers_every_call(runs: int) -> None:
    started = asyncio.Event()

    async def hangs(given: Json) -> ToolOutcome:
        if given["n"] == runs:
            started.set()
        if given["n"] == 0:
            return await says_ok(given)
        await asyncio.Event().wait()
        raise AssertionError

    calls = [call("Read", n) for n in range(runs + 1)]
    world = World(
        {"content": ["Wait.", *calls, call("Write", 9)]}, acts={"Read": hangs, "Write": hangs}
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        turn = group.create_task(world.submit())
        await started.wait()
        assert world.conversation.interrupt()
    assert turn.result().reason == "aborted_tools"
    assert len(world.results()) == runs + 2
    assert sum(not r.get("is_error") for r in world.results()) == 1
    assert "[Request interrupted by user for tool use]" in str(world.story.history[-1])
    assert world.next_request_complaint() is None
    assert not world.conversation.interrupt()


@requirement("R256")
async def test_an_interrupt_while_the_model_talks_keeps_what_was_said() -> None:
    world = World(
        {
            "content": ["A whole thought.", "And one that never ends"],
            "faults": [{"after_events": 8, "stall_s": "forever"}],
        }
    )
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        turn = group.create_task(world.submit())
        await world.block_finished.wait()
        world.conversation.interrupt()
    assert turn.result().reason == "aborted_streaming"
    assert "A whole thought." in str(world.story.history[1])
    assert "[Request interrupted by user]" in str(world.story.history[-1])
    assert world.next_request_complaint() is None


@requirement("V12")
async def test_a_broken_connection_after_a_whole_call_runs_it_once_and_continues() -> None:
    world = World(
        {
            "content": [call("Write", 1), "and then"],
            "faults": [{"after_events": 6, "cut": "close"}],
        },
        {"text": "Going on."},
    )
    ended = await world.submit()
    assert ended.reason == "completed"
    assert world.tools.log == ["begin Write1", "end Write1"]
    assert [type(e).__name__ for e in world.events].count("ToolFinished") == 1


async def test_input_that_is_no_object_never_runs() -> None:
    body = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
        b'"role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
        b'{"type":"tool_use","id":"t1","name":"Write","input":{}}}\n\n'
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
        b'{"type":"input_json_delta","partial_json":"[1, 2"}}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
        b'"usage":{"output_tokens":9}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    )
    world = World(
        {"body": body.decode(), "headers": {"content-type": "text/event-stream"}},
        {"text": "I try again."},
    )
    ended = await world.submit()
    assert ended.reason == "completed"
    assert world.tools.log == []
    finished = [e for e in world.events if isinstance(e, ToolFinished)]
    assert [e.is_error for e in finished] == [True]
    assert "[1, 2" in world.results()[0]["content"]


async def test_a_refused_request_is_told_and_never_sent_back() -> None:
    error = {"type": "invalid_request_error", "message": "no good"}
    world = World({"status": 400, "error": error}, {"text": "Better."})
    ended = await world.submit()
    assert (ended.reason, ended.status, ended.error_type) == ("api_error", 400, error["type"])
    assert world.story.history[-1]["isApiErrorMessage"] is True
    assert (await world.submit("again")).reason == "completed"


async def test_an_answer_cut_at_its_length_is_continued() -> None:
    world = World({"text": "Half", "stop_reason": "max_tokens"}, {"text": "and whole."})
    ended = await world.submit()
    assert (ended.reason, ended.rounds) == ("completed", 2)
    assert world.story.history[2]["isMeta"] is True


@pytest.mark.parametrize(("seconds", "is_recorded"), [(29.0, False), (30.0, True)])
async def test_a_turn_that_took_long_leaves_its_duration(seconds: float, is_recorded: bool) -> None:
    moment_s = 100.0

    async def lasts(given: Json) -> ToolOutcome:
        nonlocal moment_s
        moment_s += seconds
        return await says_ok(given)

    world = World({"content": [call("Read")]}, {"text": "Done."}, acts={"Read": lasts})
    world.conversation = Conversation(
        replace(
            world.deps,
            clock=replace(world.deps.clock, monotonic_s=lambda: moment_s),
            surroundings=replace(world.deps.surroundings, recorded_from_s=lambda: 30.0),
        ),
        world.inbox,
    )
    await world.submit()
    last = world.story.history[-1]
    assert (last.get("subtype") == "turn_duration") is is_recorded
    if is_recorded:
        assert (last["durationMs"], last["messageCount"]) == (30_000, 4)
    assert world.next_request_complaint() is None


async def test_a_note_waits_for_the_first_prompt_and_for_the_end_of_a_turn() -> None:
    def note(word: str) -> None:
        at = {"uuid": str(uuid4()), "at": World.now()}
        world.conversation.note(factories.make_system("informational", word, **at))

    async def notes(given: Json) -> ToolOutcome:
        note("during")
        return await says_ok(given)

    world = World({"content": [call("Read")]}, {"text": "Done."}, acts={"Read": notes})
    note("before")
    assert len(world.story.history) == 0
    await world.submit()
    note("after")
    kinds = [entry.get("content") or entry["type"] for entry in world.story.history]
    assert kinds == ["user", "assistant", "user", "assistant", "before", "during", "after"]
