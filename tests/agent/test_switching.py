"""The notice when a session switches to another model."""

from typing import Any

import pytest

from clew.agent.switching import describe_switch
from clew.core.catalog.lookup import CATALOG
from clew.core.messages.history import History
from clew.core.normalize.target import NO_FAMILY, Reader, Target

READER = Reader(service="openai", wire="responses", family="gpt")
ORIGIN = {"service": "openai", "wire": "responses", "model": "gpt-6-sol", "items": []}
IMAGE = {"type": "image", "source": {}}


def answer(model: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 130_000, "output_tokens": 0}
    message = {"role": "assistant", "model": model, "content": list(blocks), "usage": usage}
    return {"type": "assistant", "uuid": "u", "message": message} | more


def thought(signature: str = "s") -> dict[str, Any]:
    return {"type": "thinking", "thinking": "t", "signature": signature}


HISTORY = History([
    {"type": "user", "uuid": "p", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c", "content": [IMAGE, {"type": "document"}]},
    ]}},
    answer("claude-opus-5-5", thought(), thought()),
    answer("openai/gpt-6-sol", thought(""), origin=ORIGIN),
])  # fmt: skip


@pytest.mark.parametrize(
    ("target", "model", "expected"),
    [
        (Target(), "opus", "1 thinking block not sent; context window 1M, about 130k in use"),
        (Target(reader=READER, family=NO_FAMILY), "openai/gpt-6-sol",
         "2 thinking blocks not sent; context window 922k, about 130k in use"),
        (Target(reader=READER, family=NO_FAMILY, images=False, documents=False), "openai/new",
         "2 thinking blocks not sent; 1 image not sent; 1 document not sent"),
    ],
)  # fmt: skip
def test_what_cannot_go_along_is_named(target: Target, model: str, expected: str) -> None:
    assert describe_switch(HISTORY, target, CATALOG.entry(model)) == expected


def test_nothing_is_said_before_anything_was_said() -> None:
    assert describe_switch(History(()), Target(), CATALOG.entry("opus")) == ""
