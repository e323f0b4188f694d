"""The body and the address of a request through chat completions."""

from typing import Any

import pytest

from clew.core.catalog.models import Model, make_unknown_model
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Adaptive, Failure, ModelRequest
from clew.providers.chat import ChatProvider
from clew.providers.chat_body import build_chat
from clew.providers.endpoint import read_endpoint, request_headers
from clew.providers.failure_kinds import Overflow, overflow_of
from clew.system.config.environment import freeze
from tests.system.transport.servers import network

TOOL = {"name": "Read", "description": "Reads", "input_schema": {"type": "object"}}


def built(model: Model | None = None, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model="gpt-9", messages=[{"role": "user", "content": "hi"}], **more)
    return build_chat(request, model or make_unknown_model("gpt-9")).body


def test_what_nobody_asked_for_is_not_sent() -> None:
    assert built(stream=False) == {
        "model": "gpt-9",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"effort": "max"}, {"reasoning_effort": "xhigh"}),
        ({"effort": "low"}, {"reasoning_effort": "low"}),
        ({"max_tokens": 50}, {"max_completion_tokens": 50}),
        ({"stop_sequences": ["END"]}, {"stop": ["END"]}),
        ({"extra": {"seed": 7}}, {"seed": 7}),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        ({"tools": [TOOL], "tool_choice": {"type": "odd"}}, {"tool_choice": "auto"}),
        (
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "Read"}},
            {"tool_choice": {"type": "function", "function": {"name": "Read"}}},
        ),
        (
            {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": {"type": "object"}},
                }
            },
        ),
    ],
)
def test_what_was_asked_for_goes_by_its_name_there(
    asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    body = built(**asked)
    assert {name: body[name] for name in sent} == sent


def test_a_choice_without_tools_is_left_out() -> None:
    assert "tool_choice" not in built(tool_choice={"type": "any"})


def test_what_has_no_name_there_is_said_to_be_left_out() -> None:
    request = ModelRequest(model="gpt-9", messages=[], thinking=Adaptive(), task_budget_tokens=9)
    budget, how = build_chat(request, make_unknown_model("gpt-9")).adjusted
    assert "thinking mode" in how
    assert "task budgets" in budget


def test_the_length_stays_within_what_is_known_of_the_model() -> None:
    model = Model(id="gpt-9", name="GPT-9", max_output=100, default_output=80)
    assert built(model)["max_completion_tokens"] == 80
    assert built(model, max_tokens=500)["max_completion_tokens"] == 100


async def test_how_to_think_is_left_out_and_said_and_nothing_is_counted() -> None:
    endpoint = read_endpoint(freeze({"CLEW_DIALECT": "chat", "CLEW_BASE_URL": "http://h/v1"}))
    from clew.system.transport.http import HttpTransport

    provider = ChatProvider(endpoint, HttpTransport(network({})))
    request = ModelRequest(model="gpt-9", messages=[], thinking=Adaptive())
    assert "left out" in provider.adjustments(request)[0]
    assert isinstance(await provider.count_tokens(request), Failure)
    assert provider.describe().name == "chat completions"
    assert endpoint.url("/v1/chat/completions") == "http://h/v1/chat/completions"


def test_keys_for_another_service_stay_at_home() -> None:
    theirs = {
        "ANTHROPIC_API_KEY": "sk-ant-1",
        "ANTHROPIC_AUTH_TOKEN": "token-1",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Org: 1",
        "ANTHROPIC_BASE_URL": "http://theirs",
    }
    endpoint = read_endpoint(freeze(theirs | {"CLEW_DIALECT": "chat"}))
    headers = dict(request_headers(endpoint, betas=("b",), stream=True))
    assert endpoint.is_default
    assert not {"authorization", "x-api-key", "anthropic-beta", "X-Org"} & set(headers)
    ours = {"CLEW_API_KEY": "key", "CLEW_CUSTOM_HEADERS": "X-Org: 2"}
    endpoint = read_endpoint(freeze(theirs | ours | {"CLEW_DIALECT": "chat"}))
    headers = dict(request_headers(endpoint, betas=(), stream=True))
    assert (headers["authorization"], headers["X-Org"]) == ("Bearer key", "2")


def test_an_unknown_dialect_sends_nothing() -> None:
    from clew.system.transport.http import HttpTransport

    endpoint = read_endpoint(freeze({"CLEW_DIALECT": "smoke", "ANTHROPIC_API_KEY": "k"}))
    missing = AnthropicProvider(endpoint, HttpTransport(network({}))).missing_credentials()
    assert missing is not None
    assert "'smoke'" in missing.message


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            "This model's maximum context length is 128,000 tokens. However, your messages resulted "
            "in 130001 tokens.",
            Overflow(input_tokens=130_001, limit_tokens=128_000),
        ),
        ("maximum context length is 8192 tokens", Overflow(limit_tokens=8192)),
    ],
)
def test_a_window_that_is_too_small_is_known_by_the_services_words(
    said: str, found: Overflow
) -> None:
    assert overflow_of(Failure(kind="status", message=said, status=400)) == found
