"""The same history for Bedrock's Converse and for chat completions, and back without loss."""

import base64
import copy
from random import Random
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from clew.core.normalize import dialects
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target
from tests.core.normalize.build import answer, attachment, call, result, thought, user, words
from tests.core.normalize.generator import history, png
from tests.requirements import requirement

TOOLS = [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]
CONVERSE = dialects.for_converse(Target())
CHAT = dialects.for_chat(Target())
PIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(4, 4)}}
PDF_DATA = base64.b64encode(b"%PDF-1.7 hello").decode()
PDF = {
    "type": "document",
    "title": "The  report_1",
    "context": "last year's",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF_DATA},
}
NOTE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "n"}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [words("hit")]}


def converse(entries: list[Any], **more: Any) -> dict[str, Any]:
    made = for_api(entries, CONVERSE, tools=TOOLS)
    assert made.violations == []
    return dialects.to_bedrock(made.messages, tools=TOOLS, **more)


def chat(entries: list[Any], **more: Any) -> dict[str, Any]:
    made = for_api(entries, CHAT, tools=TOOLS)
    assert made.violations == []
    return dialects.to_openai(made.messages, tools=TOOLS, **more)


TALK = [
    user("look", PIC, PDF, NOTE, LINK, FOUND),
    attachment("be brief", role="system"),
    answer("m", thought(), "I will", call("1", command="ls"), call("2")),
    user(result("2", [words("no"), PIC, FOUND], is_error=True)),
    user(result("1"), "and?"),
]


def test_a_history_for_converse() -> None:
    body = converse(TALK, system="be kind")
    assert dialects.bedrock_faults(body) == []
    first, second, third = body["messages"]
    assert body["system"] == [{"text": "be kind"}]
    assert body["toolConfig"]["tools"] == [
        {
            "toolSpec": {
                "name": "Bash",
                "description": "runs",
                "inputSchema": {"json": {"type": "object"}},
            }
        }
    ]
    assert [next(iter(b)) for b in first["content"]] == [
        "text",
        "image",
        "document",
        "document",
        "text",
        "text",
        "text",
    ]
    assert first["content"][2]["document"] == {
        "format": "pdf",
        "name": "The report 1 1",
        "source": {"bytes": PDF_DATA},
        "context": "last year's",
    }
    assert second["content"][0] == {
        "reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}
    }
    assert second["content"][2] == {
        "toolUse": {"toolUseId": "1", "name": "Bash", "input": {"command": "ls"}}
    }
    assert [b["toolResult"]["toolUseId"] for b in third["content"][:2]] == ["1", "2"]
    assert third["content"][1]["toolResult"]["status"] == "error"
    assert "status" not in third["content"][0]["toolResult"]


def test_redacted_thinking_and_a_system_of_blocks_for_converse() -> None:
    told = [
        user("x"),
        answer("m", {"type": "redacted_thinking", "data": "cGxhaW4="}, "y"),
        user("z"),
    ]
    body = dialects.to_bedrock(for_api(told, CONVERSE).messages, system=[words("a"), words("b")])
    assert body["messages"][1]["content"][0] == {
        "reasoningContent": {"redactedContent": "cGxhaW4="}
    }
    assert body["system"] == [{"text": "a"}, {"text": "b"}]
    assert "toolConfig" not in body
    assert dialects.to_bedrock([], tools=[{"name": "x", "input_schema": {}}])["toolConfig"][
        "tools"
    ] == [{"toolSpec": {"name": "x", "inputSchema": {"json": {}}}}]


