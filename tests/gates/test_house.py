"""The structure of the source: layers and purity by contract, and complete lists."""

import ast
import re
from pathlib import Path

import pytest
from scripts.gauge import circles

from tests.gates.house import (
    ROOT,
    SRC,
    import_graph,
    parse,
    path_of,
    project,
    pure_files,
    pure_modules,
)

# What a pure function may not do even without an import.
FORBIDDEN_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint"}
FORBIDDEN_ATTRIBUTES = {"now", "utcnow", "today"}
MAGNETS = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


@pytest.mark.parametrize("path", pure_files(), ids=lambda p: str(p.relative_to(SRC)))
def test_a_pure_module_touches_no_world(path: Path) -> None:
    tree = parse(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"{path}:{node.lineno} {node.func.id}()"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in FORBIDDEN_ATTRIBUTES, f"{path}:{node.lineno}"
        assert not isinstance(node, ast.Global), f"{path}:{node.lineno} global state"


def test_every_pure_module_exists_and_is_measured_for_branches() -> None:
    missing = [m for m in pure_modules() if not path_of(m).exists()]
    assert not missing
    measured = project()["tool"]["coverage"]["run"]["source_pkgs"]
    assert measured == pure_modules(), "coverage's list and the purity contract differ"


# Where "nothing" and "not to be known" must differ, or a name was just read from its folder.
ASK_PATHLIB = {
    "record/stores/transfer.py",
    "record/transcript/files.py",
    "system/transport/connection.py",
}
OF_A_LISTING = "entry"


def test_what_lies_at_a_path_is_asked_where_nobody_may_look_too() -> None:
    asked = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(parse(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=value, attr="exists" | "is_file" | "is_dir" | "is_symlink"
                    ),
                    args=[],
                    keywords=[],
                ):
                    if not (isinstance(value, ast.Name) and value.id == OF_A_LISTING):
                        asked.add(str(path.relative_to(SRC)))
    assert asked == ASK_PATHLIB, "ask clew.system.files"


def test_no_expression_repeats_a_group_for_good() -> None:
    """Python before 3.11.5 mismatches possessive groups that contain something to backtrack."""
    nothing_to_try_again = {"record/transcript/entries.py"}
    found = {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        if re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", path.read_text("utf-8"))
    }
    assert found == nothing_to_try_again


def test_no_folder_is_a_magnet() -> None:
    names = {p.stem for p in SRC.rglob("*") if p.is_dir() or p.suffix == ".py"}
    assert not names & MAGNETS


def test_each_folder_of_the_source_has_its_folder_of_tests() -> None:
    folders = {p.name for p in SRC.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    tested = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir()}
    assert folders <= tested, f"no tests for {sorted(folders - tested)}"


def test_the_version_is_said_once() -> None:
    namespace: dict[str, str] = {}
    exec((SRC / "version.py").read_text("utf-8"), namespace)
    assert namespace["VERSION"] == project()["project"]["version"]


# A public name of the SDK, and what a rule decides.
SHARED_CLASS_NAMES = {"Deny"}


def test_every_class_has_a_name_of_its_own() -> None:
    names = [
        node.name
        for path in SRC.rglob("*.py")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == SHARED_CLASS_NAMES


# Each reads the other's type and nothing else of it.
TYPE_PAIRS = {
    frozenset({"clew.permissions.index", "clew.permissions.rules"}),
    frozenset({"clew.parts.agents.all_agents", "clew.parts.agents.delegate"}),
}


def test_no_module_waits_for_itself() -> None:
    """Imports in functions count too; those for types only may be mutual in a known pair."""
    assert not circles(import_graph(types=False))
    assert circles(import_graph(types=True)) == TYPE_PAIRS
