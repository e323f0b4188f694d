"""The strict server's rules, each with the smallest request that breaks it."""

from typing import Any

import pytest

from clew.testing.strict import find_complaint

USER = {"role": "user", "content": "hi"}
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
ASKED = {"role": "assistant", "content": [CALL]}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages) or [USER], **more}


def block(value: Any, role: str = "user") -> dict[str, Any]:
    if role == "user":
        return body({"role": "user", "content": [value]})
    return body(USER, {"role": role, "content": [value]}, USER)


def answered(*content: Any) -> dict[str, Any]:
    return body(USER, ASKED, {"role": "user", "content": list(content)})


MARK = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "x"}

VALID: list[dict[str, Any]] = [
    body(),
    body(max_tokens=0, thinking={"type": "adaptive"}, tool_choice={"type": "auto"}),
    body(max_tokens=0, stream=False, output_config={"effort": "low"}),
    body(diagnostics=None),
    body(diagnostics={"previous_message_id": None}),
    body(diagnostics={"previous_message_id": "msg_1"}),
    body(system="s", stream=True, metadata={"user_id": "u"}),
    body(system=[{**TEXT, **MARK}], tools=[{"name": "a", "input_schema": {}}]),
    body(tools=[{"type": "bash_20250124", "name": "bash"}]),
    body(thinking={"type": "adaptive"}),
    body(max_tokens=2000, thinking={"type": "enabled", "budget_tokens": 1024}),
    body(USER, {"role": "system", "content": "reminder"}),
    answered(RESULT),
    answered({**RESULT, "content": [TEXT, {"type": "image", "source": {}}]}, TEXT),
    block({"type": "thinking", "thinking": "", "signature": "s"}, "assistant"),
    body(USER, {"role": "assistant", "content": [{**CALL, "type": "server_tool_use"}]}),
    body(USER, {"role": "assistant", "content": [{"type": "web_search_tool_result"}]}),
    body(
        USER,
        {"role": "assistant", "content": [{**CALL, "type": "mcp_tool_use", "server_name": "s"}]},
    ),
]


@pytest.mark.parametrize("request_body", VALID)
def test_a_valid_request_is_let_through(request_body: dict[str, Any]) -> None:
    assert find_complaint(request_body) is None


CITED = {**TEXT, "citations": [{"type": "page_location"}]}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [CITED]}
# What only API version 2026-10-21 refuses.
LATER: list[tuple[Any, str]] = [
    (body(temperature=1.0), "temperature: Extra inputs are not permitted"),
    (body(top_p=1), "top_p: Extra"),
    (body(top_k=1), "top_k: Extra"),
    (block({"type": "document", "source": {}}, "assistant"), "document blocks are not permitted"),
    (block(CITED), "messages.0.content.0.text.citations: Extra"),
    (block(FOUND), "messages.0.content.0.content.0.text.citations"),
    (answered({**RESULT, "content": [FOUND]}), "content.0.content.0.text.citations"),
]


@pytest.mark.parametrize(("request_body", "words"), LATER)
def test_the_later_version_refuses_what_the_earlier_one_takes(
    request_body: dict[str, Any], words: str
) -> None:
    assert find_complaint(request_body, api_version="2023-06-01") is None
    assert words in (find_complaint(request_body, api_version="2026-10-21") or "")
    assert words in (find_complaint(request_body) or "")


def test_citations_stay_where_the_later_version_takes_them() -> None:
    assert find_complaint(block(CITED, "assistant")) is None
    assert find_complaint(block({**TEXT, "citations": []})) is None
    assert find_complaint(answered({**RESULT, "content": [CITED]})) is None


