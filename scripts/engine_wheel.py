"""Build the distribution `clew-engine`: `clew.engine` and the modules that it needs, no others.

    python -m scripts.engine_wheel FOLDER

It is for programs that read streams and transcripts, make requests, judge calls or count costs, and
run no sessions. The modules are those of `clew` unchanged, so a program that has `clew` does not
need it. The dependencies are the packages that these modules import.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PYPROJECT = """[project]
name = "clew-engine"
version = "{version}"
description = "The message engine of clew, without sessions"
readme = "README.md"
requires-python = "{python}"
license = "MIT"
license-files = ["LICENSE"]
dependencies = {dependencies}

[build-system]
requires = {requires}
build-backend = "uv_build"

[tool.uv.build-backend]
module-name = "clew"
"""
README = """# clew-engine

`clew.engine` of clew, without sessions and their dependencies.
"""


def find_modules() -> tuple[list[str], set[str]]:
    """Return the modules that `clew.engine` needs, and the packages that they import."""
    graph = grimp.build_graph("clew", include_external_packages=True)
    needed = {"clew", "clew.engine", *graph.find_upstream_modules("clew.engine")}
    own = {name for name in needed if name.partition(".")[0] == "clew"}
    # The packages around a module.
    own |= {
        ".".join(name.split(".")[:end]) for name in own for end in range(1, name.count(".") + 1)
    }
    return sorted(own), needed - own - sys.stdlib_module_names


def find_requirements(packages: set[str]) -> list[str]:
    """Return clew's own requirements of these packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {
        re.split(r"[^\w-]", requirement)[0].replace("-", "_"): requirement
        for requirement in project["dependencies"]
    }
    return sorted(named[package] for package in packages)


def build(folder: Path) -> None:
    """Build the wheel into `folder`."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    modules, packages = find_modules()
    with tempfile.TemporaryDirectory() as place:
        for name in modules:
            path = Path("src", *name.split("."))
            source = path.with_suffix(".py")
            if not (ROOT / source).exists():
                source = path / "__init__.py"
            (Path(place) / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, Path(place) / source)
        shutil.copy(ROOT / "src" / "clew" / "py.typed", Path(place, "src", "clew"))
        shutil.copy(ROOT / "LICENSE", place)
        Path(place, "README.md").write_text(README, "utf-8")
        text = PYPROJECT.format(
            version=whole["project"]["version"],
            python=whole["project"]["requires-python"],
            dependencies=find_requirements(packages),
            requires=whole["build-system"]["requires"],
        )
        Path(place, "pyproject.toml").write_text(text, "utf-8")
        subprocess.run(
            [Path(sys.executable).parent / "uv", "build", "--quiet", "--wheel",
             "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, place],
            check=True,
        )  # fmt: skip


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
