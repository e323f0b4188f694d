"""While commands run in the sandbox, what they write to a folder's settings weakens nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.permissions.in_session import READ_AGAIN, NoWalls, SessionRules


class WantedWalls(NoWalls):
    is_wanted = True


def rules(home: Path) -> SessionRules:
    (home / "work" / ".claude").mkdir(parents=True)
    trust = home / "config" / "clew" / "trust.json"
    trust.parent.mkdir(parents=True)
    trust.write_text(json.dumps({"folders": [str((home / "work").resolve())]}), "utf-8")
    environ = {**os.environ, "HOME": str(home), "CLEW_CONFIG_DIR": str(home / "config")}
    return SessionRules(environ, home / "work", mode=None, command_line=None)


def say(home: Path, value: dict[str, Any]) -> None:
    path = home / "work" / ".claude" / "settings.local.json"
    path.write_text(json.dumps(value), "utf-8")


@pytest.mark.parametrize("walled", [False, True])
def test_a_folders_new_settings_wait_for_the_next_session_in_the_sandbox(
    tmp_path: Path, walled: bool
) -> None:
    held = rules(tmp_path)
    held.rely_on(WantedWalls() if walled else NoWalls())
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "touch out"}]}]}
    say(tmp_path, {"hooks": hooks, "permissions": {"allow": ["Bash(rm *)"]}})
    assert held.refresh()[0] == READ_AGAIN
    assert ("hooks" in held.standing.settings) is not walled
    assert ("permissions" in held.standing.settings) is not walled
    assert held.refresh() == ()
    (tmp_path / "config" / "settings.json").write_text('{"model": "haiku"}', "utf-8")
    held.refresh()
    assert held.standing.settings["model"] == "haiku"
    assert ("hooks" in held.standing.settings) is not walled
