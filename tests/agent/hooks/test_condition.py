"""The `if` of a hook: the published table, and files by pattern."""

from pathlib import Path
from typing import Any

import pytest

from clew.agent.hooks.outcome import meets
from clew.permissions.request import Context, PermissionRequest
from clew.permissions.resolver import make_resolver


def asks(condition: str, tool: str, given: dict[str, Any], cwd: Path) -> bool:
    context = Context(cwd=str(cwd), home="/home/me")
    resolve = make_resolver(cwd=str(cwd), home="/home/me")
    return meets(condition, PermissionRequest(tool=tool, input=given), context, resolve)


@pytest.mark.parametrize(
    ("condition", "command", "runs"),
    [
        ("Bash(git *)", "FOO=bar git push", True),
        ("Bash(git *)", "npm test && git push", True),
        ("Bash(rm *)", "echo $(rm -rf /)", True),
        ("Bash(rm *)", "echo $(date)", False),
        ("Bash(git push *)", "echo $(date)", True),
        ("Bash(git push *)", "echo `date`", True),
        ("Bash(git push *)", "echo date", False),
        ("Bash(git *)", "npm test", False),
        ("Bash", "npm test", True),
        ("Read", "npm test", False),
        ("Not a (rule", "npm test", True),
    ],
)
def test_commands_as_published(tmp_path: Path, condition: str, command: str, runs: bool) -> None:
    assert asks(condition, "Bash", {"command": command}, tmp_path) is runs


@pytest.mark.parametrize(
    ("condition", "path", "runs"),
    [
        ("Edit(*.ts)", "a.ts", True),
        ("Edit(*.ts)", "a.py", False),
        ("Edit(src/**)", "src/a.py", True),
        ("Edit(src/**)", "lib/src/a.py", False),
        ("Edit(**/src/**)", "lib/src/a.py", True),
        ("Edit(.git/**)", ".git/config", True),
        ("Edit(.env)", ".env", True),
        ("Bash(git push *)", "a.py", False),
    ],
)
def test_files_as_published(tmp_path: Path, condition: str, path: str, runs: bool) -> None:
    assert asks(condition, "Edit", {"file_path": str(tmp_path / path)}, tmp_path) is runs


def test_a_call_that_names_no_command_is_no_unclear_one(tmp_path: Path) -> None:
    assert asks("Bash(git push *)", "Bash", {}, tmp_path) is False