INVALID: list[tuple[Any, str]] = [
    ([], "the body is not an object"),
    (body(uuid=1), "uuid: Extra inputs"),
    ({"model": "m", "messages": [USER]}, "max_tokens: Field required"),
    (body(max_tokens=-1), "max_tokens: must be"),
    (body(max_tokens=0, stream=True), "max_tokens: 0 is not supported with stream"),
    (body(max_tokens=0, thinking={"type": "enabled", "budget_tokens": 1024}), "max_tokens: 0 is not supported with thinking.type enabled"),
    (body(max_tokens=0, output_config={"format": {}}), "max_tokens: 0 is not supported with output_config.format"),
    (body(max_tokens=0, output_format={}), "max_tokens: 0 is not supported with output_format"),
    (body(max_tokens=0, tool_choice={"type": "any"}), "max_tokens: 0 is not supported with tool_choice"),
    (body(diagnostics="msg_1"), "diagnostics: Extra inputs"),
    (body(diagnostics={"previous": "msg_1"}), "diagnostics: Extra inputs"),
    (body(diagnostics={"previous_message_id": 1}), "diagnostics.previous_message_id: Input should be"),
    (answered({**RESULT, "content": [{"type": "image", "source": {}}], "is_error": True}), "messages.2.content.0.tool_result: all content must be type `text`"),
    (body(max_tokens=True), "max_tokens: must be"),
    (body(model=1), "model: must be a string"),
    (body(thinking={"type": "enabled"}), "thinking.budget_tokens: must be an integer"),
    (body(thinking={"type": "enabled", "budget_tokens": 1024}), "thinking.budget_tokens: must be less"),
    (body(tools=1), "tools: must be a list"),
    (body(tools=[1]), "tools.0.name"),
    (body(tools=[{"name": "a"}]), "tools.0.input_schema"),
    (body(tools=[{"name": "a", "input_schema": {}}] * 2), "tools: Tool names must be unique"),
    (body(system=1), "system: must be a string"),
    (body(system=[{"type": "image", "source": {}}]), "system.0: must be a text block"),
    (body(system=[{"type": "text", "text": ""}]), "system.0: text content blocks must be non-empty"),
    (body(messages=[]), "messages: at least one"),
    (body("x"), "messages.0.role"),
    (body({"role": "tool", "content": "x"}), "messages.0.role"),
    (body({**USER, "uuid": "x"}), "messages.0.uuid: Extra inputs"),
    (body({"role": "user", "content": "  "}), "messages.0.content.0: text content"),
    (body({"role": "user", "content": []}), "messages.0: must have non-empty content"),
    (body(ASKED, USER), "messages: first message must use the user role"),
    (body({"role": "system", "content": "x"}), "messages: first message must use"),
    (body(USER, USER), "messages.1: roles must alternate"),
    (body(USER, {"role": "assistant", "content": "x"}), "messages: the conversation must end"),
    (body(USER, {"role": "assistant", "content": [TEXT]}), "messages: the conversation must end"),
    (body(USER, ASKED), "messages: tool_use ids without tool_result"),
    (block("x"), "messages.0.content.0.type"),
    (block({"type": "video"}), "messages.0.content.0: Input tag 'video'"),
    (block({"type": "text"}), "messages.0.content.0.text.text: Field required"),
    (block({**TEXT, "uuid": 1}), "messages.0.content.0.text.uuid: Extra inputs"),
    (block({"type": "text", "text": " \n"}), "messages.0.content.0: text content blocks must contain non-white"),
    (block({"type": "thinking", "thinking": "", "signature": "s", **MARK}, "assistant"), "messages.1.content.0.thinking.cache_control"),
    (block(CALL), "messages.0.content.0: tool_use blocks can only be in assistant"),
    (block(RESULT, "assistant"), "messages.1.content.0: tool_result blocks can only be in user"),
    (block({**CALL, "input": "x"}, "assistant"), "messages.1.content.0.tool_use.input: Input should be"),
    (answered({**RESULT, "content": [{"type": "text", "text": ""}]}), "messages.2.content.0.tool_result.content.0"),
    (answered(TEXT), "messages.2: tool_use ids were found without tool_result blocks immediately after: t1"),
    (answered(RESULT, {**RESULT, "tool_use_id": "t2"}), "messages.2: unexpected tool_use_id"),
    (answered(RESULT, RESULT), "messages.2: each tool_use must have a single result"),
    (answered(TEXT, RESULT), "messages.2: tool_result blocks must come before"),
    (block(RESULT), "messages.0: unexpected tool_use_id"),
    (body(USER, {"role": "assistant", "content": [CALL, CALL]}), "messages.1: tool_use ids must be unique"),
    (body(USER, ASKED, {"role": "user", "content": [RESULT]}, ASKED), "messages.3: tool_use ids must be unique"),
    (body(system=[{**TEXT, **MARK}] * 5), "A maximum of 4 blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("request_body", "said"), INVALID)
def test_an_invalid_request_is_told_its_first_fault(request_body: Any, said: str) -> None:
    found = find_complaint(request_body)
    assert found is not None
    assert found.startswith(said), found


def test_counting_needs_no_max_tokens() -> None:
    assert find_complaint({"model": "m", "messages": [USER]}, counting=True) is None
