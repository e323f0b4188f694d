"""Facts about the house that more than one gate reads: its folders and its PURE modules."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "clew"


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pure_modules() -> list[str]:
    """The modules the purity contract names, `clew.core.messages` standing for its whole folder."""
    contracts = project()["tool"]["importlinter"]["contracts"]
    modules: list[str] = next(c for c in contracts if c["id"] == "purity")["source_modules"]
    return modules


def path_of(module: str) -> Path:
    """The file of a module, or the folder of a package."""
    path = ROOT / "src" / Path(*module.split("."))
    return path if path.is_dir() else path.with_suffix(".py")


def pure_files() -> list[Path]:
    files: list[Path] = []
    for module in pure_modules():
        path = path_of(module)
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return files
