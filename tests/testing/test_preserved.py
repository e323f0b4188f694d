"""The service that binds thinking, compared with the vendor's description of the rule."""

from typing import Any

from clew.testing.preserved import CONTROLS, MODEL, PREFIX, UNKNOWN_FIELD, Preserving

Json = dict[str, Any]
OPUS, FABLE, OLD = "claude-opus-5-5", "claude-fable-5-1", "claude-opus-5"
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def body(*messages: Json, model: str = OPUS, **more: Any) -> Json:
    return {"model": model, "messages": list(messages), **more}


def user(words: str) -> Json:
    return {"role": "user", "content": words}


def thinks(_: Json) -> Json:
    return {"content": [{"thinking": "Hm."}, "Yes."]}


def answered(service: Preserving, request: Json) -> Json:
    assert service.refusal(request, "") is None
    said = service(request)["content"]
    block = {"type": "thinking", "thinking": "Hm.", "signature": said[0]["signature"]}
    return {"role": "assistant", "content": [block, {"type": "text", "text": "Yes."}]}


def two_turns(service: Preserving, **more: Any) -> list[Json]:
    one = user("one")
    first = answered(service, body(one, **more))
    second = answered(service, body(one, first, user("two"), **more))
    return [one, first, user("two"), second, user("three")]


def test_what_comes_back_as_it_went_is_taken_and_marks_for_the_cache_do_not_count() -> None:
    service = Preserving(thinks)
    messages = two_turns(service, system="Be brief.")
    marked = {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}
    messages[2] = {"role": "user", "content": [marked]}
    blocks = [{"type": "text", "text": "Be brief."}]
    assert service.refusal(body(*messages, system=blocks), "") is None
    waits = {"name": "later", "defer_loading": True}
    assert service.refusal(body(*messages, system=blocks, tools=[waits]), "") is None


def test_a_change_is_refused_in_the_documented_words_or_left_out_and_reported() -> None:
    service = Preserving(thinks)
    messages = two_turns(service)
    messages[2] = user("two, changed")
    refusal = service.refusal(body(*messages), "")
    assert refusal is not None
    assert refusal.startswith(
        "messages.3.content.0: Invalid `signature` in `thinking` block. The block"
    )
    assert f"requires the `{CONTROLS}` value" in refusal
    assert (
        service.judge(body(*messages), CONTROLS).refusal
        == refusal[: refusal.index(" That setting")]
    )
    judged = service.judge(body(*messages, thinking=DROP), CONTROLS)
    told = {"type": "thinking_dropped", "path": "messages.3.content.0", "reason": PREFIX}
    assert (judged.refusal, judged.dropped) == (None, [told])
    assert list(service.left_out.values()) == [PREFIX]
    assert service.refusal(body(*messages, thinking=DROP), CONTROLS) is None
    assert service(body(*messages, thinking=DROP))["message"] == {"input_transformations": [told]}


def test_the_control_needs_its_beta() -> None:
    service = Preserving(thinks)
    refused = UNKNOWN_FIELD.format(type="adaptive")
    assert service.refusal(body(user("one"), thinking=DROP), "") == refused
    gateway = Preserving(thinks, has_control=False)
    assert gateway.refusal(body(user("one"), thinking=DROP), CONTROLS) == refused


def test_an_older_account_is_not_held_to_the_rule_until_it_asks() -> None:
    service = Preserving(thinks, enforces=False)
    messages = two_turns(service)
    messages[0] = user("changed")
    assert service.refusal(body(*messages), "") is None
    assert len(service.judge(body(*messages, thinking=DROP), CONTROLS).dropped) == 2


def test_the_oldest_thinking_blocks_may_go_and_none_from_the_middle() -> None:
    service = Preserving(thinks)
    messages = two_turns(service)
    third = answered(service, body(*messages))
    longer = [*messages, third, user("four")]
    without = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}
    assert service.judge(body(longer[0], without, *longer[2:]), "").refusal is None
    torn = service.judge(body(*longer[:3], without, *longer[4:]), "").refusal
    assert torn is not None
    assert torn.startswith("messages.5.content.0")


def test_of_thinking_blocks_in_a_row_none_stays_behind_one_that_goes() -> None:
    service = Preserving(thinks)
    content = [{"thinking": "a"}, {"redacted_thinking": ""}, {"tool": "B", "id": "t", "input": {}}]
    asked = body(user("one"))
    signed = service.sign(asked, content, "")
    said = [
        {"type": "thinking", "thinking": "a", "signature": signed[0]["signature"]},
        {"type": "redacted_thinking", "data": signed[1]["redacted_thinking"]},
        {"type": "tool_use", "id": "t", "name": "B", "input": {}},
    ]
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    rest = ({"role": "assistant", "content": said}, {"role": "user", "content": [result]})
    assert service.judge(body(user("one"), *rest), "").refusal is None
    judged = service.judge(body(user("two"), *rest, thinking=DROP), CONTROLS)
    assert [each["path"] for each in judged.dropped] == [
        "messages.1.content.0",
        "messages.1.content.1",
    ]


def test_a_model_is_not_shown_what_it_cannot_read() -> None:
    service = Preserving(thinks)
    messages = two_turns(service, model=FABLE)
    judged = service.judge(body(*messages, model=OPUS), CONTROLS)
    assert [each["reason"] for each in judged.dropped] == [MODEL] * 2
    assert service.judge(body(*messages, model=OPUS), "").dropped == []
    older = two_turns(service, model=OLD)
    older[0] = user("changed")
    assert service.judge(body(*older, model=FABLE), "").refusal is None


def test_a_signature_of_nobody_is_refused() -> None:
    for signature in ("c2NlbmFyaW8=", "no base64!", "W10="):
        block = {"type": "thinking", "thinking": "x", "signature": signature}
        asked = body(user("one"), {"role": "assistant", "content": [block]}, user("two"))
        assert "Invalid `signature`" in str(Preserving(thinks).refusal(asked, ""))


def test_a_gateway_that_says_something_of_its_own_parts_every_thought() -> None:
    service = Preserving(thinks, rewrites=True)
    one = user("one")
    first = answered(service, body(one))
    assert service.refusal(body(one, first, user("two")), "") is not None


def test_an_answer_that_is_no_message_stays_what_it_is() -> None:
    assert Preserving(lambda _: {"status": 529})(body(user("one"))) == {"status": 529}
    assert Preserving(lambda _: {"text": "Hi."})(body(user("one")))["content"] == [{"text": "Hi."}]
