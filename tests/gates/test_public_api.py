"""The public names keep their fields and signatures, and all of them are documented."""

import ast
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripts.api_reference import (
    INTERNAL,
    INTERNAL_TYPES,
    about,
    fields,
    find,
    find_attributes,
    find_types,
    has_fields,
    members,
    sections,
    surface,
)

import clew
import clew.engine
from tests.gates.house import ROOT

RECORDED = ROOT / "tests" / "gates" / "public_api.txt"
STRUCTS = [name for _, group in sections() for name in group if has_fields(find(name))]


def test_help_renders_every_public_name() -> None:
    for module in (clew, clew.engine):
        for name in module.__all__:
            if not name.startswith("__"):
                assert pydoc.render_doc(getattr(module, name))
    assert "max_budget_usd" in str(inspect.signature(clew.ClewOptions))


def test_nothing_public_is_removed_or_changed() -> None:
    """A change of this list is a change of what programs rely on; see docs/extending/library.md.

    To record additions: `python -m scripts.api_reference surface > tests/gates/public_api.txt`.
    """
    recorded = RECORDED.read_text("utf-8").splitlines()
    now = set(surface())
    assert [line for line in recorded if line not in now] == []


def test_each_public_name_is_in_one_section_of_the_reference() -> None:
    names = [name for _, group in sections() for name in group]
    assert sorted(names) == sorted({*clew.__all__, *clew.engine.__all__})


# The public modules.
PUBLIC = re.compile(r"clew\.(engine|testing\.\w+|adapters(\.\w+)?)")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def find_modules(text: str) -> list[str]:
    return re.findall(r"^\s*(?:from|import) (clew\.[\w.]+)", text, re.M)


# Pages about inner modules, which promise nothing; see docs/extending/library.md#stability.
INNER = {"cost-api", "providers", "rendering", "serve", "stores"}
PAGES = [
    path
    for folder in ("extending", "using")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
    if path.stem not in INNER
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_docs_for_users_and_programs_use_only_public_names(path: Path) -> None:
    fences = re.findall(r"^```python.*?\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)
    deep = find_modules("\n".join(fences))
    assert [name for name in deep if not PUBLIC.fullmatch(name)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short_and_use_only_public_names(path: Path) -> None:
    text = path.read_text("utf-8")
    deep = find_modules(text)
    assert [name for name in deep if not PUBLIC.fullmatch(name)] == []
    assert len(text.splitlines()) <= 150
    assert "# -> " in text


def test_type_checkers_see_the_same_names() -> None:
    stub = (ROOT / "src" / "clew" / "__init__.pyi").read_text("utf-8")
    homes = re.findall(r"^from clew\.(\S+) import (\w+) as \2$", stub, re.M)
    assert sorted(homes) == sorted((home, name) for name, home in vars(clew)["_PLACES"].items())


@pytest.mark.parametrize("name", sorted({*clew.__all__, *clew.engine.__all__}))
def test_each_public_name_and_member_is_documented(name: str) -> None:
    value: Any = find(name)
    assert about(name)
    if isinstance(value, type):
        assert not (inspect.getdoc(value) or "").startswith("A base class for defining efficient")
        lacking = [each for each, member in members(value) if not inspect.getdoc(member)]
        assert [each for each in lacking if each not in INTERNAL] == []


@pytest.mark.parametrize("name", STRUCTS)
def test_help_says_something_about_each_field(name: str) -> None:
    value = find(name)
    words = re.findall(r"\w+", value.__doc__)
    assert [field for field, *_ in fields(value) if field not in words] == []


@pytest.mark.parametrize("name", [n for _, group in sections() for n in group])
def test_the_reference_is_complete(name: str) -> None:
    """The types in signatures are public, and all attributes and fields are in the reference."""
    value = find(name)
    public = [find(each) for _, group in sections() for each in group]
    unnamed = {kind.__name__ for kind in find_types(value) if kind not in public}
    assert sorted(unnamed - {*INTERNAL_TYPES}) == []
    if isinstance(value, type):
        described = {field for field, *_ in fields(value)} | {each for each, _ in members(value)}
        assert sorted(find_attributes(value) - described) == []
        # Two fields in one line are a broken docstring.
        merged = [m for *_, m in fields(value) if re.search(r"\. [a-z_]+: [A-Z]", m)]
        assert merged == []


def test_importing_clew_imports_nothing_else() -> None:
    """Programs pay for a name when they use it, not for the import."""
    code = (
        "import sys; before = set(sys.modules); import clew; dir(clew); "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "['clew']"


def test_importing_the_engine_loads_no_agent() -> None:
    code = (
        "import sys, clew.engine; clew_s = [n for n in sys.modules if n.startswith('clew.')]; "
        "print(*sorted({n.split('.')[1] for n in clew_s}), 'asyncio' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split() == ["core", "engine", "permissions", "record", "system", "False"]


def test_type_checkers_see_the_arguments_of_public_types() -> None:
    """Pyright checks calls against the `__call__` of a metaclass, if it sees one."""
    for kind in {type(find(name)) for name in STRUCTS} - {type, msgspec.StructMeta}:
        (definition,) = ast.parse(inspect.getsource(kind)).body
        assert isinstance(definition, ast.ClassDef)
        assert "__call__" not in [getattr(item, "name", "") for item in definition.body]
