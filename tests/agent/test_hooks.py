"""Effects of hooks on a turn: deny, ask, change input, add text, continue or end the turn."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from clew.agent.calls import BoundCall
from clew.agent.deps import Granted, Question, Refused, Verdict
from clew.agent.events import Noticed
from clew.agent.hooks.outcome import NOTHING, HookAttachment, HookOutcome
from clew.agent.tools.base import ToolOutcome, make_failure
from tests.agent.world import World, allowed, asked, denied

Json = dict[str, Any]
Say = HookOutcome | Callable[[Json], HookOutcome]


class Hooks:
    """Hooks that answer each event as the test says, and record what they receive."""

    def __init__(self, late: HookOutcome = NOTHING, **said: Say) -> None:
        self._said = said
        self._late = late
        self.heard: list[tuple[str, Json]] = []

    async def fire(
        self, event: str, fields: Json, emit: Any, _call: BoundCall | None = None, /
    ) -> HookOutcome:
        self.heard.append((event, fields))
        said = self._said.get(event, NOTHING)
        return said if isinstance(said, HookOutcome) else said(fields)

    def hears(self, event: str) -> bool:
        return event in self._said

    async def waiting(self, emit: Any, /) -> HookOutcome:
        late, self._late = self._late, NOTHING
        return late

    def events(self) -> list[str]:
        return [event for event, _ in self.heard]

    def fields(self, event: str) -> Json:
        return next(fields for heard, fields in self.heard if heard == event)


CALLS: Json = {"content": [{"tool": "Write", "input": {"n": 1}}]}
TWO: Json = {"content": [{"tool": "Read", "input": {"n": 1}}, {"tool": "Read", "input": {"n": 2}}]}
DONE: Json = {"text": "done"}


def words(attached: str, event: str = "PostToolUse") -> HookAttachment:
    return HookAttachment(
        payload={"type": "hook_additional_context", "hookEvent": event, "content": [attached]},
        rendered=(attached,),
    )


async def test_the_events_of_a_turn_come_in_their_order_with_what_they_are_about() -> None:
    hooks = Hooks()
    world = World(CALLS, DONE, hooks=hooks)
    ended = await world.submit("do it")
    assert ended.reason == "completed"
    assert hooks.events() == [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "Stop",
    ]
    assert hooks.fields("UserPromptSubmit")["prompt"] == "do it"
    use = hooks.fields("PreToolUse")
    assert use | {"tool_use_id": ""} == {
        "tool_name": "Write", "tool_input": {"n": 1}, "tool_use_id": ""
    }  # fmt: skip
    after = hooks.fields("PostToolUse")
    assert after | {"duration_ms": 0} == use | {"tool_response": {"n": {"n": 1}}, "duration_ms": 0}
    assert hooks.fields("PostToolBatch") == {"tool_calls": [use | {"tool_response": "ok 1"}]}
    assert hooks.fields("Stop") == {
        "stop_hook_active": False,
        "last_assistant_message": "done",
        "background_tasks": [],
        "session_crons": [],
    }


async def test_a_denied_call_does_not_run_and_the_model_reads_why() -> None:
    hooks = Hooks(PreToolUse=HookOutcome(permission="deny", reason="not on Fridays"))
    world = World(CALLS, DONE, hooks=hooks)
    await world.submit()
    assert world.tools.log == []
    assert world.results()[0]["content"] == "PreToolUse:Write hook error: not on Fridays"
    assert world.results()[0]["is_error"] is True
    assert "PostToolUse" not in hooks.events()


async def test_an_allowing_hook_spares_the_question_but_lifts_no_rule() -> None:
    hooks = Hooks(PreToolUse=HookOutcome(permission="allow", reason="known"))
    world = World(CALLS, DONE, hooks=hooks, judge=lambda _: asked(), ask=never_asked)
    await world.submit()
    assert world.tools.log == ["begin Write1", "end Write1"]
    strict = World(CALLS, DONE, hooks=hooks, judge=lambda _: denied())
    await strict.submit()
    assert strict.tools.log == []


async def never_asked(question: Question) -> Verdict:
    raise AssertionError("nobody should be asked")


async def test_a_hook_that_asks_has_a_user_asked_with_its_reason() -> None:
    why: list[str] = []

    async def ask(question: Question) -> Verdict:
        why.append(question.why)
        return Refused(words="no")

    hooks = Hooks(PreToolUse=HookOutcome(permission="ask", reason="production"))
    world = World(CALLS, DONE, hooks=hooks, judge=lambda _: allowed(), ask=ask)
    await world.submit()
    assert why == ["hook: production"]
    assert world.tools.log == []


async def test_a_changed_input_is_what_is_judged_and_run() -> None:
    judged: list[Json] = []

    def judge(bound: BoundCall) -> Any:
        judged.append(bound.block["input"])
        return allowed()

    hooks = Hooks(PreToolUse=HookOutcome(permission="allow", input={"n": 7}))
    world = World(CALLS, DONE, hooks=hooks, judge=judge)
    await world.submit()
    assert judged == [{"n": 7}]
    assert world.tools.log == ["begin Write7", "end Write7"]


async def test_a_callback_that_changes_what_it_was_handed_does_not_change_the_call() -> None:
    judged: list[Json] = []

    def judge(bound: BoundCall) -> Any:
        judged.append(dict(bound.block["input"]))
        return asked()

    def meddle(fields: Json) -> HookOutcome:
        fields["tool_input"]["n"] = 9
        return NOTHING

    async def ask(question: Question) -> Verdict:
        question.block["input"]["n"] = 9
        return Granted()

    hooks = Hooks(PreToolUse=meddle, PermissionRequest=meddle)
    world = World(CALLS, DONE, hooks=hooks, judge=judge, ask=ask)
    await world.submit()
    assert [each["n"] for each in judged] == [1]
    assert world.tools.log == ["begin Write1", "end Write1"]


async def test_a_user_who_changes_the_input_in_place_has_the_new_one_judged_and_run() -> None:
    judged: list[Json] = []

    def judge(bound: BoundCall) -> Any:
        judged.append(dict(bound.block["input"]))
        return asked()

    async def ask(question: Question) -> Verdict:
        question.block["input"]["n"] = 9
        return Granted(input=question.block["input"])

    world = World(CALLS, DONE, judge=judge, ask=ask)
    await world.submit()
    assert [each["n"] for each in judged] == [1, 9]
    assert world.tools.log == ["begin Write9", "end Write9"]


async def test_an_answer_in_a_users_stead_is_taken_and_reaches_past_no_rule() -> None:
    def judge(bound: BoundCall) -> Any:
        return denied() if bound.block["input"] == {"n": 9} else asked()

    def run(answer: Json) -> World:
        hooks = Hooks(PermissionRequest=HookOutcome(answer=answer))
        return World(CALLS, DONE, hooks=hooks, judge=judge, ask=never_asked)

    yes = run({"behavior": "allow", "updatedInput": {"n": 3}})
    await yes.submit()
    assert yes.tools.log == ["begin Write3", "end Write3"]
    past = run({"behavior": "allow", "updatedInput": {"n": 9}})
    await past.submit()
    assert past.tools.log == []
    no = run({"behavior": "deny", "message": "ask me tomorrow"})
    await no.submit()
    assert "ask me tomorrow" in no.results()[0]["content"]
    stop = run({"behavior": "deny", "message": "no", "interrupt": True})
    assert (await stop.submit()).reason == "denied_and_stopped"
    # The user interrupted nothing.
    assert stop.kinds()[-1] == "user:tool_result"


async def test_a_question_that_waits_is_told_of_and_one_that_is_answered_is_not() -> None:
    told = asyncio.Event()

    def tell(fields: Json) -> HookOutcome:
        told.set()
        return NOTHING

    async def slow(question: Question) -> Verdict:
        await told.wait()
        return Refused(words="no")

    hooks = Hooks(Notification=tell)
    world = World(CALLS, DONE, hooks=hooks, judge=lambda _: asked(), ask=slow)
    await world.submit()
    assert hooks.fields("Notification")["notification_type"] == "permission_prompt"
    quick = Hooks()
    world = World(CALLS, DONE, hooks=quick, judge=lambda _: asked())
    await world.submit()
    assert "Notification" not in quick.events()


async def test_words_of_a_hook_stand_beside_the_result_it_is_about() -> None:
    hooks = Hooks(
        PostToolUse=lambda f: HookOutcome(attached=(words(f"after {f['tool_input']['n']}"),))
    )
    world = World(TWO, DONE, hooks=hooks)
    await world.submit()
    kinds = [e["type"] for e in world.story.history]
    assert kinds == [
        "user",
        "assistant",
        "assistant",
        "user",
        "attachment",
        "user",
        "attachment",
        "assistant",
    ]
    sent = world.requests(world.story).request.messages[2]["content"]
    assert [b["type"] for b in sent[:2]] == ["tool_result", "tool_result"]
    assert {b["text"] for b in sent[2:]} == {"after 1", "after 2"}
    assert world.next_request_complaint() is None


async def test_a_replaced_output_is_what_the_model_reads_and_the_record_keeps_both() -> None:
    hooks = Hooks(PostToolUse=HookOutcome(output={"n": "hidden"}))
    world = World(CALLS, DONE, hooks=hooks)
    await world.submit()
    assert world.results()[0]["content"] == '{"n":"hidden"}'
    answered = next(e for e in world.story.history if "toolUseResult" in e)
    assert answered["toolUseResult"] == {"n": {"n": 1}}
    odd = World(CALLS, DONE, hooks=Hooks(PostToolUse=HookOutcome(output="of no shape")))
    await odd.submit()
    assert odd.results()[0]["content"] == "ok 1"


async def test_a_failed_call_is_another_event() -> None:
    async def fails(given: Json) -> ToolOutcome:
        return make_failure("Exit code 1\nno such thing")

    hooks = Hooks()
    world = World(CALLS, DONE, hooks=hooks, acts={"Write": fails})
    await world.submit()
    failure = hooks.fields("PostToolUseFailure")
    assert failure["error"] == "Exit code 1\nno such thing"
    assert failure["is_interrupt"] is False
    assert "PostToolUse" not in hooks.events()


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PostToolBatch", "Stop"])
async def test_a_hook_can_end_the_turn_at_once(event: str) -> None:
    hooks = Hooks(**{event: HookOutcome(halt="enough")})
    world = World(CALLS, DONE, {"text": "never asked for"}, hooks=hooks)
    ended = await world.submit()
    assert (ended.reason, ended.message) == ("stopped_by_hook", "enough")
    assert world.next_request_complaint() is None
    assert world.tools.log == ([] if event == "PreToolUse" else ["begin Write1", "end Write1"])


async def test_a_prompt_that_is_kept_back_reaches_nobody_and_the_record_says_so() -> None:
    hooks = Hooks(UserPromptSubmit=HookOutcome(block="no secrets"))
    world = World({"text": "never asked for"}, hooks=hooks)
    ended = await world.submit("my password is hunter2")
    assert (ended.reason, ended.rounds) == ("stopped_by_hook", 0)
    assert "no secrets" in ended.message
    (note,) = world.story.history
    assert (note["type"], note["subtype"]) == ("system", "informational")
    assert "Original prompt: my password" in note["content"]
    hidden = Hooks(UserPromptSubmit=HookOutcome(block="no secrets", hides_prompt=True))
    world = World({"text": "never asked for"}, hooks=hidden)
    await world.submit("my password is hunter2")
    assert "hunter2" not in world.story.history[0]["content"]


async def test_words_with_a_prompt_are_sent_with_it() -> None:
    late = HookOutcome(attached=(words("the branch is main", "SessionStart"),))
    hooks = Hooks(
        late, UserPromptSubmit=HookOutcome(attached=(words("it is late", "UserPromptSubmit"),))
    )
    world = World(DONE, hooks=hooks)
    await world.submit("go")
    texts = [b["text"] for b in world.requests(world.story).request.messages[0]["content"]]
    assert set(texts) == {"go", "the branch is main", "it is late"}


async def test_a_stop_hook_keeps_the_turn_going_and_is_told_that_it_did() -> None:
    def stop(fields: Json) -> HookOutcome:
        return NOTHING if fields["stop_hook_active"] else HookOutcome(block="run the tests")

    hooks = Hooks(Stop=stop)
    world = World(DONE, {"text": "tests ran"}, hooks=hooks)
    ended = await world.submit()
    assert (ended.reason, ended.rounds) == ("completed", 2)
    feedback = world.story.history[2]
    assert feedback["isMeta"] is True
    assert feedback["message"]["content"] == "Stop hook feedback:\nrun the tests"


async def test_a_stop_hook_that_never_gives_in_is_overruled_and_that_is_said() -> None:
    hooks = Hooks(Stop=HookOutcome(block="again"))
    world = World(*[DONE] * 12, hooks=hooks)
    ended = await world.submit()
    assert (ended.reason, ended.rounds) == ("completed", 9)
    said = [m for e in world.events if isinstance(e, Noticed) for m in e.messages]
    assert said == ["a Stop hook continued the turn 8 times; the turn was ended anyway"]


async def test_tools_between_two_stops_begin_the_count_again() -> None:
    hooks = Hooks(Stop=HookOutcome(context=("go on",)))
    world = World(*[DONE] * 7, CALLS, *[DONE] * 12, hooks=hooks)
    ended = await world.submit()
    assert ended.rounds == 7 + 1 + 9


async def test_a_failure_of_the_service_is_told_and_changes_nothing() -> None:
    hooks = Hooks(StopFailure=HookOutcome(block="no matter", halt="no matter"))
    world = World(
        {
            "status": 401,
            "body_json": {
                "type": "error",
                "error": {"type": "authentication_error", "message": "no key"},
            },
        },
        hooks=hooks,
    )
    ended = await world.submit()
    assert ended.reason == "api_error"
    assert hooks.fields("StopFailure")["error"] == "authentication_failed"
    assert "Stop" not in hooks.events()


async def test_what_people_should_know_is_reported_at_once_and_titles_are_set() -> None:
    hooks = Hooks(UserPromptSubmit=HookOutcome(notices=("slow today",), title="the work"))
    world = World(DONE, hooks=hooks)
    await world.submit()
    assert [e.messages for e in world.events if isinstance(e, Noticed)] == [("slow today",)]


async def test_an_interrupted_look_at_a_result_keeps_the_result() -> None:
    begun = asyncio.Event()

    class Hanging(Hooks):
        async def fire(
            self, event: str, fields: Json, emit: Any, _call: BoundCall | None = None, /
        ) -> HookOutcome:
            if event == "PostToolUse":
                begun.set()
                await asyncio.Event().wait()
            return NOTHING

    world = World(CALLS, {"text": "never asked for"}, hooks=Hanging())
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        turn = group.create_task(world.submit())
        await begun.wait()
        world.conversation.interrupt()
    assert turn.result().reason == "aborted_tools"
    assert world.results()[0]["content"] == "ok 1"
