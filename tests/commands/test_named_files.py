"""Files that have no effect are named by the commands that a user asks: memory and doctor."""

import json
from pathlib import Path

from tests.fronts.headless.clew_process import clew

NOWHERE = "http://127.0.0.1:9"


def test_the_memory_command_names_the_agents_file_and_the_claude_file(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "AGENTS.md").write_text("agents", encoding="utf-8")
    (work / "CLAUDE.md").write_text("claude", encoding="utf-8")

    def explain() -> tuple[list[str], list[str]]:
        found = json.loads(clew(tmp_path, NOWHERE, "memory", "explain", "--json").stdout)
        names = (
            [Path(entry["path"]).name for entry in found[kind]] for kind in ("files", "skipped")
        )
        return next(names), next(names)

    assert explain() == (["AGENTS.md", "CLAUDE.md"], [])
    (work / "CLAUDE.md").write_text("agents", encoding="utf-8")
    assert explain() == (["AGENTS.md"], ["CLAUDE.md"])


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
    assert any(line.startswith(f"  -- {workflows} is ignored") for line in lines)
    assert "fix the file" in lines[named[0] + 1]
