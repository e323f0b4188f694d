"""`judge_call` for programs: rules are text, and nothing is read from disk."""

from typing import Any

import pytest

from clew.engine import Judgment, judge_call

PLACE: dict[str, Any] = {"cwd": "/work", "home": "/home/me"}


@pytest.mark.parametrize(
    ("tool", "given", "rules", "verdict"),
    [
        ("Bash", {"command": "ls && sudo rm -rf build"}, {"deny": ["Bash(rm *)"]}, "deny"),
        ("Bash", {"command": "git push"}, {"allow": ["Bash(git:*)"]}, "allow"),
        ("Bash", {"command": "git push"}, {"allow": ["Bash(git:*)"], "ask": ["Bash(git push)"]}, "ask"),
        ("Bash", {"command": "git push"}, {}, "ask"),
        ("Read", {"file_path": "/work/a.py"}, {}, "allow"),
        ("Read", {"file_path": "a/../../etc/passwd"}, {}, "ask"),
        ("Read", {"file_path": "~/.ssh/id"}, {"deny": ["Read(~/.ssh/**)"]}, "deny"),
        ("Read", {"file_path": "~"}, {}, "ask"),
        ("Write", {"file_path": "/work/a.py", "content": ""}, {"mode": "acceptEdits"}, "allow"),
        ("Bash", {"command": "cat *"}, {"deny": ["Read(.env)"]}, "ask"),
    ],
)  # fmt: skip
def test_a_call_is_judged_as_in_a_session(
    tool: str, given: dict[str, Any], rules: dict[str, Any], verdict: str
) -> None:
    judged = judge_call(tool, given, **rules, **PLACE)
    assert (judged.verdict, bool(judged.reason)) == (verdict, True)


def test_the_reason_names_the_part_and_the_rule() -> None:
    judged = judge_call("Bash", {"command": "ls && rm x"}, deny=["Bash(rm *)"], **PLACE)
    assert judged == Judgment(verdict="deny", reason="rm x: denied by Bash(rm *)")


def test_an_invalid_rule_is_named() -> None:
    with pytest.raises(ValueError, match=r"allow: Bash\(x: expected Tool or Tool"):
        judge_call("Bash", {"command": "x"}, allow=["Bash(x"], **PLACE)


def test_rules_that_are_no_list_and_unknown_modes_are_refused() -> None:
    rules: Any = "Bash"
    with pytest.raises(TypeError, match="deny: expected a list of rules, got 'Bash'"):
        judge_call("Bash", {"command": "git log"}, deny=rules, **PLACE)
    mode: Any = "yolo"
    with pytest.raises(ValueError, match=r"mode: expected one of default, .* got 'yolo'"):
        judge_call("Bash", {"command": "git log"}, mode=mode, **PLACE)
