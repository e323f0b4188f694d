"""Which hooks an event calls, according to the published table of matchers."""

import pytest

from clew.agent.hooks.outcome import is_readable, matches


@pytest.mark.parametrize(
    ("matcher", "value", "holds"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "NotebookEdit", False),
        ("Edit, Write", "Write", True),
        (" Edit , Write ", "Edit", True),
        ("code-reviewer", "code-reviewer", True),
        ("^Notebook", "NotebookEdit", True),
        ("Edit.*", "NotebookEdit", True),
        ("^Edit$", "NotebookEdit", False),
        ("mcp__memory", "mcp__memory__create", False),
        ("mcp__memory__.*", "mcp__memory__create", True),
        ("mcp__.*__write.*", "mcp__files__write_file", True),
        ("^my-plugin:reviewer$", "my-plugin:reviewer", True),
        ("Task", "Agent", True),
        ("Agent", "Task", True),
        ("Edit|Write", "MultiEdit", True),
        ("MultiEdit", "Edit", False),
        ("(", "(", False),
    ],
)
def test_names_are_compared_whole_and_patterns_found_anywhere(
    matcher: str, value: str, holds: bool
) -> None:
    assert matches(matcher, value) is holds


@pytest.mark.parametrize(
    ("matcher", "value", "holds"),
    [
        (".envrc|.env", ".env", True),
        ("rate_limit|overloaded", "overloaded", True),
        ("rate_limit", "rate_limit_more", False),
        ("a, b", "b", False),
        ("rate-limit", "some-rate-limit", True),
    ],
)
def test_names_of_files_and_errors_are_no_lists_by_comma(
    matcher: str, value: str, holds: bool
) -> None:
    assert matches(matcher, value, narrow=True) is holds


def test_a_pattern_that_cannot_be_read_is_known_as_one() -> None:
    assert is_readable("*")
    assert is_readable("Edit|Write")
    assert not is_readable("(")
