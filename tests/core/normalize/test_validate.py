"""The validator reports what the service would reject, with rule and place, and never raises."""

from typing import Any

import anthropic.types.beta as sdk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.normalize import shapes
from clew.core.normalize.target import Target, family_of
from clew.core.normalize.validate import (
    Validator,
    thinking_can_be_on,
    validate,
    validate_body,
    violations,
)
from tests.core.normalize.build import call, result, thought, words
from tests.core.normalize.generator import png
from tests.requirements import requirement

USER = {"role": "user", "content": "hi"}
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
PDF = "JVBERi0xLjcgaGVsbG8="


def says(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content), **more}


def pic(data: str = png(4, 4), kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def pdf(**source: Any) -> dict[str, Any]:
    held = {"type": "base64", "media_type": "application/pdf", "data": PDF} | source
    return {"type": "document", "source": held}


def after_call(*content: Any) -> list[dict[str, Any]]:
    return [USER, says("assistant", call("t1")), says("user", *content)]


def server(use_id: str = "srv1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": use_id, "name": "web_search", "input": {}}


def served(use_id: str = "srv1") -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": use_id, "content": []}


VALID: list[tuple[str, list[dict[str, Any]]]] = [
    ("a word", [USER]),
    ("talk", [USER, says("assistant", words("yes")), USER]),
    ("a call and its result", after_call(result("t1"), words("and?"))),
    ("a failure", after_call(result("t1", [words("no")], is_error=True))),
    ("an image in a result", after_call(result("t1", [pic(), pdf()]))),
    ("images by address and by file", [says("user", *({"type": "image", "source": s} for s in ({"type": "url", "url": "u"}, {"type": "file", "file_id": "f"})))]),
    ("documents", [says("user", pdf(), {"type": "document", "source": {"type": "content", "content": "words"}})]),
    ("thinking before a call", [USER, says("assistant", thought(), call("t1")), says("user", result("t1"))]),
    ("a pause", [USER, says("assistant", server())]),
    ("a server tool answered", [USER, says("assistant", server(), served(), words("so")), USER]),
    ("a server tool open over a result", [USER, says("assistant", server(), call("t1")), says("user", result("t1")), says("assistant", served(), words("so")), USER]),
    ("a kind of tomorrow", [USER, says("assistant", {"type": "tomorrow", "x": 1}, words("so")), USER]),
    ("a citation", [USER, says("assistant", {"type": "text", "text": "x", "citations": [{"type": "page_location", "cited_text": "y"}]}), USER]),
    ("a found tool", after_call(result("t1", [{"type": "tool_reference", "tool_name": "Bash"}]))),
    ("four marks", [says("user", *(words("x") | {"cache_control": {"type": "ephemeral"}} for _ in range(4)))]),
]  # fmt: skip

REFUSED: list[tuple[str, str, Any]] = [
    ("V1 messages", "must be a list", "text"),
    ("V1 messages[0]", "an object", [3]),
    ("V1 messages[0].role", "valid role", [says("tool", words("x"))]),
    ("V1 messages[0].role", "valid role", [{"role": ["user"], "content": "x"}]),
    ("V1 messages[0].uuid", "not a field", [says("user", words("x"), uuid="1")]),
    ("V1 messages[0].content", "string or a list", [{"role": "user", "content": 4}]),
    ("V4 messages[0].content", "is empty", [says("user")]),
    ("V4 messages[0].content[0]", "blank", [says("user", words(" \n"))]),
    ("V4 messages[0].content[0]", "blank", [{"role": "user", "content": ""}]),
    ("V1 messages[0].content[0].extra", "not a field", [says("user", words("x") | {"extra": 1})]),
    ("V1 messages[0].content[0].text", "type str", [says("user", {"type": "text", "text": 4})]),
    ("V1 messages[0].content[0]", "unknown block", [says("user", "x")]),
    ("V1 messages[0].content[0]", "user message: tool_use", [says("user", call("t1"))]),
    ("V1 messages[0]", "JSON", [says("user", words("\ud800"))]),
    ("V1 messages[1].content[0]", "assistant message: image", [USER, says("assistant", pic()), USER]),
    ("V1 messages[1].content[0]", "unknown block", [USER, says("assistant", None), USER]),
    ("V1 messages[1].content[0]", "assistant message: video", [USER, says("assistant", {"type": "video"}), USER]),
    ("V2 messages[1]", "another user message", [USER, USER]),
    ("V2 messages[0]", "a user message", [says("assistant", words("x")), USER]),
    ("V2 messages[1]", "not support", [USER, says("system", words("x"))]),
    ("V3 messages[2]", "call t1", after_call(words("no"))),
    ("V3 messages[2]", "call t1", [USER, says("assistant", call("t1")), says("assistant", words("x")), USER]),
    ("V3 messages", "call t1", [USER, says("assistant", call("t1"))]),
    ("V3 messages[2].content[1]", "after other content", after_call(words("x"), result("t1"))),
    ("V3 messages[2].content[1]", "open call", after_call(result("t1"), result("t1"))),
    ("V3 messages[0].content[0]", "open call", [says("user", result("t9"))]),
    ("V3 messages[1].content[1]", "after a tool call", [USER, says("assistant", call("t1"), words("x")), says("user", result("t1"))]),
    ("V3 messages[1].content[1].id", "already used", [USER, says("assistant", call("t1"), call("t1")), says("user", result("t1"), result("t1"))]),
    ("V3 messages[1].content[0].id", "valid ID", [USER, says("assistant", call("a b")), says("user", result("a b"))]),
    ("V3 messages[1].content[0].name", "valid tool name", [USER, says("assistant", call("t1", "a b")), says("user", result("t1"))]),
    ("V3 messages[2]", "server tool", [USER, says("assistant", server()), USER]),
    ("V3 messages[1].content[1].id", "already used", [USER, says("assistant", server(), server(), served(), words("x")), USER]),
    ("V3 messages[1].content[0]", "server tool", [USER, says("assistant", served(), words("x")), USER]),
    ("V4 messages", "is empty", []),
    ("V4 messages", "assistant message", [USER, says("assistant", words("x"))]),
    ("V5 messages[1]", "thinking block", [USER, says("assistant", thought()), USER]),
    ("V5 messages[1].content[0]", "without a signature", [USER, says("assistant", thought(signature=""), words("x")), USER]),
    ("V5 messages[1].content[0]", "thinking block without text", [USER, says("assistant", thought(" "), words("x")), USER]),
    ("V6 messages[1].content[0].input", "type dict", [USER, says("assistant", call("t1") | {"input": "{"}), says("user", result("t1"))]),
    ("V6 messages[1].content[0].input", "too deeply", [USER, says("assistant", call("t1") | {"input": {"a": [[]] * 2} | __import__("functools").reduce(lambda v, _: {"a": v}, range(220), {})}), says("user", result("t1"))]),
    ("V1 messages[2].content[0].content[0]", "must be text", after_call(result("t1", [{"type": "search_result", "source": "s", "title": "t", "content": [words("hit")]}], is_error=True))),
    ("V1 messages[2].content[0].is_error", "boolean", after_call(result("t1", is_error=None))),
    ("V1 messages[2].content[0].content", "string or a list", after_call(result("t1", 5))),
    ("V4 messages[2].content[0].content", "is empty", after_call(result("t1", []))),
    ("V4 messages[2].content[0].content[0]", "blank", after_call(result("t1", ""))),
    ("V1 messages[2].content[0].content[0]", "tool result: tool_use", after_call(result("t1", [call("t2")]))),
    ("V1 messages[2].content[0].content[0]", "unknown block", after_call(result("t1", [3]))),
    ("V8 messages[0].content[0]", "source", [says("user", {"type": "image", "source": {"type": "path"}})]),
    ("V8 messages[0].content[0]", "source", [says("user", {"type": "image", "source": {"type": []}})]),
    ("V1 messages[0].content[0].source", "type dict", [says("user", {"type": "image"})]),
    ("V8 messages[0].content[0]", "incomplete source", [says("user", pic(""))]),
    ("V8 messages[0].content[0]", "valid image", [says("user", pic("AAAA"))]),
    ("V8 messages[0].content[0]", "valid image", [says("user", pic("!!!!"))]),
    ("V8 messages[0].content[0]", "media type", [says("user", pic(kind="image/gif"))]),
    ("V8 messages[0].content[0]", "image type", [says("user", pic(kind="image/bmp"))]),
    ("V8 messages[0].content[0]", "wider or taller than allowed", [says("user", pic(png(9000, 1)))]),
    ("V8 messages[0].content[0]", "document type", [says("user", pdf(media_type="text/html"))]),
    ("V8 messages[0].content[0]", "valid PDF", [says("user", pdf(data="AAAA"))]),
    ("V8 messages[0].content[0]", "incomplete source", [says("user", {"type": "document", "source": {"type": "content", "content": []}})]),
    ("V8 messages", "limit of 100", [says("user", *[pic()] * 101)]),
    ("V8 messages[0].content[0]", "this many images", [says("user", pic(png(3000, 1)), *[pic()] * 20)]),
    ("V1 messages[1].content[0].citations", "must be a list", [USER, says("assistant", words("x") | {"citations": 4}), USER]),
    ("V1 messages[1].content[0].citations[0]", "citation", [USER, says("assistant", words("x") | {"citations": [{"type": "page_location", "file_id": 1}]}), USER]),
    ("V1 cache_control", "5 times", [says("user", *(words("x") | {"cache_control": {"type": "ephemeral"}} for _ in range(5)))]),
]  # fmt: skip


@requirement("V1", "V2", "V3", "V4", "V5", "V6", "V8")
@pytest.mark.parametrize("messages", [m for _, m in VALID], ids=[name for name, _ in VALID])
def test_what_the_service_takes_has_no_violation(messages: list[dict[str, Any]]) -> None:
    assert violations(validate(messages, Target(), tools=[TOOL])) == ""


@requirement("V1", "V2", "V3", "V4", "V5", "V6", "V8")
@pytest.mark.parametrize(("place", "what", "messages"), REFUSED)
def test_what_the_service_refuses_is_named_with_its_rule_and_place(
    place: str, what: str, messages: Any
) -> None:
    found = violations(validate(messages, Target())).splitlines()
    assert any(line.startswith(f"{place} ") and what in line for line in found), found


def test_a_rule_of_one_model_is_no_rule_of_another() -> None:
    told = [USER, says("system", words("note")), says("assistant", words("x"))]
    assert validate(told, Target(system_messages=True, prefill=True)) == []
    blank = [USER, says("assistant", thought(""), words("x")), USER]
    assert validate(blank, Target(blank_thinking=True)) == []
    assert "not accept: image" in violations(validate([says("user", pic())], Target(images=False)))
    assert "not accept: document" in violations(
        validate([says("user", pdf())], Target(documents=False))
    )
    searched = [USER, says("assistant", server(), served(), words("x")), USER]
    assert "of another platform" in violations(validate(searched, Target(server_tools=False)))


@requirement("V8")
def test_what_is_too_large_is_named() -> None:
    small = Target(max_image_bytes=500, max_document_bytes=10, max_body_bytes=300)
    found = violations(validate([says("user", pic(png(2, 2, 600)), pdf())], small))
    assert "content[0] is larger" in found
    assert "content[1] is larger" in found
    assert "limit of 300" in found
    few = Target(max_documents=1)
    assert "has 2 documents" in violations(validate([says("user", pdf(), pdf())], few))


def test_a_system_message_stands_behind_a_users() -> None:
    target = Target(system_messages=True)
    first = validate([says("system", words("x")), USER], target)
    assert "not follow a user" in violations(first)
    assert "text block" in violations(validate([USER, says("system", pic())], target))
    between = [USER, says("system", words("x")), USER]
    assert "another user message" in violations(validate(between, target))


@requirement("V1")
@pytest.mark.parametrize(
    ("system", "tools", "what"),
    [
        (4, None, "V1 system must"),
        ([3], None, "V1 system[0] must"),
        ([words("")], None, "V4 system[0] is a blank text block"),
        ("", None, "V4 system[0]"),
        (None, 4, "V1 tools must be a list"),
        (None, [3], "V1 tools[0] must"),
        (None, [TOOL, TOOL], "V9 tools[1].name is already used"),
        (None, [TOOL | {"name": "a b"}], "V9 tools[0].name is not"),
        (None, [TOOL | {"prompt": "x"}], "V1 tools[0].prompt is not a field"),
        (None, [{"name": "x"}], "V1 tools[0].input_schema"),
        (None, [TOOL | {"description": "\udc00"}], "V1 tools cannot be encoded"),
    ],
)
def test_system_and_tools_are_judged_too(system: Any, tools: Any, what: str) -> None:
    assert what in violations(validate([USER], Target(), system=system, tools=tools))


def test_tools_of_the_service_and_marked_ones_pass() -> None:
    searching = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    marked = TOOL | {"cache_control": {"type": "ephemeral"}}
    assert validate([USER], Target(), system="be kind", tools=[marked, searching]) == []


def test_calls_in_a_request_need_tools_and_references_need_theirs() -> None:
    assert "V3 tools is empty" in violations(validate(after_call(result("t1")), Target(), tools=[]))
    told = after_call(result("t1", [{"type": "tool_reference", "tool_name": "Gone"}]))
    assert "V9" in violations(validate(told, Target(), tools=[TOOL]))


@requirement("V5", "V8")
def test_a_body_is_judged_for_its_limits() -> None:
    body: dict[str, Any] = {"messages": [USER], "max_tokens": 4000}
    assert validate_body(body, Target()) == []
    assert "V8 max_tokens" in violations(validate_body(body | {"max_tokens": 0}, Target()))
    enough = body | {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert validate_body(enough, Target()) == []
    too_much = body | {"thinking": {"type": "enabled", "budget_tokens": 4000}}
    assert "V8 thinking.budget_tokens" in violations(validate_body(too_much, Target()))
    unthought = enough | {"messages": after_call(result("t1"))}
    assert "V5 thinking" in violations(validate_body(unthought, Target()))
    assert "V1 messages" in violations(validate_body(enough | {"messages": 4}, Target()))


@requirement("V5")
def test_thinking_may_begin_with_a_turn_but_not_inside_one() -> None:
    assert thinking_can_be_on([USER])
    assert thinking_can_be_on(
        [USER, says("assistant", thought(), call("t")), says("user", result("t"))]
    )
    assert not thinking_can_be_on(after_call(result("t1")))
    assert not thinking_can_be_on([says("user", result("t1"))])


def test_a_branch_judges_without_being_taken_in() -> None:
    validator = Validator(Target())
    validator.add(USER)
    validator.add(says("assistant", call("t1")))
    for _ in range(2):
        branch = validator.branch()
        branch.add(says("user", result("t1")))
        branch.close()
        assert branch.found == []
    branch = validator.branch()
    branch.add(says("user", result("t1")))
    branch.add(says("assistant", call("t1")))
    assert "already used" in violations(branch.found)
    assert validator.found == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["user", "tool_use"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "id", "input", "source", "data", "x"]), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(JSON, JSON, JSON)
def test_it_answers_whatever_it_is_asked(messages: Any, system: Any, tools: Any) -> None:
    found = validate(messages, Target(), system=system, tools=tools)
    assert all(v.rule and v.where and v.what for v in found)


@requirement("V1")
def test_the_fields_are_those_of_the_published_types() -> None:
    published = {
        "text": sdk.BetaTextBlockParam,
        "image": sdk.BetaImageBlockParam,
        "document": sdk.BetaRequestDocumentBlockParam,
        "search_result": sdk.BetaSearchResultBlockParam,
        "container_upload": sdk.BetaContainerUploadBlockParam,
        "tool_result": sdk.BetaToolResultBlockParam,
        "tool_reference": sdk.BetaToolReferenceBlockParam,
        "thinking": sdk.BetaThinkingBlockParam,
        "redacted_thinking": sdk.BetaRedactedThinkingBlockParam,
        "tool_use": sdk.BetaToolUseBlockParam,
        "server_tool_use": sdk.BetaServerToolUseBlockParam,
        "mcp_tool_use": sdk.BetaMCPToolUseBlockParam,
        "web_search_tool_result": sdk.BetaWebSearchToolResultBlockParam,
        "web_fetch_tool_result": sdk.BetaWebFetchToolResultBlockParam,
        "code_execution_tool_result": sdk.BetaCodeExecutionToolResultBlockParam,
        "bash_code_execution_tool_result": sdk.BetaBashCodeExecutionToolResultBlockParam,
        "text_editor_code_execution_tool_result": sdk.BetaTextEditorCodeExecutionToolResultBlockParam,
        "tool_search_tool_result": sdk.BetaToolSearchToolResultBlockParam,
        "mcp_tool_result": sdk.BetaRequestMCPToolResultBlockParam,
        "compaction": sdk.BetaCompactionBlockParam,
    }  # fmt: skip
    assert {k: set(p.__annotations__) for k, p in published.items()} == shapes.FIELDS
    assert set(sdk.BetaToolParam.__annotations__) == shapes.TOOL_FIELDS
    assert set(sdk.BetaSystemMessageParam.__annotations__) == shapes.MESSAGE_FIELDS["system"]


def test_a_family_is_who_signs() -> None:
    assert family_of("us.anthropic.claude-opus-4-5-v1:0") == "claude"
    assert family_of("openai/gpt-5-mini") == "gpt"
    assert family_of(None) == ""


CITED = words("x") | {"citations": [{"type": "page_location", "cited_text": "y"}]}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [CITED]}
EARLIER = Target(api_version="2023-06-01")


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([says("user", CITED)], "messages[0].content[0].citations"),
        ([says("user", FOUND)], "messages[0].content[0].content[0].citations"),
        (
            after_call(result("t1", [FOUND])),
            "messages[2].content[0].content[0].content[0].citations",
        ),
        ([USER, says("assistant", pdf(), words("so")), USER], "messages[1].content[0]"),
    ],
)
def test_the_later_version_refuses_what_the_earlier_one_takes(
    messages: list[dict[str, Any]], where: str
) -> None:
    assert [(v.rule, v.where) for v in validate(messages, Target())] == [("V1", where)]
    assert validate(messages, EARLIER) == []


def test_citations_stay_where_every_version_takes_them() -> None:
    kept = [
        [USER, says("assistant", CITED), USER],
        [says("user", words("x") | {"citations": []})],
        after_call(result("t1", [CITED])),
    ]
    for messages in kept:
        assert validate(messages, Target()) == []


def test_sampling_is_refused_by_the_later_version() -> None:
    body = {"max_tokens": 10, "messages": [USER], "temperature": 1.0, "top_p": 1, "top_k": 1}
    found = validate_body(body, Target())
    assert [(v.rule, v.where) for v in found] == [
        ("V1", "temperature"),
        ("V1", "top_p"),
        ("V1", "top_k"),
    ]
    assert validate_body(body, EARLIER) == []
