"""Updates of permission: read whole or not at all, and put where they were asked to stand."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.errors import SettingsError
from clew.permissions.decision import verdict
from clew.permissions.in_session import SessionRules
from clew.permissions.updates import (
    UnreadableUpdates,
    Update,
    make_rule_update,
    read_updates,
    spelled,
    with_update,
)


def updates(*given: dict[str, Any]) -> tuple[Update, ...]:
    found = read_updates(list(given))
    assert not isinstance(found, UnreadableUpdates), found.why
    return found


def rules(home: Path) -> SessionRules:
    work = home / "work"
    work.mkdir(exist_ok=True)
    return SessionRules({"HOME": str(home)}, work, mode=None, command_line=None)


def judged(held: SessionRules, command: str) -> str:
    return verdict(held.judge("Bash", {"command": command}, cwd=str(held.standing.places.cwd)))


ALLOW_MAKE = make_rule_update(["Bash(ship *)"], "session")


def test_a_rule_is_spelled_in_two_parts_and_back() -> None:
    assert spelled("Bash(git log *)") == {"toolName": "Bash", "ruleContent": "git log *"}
    assert spelled("WebSearch") == {"toolName": "WebSearch"}
    (update,) = updates(make_rule_update(["Bash(echo (a))", "Read"], "session"))
    assert with_update({}, update) == {"permissions": {"allow": ["Bash(echo (a))", "Read"]}}


@pytest.mark.parametrize(
    "bad",
    [
        "addRules",
        [{"type": "addAnything"}],
        ["addRules"],
        [{"type": "addRules", "rules": [{}], "behavior": "allow", "destination": "session"}],
        [{"type": "setMode", "mode": 7, "destination": "session"}],
        [ALLOW_MAKE, {"type": "addDirectories", "directories": "x", "destination": "session"}],
        [{"type": "setMode", "mode": "plan", "destination": "everywhere"}],
    ],
)
def test_one_bad_update_voids_the_list(bad: Any) -> None:
    assert isinstance(read_updates(bad), UnreadableUpdates)


def test_lists_are_added_to_taken_from_and_replaced() -> None:
    rule = [{"toolName": "Read"}]
    said = {"type": "addRules", "rules": rule, "behavior": "deny", "destination": "session"}
    add, remove, put = updates(
        said, said | {"type": "removeRules"}, said | {"type": "replaceRules"}
    )
    start = {"permissions": {"deny": ["Edit"], "ask": ["Bash"]}, "model": "x"}
    assert with_update(start, add)["permissions"] == {"deny": ["Edit", "Read"], "ask": ["Bash"]}
    assert with_update(with_update(start, add), remove) == start
    assert with_update(start, put)["permissions"]["deny"] == ["Read"]
    assert with_update({"permissions": 3}, add) == {"permissions": {"deny": ["Read"]}}
    assert with_update({"permissions": {"deny": 3}}, add) == {"permissions": {"deny": ["Read"]}}
    (mode,) = updates({"type": "setMode", "mode": "plan", "destination": "localSettings"})
    assert with_update({}, mode) == {"permissions": {"defaultMode": "plan"}}
    (folder,) = updates({"type": "addDirectories", "directories": ["/a"], "destination": "session"})
    assert with_update({}, folder) == {"permissions": {"additionalDirectories": ["/a"]}}


def test_a_rule_for_the_session_holds_at_once_and_no_file_is_written(tmp_path: Path) -> None:
    held = rules(tmp_path)
    assert judged(held, "ship it") == "ask"
    held.update(updates(ALLOW_MAKE))
    assert judged(held, "ship it") == "allow"
    assert not list(tmp_path.rglob("*.json"))
    held.update(updates(ALLOW_MAKE | {"type": "removeRules"}))
    assert judged(held, "ship it") == "ask"


def test_a_rule_for_the_project_is_written_and_other_bytes_stay(tmp_path: Path) -> None:
    held = rules(tmp_path)
    file = held.standing.places.local_settings
    file.parent.mkdir(parents=True)
    file.write_text('{\n  "odd":   1,\n  "permissions": {"deny": ["WebFetch"]}\n}\n', "utf-8")
    held.update(updates(make_rule_update(["Bash(ship *)"], "localSettings")))
    assert judged(held, "ship it") == "allow"
    text = file.read_text("utf-8")
    assert '"odd":   1,' in text
    assert json.loads(text)["permissions"] == {"deny": ["WebFetch"], "allow": ["Bash(ship *)"]}


def test_a_mode_is_entered_or_refused_with_the_reason(tmp_path: Path) -> None:
    held = rules(tmp_path)
    held.update(updates({"type": "setMode", "mode": "acceptEdits", "destination": "session"}))
    assert held.mode == "acceptEdits"
    assert held.set_mode("manual") == "default"
    with pytest.raises(SettingsError, match="unknown mode"):
        held.set_mode("everything")
    bad = {"type": "setMode", "mode": "everything", "destination": "session"}
    with pytest.raises(SettingsError, match="unknown mode"):
        held.update(updates(ALLOW_MAKE, bad))
    assert judged(held, "ship it") == "ask", "the whole list is void"


def test_a_rule_that_is_none_is_refused_and_a_broken_file_is_not_written(tmp_path: Path) -> None:
    held = rules(tmp_path)
    with pytest.raises(SettingsError, match="Ba sh"):
        held.update(updates(make_rule_update(["Ba sh(ship)"], "session")))
    file = held.standing.places.local_settings
    file.parent.mkdir(parents=True)
    file.write_text("{half", "utf-8")
    with pytest.raises(SettingsError):
        held.update(updates(make_rule_update(["Bash(ship *)"], "localSettings")))
    assert file.read_text("utf-8") == "{half"
