"""The official SDK, unchanged, is a client of the loopback server: an independent judge of its wire."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from clew.testing.server import LoopbackServer, serving

ASK: dict[str, Any] = {
    "model": "claude-test-1",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "hello"}],
}
CONTENT: list[Any] = [
    {"thinking": "Let me think about that for a while."},
    "I shall look. Größe: 10 µm \u2028 and a line after U+2028.",
    {"tool": "Bash", "input": {"command": "ls -l", "deep": [1, {"a": None}]}},
    {"tool": "Now", "id": "toolu_mine"},
]
SCENARIO: dict[str, Any] = {
    "scenario": 1,
    "answers": [
        {"content": CONTENT, "usage": {"output_tokens": 77, "cache_read_input_tokens": 5}},
        {"text": "done"},
    ],
    "count_tokens": [{"when": {"user": "hello"}, "input_tokens": 42}],
}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serving(SCENARIO, strict=True, api_key="sk-secret") as server:
        yield server


@pytest.fixture
def client(server: LoopbackServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="sk-secret", max_retries=0) as client:
        yield client


def check_message(message: Any) -> None:
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert message.content[0].thinking == CONTENT[0]["thinking"]
    assert message.content[0].signature
    assert message.content[1].text == CONTENT[1]
    assert message.content[2].input == CONTENT[2]["input"]
    assert message.content[3].input == {}
    assert message.content[3].id == "toolu_mine"
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens == 77
    assert message.usage.cache_read_input_tokens == 5
    assert message.model == "claude-test-1"


def test_a_streamed_answer_adds_up_to_the_scripted_message(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**ASK) as stream:
        seen = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert seen == CONTENT[1]
    check_message(message)


def test_an_answer_at_once_is_the_same_message(client: anthropic.Anthropic) -> None:
    check_message(client.messages.create(**ASK))


def test_tokens_are_counted_as_the_scenario_says(client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(model="claude-test-1", messages=ASK["messages"])
    assert counted.input_tokens == 42


def test_a_connection_serves_several_requests(
    client: anthropic.Anthropic, server: LoopbackServer
) -> None:
    client.messages.create(**ASK)
    with client.messages.stream(**ASK) as stream:
        assert stream.get_final_text() == "done"
    assert [r.place for r in server.requests] == ["answers[0]", "answers[1]"]
    assert server.accepted == 1
    assert server.unused() == ["count_tokens[0]"]


def test_a_wrong_key_is_refused_and_no_key_is_kept(server: LoopbackServer) -> None:
    with (
        anthropic.Anthropic(base_url=server.url, api_key="sk-wrong", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        client.messages.create(**ASK)
    assert server.requests[0].header("authorization") == "Bearer ***8"
    assert "sk-" not in repr(server.requests)


def test_an_error_answer_carries_its_status_body_and_headers() -> None:
    scenario = {
        "scenario": 1,
        "answers": [
            {"status": 429, "headers": {"retry-after": 0.01, "x-should-retry": "true"}},
            {"status": 529, "headers": {"retry-after-ms": 1}},
            {"text": "at last"},
        ],
    }
    with (
        serving(scenario) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=2) as client,
    ):
        assert client.messages.create(**ASK).content[0].text == "at last"
        assert [r.status for r in server.requests] == [429, 529, 200]
        with pytest.raises(anthropic.BadRequestError, match="no rule matched request 4"):
            client.messages.create(**ASK)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 65536])
def test_any_chunking_and_gzip_give_the_same_message(chunk_bytes: int) -> None:
    send = {"chunk_bytes": chunk_bytes, "gzip": True}
    answer = {"content": CONTENT, "usage": SCENARIO["answers"][0]["usage"], "send": send}
    with (
        serving({"scenario": 1, "answers": [answer]}) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client,
        client.messages.stream(**ASK) as stream,
    ):
        check_message(stream.get_final_message())
