"""Rules that name tools that don't exist."""

import pytest

from clew.agent.tools.registry import make_builtin_tools
from clew.permissions.modes import ELSEWHERE, names_tool, unknown_tool
from clew.permissions.request import TOOLS


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("Bsh", 'unknown tool "Bsh" (did you mean "Bash"?)'),
        ("bash(ls)", 'unknown tool "bash" (did you mean "Bash"?)'),
        ("Raed(x)", 'unknown tool "Raed" (did you mean "Read"?)'),
        ("Nonsense", 'unknown tool "Nonsense"'),
        ("Lok", 'unknown tool "Lok" (did you mean "Look"?)'),
    ],
)
def test_a_tool_that_nobody_has_is_named_with_the_nearest(rule: str, says: str) -> None:
    assert unknown_tool(rule, ["Look"]) == says


@pytest.mark.parametrize("rule", ["Bash(ls)", "mcp__a__b", "mcp__a", "Foo*", "*", "Bash(", "Look"])
def test_what_there_is_or_may_be_is_not_doubted(rule: str) -> None:
    assert unknown_tool(rule, ["Look"]) is None


@pytest.mark.parametrize("word", ["Bash", "Bash(git log:*)", "mcp__a", "mcp__a__b(x)", "CronList"])
def test_a_rule_of_a_tool_that_someone_has_is_told_from_a_prompt(word: str) -> None:
    assert names_tool(word)


@pytest.mark.parametrize("word", ["go", "Go", "Reed", "Bash(", "read it", "*", ""])
def test_what_is_no_rule_of_a_tool_is_words(word: str) -> None:
    assert not names_tool(word)


def test_every_tool_that_clew_has_is_known_and_none_is_someone_elses_alone() -> None:
    assert {tool.name for tool in make_builtin_tools()} <= TOOLS.keys()
    assert not ELSEWHERE & TOOLS.keys()
    assert not any(unknown_tool(name) for name in ELSEWHERE)
