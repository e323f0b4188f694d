"""The official SDK, fed the same bytes through its own decoding, ends with the same message."""

import json
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.core.stream.decode import EventDecoder
from tests.core.stream.streams import (
    MESSAGE_STOP,
    Json,
    accumulator,
    answers,
    cut,
    delta,
    finished,
    message_delta,
    message_start,
    sse,
    start,
    stop,
    text,
)
from tests.requirements import requirement

HEADERS = {"content-type": "text/event-stream"}
QUESTION: Any = [{"role": "user", "content": "hi"}]


class Wire:
    """A client of the SDK whose every request is answered with `body`."""

    def __init__(self) -> None:
        self.body = b""
        transport = httpx2.MockTransport(
            lambda _: httpx2.Response(200, content=self.body, headers=HEADERS)
        )
        self.client = anthropic.Anthropic(
            api_key="k", base_url="http://sdk", http_client=httpx2.Client(transport=transport)
        )

    def message(self, body: bytes, *, beta: bool = False) -> Json:
        self.body = body
        messages: Any = self.client.beta.messages if beta else self.client.messages
        with messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream:
            return without_null(stream.get_final_message().to_dict())


@pytest.fixture(scope="module")
def wire() -> Wire:
    return Wire()


def without_null(value: Any) -> Any:
    """The SDK's models do not tell null from absent."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


def ours(*chunks: bytes) -> Json:
    decoder, machine = EventDecoder(), accumulator()
    told = [out for chunk in chunks for event in decoder.feed(chunk) for out in machine.feed(event)]
    last = finished(told + machine.close())
    assert last.complete
    message: Json = without_null(last.message)
    return message


@pytest.mark.no_cover
@requirement("R049", "R055", "R056", "R057", "R058", "R060", "R062", "W4")
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(answers(), st.booleans(), st.data())
def test_generated_answers_give_the_sdks_message(
    wire: Wire, events: list[Json], ascii_only: bool, data: st.DataObject
) -> None:
    body = b"".join(
        f"event: {e['type']}\ndata: {json.dumps(e, ensure_ascii=ascii_only)}\n\n".encode()
        for e in events
    )
    at = data.draw(st.lists(st.integers(0, len(body)), max_size=10))
    assert ours(*cut(body, at)) == wire.message(body)


def test_the_beta_blocks_give_the_sdks_message(wire: Wire) -> None:
    events = [
        message_start(),
        start(0, "compaction", content=None, encrypted_content=None),
        delta(0, "compaction_delta", content="what was said", encrypted_content="e"),
        stop(0),
        start(1, "mcp_tool_use", id="m", name="n", server_name="s", input={}),
        delta(1, "input_json_delta", partial_json='{"a":1}'),
        stop(1),
        start(2),
        text(2, "on we go"),
        stop(2),
        message_delta("compaction") | {"context_management": {"applied_edits": []}},
        MESSAGE_STOP,
    ]
    assert ours(sse(*events)) == wire.message(sse(*events), beta=True)
