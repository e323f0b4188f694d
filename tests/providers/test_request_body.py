"""The body of a request: fields that the model accepts, cache marks, and nothing mutated."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.catalog.lookup import CATALOG
from clew.core.catalog.models import Model
from clew.core.normalize.prefix import CONTROLS_BETA
from clew.providers.base import Adaptive, Effort, ModelRequest, Off, Thinking, ThinkingBudget
from clew.providers.request_body import build, build_count, without_conflict
from tests.requirements import requirement

Json = dict[str, Any]

MARK = {"type": "ephemeral"}


def body_of(**fields: Any) -> dict[str, Any]:
    fields.setdefault("model", "opus")
    fields.setdefault("messages", [{"role": "user", "content": "hi"}])
    request = ModelRequest(**fields)
    return build(request, CATALOG.entry(request.model)).body


@requirement("R046")
def test_the_smallest_request() -> None:
    assert body_of() == {
        "model": "claude-opus-5-5",
        "max_tokens": 128_000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}
        ],
        "stream": True,
    }


def test_everything_a_request_can_say_goes_out() -> None:
    body = body_of(
        system="be kind",
        tools=[{"name": "read"}],
        tool_choice={"type": "auto"},
        max_tokens=1000,
        effort="high",
        output_format={"type": "json_schema", "schema": {}},
        stop_sequences=["END"],
        user_id='{"session_id":"s"}',
        extra={"service_tier": "standard_only"},
        stream=False,
    )
    assert body["system"] == [{"type": "text", "text": "be kind", "cache_control": MARK}]
    assert body["tools"] == [{"name": "read"}]
    assert body["tool_choice"] == {"type": "auto"}
    assert body["max_tokens"] == 1000
    assert body["output_config"] == {
        "effort": "high",
        "format": {"type": "json_schema", "schema": {}},
    }
    assert body["stop_sequences"] == ["END"]
    assert body["metadata"] == {"user_id": '{"session_id":"s"}'}
    assert body["service_tier"] == "standard_only"
    assert "stream" not in body


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("opus", None, {"type": "adaptive"}),
        ("opus", Adaptive(display="summarized"), {"type": "adaptive", "display": "summarized"}),
        (
            "opus",
            ThinkingBudget(tokens=5000, display="omitted"),
            {"type": "adaptive", "display": "omitted"},
        ),
        ("opus", Off(), None),
        ("sonnet", Off(), {"type": "between_tools"}),
        ("haiku", Off(), {"type": "disabled"}),
        (
            "claude-opus-4-6",
            ThinkingBudget(tokens=5000),
            {"type": "enabled", "budget_tokens": 5000},
        ),
        ("claude-opus-4-5", None, {"type": "enabled", "budget_tokens": 31_999}),
        ("claude-opus-4-5", Adaptive(), {"type": "enabled", "budget_tokens": 31_999}),
        ("claude-opus-4-5", ThinkingBudget(tokens=10), {"type": "enabled", "budget_tokens": 1024}),
        ("claude-opus-4-5", Off(), {"type": "disabled"}),
        ("claude-3-5-haiku", None, None),
        ("claude-3-5-haiku", Adaptive(), None),
        ("claude-3-5-haiku", ThinkingBudget(tokens=2000), None),
        ("claude-3-5-haiku", Off(), None),
        ("some-local-model", None, None),
        ("some-local-model", Adaptive(), {"type": "adaptive"}),
        (
            "some-local-model",
            ThinkingBudget(tokens=2000),
            {"type": "enabled", "budget_tokens": 2000},
        ),
        ("some-local-model", Off(), {"type": "disabled"}),
    ],
)
def test_thinking_is_fitted_to_the_model(
    model: str, asked: Thinking | None, sent: dict[str, Any] | None
) -> None:
    assert body_of(model=model, thinking=asked).get("thinking") == sent


@given(
    st.sampled_from([m.id for m in CATALOG.models] + ["unknown"]),
    st.none() | st.integers(1, 10**6),
    st.none() | st.builds(ThinkingBudget, tokens=st.integers(1, 10**7)) | st.just(Adaptive()),
)
def test_a_budget_is_always_below_the_room_for_the_answer(
    model: str, max_tokens: int | None, thinking: Thinking | None
) -> None:
    body = body_of(model=model, max_tokens=max_tokens, thinking=thinking)
    limit = CATALOG.entry(model).max_output
    assert limit is None or body["max_tokens"] <= limit
    sent = body.get("thinking", {})
    if sent.get("type") == "enabled":
        assert 1024 <= sent["budget_tokens"] < body["max_tokens"]


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("opus", "xhigh", "xhigh"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-6", "max", "max"),
        ("claude-opus-4-5", "max", "high"),
        ("claude-haiku-4-5", "low", None),
        ("some-local-model", "max", "max"),
    ],
)
def test_effort_is_never_above_what_was_asked(model: str, asked: Effort, sent: str | None) -> None:
    assert body_of(model=model, effort=asked).get("output_config", {}).get("effort") == sent


def test_what_cannot_be_sent_as_asked_is_said() -> None:
    def adjusted(**fields: Any) -> tuple[str, ...]:
        request = ModelRequest(messages=[], **fields)
        return build(request, CATALOG.entry(request.model)).adjusted

    assert adjusted(model="opus", thinking=Off()) == ("Opus 5.5 always uses thinking",)
    (budget,) = adjusted(model="opus", thinking=ThinkingBudget(tokens=9))
    assert "thinking budget" in budget
    assert "thinks between tool calls" in adjusted(model="sonnet", thinking=Off())[0]
    assert len(adjusted(model="claude-3-5-haiku", thinking=Adaptive())) == 1
    (lowered,) = adjusted(model="claude-opus-4-5", effort="max")
    assert all(words in lowered for words in ("Opus 4.5", "effort max", "high"))
    (dropped,) = adjusted(model="claude-haiku-4-5", effort="low")
    assert all(words in dropped for words in ("Haiku 4.5", "effort low", "none"))
    small = adjusted(model="claude-opus-4-5", thinking=ThinkingBudget(tokens=9), max_tokens=100)
    assert len(small) == 1
    assert small[0].startswith("max_tokens 100 ")
    assert adjusted(model="opus", thinking=Adaptive(), effort="max") == ()


def test_the_budget_of_a_task_is_told_where_betas_may_be() -> None:
    request = ModelRequest(model="opus", messages=[], task_budget_tokens=9_000, effort="high")
    model = CATALOG.entry(request.model)
    asked = build(request, model)
    assert asked.body["output_config"]["task_budget"] == {"type": "tokens", "total": 9_000}
    assert asked.body["output_config"]["effort"] == "high"
    assert asked.betas[-1].startswith("task-budgets-")
    plain = build(request, model, betas_allowed=False)
    assert "task_budget" not in plain.body["output_config"]
    assert "task budget" in plain.adjusted[-1]


def test_betas_come_from_the_model_and_the_request_and_can_be_switched_off() -> None:
    request = ModelRequest(model="claude-sonnet-4-5[1m]", messages=[], betas=("mine", "mine"))
    model = CATALOG.entry(request.model)
    assert build(request, model).betas == (
        "interleaved-thinking-2025-05-14",
        "context-management-2025-06-27",
        "context-1m-2025-08-07",
        "mine",
    )
    plain = build(request, model, betas_allowed=False)
    assert plain.betas == ()
    assert "context_management" not in plain.body


def marks(body: dict[str, Any]) -> list[str]:
    """Where a body is marked for the cache."""
    places = [f"system[{i}]" for i, b in enumerate(body.get("system", [])) if "cache_control" in b]
    for i, message in enumerate(body["messages"]):
        if isinstance(message["content"], list):
            places += [
                f"messages[{i}][{j}]"
                for j, block in enumerate(message["content"])
                if "cache_control" in block
            ]
    return places


def text(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": t} for t in texts]


def test_marks_stand_on_the_end_of_the_system_and_on_the_last_shared_message() -> None:
    turns = [
        {"role": "user", "content": text("a", "b")},
        {"role": "assistant", "content": text("c")},
        {"role": "user", "content": "d"},
    ]
    body = body_of(system=text("x", "y", "z"), messages=turns)
    assert marks(body) == ["system[1]", "system[2]", "messages[2][0]"]
    instruction = [*turns, {"role": "user", "content": "summarise"}]
    body = body_of(messages=instruction, unshared_tail=1)
    assert marks(body) == ["messages[2][0]"]
    assert body["messages"][3] == {"role": "user", "content": "summarise"}


def test_a_block_that_cannot_be_marked_is_passed_over() -> None:
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    messages = [
        {"role": "user", "content": text("a")},
        {"role": "assistant", "content": [*text("b"), thinking]},
    ]
    assert marks(body_of(messages=messages)) == ["messages[1][0]"]
    only_thought = [messages[0], {"role": "assistant", "content": [thinking]}]
    assert marks(body_of(messages=only_thought)) == ["messages[0][0]"]
    assert marks(body_of(messages=[{"role": "user", "content": ""}])) == []
    assert marks(body_of(messages=[])) == []


def test_marks_of_the_caller_in_the_system_stand_and_an_hour_is_said() -> None:
    own = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    assert body_of(system=[*own, *text("y")])["system"] == [*own, *text("y")]
    body = body_of(system="x", cache="1h")
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marks(body_of(system="x", cache=None)) == []
    assert "system" not in body_of(system="")


def test_nothing_that_was_given_is_changed_and_a_longer_history_keeps_its_prefix() -> None:
    history: list[dict[str, Any]] = [
        {"role": "user", "content": text("a")},
        {"role": "assistant", "content": text("b")},
        {"role": "user", "content": text("c")},
    ]
    before = copy.deepcopy(history)
    short = body_of(messages=history[:1])["messages"]
    long = body_of(messages=history)["messages"]
    assert history == before
    plain = [{k: v for k, v in b.items() if k != "cache_control"} for b in short[0]["content"]]
    assert long[0] == {"role": "user", "content": plain}


def test_a_count_holds_only_what_is_counted() -> None:
    request = ModelRequest(
        model="opus", messages=[], system="s", tools=[{"name": "t"}], effort="low"
    )
    built = build_count(request, CATALOG.entry("opus"))
    assert set(built.body) == {"model", "system", "tools", "messages", "thinking"}


def test_thinking_blocks_that_do_not_fit_are_left_to_the_service_where_it_has_the_control() -> None:
    def bound(model: str, **fields: Any) -> Any:
        request = ModelRequest(model=model, messages=[], thought_binding="drop_block", **fields)
        built = build(request, CATALOG.entry(model))
        assert CONTROLS_BETA in built.betas
        return built.body.get("thinking", {}).get("block_binding")

    asked = {"prefix_mismatch_behavior": "drop_block"}
    assert bound("claude-opus-5-5") == asked
    assert bound("claude-sonnet-5-5", thinking=ThinkingBudget(tokens=2_000)) == asked
    assert bound("claude-sonnet-5-5", thinking=Off()) is None
    assert bound("claude-opus-5-5", thinking=Off()) is None
    assert bound("claude-opus-5") is None
    assert bound("some-gateways-model", thinking=Adaptive()) == asked
    report = ModelRequest(model="opus", messages=[], thought_binding="report")
    built = build(report, CATALOG.entry("opus"))
    assert CONTROLS_BETA in built.betas
    assert "block_binding" not in built.body["thinking"]
    off = ModelRequest(model="opus", messages=[], thought_binding="drop_block")
    assert build(off, CATALOG.entry("opus"), betas_allowed=False) == build(
        ModelRequest(model="opus", messages=[]), CATALOG.entry("opus"), betas_allowed=False
    )


def test_a_round_of_tools_that_began_without_thinking_continues_without_a_budget() -> None:
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    begun = {"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    haiku, opus = CATALOG.entry("claude-haiku-4-5"), CATALOG.entry("opus")

    def asked(*messages: Json, model: Model = haiku) -> Thinking | None:
        return without_conflict(
            ModelRequest(model=model.id, messages=list(messages)), model
        ).thinking

    assert asked(begun, results) == Off()
    assert asked(begun, results, model=opus) is None
    assert asked({"role": "assistant", "content": [thought, *begun["content"]]}, results) is None
    assert asked(begun) is None


def test_a_model_takes_less_effort_where_its_thinking_is_off() -> None:
    off: dict[str, Any] = {"thinking": Off(), "effort": "max"}
    assert body_of(model="claude-opus-5", **off)["output_config"] == {"effort": "high"}
    request = ModelRequest(model="claude-opus-5", messages=[], **off)
    (told,) = build(request, CATALOG.entry("claude-opus-5")).adjusted
    assert all(words in told for words in ("Opus 5", "effort max", "high"))
    assert body_of(model="claude-opus-5", effort="max")["output_config"] == {"effort": "max"}
    assert body_of(model="claude-opus-4-8", **off)["output_config"] == {"effort": "max"}
    low = body_of(model="claude-opus-5", thinking=Off(), effort="low")
    assert low["output_config"] == {"effort": "low"}
