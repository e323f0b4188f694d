"""What a host asks of a session that runs: settings, rules, hooks, files, servers."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.headless.host_process import Hosted
from tests.mcp.yard import entry

Json = dict[str, Any]
EDITS = {
    "scenario": 1,
    "answers": [
        {
            "content": [
                {
                    "tool": "Edit",
                    "input": {"file_path": "a.txt", "old_string": "one", "new_string": "two"},
                }
            ]
        },
        {"text": "Done.", "times": "always"},
    ],
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hosted]:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "a.txt").write_text("one é\n", "utf-8")
    (work / "b.bin").write_bytes(b"\xff\x00")
    with (
        serving(EDITS, strict=True) as server,
        Hosted(tmp_path, server.url, "--permission-mode", "acceptEdits") as host,
    ):
        host.ask("initialize")
        yield host


def done(host: Hosted, subtype: str, **fields: Any) -> Json:
    said = host.ask(subtype, **fields)
    assert said["subtype"] == "success", said
    response: Json = said["response"]
    return response


def refused(host: Hosted, subtype: str, **fields: Any) -> str:
    said = host.ask(subtype, **fields)
    assert said["subtype"] == "error", said
    return str(said["error"])


def test_settings_of_the_session_stand_above_the_files(host: Hosted) -> None:
    rule = {"permissions": {"deny": ["Bash(rm *)"]}, "model": "haiku", "effortLevel": "low"}
    assert done(host, "apply_flag_settings", settings=rule) == {"warnings": []}
    state = done(host, "list_permission_rules")["state"]
    assert {"behavior": "deny", "rule": "Bash(rm *)", "source": "flagSettings"} in state["rules"]
    assert done(host, "get_settings")["settings"]["model"] == "haiku"
    done(host, "apply_flag_settings", settings={"permissions": None, "effortLevel": None})
    assert done(host, "list_permission_rules")["state"]["rules"] == []
    assert "permissions" in refused(host, "apply_flag_settings", settings={"permissions": 3})
    assert "there are low" in refused(host, "apply_flag_settings", settings={"effortLevel": "x"})
    assert "expected an object" in refused(host, "apply_flag_settings", settings=[])


def test_the_few_keys_a_host_may_write_are_written(host: Hosted, tmp_path: Path) -> None:
    done(host, "update_settings", source="localSettings", settings={"outputStyle": "Terse"})
    path = tmp_path / "work" / ".claude" / "settings.local.json"
    assert json.loads(path.read_text("utf-8")) == {"outputStyle": "Terse"}
    for source, settings in (
        ("localSettings", {"hooks": {}}),
        ("userSettings", {"model": "opus"}),
        ("projectSettings", {"outputStyle": "Terse"}),
    ):
        refused(host, "update_settings", source=source, settings=settings)
    assert not (tmp_path / "config" / "settings.json").exists()


def test_hooks_are_listed_as_a_person_is_shown_them(host: Hosted) -> None:
    hook = {"type": "command", "command": "echo seen", "timeout": 5}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    done(host, "apply_flag_settings", settings=settings)
    found = done(host, "get_hooks_listing")
    (event,) = found["events"]
    assert (event["name"], event["hookCount"], event["supportsMatcher"]) == ("PreToolUse", 1, True)
    (row,) = found["hooks"]
    assert (row["matcher"], row["commandText"], row["timeout"]) == ("Bash", "echo seen", 5)
    assert len(found["eventCatalog"]) > 20


def test_a_folder_inside_becomes_one_of_the_sessions(host: Hosted, tmp_path: Path) -> None:
    sub = str(tmp_path / "work" / "sub")
    assert done(host, "register_repo_root", directory="sub") == {"directory": sub}
    assert "already" in refused(host, "register_repo_root", directory=sub)
    assert "none of the session's" in refused(host, "register_repo_root", directory="/")
    assert "is no folder" in refused(host, "register_repo_root", directory="gone")


def test_files_are_read_by_the_rules(host: Hosted, tmp_path: Path) -> None:
    said = done(host, "read_file", path="a.txt")
    assert (said["contents"], said["lossy"]) == ("one é\n", False)
    assert said["absPath"] == str(tmp_path / "work" / "a.txt")
    assert done(host, "read_file", path="a.txt", max_bytes=3)["truncated"] is True
    assert done(host, "read_file", path="b.bin")["lossy"] is True
    raw = done(host, "read_file", path="b.bin", encoding="base64")
    assert base64.b64decode(raw["contents"]) == b"\xff\x00"
    assert "no such file" in refused(host, "read_file", path="gone.txt")
    assert "expected a text" in refused(host, "read_file", path="")
    assert "expected a number" in refused(host, "read_file", path="a.txt", max_bytes="x")
    done(host, "apply_flag_settings", settings={"permissions": {"deny": ["Read(a.txt)"]}})
    assert "do not allow" in refused(host, "read_file", path="a.txt")


@pytest.mark.parametrize("is_known", [True, False])
def test_an_edit_may_rely_on_what_the_host_has_seen(
    host: Hosted, tmp_path: Path, is_known: bool
) -> None:
    path = tmp_path / "work" / "a.txt"
    mtime = path.stat().st_mtime_ns // 1_000_000 - (0 if is_known else 5000)
    assert done(host, "seed_read_state", path="a.txt", mtime=mtime) == {"seeded": is_known}
    host.say("edit it")
    host.result()
    assert path.read_text("utf-8") == ("two é\n" if is_known else "one é\n")


def test_servers_are_put_in_called_and_taken_out(host: Hosted) -> None:
    servers = {"calc": entry("honest"), "gone": {"command": "no-such-program-here"}}
    said = done(host, "mcp_set_servers", servers=servers)
    assert (sorted(said["added"]), said["removed"]) == (["calc", "gone"], [])
    assert list(said["errors"]) == ["gone"]
    names = {server["name"]: server for server in done(host, "mcp_status")["mcpServers"]}
    tools = [tool["name"] for tool in names["calc"]["tools"]]
    assert "echo" in tools, tools
    called = done(host, "mcp_call", tool="mcp__calc__echo", arguments={"text": "hello"})
    assert "hello" in json.dumps(called["content"])
    assert "there is no tool" in refused(host, "mcp_call", tool="mcp__calc__nothing")
    assert "expected mcp__" in refused(host, "mcp_call", tool="Bash", arguments={})
    said = done(host, "mcp_set_servers", servers={})
    assert sorted(said["removed"]) == ["calc", "gone"]
    assert done(host, "mcp_status")["mcpServers"] == []
    assert "there is no tool" in refused(host, "mcp_call", tool="mcp__calc__echo")


def test_what_the_session_used_is_told(host: Hosted) -> None:
    host.say("hi")
    host.result()
    said = done(host, "get_usage")["session"]
    assert said["total_cost_usd"] > 0
    assert said["modelUsage"]


def test_an_environment_that_no_system_takes_is_said_and_ends_nothing(tmp_path: Path) -> None:
    with serving(EDITS, strict=True) as server, Hosted(tmp_path, server.url) as host:
        for env in ({"D": "\0"}, {"A=B": "c"}, {"": "c"}):
            servers = {"a": {"command": "true", "env": env}}
            errors = host.ask("mcp_set_servers", servers=servers)["response"]["errors"]
            # Each is begun in place of the one before, though it has the same name.
            assert "an environment cannot hold" in errors["a"]
        assert host.ask("mcp_set_servers", servers={})["response"]["removed"] == ["a"]
        host.say("hi")
        assert not host.result()["is_error"]
        assert host.end() == 0