def test_a_history_for_chat_completions() -> None:
    body = chat(TALK, system=[words("be"), words("kind")])
    assert dialects.openai_faults(body) == []
    system, first, notice, said, one, two, shown, last = body["messages"]
    assert system == {"role": "system", "content": "be\n\nkind"}
    assert [p["type"] for p in first["content"]] == [
        "text",
        "image_url",
        "file",
        "text",
        "image_url",
        "text",
    ]
    assert first["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert first["content"][2]["file"]["filename"] == "The  report_1"
    assert notice == {"role": "system", "content": "be brief"}
    assert said["content"] == "I will"
    assert said["tool_calls"][0] == {
        "id": "1",
        "type": "function",
        "function": {"name": "Bash", "arguments": '{"command":"ls"}'},
    }
    assert one == {"role": "tool", "tool_call_id": "1", "content": "done"}
    assert "follow in the next message" in two["content"]
    assert [p["type"] for p in shown["content"]] == ["image_url"], "its own message, for the prefix"
    assert [p["type"] for p in last["content"]] == ["text"]
    assert body["tools"][0]["function"] == {
        "name": "Bash",
        "description": "runs",
        "parameters": {"type": "object"},
    }


def test_chat_without_words_tools_or_system() -> None:
    body = dialects.to_openai([{"role": "user", "content": [words("x")]}], system="kind", tools=[])
    assert body == {
        "messages": [
            {"role": "system", "content": "kind"},
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
        ]
    }
    bare = dialects.to_openai([], tools=[{"name": "x", "input_schema": {}}])
    assert bare["tools"] == [{"type": "function", "function": {"name": "x", "parameters": {}}}]
    silent = chat([user("x"), answer("m", call("1"))])
    assert silent["messages"][1]["content"] is None


def _converse_faults() -> list[tuple[dict[str, Any], str]]:
    def says(*content: Any, role: str = "user") -> dict[str, Any]:
        return {"role": role, "content": list(content)}

    use = {"toolUse": {"toolUseId": "1", "name": "x", "input": {}}}
    answered = {"toolResult": {"toolUseId": "1", "content": [{"text": "x"}]}}
    hi = says({"text": "hi"})
    picture = {"image": {"format": "png", "source": {"bytes": "x"}}}
    return [
        ({"messages": []}, "user message"),
        ({"messages": [hi, hi]}, "wrong role"),
        ({"messages": [says()]}, "is empty"),
        ({"messages": [hi, says(use, role="assistant"), hi]}, "expected ['1']"),
        ({"messages": [hi, says(use, role="assistant"), says(answered)]}, "is missing"),
        ({"messages": [says({"text": " "})]}, "blank"),
        ({"messages": [says({"text": "a", "image": {}})]}, "one type"),
        (
            {"messages": [says({"toolUse": {"toolUseId": "a b", "name": "x", "input": {}}})]},
            "tool call",
        ),
        ({"messages": [says({"toolResult": {"toolUseId": "1", "content": []}})]}, "empty result"),
        ({"messages": [says({"image": {"format": "bmp"}})]}, "image format"),
        ({"messages": [says({"document": {"name": "a_b"}})]}, "document name"),
        ({"messages": [says({"odd": 1})]}, "type"),
        ({"messages": [says(*[picture] * 21)]}, "21 images"),
    ]


@pytest.mark.parametrize(("body", "what"), _converse_faults())
def test_the_validator_of_converse_bites(body: dict[str, Any], what: str) -> None:
    assert any(what in v.what for v in dialects.bedrock_faults(body))


def _chat_faults() -> list[tuple[list[dict[str, Any]], str]]:
    def use(use_id: str = "1", arguments: str = "{}") -> dict[str, Any]:
        function = {"name": "x", "arguments": arguments}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": use_id, "function": function}],
        }

    hi = {"role": "user", "content": "hi"}
    return [
        ([], "neither a user message"),
        ([hi, use()], "ends before"),
        ([hi, use(), hi], "comes before the results"),
        ([{"role": "tool", "tool_call_id": "1", "content": "x"}], "match an open tool call"),
        ([hi, use(), {"role": "tool", "tool_call_id": "1", "content": " "}], "empty result"),
        ([hi, {"role": "assistant", "content": None}], "no content"),
        ([hi, use("a b")], "invalid or duplicate tool call"),
        ([hi, use(arguments="{")], "invalid or duplicate tool call"),
        ([hi, use(arguments="[]")], "invalid or duplicate tool call"),
    ]


@pytest.mark.parametrize(("messages", "what"), _chat_faults())
def test_the_validator_of_chat_bites(messages: list[dict[str, Any]], what: str) -> None:
    assert any(what in v.what for v in dialects.openai_faults({"messages": messages}))


def _with_bytes(value: Any) -> Any:
    """Blobs as the service model has them."""
    if isinstance(value, dict):
        blobs = ("bytes", "redactedContent")
        return {k: v.encode() if k in blobs else _with_bytes(v) for k, v in value.items()}
    return [_with_bytes(v) for v in value] if isinstance(value, list) else value


def _converse_shape() -> Any:
    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("Converse").input_shape


def _project_both(seed: int, shape: Any = None) -> list[RequestViolation]:
    random = Random(seed)
    entries = history(random)
    before = copy.deepcopy(entries)
    body = converse(entries)
    found = dialects.bedrock_faults(body) + dialects.openai_faults(chat(entries))
    assert repr(entries) == repr(before), seed
    if shape is not None:
        report = ParamValidator().validate(_with_bytes(body) | {"modelId": "m"}, shape)
        assert not report.has_errors(), (seed, report.generate_report())
    return found


@pytest.mark.no_cover
@requirement("V2", "V3", "V4", "V6", "W18")
def test_every_history_is_valid_for_both(record_property: Any) -> None:
    for seed in range(1_000):
        assert _project_both(seed) == [], seed


def test_the_service_model_of_converse_agrees() -> None:
    shape = _converse_shape()
    for seed in range(5_000, 5_150):
        assert _project_both(seed, shape) == [], seed


@pytest.mark.laws
@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(2_000_000, 2_050_000, 2_500))
def test_every_history_is_valid_for_both_at_depth(start: int, record_property: Any) -> None:
    for seed in range(start, start + 2_500):
        assert _project_both(seed) == [], seed
    record_property("histories valid for Converse and chat completions", 2_500)


def test_a_conversation_moves_to_another_model_and_back_without_loss() -> None:
    """A's thinking stays in the log while B answers, and returns to A unchanged."""
    home = Target()
    said = [user("hi"), answer("m1", thought(), call("toolu_1")), user(result("toolu_1"))]
    first = for_api(said, home).messages
    abroad = chat(said)
    assert "thinking" not in str(abroad)
    said.append(answer("m2", "done", call("call:odd/2"), model="openai/gpt-5"))
    said.append(user(result("call:odd/2")))
    assert dialects.openai_faults(chat(said)) == []
    back = for_api(said, home)
    assert back.violations == []
    assert back.messages[: len(first)] == first
    assert back.messages[1]["content"][0] == thought()
    assert back.messages[3]["content"][1]["id"] == "call_odd_2"
