"""Requests of a host to a running session: settings, rules, hooks, files, servers."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from tests.agent.context.test_git import run_git
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.parts.mcp.yard import entry

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
    settings = done(host, "get_settings")
    assert settings["effective"]["model"] == "haiku"
    assert settings["sources"][-1] == {"source": "flagSettings", "settings": rule}
    assert settings["applied"]["effort"] == "low"
    done(host, "apply_flag_settings", settings={"permissions": None, "effortLevel": None})
    assert done(host, "list_permission_rules")["state"]["rules"] == []
    assert "permissions" in refused(host, "apply_flag_settings", settings={"permissions": 3})
    assert "low, medium" in refused(host, "apply_flag_settings", settings={"effortLevel": "x"})
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


def test_hooks_are_listed_as_a_user_is_shown_them(host: Hosted) -> None:
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
    assert "outside the session's" in refused(host, "register_repo_root", directory="/")
    assert "not found" in refused(host, "register_repo_root", directory="gone")


def test_files_are_read_by_the_rules(host: Hosted, tmp_path: Path) -> None:
    said = done(host, "read_file", path="a.txt")
    assert (said["contents"], said["lossy"]) == ("one é\n", False)
    assert said["absPath"] == str(tmp_path / "work" / "a.txt")
    assert done(host, "read_file", path="a.txt", max_bytes=3)["truncated"] is True
    assert done(host, "read_file", path="b.bin")["lossy"] is True
    raw = done(host, "read_file", path="b.bin", encoding="base64")
    assert base64.b64decode(raw["contents"]) == b"\xff\x00"
    assert "not found" in refused(host, "read_file", path="gone.txt")
    assert "expected a non-empty string" in refused(host, "read_file", path="")
    assert "non-negative integer" in refused(host, "read_file", path="a.txt", max_bytes="x")
    done(host, "apply_flag_settings", settings={"permissions": {"deny": ["Read(a.txt)"]}})
    assert "permission rules" in refused(host, "read_file", path="a.txt")


SWAPS = """
import os, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    os.rename("open", "aside"); os.rename("link", "open")
    os.rename("open", "link"); os.rename("aside", "open")
