"""`clew memory explain` through the real program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "app").mkdir()
    (folder / ".claude" / "rules").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Use tabs. @docs.md @../elsewhere.md", "utf-8")
    (folder / "docs.md").write_text("Write docs.", "utf-8")
    (tmp_path / "elsewhere.md").write_text("Secret.", "utf-8")
    (folder / ".claude" / "rules" / "py.md").write_text(
        "---\npaths: app/*.py\n---\nType it.", "utf-8"
    )
    (folder / "app" / "CLAUDE.md").write_text("The app.", "utf-8")
    return folder


def clew(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "clew", "memory", *arguments],
        cwd=project, env=environment, capture_output=True, text=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip


@requirement("C8", "R122")
def test_it_shows_who_speaks_in_which_order_and_why_others_do_not(project: Path) -> None:
    ran = clew(project, "explain", "app/a.py")
    assert ran.returncode == 0, ran.stderr
    lines = [" ".join(line.split()) for line in ran.stdout.replace(str(project), "P").split("\n")]
    assert lines == [
        "Loaded at the start, in this order:",
        "10 tokens project P/CLAUDE.md",
        "3 tokens project P/docs.md (imported by P/CLAUDE.md)",
        "13 tokens in total",
        "",
        "Rules that load when a matching file is read:",
        "2 tokens project P/.claude/rules/py.md (for app/*.py)",
        "",
        "Loaded when app/a.py is read:",
        "2 tokens project P/app/CLAUDE.md",
        "2 tokens project P/.claude/rules/py.md (for app/*.py)",
        "4 tokens in total",
        "",
        "Skipped:",
        f"{project.parent}/elsewhere.md: imported by P/CLAUDE.md, but outside the project and not approved",
        "",
    ]


def test_it_prints_json_for_programs(project: Path) -> None:
    told = json.loads(clew(project, "explain", "--json", "--cwd", "app").stdout)
    assert [Path(f["path"]).name for f in told["files"]] == ["CLAUDE.md", "docs.md", "CLAUDE.md"]
    assert told["tokens"] == sum(f["tokens"] for f in told["files"])
    assert "whenRead" not in told
    assert json.loads(clew(project, "explain", "x", "--json").stdout)["whenRead"] == []


def test_a_folder_without_memory_and_one_that_is_not_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert clew(empty, "explain").stdout == "No memory files are loaded.\n"
    missing = clew(empty, "explain", "--cwd", "nowhere")
    assert (missing.returncode, "folder not found" in missing.stderr) == (2, True)
