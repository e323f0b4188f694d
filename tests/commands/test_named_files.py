"""Files that have no effect are named by the commands that a user asks: memory and doctor."""

import json
from pathlib import Path

from tests.fronts.headless.clew_process import clew

NOWHERE = "http://127.0.0.1:9"


def test_a_memory_file_that_another_replaces_is_named(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("agents", encoding="utf-8")
    (work / "CLAUDE.md").write_text("claude", encoding="utf-8")

    def skipped() -> list[str]:
        found = json.loads(clew(tmp_path, NOWHERE, "memory", "explain", "--json").stdout)
        return [entry["path"] for entry in found["skipped"]]

    assert skipped() == [str(work / "AGENTS.md")]
    assert str(work / "AGENTS.md") in clew(tmp_path, NOWHERE, "memory", "explain").stdout
    (work / "CLAUDE.md").write_text("@AGENTS.md", encoding="utf-8")
    assert skipped() == []


def test_the_doctor_names_broken_settings_and_unread_workflows(tmp_path: Path) -> None:
    path = tmp_path / "config" / "settings.json"
    path.parent.mkdir()
    path.write_text("{not json", encoding="utf-8")
    workflows = tmp_path / "work" / ".claude" / "workflows"
    workflows.mkdir(parents=True)
    lines = clew(tmp_path, NOWHERE, "doctor").stdout.splitlines()
    named = [at for at, line in enumerate(lines) if str(path) in line]
    assert len(named) == 1
    assert lines[named[0]].split()[0] == "!!"
    assert any(line.startswith(f"  -- {workflows} is not read") for line in lines)
    assert "fix the file" in lines[named[0] + 1]
