"""Pipes and devices among a folder's files: reported, and never waited for."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.system.files import NOT_REGULAR
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew

FINE: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Done.", "times": "always"}]}
SAID = ".claude/commands/x.md .claude/agents/x.md .claude/settings.json .mcp.json"
SILENT = ".claude/output-styles/x.md .claude/skills/x/SKILL.md .git/HEAD .gitignore CLAUDE.md"
# What is looked into once the folder is trusted, or once a call may change files.
GIT = ".git/config .git/index .git/objects/info/alternates"


def lay(home: Path, name: str, kind: str) -> None:
    path = home / "work" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_passed_over(kind: str, tmp_path: Path) -> None:
    search = {"tool": "Grep", "input": {"pattern": "x"}}
    plan = {"scenario": 1, "answers": [{"content": [search]}, *FINE["answers"]]}
    for name in (*SAID.split(), *SILENT.split()):
        lay(tmp_path, name, kind)
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    said = SAID.split()
    if kind == "device":
        # A link out of a project that nobody trusts is not looked into at all.
        for name in (".claude/commands/x.md", ".claude/agents/x.md"):
            said.remove(name)
        assert "is a symlink to /dev/zero" in done.stderr
    for name in said:
        assert any(name in line and NOT_REGULAR in line for line in done.stderr.splitlines()), name


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_trusted_folder_has_no_file_that_is_waited_for(kind: str, tmp_path: Path) -> None:
    write = {"tool": "Bash", "input": {"command": "echo 1 > made.txt"}}
    wish = {"description": "look", "prompt": "Look.", "subagent_type": "keeper"}
    plan = {
        "scenario": 1,
        "answers": [
            {"content": [write, {"tool": "Agent", "input": wish}]},
            {"text": "Looked."},
            *FINE["answers"],
        ],
    }
    for name in (*SILENT.split()[:2], *GIT.split(), ".claude/agent-memory/keeper/MEMORY.md"):
        lay(tmp_path, name, kind)
    folder = tmp_path / "work" / ".claude" / "agents"
    folder.mkdir()
    head = "---\ndescription: Keeps\nmemory: project\n---\nKeep."
    (folder / "keeper.md").write_text(head, "utf-8")
    assert clew(tmp_path, "http://127.0.0.1:9", "config", "trust").returncode == 0
    with serving(plan, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "hi", "--allowedTools", "Bash,Agent")
        bodies = [request.body for request in server.requests]
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert f"output-styles/x.md: {NOT_REGULAR}" in done.stderr
    assert "MEMORY.md does not exist yet." in str(bodies[1])
    assert (tmp_path / "work" / "made.txt").exists()


@pytest.mark.parametrize("name", [".git/HEAD", ".git/index"])
def test_git_is_not_asked_where_it_would_wait_for_ever(name: str, tmp_path: Path) -> None:
    """Until it was given up, the first answer waited for it."""
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", work], check=True)
    own = tmp_path / "bin" / "git"
    own.parent.mkdir()
    own.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexec {shutil.which("git")} "$@"\n', "utf-8"
    )
    own.chmod(0o755)
    path = f"{own.parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "config").mkdir()
    settings = json.dumps({"env": {"PATH": path}})
    (tmp_path / "config" / "settings.json").write_text(settings, "utf-8")
    with serving(FINE, strict=True) as server:
        assert clew(tmp_path, server.url, "-p", "hi").stdout == "Done.\n"
        assert "status" in (tmp_path / "asked").read_text("utf-8")
        (tmp_path / "asked").unlink()
        (work / name).unlink(missing_ok=True)
        os.mkfifo(work / name)
        assert clew(tmp_path, server.url, "-p", "hi").stdout == "Done.\n"
    assert not (tmp_path / "asked").exists()


def test_a_head_with_marks_of_kinds_ends_no_session(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".claude" / "commands"
    folder.mkdir(parents=True)
    for n, marked in enumerate(["!!bool maybe", "!!timestamp foo", '!!int ""', "!x y"]):
        head = f"---\ndescription:\n  - {marked}\n---\nwords"
        (folder / f"a{n}.md").write_text(head, "utf-8")
    with serving(FINE, strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "/a0")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert done.stderr.count("the YAML tag") == 4, done.stderr


def test_a_pipe_among_the_memories_is_passed_over(tmp_path: Path) -> None:
    with serving(FINE, strict=True) as server:
        clew(tmp_path, server.url, "-p", "hi")
        (project,) = (tmp_path / "config" / "projects").iterdir()
        (project / "memory").mkdir()
        os.mkfifo(project / "memory" / "a.md")
        done = clew(tmp_path, server.url, "-p", "/memory list")
    assert done.returncode == 0, done.stderr
