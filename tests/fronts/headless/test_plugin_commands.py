"""Commands of plugins that run their own scripts, as the published ralph-loop does."""

import json
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew

HELLO = {"scenario": 1, "answers": [{"text": "Hello!", "times": "always"}]}
COMMAND = """---
description: Begin a loop
allowed-tools: ["Bash({rule}:*)"]
---
```!
"${{CLAUDE_PLUGIN_ROOT}}/scripts/begin.sh" $ARGUMENTS
```
Now work on it.
"""


def write_plugin(folder: Path, rule: str) -> Path:
    plugin = folder / "plugin"
    for name, text in {
        ".claude-plugin/plugin.json": '{"name": "loop"}',
        "commands/begin.md": COMMAND.format(rule=rule),
        "scripts/begin.sh": '#!/bin/sh\necho "begun with $#: $*"\n',
    }.items():
        path = plugin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (plugin / "scripts" / "begin.sh").chmod(0o755)
    return plugin


def test_a_command_may_allow_the_scripts_of_its_plugin(tmp_path: Path) -> None:
    plugin = write_plugin(tmp_path, "${CLAUDE_PLUGIN_ROOT}/scripts/begin.sh")
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "-p", "/loop:begin a b", "--plugin-dir", str(plugin))
        body = json.dumps(server.requests[0].body)
    assert (done.stdout, done.stderr) == ("Hello!\n", "")
    assert "begun with 2: a b" in body


@pytest.mark.parametrize("rule", ["${CLAUDE_PLUGIN_ROOT}/scripts/other.sh", "${OTHER}/begin.sh"])
def test_it_allows_nothing_else(tmp_path: Path, rule: str) -> None:
    plugin = write_plugin(tmp_path, rule)
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "-p", "/loop:begin a b", "--plugin-dir", str(plugin))
    assert "was denied" in done.stderr
    assert done.returncode != 0


def test_without_a_plugin_its_folder_is_no_root_of_the_system(tmp_path: Path) -> None:
    """In a skill without a plugin, the variable must not disappear from its rules."""
    skill = tmp_path / "config" / "commands" / "begin.md"
    skill.parent.mkdir(parents=True)
    rule = "${CLAUDE_PLUGIN_ROOT}/usr/bin/touch"
    skill.write_text(
        f'---\nallowed-tools: ["Bash({rule}:*)"]\n---\n!`/usr/bin/touch made`\n', "utf-8"
    )
    with serving(HELLO) as server:
        done = clew(tmp_path, server.url, "-p", "/begin")
    assert "was denied" in done.stderr
    assert not (tmp_path / "work" / "made").exists()


def test_a_hook_that_denies_by_a_message_alone_gives_the_model_this_message(tmp_path: Path) -> None:
    reply = {
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"},
        "systemMessage": "Do not echo.",
    }
    hook = {"type": "command", "command": f"echo '{json.dumps(reply)}'"}
    settings = {"hooks": {"PreToolUse": [{"hooks": [hook]}]}}
    answers = [
        {"content": [{"tool": "Bash", "input": {"command": "echo hi"}}]},
        {"text": "Hello!"},
    ]
    with serving({"scenario": 1, "answers": answers}) as server:
        clew(tmp_path, server.url, "-p", "hi", "--settings", json.dumps(settings))
        told = json.dumps(server.requests[-1].body["messages"][-1])
    assert "PreToolUse:Bash hook error: Do not echo." in told
