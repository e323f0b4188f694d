"""`make dist`: builds are reproducible, licensed, and include a single file that runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.dist import find_refused_licenses

from clew.session.flags import flag_rows
from clew.version import VERSION
from tests.gates.house import ROOT

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of `make dist` in a copy of the checkout."""
    folder = tmp_path_factory.mktemp("dist") / "clew"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONWARNDEFAULTENCODING"}
    done = subprocess.run(
        [sys.executable, "-m", "scripts.dist"],
        cwd=folder,
        env=environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "two builds are equal" in done.stdout
    yield folder / "dist"
    shutil.rmtree(folder)


@pytest.mark.timeout(600)
def test_all_files_are_built_and_summed(dist: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    assert names == {
        f"clew-{VERSION}-py3-none-any.whl",
        f"clew-{VERSION}.tar.gz",
        f"clew-{VERSION}.cdx.json",
        "clew.pyz",
        "SHA256SUMS",
    }
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=dist, check=True)


def test_components_are_those_of_the_lock_and_licensed(dist: Path) -> None:
    components = json.loads((dist / f"clew-{VERSION}.cdx.json").read_text("utf-8"))
    assert components["bomFormat"] == "CycloneDX"
    found = {
        f"{re.sub('[-_.]+', '-', each['name']).lower()}=={each['version']}"
        for each in components["components"]
    }
    lock = (ROOT / "locks" / "core.txt").read_text("utf-8")
    assert found == set(re.findall(r"^([a-z0-9-]+==\S+)", lock, re.M))
    assert not list(find_refused_licenses(components))
    components["components"][0]["licenses"] = [{"license": {"id": "AGPL-3.0-only"}}]
    assert len(list(find_refused_licenses(components))) == 1


def run_file(dist: Path, home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(dist / "clew.pyz"), *words],
        # As a user would: in another folder, and without the packages of this environment.
        cwd=home,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_single_file_runs_and_unpacks_once(dist: Path, tmp_path: Path) -> None:
    assert run_file(dist, tmp_path, "--version").stdout == f"clew {VERSION}\n"
    (unpacked,) = (tmp_path / ".cache" / "clew" / "pyz").iterdir()
    assert unpacked.stat().st_mode & 0o077 == 0
    before = unpacked.stat().st_mtime_ns
    done = run_file(dist, tmp_path, "demo", "--speed", "max")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("clew in your own project.\n")
    assert unpacked.stat().st_mtime_ns == before
    assert list(unpacked.parent.iterdir()) == [unpacked]


def test_the_single_file_says_where_it_cannot_unpack(dist: Path, tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("not a folder", "utf-8")
    done = run_file(dist, tmp_path, "--version")
    assert (done.returncode, done.stdout) == (2, "")
    assert "XDG_CACHE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_man_page_and_completions_are_installed(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"clew-{VERSION}-py3-none-any.whl") as wheel:
        base = f"clew-{VERSION}.data/data/share"
        page = wheel.read(f"{base}/man/man1/clew.1").decode()
        names = wheel.namelist()
    for path in (
        "bash-completion/completions/clew",
        "zsh/site-functions/_clew",
        "fish/vendor_completions.d/clew.fish",
    ):
        assert f"{base}/{path}" in names
    for row in flag_rows():
        for name in re.findall(r"--[\w-]+", row.flag.spelling):
            assert name.replace("-", "\\-") in page
