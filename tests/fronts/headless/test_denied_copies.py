"""Denied files that are committed, in a worktree that a subagent gets without a question."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.fronts.headless.test_agents_kept import git, repository
from tests.fronts.headless.test_rules_hold import settings, write

RULES = (
    "Read(./secrets/**)",
    "Read(//{work}/secrets/**)",
    "Read(/secrets/**)",
    "Read(./secrets/key)",
)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Read": ("Read", {"file_path": "secrets/key"}),
    "cat": ("Bash", {"command": "cat secrets/key"}),
    "git show": ("Bash", {"command": "git show HEAD:secrets/key"}),
    "git log": ("Bash", {"command": "git log -p"}),
    "Grep": ("Grep", {"pattern": "treas", "output_mode": "content"}),
    "grep": ("Bash", {"command": "grep -r treas ."}),
    "LS": ("LS", {"path": "secrets"}),
}


def run(home: Path, rule: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """What the model saw of the calls of an agent in a worktree, each under an allow rule."""
    work = repository(home)
    write(work / "secrets" / "key", "treasure\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "secrets")
    deny = rule.format(work=str(work.resolve()).removeprefix("/"))
    settings(home, {"permissions": {"deny": [deny]}}, of="work/.claude")
    agent = {"description": "dig", "prompt": "dig", "isolation": "worktree"}
    answers = [{"tool": "Agent", "input": agent}, *({"tool": t, "input": i} for t, i in calls)]
    plan = {
        "scenario": 1,
        "answers": [*({"content": [a]} for a in answers), {"text": "Done.", "times": "always"}],
    }
    with serving(plan, strict=True) as server:
        done = clew(home, server.url, "-p", "go", "--allowedTools", "Edit")
        assert done.returncode == 0, done.stderr
        return "\n".join(json.dumps(request.body["messages"]) for request in server.requests)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("how", CALLS)
def test_a_rule_for_a_file_holds_for_its_copy_in_a_worktree(
    tmp_path: Path, rule: str, how: str
) -> None:
    said = run(tmp_path, rule, CALLS[how])
    assert "treasure" not in said
    assert '"tool_result"' in said


def test_other_files_of_a_worktree_are_read_and_written_as_before(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        RULES[0],
        ("Read", {"file_path": "kept.txt"}),
        ("Edit", {"file_path": "kept.txt", "old_string": "as it was", "new_string": "new"}),
    )
    assert "1\\tas it was" in said
    assert "1 replacement" in said or "Edited" in said
