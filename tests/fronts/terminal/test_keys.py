"""The user's own key bindings: what they may contain, and which errors are reported."""

import json

import pytest

from clew.fronts.terminal.families import FAMILIES, Family
from clew.fronts.terminal.keys import ACTIONS, bindings, chord, hidden
from tests.requirements import requirement


def own(context: str = "Chat", **keys: str | None) -> str:
    return json.dumps({"bindings": [{"context": context, "bindings": keys}]})


def test_every_action_has_a_key_that_terminals_send_and_none_hides_another() -> None:
    assert all(chord(key) for action in ACTIONS for key in action.keys)
    assert bindings().faults == ()


@requirement("R216")
@pytest.mark.parametrize(
    ("spelled", "keys"),
    [
        ("ctrl+x ctrl+e", ("c-x", "c-e")),
        ("Alt+P", ("escape", "p")),
        ("shift+tab", ("s-tab",)),
        ("ctrl+m", ("c-m",)),
        ("ctrl+left", ("c-left",)),
        ("ctrl+shift+left", ("c-s-left",)),
        ("shift+a", ("A",)),
        ("space", (" ",)),
        ("f5", ("f5",)),
        ("cmd+k", None),
        ("ctrl+ü", None),
        ("alt+ctrl+é", None),
        ("nokey", None),
        ("", None),
    ],
)
def test_keys_are_read_as_people_write_them(spelled: str, keys: tuple[str, ...] | None) -> None:
    assert chord(spelled) == keys


@requirement("R216")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (own(**{"ctrl+y": "chat:sumbit"}), "unknown action 'chat:sumbit'"),
        (own(**{"cmd+y": "chat:submit"}), "terminals can't send this key"),
        (own(**{"ctrl+c": "chat:submit"}), "reserved for app:interrupt"),
        (own(**{"tab": "chat:submit", "ctrl+i": "chat:newline"}), "duplicate of 'tab'"),
        (own(**{"ctrl+x": "chat:submit"}), "conflicts with 'ctrl+x ctrl+e'"),
        (own(**{"ctrl+y": "select:next"}), "only available in Select"),
        (own("Chatt", **{"ctrl+y": "chat:submit"}), "unknown context 'Chatt'"),
        ('{"bindings": {}}', "expected an array"),
        ('{"bindings": [{"context": "Chat"}]}', "that maps keys to actions"),
        ('{"bindings": [{"context": "Chat", "bindings": {"f2": 3}}]}', "action name"),
        ("{", "invalid JSON"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(text: str, fault: str) -> None:
    found = bindings(text)
    assert any(fault in each for each in found.faults)
    assert bindings().keys_of("chat:submit")[0] in found.keys_of("chat:submit") or "tab" in text


def test_keys_are_added_taken_away_and_joined_to_commands() -> None:
    found = bindings(own(**{"f2": "command:cost", "f3": "/model opus", "ctrl+s": None}))
    assert found.faults == ()
    assert found.keys_of("/cost") == ("f2",)
    assert found.keys_of("/model opus") == ("f3",)
    assert found.keys_of("chat:stash") == ()


@requirement("R296")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_of_terminals_adds_keys_that_hide_no_other(family: Family) -> None:
    for sign in family.signs:
        name, _, value = sign.partition("=")
        found = bindings("", {name: value or "1"})
        assert found.faults == ()
        assert hidden(found.bound) == []
        for action, keys in family.keys.items():
            assert found.keys_of(action)[: len(keys)] == keys
            assert set(bindings().keys_of(action)) <= set(found.keys_of(action))
            assert all(chord(key) for key in keys)
    assert bindings("", {"TERM": "xterm", "TERM_PROGRAM": "other"}).bound == bindings().bound
