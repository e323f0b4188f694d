"""The service with message threads, compared with the vendor's description of the rules."""

from typing import Any

import pytest

from clew.testing.threads import (
    BETA,
    LIFETIME_S,
    MAX_MARKS,
    MOST_SHOWN,
    Holding,
    Taken,
    ThreadRefusal,
    estimate_prompt_tokens,
)

Json = dict[str, Any]
CREATE = {"type": "create"}
MARK = {"cache_control": {"type": "ephemeral"}}


def user(words: str, **more: Any) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": words} | more]}


def body(*messages: Json, **more: Any) -> Json:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


def after(message_id: str) -> Json:
    return {"type": "continue", "previous_message_id": message_id}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def service(**more: Any) -> Holding:
    return Holding(lambda _: {"text": "Yes."}, **({"now_s": Clock()} | more))


def answered(held: Holding, request: Json, message_id: str, stop: str = "end_turn") -> Json:
    """A request whose answer is through; what the model was shown."""
    taken = held.take(request, BETA)
    assert isinstance(taken, Taken), taken
    content = [{"type": "text", "text": "Yes."}]
    held.keep(taken, {"id": message_id, "content": content, "stop_reason": stop})
    held.settle(taken)
    return taken.body


def refused(held: Holding, request: Json, betas: str = BETA) -> ThreadRefusal:
    taken = held.take(request, betas)
    assert isinstance(taken, ThreadRefusal)
    return taken


def test_the_model_is_shown_all_that_is_held_and_what_is_new() -> None:
    held = service()
    front = {"system": "Be brief.", "tools": [{"name": "Read"}]}
    answered(held, body(user("one", **MARK), thread=CREATE, **front), "a")
    shown = answered(held, body(user("two", **MARK), thread=after("a")), "b")
    assert shown == body(
        user("one"),
        {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
        user("two", **MARK),
        **front,
    )
    third = answered(held, body(user("three"), thread=after("b"), max_tokens=5), "c")
    assert [m["role"] for m in third["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert third["max_tokens"] == 5
    assert list(held.shown)[-1] == third
    assert held.refusals == []
    assert estimate_prompt_tokens(third) > estimate_prompt_tokens(shown) > 0


def test_a_request_without_a_thread_is_shown_as_it_is_and_not_held() -> None:
    held = service()
    assert answered(held, body(user("one")), "a") == body(user("one"))
    assert refused(held, body(user("two"), thread=after("a"))).code == "thread_not_found"


@pytest.mark.parametrize(
    "thread",
    [{"type": "fork"}, {}, after("a") | {"more": 1}, CREATE | {"previous_message_id": "a"}],
)
def test_a_thread_of_another_form_is_refused(thread: Json) -> None:
    refusal = refused(service(), body(user("one"), thread=thread))
    assert (refusal.status, refusal.code) == (400, None)


def test_without_the_beta_the_member_is_unknown() -> None:
    refusal = refused(service(), body(user("one"), thread=CREATE), "other-beta")
    assert refusal.error == {
        "type": "invalid_request_error",
        "message": "thread: Extra inputs are not permitted",
    }


def test_a_thread_lives_five_minutes_after_its_last_request() -> None:
    clock = Clock()
    held = service(now_s=clock)
    answered(held, body(user("one"), thread=CREATE), "a")
    clock.now += LIFETIME_S
    answered(held, body(user("two"), thread=after("a")), "b")
    clock.now += LIFETIME_S + 1
    refusal = refused(held, body(user("three"), thread=after("b")))
    assert refusal.status == 404
    assert refusal.error["type"] == "not_found_error"
    assert refusal.error["details"] == {"error_code": "thread_not_found"}


def test_an_answer_is_continued_once_and_by_one_at_a_time() -> None:
    held = service()
    answered(held, body(user("one"), thread=CREATE), "a")
    taken = held.take(body(user("two"), thread=after("a")), BETA)
    assert isinstance(taken, Taken)
    held.keep(taken, {"id": "b", "content": [], "stop_reason": "end_turn"})
    again = body(user("two"), thread=after("a"))
    assert refused(held, again).code == "thread_continue_in_flight"
    held.settle(taken)
    assert refused(held, again).code == "thread_already_continued"


def test_fields_that_must_stay_are_named_and_create_only_ones_not_repeated() -> None:
    held = service()
    answered(held, body(user("one"), thread=CREATE, output_config={"effort": "low"}), "a")
    other = {"output_config": {"effort": "high"}, "tool_choice": {"type": "none"}}
    refusal = refused(held, body(user("two"), thread=after("a"), **other))
    assert refusal.code == "thread_fingerprint_mismatch"
    assert refusal.message.endswith("differing field(s): output_config, tool_choice")
    for name in ("system", "tools"):
        assert name in refused(held, body(user("two"), thread=after("a"), **{name: []})).message


def test_there_must_be_something_new_said_by_a_user_unless_the_answer_paused() -> None:
    held = service()
    answered(held, body(user("one"), thread=CREATE), "a")
    assert "at least one message" in refused(held, body(thread=after("a"))).message
    reply = {"role": "assistant", "content": [{"type": "text", "text": "No."}]}
    assert "ends with an assistant" in refused(held, body(reply, thread=after("a"))).message
    answered(held, body(user("one"), thread=CREATE), "b", stop="pause_turn")
    assert len(answered(held, body(thread=after("b")), "c")["messages"]) == 2


def test_features_and_marks_that_threads_do_not_take_are_named() -> None:
    held = service(unsupported=frozenset({"thinking"}))
    marked = [user(str(n), **MARK) for n in range(MAX_MARKS + 1)]
    refusal = refused(held, body(*marked, thread=CREATE, thinking={"type": "adaptive"}))
    assert refusal.error["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thinking", "cache_control"],
    }


def test_refused_and_forgotten_answers_are_not_held() -> None:
    held = service()
    answered(held, body(user("one"), thread=CREATE), "a", stop="refusal")
    assert refused(held, body(user("two"), thread=after("a"))).code == "thread_not_found"
    losing = service(forgets=lambda: True)
    answered(losing, body(user("one"), thread=CREATE), "a")
    assert refused(losing, body(user("two"), thread=after("a"))).code == "thread_not_found"


def test_what_a_tool_is_called_with_is_compared_as_it_is() -> None:
    held = service()
    choice = {"type": "tool", "input": {"cache_control": 1}}
    answered(held, body(user("one"), thread=CREATE, tool_choice=choice), "a")
    other = choice | {"input": {}}
    request = body(user("two"), thread=after("a"), tool_choice=other)
    assert refused(held, request).code == "thread_fingerprint_mismatch"


def test_a_gateway_that_ignores_threads_shows_the_model_what_it_was_sent() -> None:
    held = service(has_threads=False)
    for message_id, thread in (("a", CREATE), ("b", after("a"))):
        assert answered(held, body(user("one"), thread=thread), message_id) == body(user("one"))


def test_only_the_last_requests_are_kept() -> None:
    held = service()
    for number in range(MOST_SHOWN + 1):
        answered(held, body(user(f"{number}")), "a")
    assert len(held.shown) == MOST_SHOWN
