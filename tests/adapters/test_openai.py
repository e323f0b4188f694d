"""The openai package continues a session of clew over both of its APIs, and clew after it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

import clew
from clew.adapters import openai_chat, openai_responses
from clew.testing.wires import serving_wire

CALL = {"type": "tool_use", "id": "call_7", "name": "double", "input": {"number": 7}}
TEXT = {"type": "text", "text": "Doubled: 14."}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
IMAGE = {"type": "base64", "media_type": "image/png", "data": PIXEL}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Roll"}, {"type": "image", "source": IMAGE}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "roll", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "7"}]},
    {"role": "assistant", "content": "It is 7."},
]  # fmt: skip


@pytest.fixture
def session(tmp_path: Path) -> clew.Session:
    return clew.Session.create(HISTORY, cwd=tmp_path, home=tmp_path / "home")


async def goes_on(session: clew.Session, tmp_path: Path) -> list[str]:
    """Let clew answer once more, and return the kinds of blocks that its model saw."""
    seen: list[dict[str, Any]] = []

    async def model(request: clew.ModelRequest) -> AsyncIterator[str]:
        seen[:] = request.messages
        yield "Yes."

    options = clew.ClewOptions(
        cwd=tmp_path, home=tmp_path / "home", setting_sources=[], inherit_env=False,
        resume=session.id, provider=model, model="scripted",
    )  # fmt: skip
    async with clew.ClewClient(options) as client, client.turn("Sure?") as turn:
        await turn.finish()
    assert session.check() == []
    blocks = [block for message in seen for block in message["content"]]
    return [b["type"] for b in blocks if "system-reminder" not in b.get("text", "")]


KINDS = [
    "text", "image", "tool_use", "tool_result", "text", "text", "tool_use", "tool_result", "text",
    "text",
]  # fmt: skip


async def test_chat_completions_continue_a_session(session: clew.Session, tmp_path: Path) -> None:
    with serving_wire("chat", [CALL], [TEXT]) as service:
        client = OpenAI(base_url=service.url, api_key="x")
        messages: list[Any] = [
            {"role": "system", "content": "Be brief."},
            *openai_chat.write(session.entries()),
            {"role": "user", "content": "Double it"},
        ]
        past = len(messages)
        for _ in range(2):
            with client.chat.completions.stream(model="m", messages=messages) as stream:
                said = stream.get_final_completion().choices[0].message
            messages.append(said)
            for call in said.tool_calls or ():
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "14"})
        sent = service.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    session.append(openai_chat.read(messages[past - 1 :]))
    assert await goes_on(session, tmp_path) == KINDS
    assert openai_chat.read(openai_chat.write(HISTORY)) == openai_chat.read(messages[1:5])


async def test_responses_continue_a_session(session: clew.Session, tmp_path: Path) -> None:
    with serving_wire("responses", [CALL], [TEXT]) as service:
        client = OpenAI(base_url=service.url, api_key="x")
        items: list[Any] = openai_responses.write(session.entries())
        past = len(items)
        items.append({"role": "user", "content": "Double it"})
        for _ in range(2):
            (*_, last) = client.responses.create(model="m", input=items, stream=True)
            output: list[Any] = last.response.output
            items += output
            items += [
                {"type": "function_call_output", "call_id": item.call_id, "output": "14"}
                for item in output
                if item.type == "function_call"
            ]
        sent = service.requests[0]["input"]
    kinds = [item.get("type", item.get("role")) for item in sent]
    assert kinds == ["message", "function_call", "function_call_output", "message", "user"]
    session.append(openai_responses.read(items[past:]))
    assert await goes_on(session, tmp_path) == KINDS
    assert openai_responses.read(openai_responses.write(HISTORY))[1:] == [
        message | {"content": blocks(message["content"])} for message in HISTORY[1:]
    ]


def blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b | ({"content": blocks(b["content"])} if "content" in b else {}) for b in content]


def test_what_has_no_counterpart_is_named() -> None:
    with pytest.raises(ValueError, match="a part of type 'input_audio'"):
        openai_chat.read([{"role": "user", "content": [{"type": "input_audio"}]}])
    with pytest.raises(ValueError, match="the role 'function'"):
        openai_chat.read([{"role": "function", "content": "x"}])
    with pytest.raises(ValueError, match="a call of type 'custom'"):
        openai_chat.read([{"role": "assistant", "tool_calls": [{"type": "custom"}]}])
    with pytest.raises(ValueError, match="an item of type 'web_search_call'"):
        openai_responses.read([{"type": "web_search_call"}])
    with pytest.raises(ValueError, match="a part of type 'input_file'"):
        openai_responses.read([{"role": "user", "content": [{"type": "input_file"}]}])


def test_odd_arguments_and_refusals_are_kept() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{no"}}
    (said,) = openai_chat.read(
        [{"role": "assistant", "content": None, "refusal": "No.", "tool_calls": [call]}]
    )
    assert said["content"] == [
        {"type": "text", "text": "No."},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"input": "{no"}},
    ]
    assert openai_chat.write([]) == openai_responses.write([]) == []
    # A call without a result gets one, because the service requires it.
    cut = openai_chat.write(HISTORY[:2])
    assert [m["role"] for m in cut] == ["user", "assistant", "tool"]
