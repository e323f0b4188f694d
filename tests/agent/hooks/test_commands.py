"""`clew hooks` as a process: lists hooks, and shows what they would return."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.agent.hooks.events import EVENTS
from clew.system.config.layers import NOT_TRUSTED
from tests.fronts.headless.clew_process import clew

Json = dict[str, Any]


def hooks(home: Path, *args: str, **more: Any) -> Any:
    return clew(home, "http://127.0.0.1:1", "hooks", *args, **more)


def settings(home: Path, value: Json, *, of: str = "config") -> None:
    path = home / of / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def trust(home: Path) -> None:
    store = home / "config" / "clew" / "trust.json"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps({"folders": [str((home / "work").resolve())]}), "utf-8")


def at(event: str, command: str, **more: Any) -> Json:
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": command} | more]}]}}


@pytest.mark.parametrize("event", [e.name for e in EVENTS])
def test_a_configuration_for_any_event_is_tried_as_it_stands(tmp_path: Path, event: str) -> None:
    settings(tmp_path, at(event, 'cat >input; echo \'{"systemMessage": "seen"}\''))
    done = hooks(tmp_path, "test", event, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert [h["exit_code"] for h in said["hooks"]] == [0]
    given = json.loads((tmp_path / "work" / "input").read_text("utf-8"))
    row = next(e for e in EVENTS if e.name == event)
    assert given["hook_event_name"] == event
    assert given.items() >= row.example.items()
    assert {"session_id", "transcript_path", "cwd"} <= given.keys()
    assert ("permission_mode" in given) is row.has_mode
    assert said["outcome"].get("people read") == (["seen"] if row.may_tell else None)


def test_a_denial_is_shown_with_its_reason(tmp_path: Path) -> None:
    settings(tmp_path, at("PreToolUse", "echo no >&2; exit 2"))
    done = hooks(tmp_path, "test", "PreToolUse", '{"tool_input": {}}')
    assert "permission: deny\nreason: no\n" in done.stdout
    assert "  stderr: no\n" in done.stdout


def test_the_input_may_be_piped_in(tmp_path: Path) -> None:
    settings(tmp_path, at("UserPromptSubmit", "grep -o purple"))
    done = hooks(tmp_path, "test", "UserPromptSubmit", "-", input='{"prompt": "a purple one"}')
    assert "UserPromptSubmit hook: purple" in done.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["test", "PreTooluse"], 'unknown event "PreTooluse" (did you mean "PreToolUse"?)'),
        (["test", "zzz"], "clew hooks events"),
        (["test", "Stop", "{"], "not valid JSON"),
        (["test", "Stop", "[]"], "JSON object"),
        (["test", "PreToolUse", '{"tool_input": 7}'], "tool_input an object"),
    ],
)
def test_what_cannot_be_tried_is_said(tmp_path: Path, args: list[str], told: str) -> None:
    done = hooks(tmp_path, *args)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize("trusted", [False, True])
def test_the_hooks_of_a_folder_are_tried_once_it_is_trusted(tmp_path: Path, trusted: bool) -> None:
    (tmp_path / "work").mkdir()
    settings(tmp_path, at("Stop", "touch ran"), of="work/.claude")
    if trusted:
        trust(tmp_path)
    done = hooks(tmp_path, "test", "Stop")
    listed = hooks(tmp_path, "list")
    assert (tmp_path / "work" / "ran").exists() is trusted
    assert (f"not run because {NOT_TRUSTED}" in done.stderr) is not trusted
    assert (f"ignored because {NOT_TRUSTED}" in listed.stdout) is not trusted
    assert ("Stop  command: touch ran  [" in listed.stdout) is trusted


def test_a_list_without_hooks_says_so(tmp_path: Path) -> None:
    assert hooks(tmp_path, "list").stdout.startswith("no active hooks; ")


def test_faults_are_listed_with_their_line_and_the_exit_code_says_so(tmp_path: Path) -> None:
    settings(tmp_path, at("Stop", "true") | {"disableAllHooks": True})
    assert "off: disableAllHooks (user)" in hooks(tmp_path, "list").stdout
    settings(tmp_path, at("Stopp", "true"))
    done = hooks(tmp_path, "list")
    assert done.returncode == 1
    assert (
        'settings.json:1: hooks.Stopp[0].hooks[0]: unknown event (did you mean "Stop"?)'
        in done.stderr
    )


def test_a_hook_that_needs_a_model_or_a_server_says_that_there_is_none(tmp_path: Path) -> None:
    handlers = [
        {"type": "prompt", "prompt": "Is it?"},
        {"type": "agent", "prompt": "Look"},
        {"type": "mcp_tool", "server": "s", "tool": "t"},
    ]
    settings(tmp_path, {"hooks": {"Stop": [{"hooks": handlers}]}})
    said = json.loads(hooks(tmp_path, "test", "Stop", "--json").stdout)
    assert [h["trouble"] for h in said["hooks"]] == [
        "prompt hooks can't run here: no model is available",
        "agent hooks can't run here: no agent is available",
        'MCP server "s" is not connected',
    ]
    assert said["outcome"].keys() == {"people read"}
