"""Finds the tests that run the real program: those that use a name that leads to starting it.

A name leads to the names in its definition: functions, classes, constants and fixtures of the
tests, across imports. Only the text is analyzed, so a test that merely mentions such a name counts
too.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

Name: TypeAlias = tuple[str, str]

# What starts clew: a process or a fork of one, its command line, a server on a socket, a session of
# the library.
DOORS: frozenset[Name] = frozenset(
    {
        ("tests.fronts.headless.forked", "Forked"),
        ("tests.fronts.headless.clew_process", "command"),
        ("tests.serve.served", "served"),
        ("clew.cli", "main"),
        ("clew", "ClewClient"),
        ("clew", "query"),
        ("clew", "run_sync"),
    }
)
# In the text of a program that a test gives to an interpreter.
PROGRAMS = ("from clew.cli import main", "runpy.run_path(")

# Faster than parsing all tests, which gives the same.
CALL = re.compile(r'\brequirement\(((?:\s*"[^"]*",?)+)\s*\)')


def ids_in(text: str) -> Iterator[str]:
    """Yield the IDs that the tests in a file carry."""
    for call in CALL.finditer(text):
        yield from re.findall(r'"([^"]*)"', call[1])


class TestModule:
    """The definitions and imports of one file of the tests."""

    def __init__(self, path: Path, root: Path) -> None:
        self.name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        self.path = str(path.relative_to(root))
        self.tree = ast.parse(path.read_text("utf-8"))
        self.imports: dict[str, Name] = {}
        self.definitions: dict[str, ast.stmt] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                self.imports |= {
                    a.asname or a.name: (node.module or "", a.name) for a in node.names
                }
            elif isinstance(node, ast.Import):
                self.imports |= {a.asname or a.name: (a.name, "") for a in node.names}
        for statement in self.tree.body:
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.definitions[name] = statement
                case ast.ClassDef(name=name):
                    self.definitions[name] = statement
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    self.definitions[name] = statement

    def names_in(self, node: ast.AST) -> Iterator[Name]:
        """Yield each name that a definition uses.

        The words of a command line count as names too.
        """
        for inner in ast.walk(node):
            match inner:
                case ast.List(elts=words) | ast.Tuple(elts=words):
                    values = [w.value if isinstance(w, ast.Constant) else None for w in words]
                    if ("-m", "clew") in pairwise(values):
                        yield "clew.cli", "main"
                case ast.Constant(value=str(text)) if any(program in text for program in PROGRAMS):
                    yield "clew.cli", "main"
                case ast.Name(id=name) | ast.arg(arg=name):
                    if name in self.definitions:
                        yield self.name, name
                    elif name in self.imports:
                        yield self.imports[name]
                    elif isinstance(inner, ast.arg):
                        yield "", name
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self.imports:
                    module, member = self.imports[name]
                    yield ".".join(filter(None, (module, member))), attribute


class Runs:
    """The tests below a folder. A file is read when a name leads to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modules: dict[str, TestModule | None] = {}
        self._known: dict[Name, bool] = dict.fromkeys(DOORS, True)

    def _module(self, name: str) -> TestModule | None:
        if name not in self._modules:
            place = self._root.parent.joinpath(*name.split("."))
            paths = [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()]
            is_inside = name.split(".")[0] == self._root.name
            self._modules[name] = TestModule(paths[0], self._root) if paths and is_inside else None
        return self._modules[name]

    def records(self) -> Iterator[tuple[str, str, bool]]:
        """Each (record, test file, whether the test runs the program) of a `@requirement(...)`."""
        for path in sorted(self._root.rglob("test_*.py")):
            yield from self._records_of(path)

    def list_unshown(self, records: Iterable[str]) -> set[str]:
        """Return those of the records that no test proves by a run.

        Reads only the files that it needs.
        """
        left = set(records)
        # Most runs are there.
        paths = sorted(self._root.rglob("test_*.py"), key=lambda path: "fronts" not in path.parts)
        for path in paths:
            if left & set(ids_in(path.read_text("utf-8"))):
                left -= {record for record, _, is_run in self._records_of(path) if is_run}
        return left

    def _records_of(self, path: Path) -> Iterator[tuple[str, str, bool]]:
        if "@requirement(" not in path.read_text("utf-8"):
            return
        module = self._module(".".join(path.relative_to(self._root.parent).with_suffix("").parts))
        assert module is not None
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for mark in node.decorator_list:
                match mark:
                    case ast.Call(func=ast.Name(id="requirement"), args=records):
                        for record in records:
                            if isinstance(record, ast.Constant):
                                yield str(record.value), module.path, self._reaches(module, node)

    def _runs(self, name: Name) -> bool:
        if name not in self._known:
            # What names itself reaches nothing by that.
            self._known[name] = False
            self._known[name] = self._look(*name)
        return self._known[name]

    def _look(self, place: str, name: str) -> bool:
        module = self._module(place)
        if module is None:
            return False
        definition = module.definitions.get(name)
        if definition is not None:
            return self._reaches(module, definition)
        return name in module.imports and self._runs(module.imports[name])

    def _reaches(self, module: TestModule, node: ast.AST) -> bool:
        return any(
            self._runs(name) if name[0] else self._is_fixture_that_runs(module, name[1])
            for name in module.names_in(node)
        )

    def _is_fixture_that_runs(self, module: TestModule, name: str) -> bool:
        parts = module.name.split(".")
        above = (".".join((*parts[:n], "conftest")) for n in range(len(parts) - 1, 0, -1))
        return any(self._runs((place, name)) for place in above)
