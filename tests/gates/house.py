"""Facts about the source that several gates use: its folders and its pure modules."""

import ast
import functools
import tomllib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "clew"


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pure_modules() -> list[str]:
    """Return the modules in the purity contract.

    `clew.core.messages` stands for its whole folder.
    """
    contracts = project()["tool"]["importlinter"]["contracts"]
    modules: list[str] = next(c for c in contracts if c["id"] == "purity")["source_modules"]
    return modules


def path_of(module: str) -> Path:
    """Return the file of a module, or the folder of a package."""
    path = ROOT / "src" / Path(*module.split("."))
    return path if path.is_dir() else path.with_suffix(".py")


def pure_files() -> list[Path]:
    files: list[Path] = []
    for module in pure_modules():
        path = path_of(module)
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return files


@functools.cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(path.read_text("utf-8"))


def import_graph(*, types: bool) -> dict[str, set[str]]:
    """Return every module with the modules that it imports, wherever the import is."""
    names = {
        ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SRC.rglob("*.py")
    }
    return {
        name: set(imported(parse(path), names, types=types)) - {name}
        for name, path in names.items()
    }


def imported(tree: ast.AST, known: Container[str], *, types: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                yield within if within in known else f"{node.module}"
        yield from imported(node, known, types=types)
