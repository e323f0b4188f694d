"""Users install what was built: the wheel works in an otherwise empty environment."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from scripts.engine_wheel import build

from clew.version import VERSION
from tests.gates.house import ROOT


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        # Our own strictness about encodings is no business of pip's.
        env={k: v for k, v in os.environ.items() if k != "PYTHONWARNDEFAULTENCODING"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.executable).parent / "uv"
    run(
        uv, "build", "--quiet", "--wheel", "--no-build-isolation",
        "--python", sys.executable, "--out-dir", folder, ROOT,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "clew/cli.py" in names
    assert "clew/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/"))]


@pytest.mark.timeout(300)
def test_the_wheel_answers_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    binaries = tmp_path / "env" / "bin"
    pip = (binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--require-hashes", "-r", ROOT / "locks" / "core.txt")
    run(*pip, "--no-deps", wheel)
    assert run(binaries / "clew", "--version", cwd=tmp_path) == f"clew {VERSION}\n"
    assert run(binaries / "python", "-m", "pip", "check", cwd=tmp_path).startswith("No broken")
    assert run(binaries / "clew", "--help", cwd=tmp_path).startswith("usage: clew")
    assert run(binaries / "clew", "demo", "--speed", "max", cwd=tmp_path).endswith(
        "clew in your own project.\n"
    )


# The most bytes that clew-engine and its dependencies may take on disk, in decimal megabytes.
ENGINE_SIZE_MB = 8


@pytest.mark.timeout(300)
def test_the_engine_alone_is_small_and_works(tmp_path: Path) -> None:
    build(tmp_path)
    (built,) = tmp_path.glob("clew_engine-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    target = tmp_path / "installed"
    run(
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target",
        target, built,
    )  # fmt: skip
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    assert size < ENGINE_SIZE_MB * 1_000_000
    shutil.copy(ROOT / "examples" / "replay_stream.py", target)
    said = run(python, target / "replay_stream.py")
    assert said.splitlines()[0] == "'Half a word' complete=True"
