"""Settings passed by a parent program: which apply, and what is reported about the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.system.config.layers import keep_restrictions, merge, narrow_sandbox
from clew.system.config.load import CommandLineSettings, describe_faults, load_settings
from clew.system.config.paths import Places
from clew.system.config.settings import KEYS
from tests.system.config.test_settings import places, write

__all__ = ["places"]

EVERYTHING: dict[str, Any] = {
    "permissions": {
        "deny": ["Bash(rm:*)"],
        "ask": ["Bash"],
        "askAfterUntrusted": ["WebFetch"],
        "disableBypassPermissionsMode": "disable",
        "disableAutoMode": "disable",
        "allow": ["Bash"],
        "defaultMode": "bypassPermissions",
        "additionalDirectories": ["/"],
    },
    "sandbox": {
        "enabled": True,
        "failIfUnavailable": False,
        "filesystem": {"denyRead": ["/x"], "allowWrite": ["/"]},
        "network": {"deniedDomains": ["a.b"], "allowedDomains": ["*"]},
        "excludedCommands": ["git"],
    },
    "deniedMcpServers": [{"serverName": "x"}],
    "disabledMcpjsonServers": ["y"],
    "allowedMcpServers": [{"serverName": "z"}],
    "strictKnownMarketplaces": [],
    "allowManagedHooksOnly": True,
    "allowManagedPermissionRulesOnly": True,
    "availableModels": ["opus"],
    "availableModelsMatch": "exact",
    "deniedModels": ["haiku"],
    "disableSkillShellExecution": True,
    "enforceAvailableModels": False,
    "disableAutoMode": "disable",
    "allowedHttpHookUrls": [],
    "httpHookAllowedEnvVars": ["HOME"],
    "model": "opus",
    "env": {"A": "b"},
    "hooks": {},
    "nobody": "knows",
}


def test_only_what_takes_away_is_kept_and_the_rest_is_named() -> None:
    kept, rest = keep_restrictions(EVERYTHING)
    assert kept == {
        "permissions": {
            "deny": ["Bash(rm:*)"],
            "ask": ["Bash"],
            "askAfterUntrusted": ["WebFetch"],
            "disableBypassPermissionsMode": "disable",
            "disableAutoMode": "disable",
        },
        "sandbox": {
            "enabled": True,
            "filesystem": {"denyRead": ["/x"]},
            "network": {"deniedDomains": ["a.b"]},
        },
        "deniedMcpServers": [{"serverName": "x"}],
        "disabledMcpjsonServers": ["y"],
        "allowedMcpServers": [{"serverName": "z"}],
        "strictKnownMarketplaces": [],
        "allowManagedHooksOnly": True,
        "allowManagedPermissionRulesOnly": True,
        "availableModels": ["opus"],
        "availableModelsMatch": "exact",
        "deniedModels": ["haiku"],
        "disableSkillShellExecution": True,
        "disableAutoMode": "disable",
        "allowedHttpHookUrls": [],
    }
    assert rest == [
        "permissions.allow", "permissions.defaultMode", "permissions.additionalDirectories",
        "sandbox.failIfUnavailable", "sandbox.filesystem.allowWrite",
        "sandbox.network.allowedDomains", "sandbox.excludedCommands", "enforceAvailableModels",
        "httpHookAllowedEnvVars",
        "model", "env", "hooks", "nobody",
    ]  # fmt: skip


def test_no_key_that_executes_or_widens_is_ever_kept() -> None:
    for key in KEYS:
        head, _, tail = key.name.partition(".")
        for value in ({"x": 1}, "x", ["x"], True, False, 3, None):
            kept, _ = keep_restrictions({head: {tail: value} if tail else value})
            if key.executes and key.name != "sandbox":
                assert not kept.get(head), key.name


@pytest.mark.parametrize("value", [True, "true", "yes", "", 1, 0, None, [], "no"])
def test_hooks_that_are_not_plainly_wanted_are_the_administrators_alone(value: object) -> None:
    assert keep_restrictions({"disableAllHooks": value}) == ({"allowManagedHooksOnly": True}, [])


@pytest.mark.parametrize("value", [False, "false"])
def test_hooks_that_are_plainly_wanted_stay(value: object) -> None:
    assert keep_restrictions({"disableAllHooks": value}) == ({}, [])


def test_what_is_of_the_wrong_kind_is_named_and_restricts_nothing() -> None:
    said = {"permissions": 3, "sandbox": "on", "allowManagedHooksOnly": "yes"}
    assert keep_restrictions(said) == ({}, ["permissions", "sandbox", "allowManagedHooksOnly"])
    assert narrow_sandbox({"filesystem": 3, "enabled": False}) == ({}, ["filesystem", "enabled"])


def test_handed_settings_stand_above_a_users_and_are_reported(places: Places) -> None:
    write(places.user_settings, '{"disableAutoMode": "disable", "deniedMcpServers": ["u"]}')
    said = {"deniedMcpServers": [{"serverName": "x"}], "model": "opus"}
    loaded = load_settings(
        places, command_line=CommandLineSettings(data={"model": "c"}, managed=said)
    )
    assert merge(loaded.layers) == {
        "model": "c",
        "disableAutoMode": "disable",
        "deniedMcpServers": [{"serverName": "x"}, "u"],
    }
    (told,) = describe_faults(loaded.layers)
    assert told.startswith("--managed-settings:1: model: ignored because")


def test_beside_an_administrators_settings_they_count_where_those_let_them(places: Places) -> None:
    said = {
        "deniedMcpServers": [{"serverName": "x"}],
        "allowedMcpServers": [{"serverName": "x"}],
        "strictKnownMarketplaces": [],
    }
    own = {"allowedMcpServers": [{"serverName": "own"}]}
    path = write(places.managed_folders[0] / "managed-settings.json", json.dumps(own))
    loaded = load_settings(places, command_line=CommandLineSettings(data={}, managed=said))
    assert merge(loaded.layers) == own
    (told,) = describe_faults(loaded.layers)
    assert told.startswith("--managed-settings:1: ignored because")
    own["parentSettingsBehavior"] = "merge"  # type: ignore[assignment]
    write(path, json.dumps(own))
    loaded = load_settings(places, command_line=CommandLineSettings(data={}, managed=said))
    assert merge(loaded.layers) == own | {
        "deniedMcpServers": [{"serverName": "x"}],
        "strictKnownMarketplaces": [],
    }
    (told,) = describe_faults(loaded.layers)
    assert told.startswith("--managed-settings:1: allowedMcpServers: ignored because")


def test_nobody_but_an_administrator_lets_them_count(places: Places, tmp_path: Path) -> None:
    write(places.user_settings, '{"parentSettingsBehavior": "merge"}')
    assert describe_faults(load_settings(places).layers) == [
        f"{places.user_settings}:1: parentSettingsBehavior: allowed only in managed settings"
    ]