"""


def test_a_folder_that_becomes_a_link_all_the_time_shows_no_denied_file(
    host: Hosted, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    for folder, text in (("open", "plain"), ("vault", "a treasure")):
        (work / folder).mkdir()
        (work / folder / "note").write_text(text, "utf-8")
    (work / "link").symlink_to("vault")
    done(host, "apply_flag_settings", settings={"permissions": {"deny": ["Read(vault/**)"]}})
    with subprocess.Popen([sys.executable, "-c", SWAPS, "30"], cwd=work) as swaps:
        said = [host.ask("read_file", path="open/note") for _ in range(SWAPPED_READS)]
        swaps.terminate()
    assert "a treasure" not in json.dumps(said)
    assert "plain" in json.dumps(said)


# Enough that each of 20 trials found the file when it was opened by its name.
SWAPPED_READS = 400


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
    assert "not found on any" in refused(host, "mcp_call", tool="mcp__calc__nothing")
    assert "must be mcp__" in refused(host, "mcp_call", tool="Bash", arguments={})
    said = done(host, "mcp_set_servers", servers={})
    assert sorted(said["removed"]) == ["calc", "gone"]
    assert done(host, "mcp_status")["mcpServers"] == []
    assert "not found on any" in refused(host, "mcp_call", tool="mcp__calc__echo")


def test_what_the_session_used_is_reported(host: Hosted) -> None:
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
            assert "invalid environment variable" in errors["a"]
        assert host.ask("mcp_set_servers", servers={})["response"]["removed"] == ["a"]
        host.say("hi")
        assert not host.result()["is_error"]
        assert host.end() == 0


def test_files_are_suggested_by_a_part_of_their_name(host: Hosted) -> None:
    assert done(host, "file_suggestions", query="a.t") == {"suggestions": [{"path": "a.txt"}]}
    top = done(host, "file_suggestions", query="")["suggestions"]
    assert {"path": "a.txt"} in top
    assert "expected a string" in refused(host, "file_suggestions")


def test_a_title_is_made_by_the_model_for_small_work_and_kept_on_wish(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"text": '"Dates of the\n parser"', "times": "always"}]}
    with serving(plan, strict=True) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        titled = {"title": "Dates of the parser"}
        assert done(host, "generate_session_title", description="mend the dates") == titled
        assert "haiku" in server.requests[0].body["model"]
        assert "mend the dates" in json.dumps(server.requests[0].body["messages"])
        host.say("go")
        host.until(lambda frame: frame["type"] == "result")
        assert '"ai-title"' not in written(tmp_path)
        done(host, "generate_session_title", description="mend the dates", persist=True)
        assert "expected a non-empty string" in refused(
            host, "generate_session_title", description=" "
        )
        assert host.end() == 0
    assert '"aiTitle":"Dates of the parser"' in written(tmp_path)


def test_no_title_comes_of_a_service_that_fails(tmp_path: Path) -> None:
    plan = {"scenario": 1, "answers": [{"status": 400, "times": "always"}]}
    with serving(plan) as server, Hosted(tmp_path, server.url) as host:
        host.ask("initialize")
        assert done(host, "generate_session_title", description="x") == {"title": None}


def written(home: Path) -> str:
    (path,) = transcripts(home)
    return path.read_text("utf-8")


def test_styles_and_plugins_are_looked_for_while_the_session_runs(
    host: Hosted, tmp_path: Path
) -> None:
    styles = tmp_path / "config" / "output-styles"
    styles.mkdir(parents=True)
    (styles / "terse.md").write_text("Few words.", "utf-8")
    assert "terse" in done(host, "reload_output_styles")["available_output_styles"]
    assert "terse" in done(host, "initialize")["available_output_styles"]

    plugin = tmp_path / "kit"
    said = done(host, "reload_plugins")
    assert (said["plugins"], said["error_count"], "held" in said) == ([], 0, False)
    assert "absolute path" in refused(host, "reload_plugins", add_plugins=[{"path": "kit"}])
    make_plugin(plugin, tool="one")
    said = done(
        host,
        "reload_plugins",
        add_plugins=[{"type": "local", "path": str(plugin)}],
        hold_on_cache_impact=True,
    )
    assert [(one["name"], one["path"]) for one in said["plugins"]] == [("kit", str(plugin))]
    assert "kit:greet" in [one["name"] for one in said["commands"]]
    assert "kit:helper" in [one["name"] for one in said["agents"]]
    assert [(one["name"], one["status"]) for one in said["mcpServers"]] == [
        ("plugin:kit:notes", "connected")
    ]
    assert said["held"] is False
    hooks = tmp_path / "hooked"
    host.say("go")
    host.until(lambda frame: frame["type"] == "result")
    assert hooks.read_text("utf-8") == "stop\n"

    (plugin / "commands" / "greet.md").unlink()
    (plugin / "hooks" / "hooks.json").unlink()
    (plugin / ".mcp.json").unlink()
    said = done(host, "reload_plugins")
    assert "kit:greet" not in [one["name"] for one in said["commands"]]
    assert said["mcpServers"] == []
    host.say("again")
    host.until(lambda frame: frame["type"] == "result")
    assert hooks.read_text("utf-8") == "stop\n"


def make_plugin(folder: Path, *, tool: str) -> None:
    """A plugin with a part of each kind."""
    stop = {"type": "command", "command": f"echo stop >> {folder.parent}/hooked"}
    config = entry("tools")
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "kit", "version": "1.2"}),
        "commands/greet.md": "---\ndescription: greets\n---\nSay hello.",
        "agents/helper.md": "---\nname: helper\ndescription: helps\n---\nYou help.",
        "hooks/hooks.json": json.dumps({"hooks": {"Stop": [{"hooks": [stop]}]}}),
        ".mcp.json": json.dumps({"mcpServers": {"notes": config}}),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def test_plugins_are_not_exchanged_under_a_turn_where_the_host_minds(tmp_path: Path) -> None:
    plan = {
        "scenario": 1,
        "answers": [{"text": "x", "faults": [{"after_events": 3, "stall_s": "forever"}]}],
    }
    with serving(plan) as server, Hosted(tmp_path, server.url) as host:
        done(host, "initialize")
        host.say("go")
        host.until(lambda frame: frame.get("subtype") == "init")
        said = host.ask("reload_plugins", refuse_if_busy=True)
        assert (said["subtype"], said["error_code"]) == ("error", "reload_plugins_busy")
        assert done(host, "reload_plugins")["plugins"] == []


def test_what_has_changed_in_the_folder_is_told_by_the_rules_and_within_bounds(
    host: Hosted, tmp_path: Path
) -> None:
    assert done(host, "get_workspace_diff") == {"diff": None, "noDiffReason": "no-repository"}
    work = tmp_path / "work"
    run_git(work, "init", "-b", "main")
    (work / "secret.txt").write_text("before\n", "utf-8")
    run_git(work, "add", ".")
    run_git(work, "commit", "-m", "begin")
    nothing = done(host, "get_workspace_diff")["diff"]
    assert (nothing["stats"]["filesCount"], nothing["perFileStats"]) == (0, [])
    (work / "a.txt").write_text("two é\n", "utf-8")
    (work / "secret.txt").write_text("the secret\n", "utf-8")
    (work / "large.txt").write_text("long line\n" * 20_000, "utf-8")
    for number in range(510):
        (work / "sub" / f"{number:03}.txt").write_text("x\n", "utf-8")
    done(host, "apply_flag_settings", settings={"permissions": {"deny": ["Read(secret.txt)"]}})
    found = done(host, "get_workspace_diff")["diff"]
    assert found["source"] == {"kind": "working-tree"}
    files = {one["path"]: one for one in found["perFileStats"]}
    assert files["a.txt"] == {
        "path": "a.txt",
        "added": 1,
        "removed": 1,
        "isBinary": False,
        "isUntracked": False,
        "status": "modified",
    }
    assert files["large.txt"]["added"] == 20_000
    assert (files["sub/000.txt"]["isUntracked"], files["sub/000.txt"]["status"]) == (True, "added")
    (hunks,) = [one["hunks"] for one in found["hunks"] if one["path"] == "a.txt"]
    assert hunks == [
        {
            "oldStart": 1,
            "oldLines": 1,
            "newStart": 1,
            "newLines": 1,
            "lines": ["-one é", "+two é"],
        }
    ]
    assert found["restricted"] == ["secret.txt"]
    assert "the secret" not in json.dumps(found)
    assert found["skippedLarge"] == ["large.txt"]
    # Two that git knows and 500 of those it does not; it was not looked how many more there are.
    assert (len(files), found["omitted"]) == (500, {"files": 2, "exact": False})
    run_git(work, "add", ".")
    run_git(work, "mv", "b.bin", "c.bin")
    known = done(host, "get_workspace_diff")["diff"]
    assert (known["stats"]["filesCount"], known["omitted"]) == (514, {"files": 14, "exact": True})
    renamed = next(one for one in known["perFileStats"] if one["path"] == "c.bin")
    assert (renamed["previousPath"], renamed["newPath"]) == ("b.bin", "c.bin")


def test_a_session_is_given_a_color_and_keeps_it(host: Hosted, tmp_path: Path) -> None:
    assert done(host, "set_color", color="orange") == {"color": "orange"}
    assert "red, " in refused(host, "set_color", color="mauve")
    assert "red, " in refused(host, "set_color")
    host.say("hi")
    host.result()
    done(host, "set_color", color="default")
    assert host.end() == 0
    (path,) = transcripts(tmp_path)
    written = path.read_text("utf-8").splitlines()
    colors = [json.loads(line)["agentColor"] for line in written if "agent-color" in line]
    assert colors == ["orange", "default"]


def test_whether_anybody_looks_on_changes_nothing(host: Hosted) -> None:
    assert done(host, "set_has_subscribers", has_subscribers=False) == {}
    assert "expected true" in refused(host, "set_has_subscribers", has_subscribers="no")
