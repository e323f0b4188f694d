"""Providers and stores of installed packages: found by entry points, used by the real programs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fronts.headless.clew_process import clew

PACKAGE = """
import asyncio, json, pathlib

async def echo(request):
    yield f"{request.model} got {request.messages[-1]['content'][0]['text']}"

class Files:
    def __init__(self, url):
        self.folder = pathlib.Path(url.partition("://")[2])

    async def append(self, key, entries):
        with self.folder.joinpath(key["session_id"]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\\n" for entry in entries)

    async def load(self, key):
        path = self.folder / key["session_id"]
        return list(map(json.loads, path.read_text("utf-8").splitlines())) if path.exists() else None
"""
POINTS = """[clew.providers]
echo = echo_package:echo
broken = echo_package:missing
[clew.stores]
files = echo_package:Files
"""
PROGRAM = """
import clew, sys
folder, url, resume = sys.argv[1:]
options = clew.ClewOptions(
    cwd=folder, home=f"{folder}/{resume or 'first'}", session_store=url, model="echo:small",
    resume=resume or None, setting_sources=[],
)
result = clew.run_sync("Hello", options)
print(result.session_id, result.text)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package."""
    about = tmp_path / "packages" / "echo_package-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: echo-package\nVersion: 1\n", "utf-8"
    )
    (about / "entry_points.txt").write_text(POINTS, "utf-8")
    (about.parent / "echo_package.py").write_text(PACKAGE, "utf-8")
    return about.parent


def test_a_model_may_belong_to_the_provider_of_a_package(tmp_path: Path, package: Path) -> None:
    def ask(model: str) -> subprocess.CompletedProcess[str]:
        return clew(
            tmp_path,
            "http://127.0.0.1:9",
            "-p",
            "hi",
            "--model",
            model,
            environ={"PYTHONPATH": str(package)},
        )

    assert ask("echo:small").stdout == "echo:small got hi\n"
    failed = ask("broken:small")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "clew.providers: broken (echo_package:missing) can't be loaded: " in failed.stderr


def test_a_url_may_name_the_store_of_a_package(tmp_path: Path, package: Path) -> None:
    def run(url: str, resume: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), url, resume],
            env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    (tmp_path / "store").mkdir()
    url = f"files://{tmp_path}/store"
    first = run(url)
    session, _, text = first.stdout.partition(" ")
    assert text == "echo:small got Hello\n", first.stderr
    # Another machine: only the store has the session.
    again = run(url, session)
    assert again.stdout.startswith(f"{session} echo:small got"), again.stderr
    failed = run("other://x")
    assert "session_store: no installed package offers 'other' stores" in failed.stderr
