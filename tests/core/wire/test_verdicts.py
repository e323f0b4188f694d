"""A host's answer to a permission request: allow, deny, or unusable."""

from typing import Any

import pytest

from clew.permissions.updates import (
    No,
    UnusableVerdict,
    Yes,
    make_question,
    make_rule_update,
    read_verdict,
)


def test_yes_with_another_input_and_with_updates() -> None:
    assert read_verdict({"behavior": "allow"}) == Yes(input=None)
    found = read_verdict(
        {
            "behavior": "allow",
            "updatedInput": {"command": "ls"},
            "updatedPermissions": [make_rule_update(["Bash(ls *)"], "session")],
        }
    )
    assert isinstance(found, Yes)
    assert found.input == {"command": "ls"}
    assert [update.type for update in found.updates] == ["addRules"]


def test_a_bad_update_does_not_make_a_yes_a_no() -> None:
    found = read_verdict({"behavior": "allow", "updatedPermissions": "all"})
    assert isinstance(found, Yes)
    assert found.updates == ()
    assert found.why_none


def test_no_with_words_and_with_a_stop() -> None:
    assert read_verdict({"behavior": "deny", "message": "not now"}) == No(words="not now")
    assert read_verdict({"behavior": "deny", "interrupt": True}) == No(
        words="The host denied this call.", stops=True
    )


@pytest.mark.parametrize(
    "bad", [{}, {"behavior": "maybe"}, {"behavior": "allow", "updatedInput": 1}]
)
def test_anything_else_is_of_no_use(bad: dict[str, Any]) -> None:
    assert isinstance(read_verdict(bad), UnusableVerdict)


def test_the_question_names_the_call_and_why_it_asks() -> None:
    block = {"name": "Bash", "input": {"command": "x"}, "id": "toolu_1"}
    asked = make_question(block, title="Bash: x", why="no rule", suggestions=[])
    assert (asked["tool_use_id"], asked["decision_reason"]) == ("toolu_1", "no rule")
    assert "blocked_path" not in asked
    assert "agent_id" not in asked
    assert make_question(block, title="", why="", suggestions=[], blocked_path="/x")["blocked_path"]
    assert make_question(block, title="", why="", suggestions=[], agent_id="a1")["agent_id"] == "a1"
