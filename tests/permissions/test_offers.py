"""Lasting answers allow the next call like this one, and are offered only if they do."""

from typing import Any

import pytest

from clew.permissions.request import Mode, PermissionRequest
from clew.permissions.suggest import list_lasting_answers
from clew.permissions.updates import ModeUpdate, RulesUpdate
from tests.permissions.world import World


def offered(world: World, tool: str, given: dict[str, Any], mode: Mode = "default") -> list[str]:
    decision = world.decide(tool, given, None, mode)
    found = list_lasting_answers(PermissionRequest(tool=tool, input=given), decision, mode)
    return [offer.words for offer in found]


def test_a_rule_is_offered_for_now_and_for_good(world: World) -> None:
    call = PermissionRequest(tool="Bash", input={"command": "make all && make test"})
    now, kept = list_lasting_answers(call, world.decide(call.tool, call.input), "default")
    assert (now.is_kept, kept.is_kept) == (False, True)
    assert isinstance(now.update, RulesUpdate)
    assert isinstance(kept.update, RulesUpdate)
    assert [rule.text for rule in now.update.rules] == ["Bash(make all *)", "Bash(make test *)"]
    assert kept.update.rules == now.update.rules
    assert (now.update.destination, kept.update.destination) == ("session", "localSettings")
    assert "Bash(make all *)" in now.words
    assert kept.words.startswith("always allow Bash(make all *), ")


def test_edits_are_offered_as_a_mode(world: World) -> None:
    call = PermissionRequest(tool="Edit", input={"file_path": "a.py"})
    (offer,) = list_lasting_answers(call, world.decide(call.tool, call.input), "default")
    assert isinstance(offer.update, ModeUpdate)
    assert offer.update.mode == "acceptEdits"


@pytest.mark.parametrize(
    ("tool", "given", "mode"),
    [
        ("Edit", {"file_path": ".git/config"}, "default"),
        ("Edit", {"file_path": "/elsewhere/x"}, "acceptEdits"),
        ("Edit", {"file_path": "/elsewhere/x"}, "default"),
        ("Edit", {}, "default"),
        ("Bash", {"command": "cat ~/.ssh/id_rsa"}, "default"),
        ("Bash", {"command": "rm -rf ."}, "default"),
        ("AskUserQuestion", {}, "default"),
    ],
)
def test_what_always_wants_a_user_is_offered_once_only(
    world: World, tool: str, given: dict[str, Any], mode: Mode
) -> None:
    assert offered(world, tool, given, mode) == []
