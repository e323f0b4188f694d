"""The tools that a request offers, for services with and without deferred definitions."""

from typing import Any

from clew.core.messages import factories
from clew.core.normalize.for_api import for_api
from clew.core.normalize.target import Target, find_references, select_definitions

DEFINITIONS: list[dict[str, Any]] = [
    {"name": "Read", "input_schema": {"type": "object"}},
    {"name": "mcp__a__one", "input_schema": {"type": "object"}, "defer_loading": True},
    {"name": "ToolSearch", "input_schema": {"type": "object"}},
    {"name": "mcp__a__two", "input_schema": {"type": "object"}, "defer_loading": True},
]


def found(*names: str) -> dict[str, Any]:
    content = [{"type": "tool_reference", "tool_name": name} for name in names]
    return factories.make_tool_answer("t1", content, uuid="u", at="now", source_uuid=None)


def test_a_receiver_that_knows_the_mark_gets_the_same_tools_whatever_was_found() -> None:
    before = select_definitions(DEFINITIONS, [], takes_deferred=True)
    after = select_definitions(DEFINITIONS, ["mcp__a__two"], takes_deferred=True)
    assert before == after == DEFINITIONS


def test_another_gets_what_was_found_after_the_rest_in_the_order_of_finding() -> None:
    names = ["mcp__a__two", "gone", "Read", "mcp__a__one", "mcp__a__two"]
    got = select_definitions(DEFINITIONS, names, takes_deferred=False)
    assert [tool["name"] for tool in got] == ["Read", "ToolSearch", "mcp__a__two", "mcp__a__one"]
    assert all("defer_loading" not in tool for tool in got)


def test_references_are_read_out_of_results_and_nothing_else() -> None:
    odd = [{"type": "user", "message": {"content": ["x", {"content": ["y", {"type": "text"}]}]}}]
    plain = [factories.make_user("hi", uuid="u", at="now"), {"type": "assistant"}, {"type": "user"}]
    assert list(find_references([*odd, *plain, found("b", "a")])) == ["b", "a"]


def test_to_a_receiver_without_the_mark_a_reference_is_said_in_words() -> None:
    call = factories.make_assistant(
        {"content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {}}]},
        uuids=["a"], at="now", request_id="r",
    )  # fmt: skip
    history = [factories.make_user("hi", uuid="u0", at="now"), *call, found("mcp__a__one")]
    words = for_api(history, Target(), tools=DEFINITIONS).messages[-1]["content"][0]["content"]
    assert words[0]["text"] == "The tool mcp__a__one is loaded and can be called."
    kept = for_api(history, Target(deferred_tools=True), tools=DEFINITIONS)
    assert kept.messages[-1]["content"][0]["content"][0]["type"] == "tool_reference"
    assert not kept.violations
