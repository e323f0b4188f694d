"""Deferred tools: how ToolSearch finds them, and what they cost until then."""

import pytest
from msgspec import Struct
from msgspec.structs import replace

from clew.agent.tools.base import Tool, ToolContext, ToolOutcome
from clew.agent.tools.registry import Toolbox, make_builtin_tools
from clew.agent.tools.session_tools import ToolSearch, matches
from tests.agent.tools.workshop import Workshop


class AskInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    question: str


class Late(Tool[AskInput]):
    """A tool of a server, known only by its name until it is loaded."""

    is_deferred = True
    input_type = AskInput

    def __init__(self, name: str, description: str = "Does one thing", words: str = "") -> None:
        self.name = name
        self.description = description
        self.search_words = words

    def is_read_only(self, given: AskInput) -> bool:
        return True

    async def call(self, given: AskInput, ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome(content=f"{self.name}: {given.question}")


TOOLS = (
    Late("mcp__github__create_pull_request", "Open a pull request"),
    Late("mcp__github__list_issues", "List issues of a repository"),
    Late("mcp__mail__send", "Send a letter", "email"),
    Late("NotebookEdit", "Change a cell of a notebook"),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("select:NotebookEdit,mcp__mail__send", ["NotebookEdit", "mcp__mail__send"]),
        ("select: notebookedit, nothing", ["NotebookEdit"]),
        ("notebook", ["NotebookEdit"]),
        ("pull request", ["mcp__github__create_pull_request"]),
        ("email", ["mcp__mail__send"]),
        ("github", ["mcp__github__create_pull_request", "mcp__github__list_issues"]),
        ("+github issues", ["mcp__github__list_issues", "mcp__github__create_pull_request"]),
        ("+mail pull request", ["mcp__mail__send"]),
        ("quantum", []),
        ("?!", []),
    ],
)
def test_tools_are_found_by_name_and_by_words(query: str, found: list[str]) -> None:
    assert matches(query, TOOLS, 5) == found
    assert matches(query, TOOLS, 1) == found[: None if query.startswith("select") else 1]


def test_what_is_found_is_referred_to_and_what_is_not_lists_what_there_is(
    workshop: Workshop,
) -> None:
    workshop.surroundings = replace(workshop.surroundings, tools=(*TOOLS, ToolSearch()))
    found = workshop.use(ToolSearch(), query="letter")
    assert found.content == [{"type": "tool_reference", "tool_name": "mcp__mail__send"}]
    assert found.tool_use_result["total_deferred_tools"] == 4
    nothing = workshop.use(ToolSearch(), query="quantum")
    assert not nothing.is_error
    assert "mcp__github__list_issues" in str(nothing.content)


def test_a_toolbox_gains_and_loses_tools_and_its_definitions_only_grow() -> None:
    box = Toolbox(make_builtin_tools())
    before, revision = box.definitions(), box.revision
    box.gain(TOOLS[2:3])
    grown = box.definitions()
    assert grown[: len(before)] == before
    names = [tool["name"] for tool in grown[len(before) :]]
    assert set(names) >= {"mcp__mail__send"}
    assert grown[-1]["defer_loading"] is True
    assert "mcp__mail__send" in box.deferred()
    box.lose(["mcp__mail__send", "never there"])
    assert box.get("mcp__mail__send") is None
    assert "mcp__mail__send" not in box.deferred()
    assert box.definitions() == grown
    assert box.revision == revision + 2


def test_a_tool_gained_again_replaces_the_one_of_its_name() -> None:
    box = Toolbox((Late("x", "Old"),))
    box.gain([Late("x", "New")])
    assert [(t["name"], t["description"]) for t in box.definitions()] == [
        ("ToolSearch", ToolSearch().prompt),
        ("x", "New"),
    ]
