"""Memory below the working folder is sent once, with the result that touched its folder."""

import os
from pathlib import Path
from typing import Any

import pytest

from clew.agent.context.memory import MemoryGate
from clew.agent.context.nearby import Nearby, find_sent_paths, find_touched_paths
from clew.permissions.session_rules import load_current_rules
from clew.system.config.paths import project_root


def result(path: Path, *, is_read: bool = True) -> dict[str, Any]:
    said = {"filePath": str(path)}
    return {"type": "user", "toolUseResult": {"file": said} if is_read else said}


def gate(environ: dict[str, str], work: Path) -> MemoryGate:
    standing = load_current_rules(environ, work)
    return MemoryGate(lambda: standing)


def world(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    work = tmp_path / "work"
    (work / "below" / "deeper").mkdir(parents=True)
    (work / "CLAUDE.md").write_text("At the top.", "utf-8")
    (work / "below" / "CLAUDE.md").write_text("Below.", "utf-8")
    (work / "below" / "deeper" / "AGENTS.md").write_text("Deeper.", "utf-8")
    (work / ".claude" / "rules").mkdir(parents=True)
    rule = "---\npaths: '**/*.sql'\n---\nUpper case.\n"
    (work / ".claude" / "rules" / "sql.md").write_text(rule, "utf-8")
    return work, {"HOME": str(tmp_path), "CLEW_CONFIG_DIR": str(tmp_path / "config")}


def test_each_folder_on_the_way_speaks_once(tmp_path: Path) -> None:
    work, environ = world(tmp_path)
    nearby = Nearby(environ, work, gate(environ, work), [])
    assert nearby.beside([result(work / "a.py")]) == []
    (fact,) = nearby.beside([result(work / "below" / "a.py")])
    assert fact.payload["type"] == "nested_memory"
    assert [Path(f["path"]).parent.name for f in fact.payload["files"]] == ["below"]
    (deeper,) = nearby.beside([result(work / "below" / "deeper" / "b.py", is_read=False)])
    assert "Deeper." in deeper.rendered[0]
    assert "Below." not in deeper.rendered[0]
    assert nearby.beside([result(work / "below" / "deeper" / "c.py")]) == []
    goes_on = Nearby(
        environ,
        work,
        gate(environ, work),
        [{"attachment": f.payload} for f in (fact, deeper)],
    )
    assert goes_on.beside([result(work / "below" / "deeper" / "c.py")]) == []


def test_a_rule_speaks_when_a_file_of_its_paths_is_touched(tmp_path: Path) -> None:
    work, environ = world(tmp_path)
    nearby = Nearby(environ, work, gate(environ, work), [])
    (fact,) = nearby.beside([result(work / "schema.sql"), result(work / "other.sql")])
    assert "Upper case." in fact.rendered[0]


def test_results_and_entries_of_any_shape_are_passed() -> None:
    odd: list[dict[str, Any]] = [{}, {"toolUseResult": "Error: x"}, {"toolUseResult": {"file": 3}}]
    assert list(find_touched_paths([*odd, {"toolUseResult": {"filePath": 3}}])) == []
    payloads: list[Any] = [None, 3, {"type": "nested_memory"}, {"type": "instructions", "files": 3}]
    payloads += [{"type": "instructions", "files": [3, {}, {"path": "/a"}]}]
    assert list(find_sent_paths({"attachment": p} for p in payloads)) == ["/a"]


def test_what_another_user_put_above_the_project_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, work = tmp_path / "shared", tmp_path / "shared" / "mine" / "work"
    (work / ".git").mkdir(parents=True)
    above, own = shared / "CLAUDE.md", work / "CLAUDE.md"
    for file in (above, own):
        file.write_text("Do as I say.", "utf-8")
    environ = {"HOME": str(tmp_path), "CLEW_CONFIG_DIR": str(tmp_path / "config")}
    refuses = gate(environ, work).refusal
    assert refuses(above, work, "project") is None
    if os.geteuid() == 0:
        for file in (above, own):
            os.chown(file, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert "another user" in str(refuses(above, work, "project"))
    assert refuses(own, work, "project") is None
    above.unlink()
    above.symlink_to("/etc/hostname" if os.geteuid() == 0 else own)
    if os.geteuid() == 0:
        os.chown(above, 4321, -1, follow_symlinks=False)
    assert refuses(above, work, "project") is not None


def test_settings_that_another_user_put_above_the_folder_make_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "shared" / "work"
    work.mkdir(parents=True)
    own = tmp_path / "shared" / ".claude"
    own.mkdir()
    (own / "settings.json").write_text("{}", "utf-8")
    home, config = tmp_path / "home", tmp_path / "config"
    assert project_root(work, home, config) == work.parent
    if os.geteuid() == 0:
        os.chown(own, 4321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert project_root(work, home, config) == work
    assert project_root(work.parent, home, config) == work.parent
