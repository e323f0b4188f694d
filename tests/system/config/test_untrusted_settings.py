"""Each setting in a folder that is not trusted: it is ignored, it only restricts, or it is harmless."""

from typing import Any

import pytest

from clew.system.config.layers import Layer, Scope, find_value, merge, select_active
from clew.system.config.settings import BY_NAME, KEYS, SettingKey, check

# Why a folder that is not trusted may set a key. Nothing here starts a program, sends anything to
# another service, or decides what runs without asking.
HARMLESS = {
    "$schema": "read by editors only",
    "apiVersion": "a header for the user's own service",
    "cacheDiagnostics": "a field of requests to the user's own service",
    "model": "costs only; while a folder's own applies, the reviewer of mode auto does not",
    "effortLevel": "costs only; maxEffortLevel and maxBudgetUsd bound it",
    "alwaysThinkingEnabled": "costs only",
    "maxThinkingTokens": "costs only",
    "includeDirectoryStructure": "names of the folder's own files",
    "outputStyle": "chooses among the user's styles; the folder's own are not loaded",
    "promptSuggestionEnabled": "costs only",
    "generateTitles": "a question to the user's own service",
    "language": "a name; text that could be instructions is refused",
    "theme": "display",
    "editorMode": "display",
    "apiMetrics": "display",
    "showTurnDuration": "display",
    "verbose": "display",
    "messageIdleNotifThresholdMs": "display",
    "preferredNotifChannel": "display",
    "autoCompactEnabled": "costs only",
    "autoCompactAt": "costs only",
    "autoMemoryEnabled": "the user's own memory folder",
    "memoryExtraction": "proposals, which wait for the user",
    "notesFile": "where the user's own notes go",
    "respectGitignore": "completion of names in the prompt",
    "plansDirectory": "a file in the folder, never a protected one",
    "lspDetection": "servers start in trusted folders only",
    "disabledMcpjsonServers": "restricts; lists are combined",
    "deniedMcpServers": "restricts; lists are combined",
    "availableModels": "costs only; a managed list takes precedence",
    "disableSkillShellExecution": "restricts; on if any file sets it",
    "toolTimeouts": "ends calls earlier or later",
    "disableAutoMode": "restricts; it has one value",
    "permissions": "its members have rows of their own",
    "permissions.ask": "restricts; lists are combined",
    "permissions.deny": "restricts; lists are combined",
    "permissions.askAfterUntrusted": "restricts; lists are combined",
    "permissions.disableBypassPermissionsMode": "restricts; it has one value",
    "permissions.disableAutoMode": "restricts; it has one value",
}


def layer(scope: Scope, name: str, value: Any) -> Layer:
    data: dict[str, Any] = value
    for part in reversed(name.split(".")):
        data = {part: data}
    return Layer(scope=scope, data=data, root="/r", faults=tuple(check(data)))


def sample(key: SettingKey) -> Any:
    """A value of the key's type."""
    if key.choices:
        return key.choices[0]
    return next(
        value
        for value in ("x", True, 1, {"a": "x"}, {"a": 1}, ["x"], ["Bash"], [{}], 0.5)
        if not check(layer("managed", key.name, value).data, managed=True)
    )


def of_folder(name: str, value: Any, *, own: Any = None, scope: Scope = "project") -> Any:
    """What counts of a value that a folder sets, next to the user's own."""
    layers = [layer(scope, name, value), *([] if own is None else [layer("user", name, own)])]
    active, _ = select_active(layers, trusted=False)
    return find_value(merge(active), tuple(name.split(".")))[1]


@pytest.mark.parametrize("scope", ["project", "local"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_each_setting_of_an_untrusted_folder_is_ignored_or_strict_or_harmless(
    key: SettingKey, scope: Scope
) -> None:
    kinds = [key.executes, key.managed_only, bool(key.strictness), key.name in HARMLESS]
    # A key without effect needs no row; it has one of the others if it would be dangerous.
    assert kinds.count(True) == 1 or (key.unsupported and not any(kinds[1:])), key.name
    if key.executes:
        assert of_folder(key.name, sample(key), scope=scope) is None
    elif key.managed_only:
        assert layer(scope, key.name, sample(key)).faults


def test_each_harmless_key_is_in_the_table() -> None:
    assert HARMLESS.keys() <= BY_NAME.keys()


STRICT = [key for key in KEYS if key.strictness]


@pytest.mark.parametrize("scope", ["project", "local"])
@pytest.mark.parametrize("key", STRICT, ids=lambda key: key.name)
def test_an_untrusted_folder_makes_a_setting_stricter_but_never_looser(
    key: SettingKey, scope: Scope
) -> None:
    ranks = {value: rank for rank, values in enumerate(key.strictness) for value in values}
    assert set(key.choices or (True, False)) <= ranks.keys()
    for own in ranks:
        for value in ranks:
            if value is None or value in ("auto", "bypassPermissions"):
                continue
            counts = of_folder(key.name, value, own=own, scope=scope)
            assert ranks[counts] == min(ranks[value], ranks[own]), (own, value)
            assert counts == own or ranks[value] < ranks[own] or own is None, (own, value)


def test_a_value_of_the_wrong_type_counts_neither_way() -> None:
    for value in ([], 3, "none"):
        assert of_folder("permissions.defaultMode", value, own="plan") == "plan"
        assert of_folder("permissions.defaultMode", "plan", own=value) == "plan"
