"""`clew mcp` as a user types it, and its effect on files and sessions."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.parts.mcp.test_sessions import calls, given, results
from tests.parts.mcp.yard import entry

NOWHERE = "http://127.0.0.1:1"


def mcp(home: Path, *args: str) -> tuple[int, str]:
    done = clew(home, NOWHERE, "mcp", *args)
    return done.returncode, done.stdout + done.stderr


def program(mode: str = "honest") -> list[str]:
    value = entry(mode)
    return [value["command"], *value["args"]]


def test_a_server_is_added_listed_shown_used_and_removed(tmp_path: Path) -> None:
    code, said = mcp(tmp_path, "add", "memo", "-e", "SECRET=hunter22hunter", "--", *program())
    assert code == 0, said
    path = tmp_path / "config" / "clew" / "mcp-projects.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (tmp_path / "work" / ".mcp.json").exists()
    code, said = mcp(tmp_path, "list")
    assert "memo:" in said
    assert "connected: 4 tools, 1 prompt, 2 resources" in said
    code, said = mcp(tmp_path, "get", "memo")
    assert code == 0
    assert "hunter22" not in said
    assert "tool echo: Does echo." in said
    with serving(calls(("mcp__memo__environment", {})), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__memo")
        assert results(server) == ["hunter22hunter"]
    assert mcp(tmp_path, "remove", "memo")[0] == 0
    code, said = mcp(tmp_path, "remove", "memo")
    assert code == 1
    assert "no MCP servers" in mcp(tmp_path, "list")[1]


def test_each_scope_has_its_file_and_every_other_byte_stays(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    before = '{\n  "model":   "haiku",\n\n  "env": {}\n}\n'
    (config / "settings.json").write_text(before, "utf-8")
    assert (
        mcp(tmp_path, "add", "-s", "user", "web", "https://x.example/mcp", "-H", "X-A: b")[0] == 0
    )
    after = (config / "settings.json").read_text("utf-8")
    assert json.loads(after)["mcpServers"]["web"] == {
        "type": "http",
        "url": "https://x.example/mcp",
        "headers": {"X-A": "b"},
    }
    assert '"model":   "haiku"' in after
    assert mcp(tmp_path, "add", "-s", "project", "memo", "--", *program())[0] == 0
    assert "memo" in json.loads((tmp_path / "work" / ".mcp.json").read_text("utf-8"))["mcpServers"]
    assert mcp(tmp_path, "add", "web", "-t", "sse", "https://y.example/sse")[0] == 0
    code, said = mcp(tmp_path, "remove", "web")
    assert code == 1
    assert "local, user" in said
    assert mcp(tmp_path, "remove", "web", "-s", "user")[0] == 0
    code, said = mcp(tmp_path, "get", "web", "--no-connect")
    assert "y.example/sse (sse)" in said


def test_an_entry_may_be_given_as_json(tmp_path: Path) -> None:
    value = json.dumps({"type": "http", "url": "https://x/${TEAM}/mcp"})
    assert mcp(tmp_path, "add-json", "web", value, "-s", "user")[0] == 0
    said = mcp(tmp_path, "list", "--no-connect")[1]
    assert "TEAM is not set" in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["add", "x"], "required"),
        (["add", "a/b", "prog"], "invalid server name"),
        (["add", "x", "prog", "-H"], ""),
        (["add", "-H", "A: b", "x", "prog"], "--header"),
        (["add", "-e", "novalue", "x", "prog"], "expected NAME=VALUE"),
        (["add", "-e", "A=b", "x", "https://x"], "--env and arguments"),
        (["add-json", "x", "{"], "add-json"),
        (["add-json", "x", '{"comand": "y"}'], 'did you mean "command"'),
        (["get", "x"], 'unknown server "x"'),
        (["approve", "x"], 'server "x" not found'),
        (["login", "x"], 'unknown server "x"'),
        (["nonsense"], 'unknown command "nonsense"; expected one of add,'),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, args: list[str], words: str) -> None:
    code, said = mcp(tmp_path, *args)
    if words:
        assert code in (1, 2)
        assert words in said


def test_a_projects_servers_are_approved_as_they_are_and_again_when_they_change(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".mcp.json").write_text(given(memo=entry("honest"), other=entry("honest")), "utf-8")
    assert clew(tmp_path, NOWHERE, "config", "trust").returncode == 0
    assert "needs approval" in mcp(tmp_path, "list")[1]
    assert mcp(tmp_path, "approve", "memo")[0] == 0
    assert mcp(tmp_path, "deny", "other")[0] == 0
    said = mcp(tmp_path, "list")[1]
    assert "connected" in said
    assert "rejected" in said
    with serving(calls(("mcp__memo__echo", {"text": "x"})), strict=True) as server:
        done = clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__memo")
        assert (done.stderr, results(server)) == ("", ["you said x"])
    changed: Any = entry("honest")
    changed["args"].append("--evil")
    (work / ".mcp.json").write_text(given(memo=changed), "utf-8")
    assert "needs approval" in mcp(tmp_path, "list")[1]
    mcp(tmp_path, "approve", "memo")
    assert mcp(tmp_path, "reset-project-choices")[0] == 0
    assert "needs approval" in mcp(tmp_path, "list")[1]


def test_what_other_tools_keep_is_used_and_never_written(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    kept = json.dumps({"mcpServers": {"memo": entry("honest")}, "theirs": [1, 2]})
    (config / ".claude.json").write_text(kept, "utf-8")
    with serving(calls(("mcp__memo__echo", {"text": "x"})), strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "mcp__memo")
        assert results(server) == ["you said x"]
    code, said = mcp(tmp_path, "remove", "memo")
    assert code == 1
    assert ".claude.json" in said
    assert (config / ".claude.json").read_text("utf-8") == kept


def test_an_administrators_word_stands_above_all(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    denied = {"deniedMcpServers": [{"serverName": "memo"}], "mcpServers": {"memo": entry("honest")}}
    (config / "settings.json").write_text(json.dumps(denied), "utf-8")
    assert "denied by deniedMcpServers" in mcp(tmp_path, "list")[1]


def test_the_model_does_not_add_servers_unasked(tmp_path: Path) -> None:
    plan = calls(("Bash", {"command": "clew mcp add evil -- sh"}))
    with serving(plan, strict=True) as server:
        clew(tmp_path, server.url, "-p", "go", "--allowedTools", "Bash(clew:*)")
        (result,) = results(server)
    assert "did not run" in result
