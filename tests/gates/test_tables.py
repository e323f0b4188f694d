"""The tables list exactly what the source reads."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.agent.options import Options
from clew.system.config import settings
from clew.system.config.environment import AMBIENT, VARIABLES
from clew.system.config.settings import BY_NAME, KEYS
from clew.testing.server import serving
from tests.fronts.headless.clew_process import clew
from tests.gates.house import SRC, parse

ENVIRONMENTS = ("environ", "environment", "env")
# Set for programs that clew starts, not read from what started clew.
FOR_PROGRAMS = {
    "CLAUDE_ENV_FILE": "agent/hooks/executors.py",
    "COLUMNS": "completion.py",
}
READERS = {
    "read_switch": {settings.BOOLEAN},
    "read_text": {settings.STRING},
    "read_number": {settings.WHOLE, settings.NUMBER},
    "read_list": {settings.STRINGS, settings.RULES, settings.LIST},
    "read_object": {settings.OBJECT, settings.TEXTS, settings.NUMBERS},
    "value_in": {key.kind for key in KEYS},
}
# Read of each layer by itself, and where.
OF_A_LAYER = {
    "hooks": "agent/hooks/handlers.py",
    "allowedMcpServers": "parts/mcp/scopes.py",
    "availableModels": "providers/preferences.py",
    "deniedModels": "providers/preferences.py",
    "parentSettingsBehavior": "system/config/load.py",
    "permissions.allow": "permissions/rules.py",
    "permissions.ask": "permissions/rules.py",
    "permissions.deny": "permissions/rules.py",
    "permissions.askAfterUntrusted": "permissions/rules.py",
    "mcpServers": "parts/mcp/scopes.py",
}
# For editors alone.
OF_NOBODY = {"$schema"}
# What is called settings here is a host's request, or what a caller took out of the settings.
NO_SETTINGS = {
    "core/catalog/added.py",
    "fronts/headless/controls.py",
    "fronts/headless/standing_controls.py",
}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for path in SRC.rglob("*.py"):
        name = str(path.relative_to(SRC))
        if name != "system/config/settings.py":
            yield from ((name, node) for node in ast.walk(parse(path)))


def read_settings() -> Iterator[tuple[str, str, str]]:
    """Return every use of a reader: the module, the reader and the key."""
    for module, node in nodes():
        match node:
            case ast.Call(func=ast.Name(id=reader), args=[_, argument]) if reader in READERS:
                assert isinstance(argument, ast.Constant), f"{module}:{node.lineno}: name the key"
                yield module, reader, argument.value


def test_every_setting_that_is_read_stands_in_the_table_with_that_kind() -> None:
    found = list(read_settings())
    assert len(found) > 50
    for module, reader, name in found:
        assert name in BY_NAME, f"{module}: {reader}: no setting {name!r}"
        assert BY_NAME[name].kind in READERS[reader], f"{module}: {name}: {BY_NAME[name].kind}"


def test_a_setting_is_live_where_it_is_read_as_it_stands() -> None:
    """`began` has the settings at the start of a session, `rules.standing` the current ones."""
    for module, node in nodes():
        match node:
            case ast.Call(func=ast.Name(id=reader), args=[where, ast.Constant(name)]) if (
                reader in READERS
            ):
                source = ast.unparse(where)
                assert not ("began" in source and BY_NAME[name].is_live), f"{module}: {name}"
                assert "rules.standing" not in source or BY_NAME[name].is_live, f"{module}: {name}"


def test_every_setting_of_the_table_is_read_or_said_to_have_no_effect() -> None:
    read = {name for _, _, name in read_settings()}
    for name, module in OF_A_LAYER.items():
        assert f'"{name.rpartition(".")[2]}"' in Path(SRC, module).read_text("utf-8")
    assert not read & OF_A_LAYER.keys()
    counting = {key.name for key in KEYS if key.has_effect}
    assert read | OF_A_LAYER.keys() | OF_NOBODY == counting


def test_settings_that_are_not_supported_are_named_by_the_start_and_the_doctor(
    tmp_path: Path,
) -> None:
    values: dict[str, Any] = {settings.STRING: "x", settings.WHOLE: 3, settings.OBJECT: {"a": 1}}
    unsupported = [key for key in KEYS if not key.has_effect]
    data: dict[str, Any] = {"permissions": {}, "model": "haiku"}
    fulfilled: dict[str, Any] = {"permissions": {}}
    for key in unsupported:
        *above, name = key.name.split(".")
        value = not key.fulfilled if key.kind == settings.BOOLEAN else values[key.kind]
        for holder, held in ((data, value), (fulfilled, key.fulfilled)):
            if held is not None:
                (holder[above[0]] if above else holder)[name] = held
    folder = tmp_path / "config"
    folder.mkdir()
    names = {key.name for key in unsupported}
    for held, expected in ((data, names), (fulfilled, set())):
        (folder / "settings.json").write_text(json.dumps(held), "utf-8")
        with serving({"scenario": 1, "answers": [{"text": "Fine."}]}) as server:
            start = clew(tmp_path, server.url, "-p", "hi")
            report = clew(tmp_path, server.url, "doctor")
        assert start.returncode == 0
        for told in (start.stderr, report.stdout):
            assert {name for name in names if name in told} == expected


def test_settings_are_read_by_their_readers_alone() -> None:
    for module, node in nodes():
        match node:
            case (
                ast.Call(func=ast.Attribute(value=value, attr="get"), args=[ast.Constant(name), *_])
                | ast.Subscript(value=value, slice=ast.Constant(name))
            ):
                is_settings = ast.unparse(value).removesuffix("()").endswith("settings")
                assert not (is_settings and name in BY_NAME and module not in NO_SETTINGS), (
                    f"{module}:{value.lineno}: read {name} with a reader of settings"
                )


def read_variables() -> Iterator[tuple[str, str]]:
    """Return every variable that is read by its name: the module and the name."""
    for module, node in nodes():
        match node:
            case (
                ast.Call(
                    func=ast.Attribute(value=value, attr="get" | "pop"),
                    args=[ast.Constant(name), *_],
                )
                | ast.Subscript(value=value, slice=ast.Constant(name))
                | ast.Compare(
                    left=ast.Constant(name), ops=[ast.In() | ast.NotIn()], comparators=[value]
                )
            ):
                of = ast.unparse(value).rpartition(".")[2].strip("_")
                if of in ENVIRONMENTS and isinstance(name, str) and name.isupper():
                    yield module, name


def test_every_variable_that_is_read_stands_in_the_table() -> None:
    names = {name for known in (*VARIABLES, *AMBIENT) for name in known.names}
    found = {(name, module) for module, name in read_variables()}
    assert len(found) > 20
    assert {(n, m) for n, m in found if n not in names} == set(FOR_PROGRAMS.items())


def test_every_variable_of_the_table_is_read() -> None:
    words = {
        node.value
        for module, node in nodes()
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and module != "system/config/environment.py"
    }
    # Read where the table stands.
    words |= {"keeps_keys_from_programs"}
    for known in (*VARIABLES, *AMBIENT):
        assert {known.field, *known.names} & words, f"nobody reads {known.names[0]}"
    for known in AMBIENT:
        assert set(known.names) <= words


def test_every_option_is_read() -> None:
    read = {node.attr for _, node in nodes() if isinstance(node, ast.Attribute)}
    # Accepted alone: the system prompt never has what it leaves out.
    assert set(Options.__struct_fields__) - read == {"has_static_prompt"}
