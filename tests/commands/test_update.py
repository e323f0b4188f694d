"""`clew update`: the tool that installed clew updates it, on request; a notice only if switched on."""

import json
import os
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from clew.testing.server import serving
from clew.version import VERSION
from tests.fronts.headless.clew_process import clew, until
from tests.fronts.terminal.screen import OnScreen
from tests.fronts.terminal.test_screen import READY
from tests.gates.house import ROOT
from tests.requirements import requirement

NOWHERE = "http://127.0.0.1:1"
HELLO: dict[str, Any] = {"scenario": 1, "answers": [{"text": "Hello!"}]}


@requirement("R295")
def test_a_checkout_says_how_it_is_updated_and_changes_nothing(tmp_path: Path) -> None:
    done = clew(tmp_path, NOWHERE, "update", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(ROOT) in done.stdout
    assert not (tmp_path / "config" / "clew" / "update.json").exists()


def test_the_notice_is_off_by_default(tmp_path: Path) -> None:
    record(tmp_path, newest="99.1")
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.settle()
        assert "99.1" not in screen.text


def record(home: Path, **fields: object) -> Path:
    path = home / "config" / "clew" / "update.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 1, "checkedAt": int(time.time())} | fields), "utf-8")
    return path


def test_the_notice_names_a_newer_version_and_the_command(tmp_path: Path) -> None:
    record(tmp_path, newest="99.1")
    switch_on(tmp_path)
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect("99.1")
        screen.expect("clew update")


def test_a_check_runs_at_most_once_a_day(tmp_path: Path) -> None:
    path = record(tmp_path, checkedAt=0)
    switch_on(tmp_path)
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        # The check of a checkout finds no index to ask.
        until(lambda: json.loads(path.read_text("utf-8")).get("newest", "") is None)
    assert time.time() - json.loads(path.read_text("utf-8"))["checkedAt"] < 3600


def switch_on(home: Path) -> None:
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "settings.json").write_text('{"updateNotice": true}', "utf-8")


def test_a_record_that_cannot_be_written_stops_no_session(tmp_path: Path) -> None:
    path = record(tmp_path, checkedAt=0, version=99)
    before = path.read_bytes()
    switch_on(tmp_path)
    with serving(HELLO) as server, OnScreen(tmp_path, server.url) as screen:
        screen.expect(READY)
        screen.type("hi\r")
        screen.expect("Hello!")
    assert path.read_bytes() == before


# -- with real installers


def build_wheel(folder: Path) -> Path:
    subprocess.run(
        [str(Path(sys.executable).parent / "uv"), "build", "--quiet", "--wheel",
         "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder), str(ROOT)],
        check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_newer(wheel: Path, version: str) -> None:
    """Write the same wheel as a newer version beside it."""
    target = wheel.with_name(wheel.name.replace(VERSION, version))
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as new:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(("/METADATA", "clew/version.py")):
                content = content.replace(VERSION.encode(), version.encode(), 1)
            if name.endswith("/RECORD"):
                # Without hashes, installers don't compare the changed files.
                lines = [f"{line.split(',')[0]},," for line in content.decode().splitlines()]
                content = "\n".join(lines).replace(VERSION, version).encode()
            new.writestr(name.replace(f"clew-{VERSION}", f"clew-{version}"), content)


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_missing_extra_is_added_by_the_command_that_is_named(tmp_path: Path) -> None:
    """Of a wheel, no package index knows that there is an extra."""
    index = tmp_path / "index"
    wheel = build_wheel(index)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", f"{wheel}[serve]", "-d", str(index)],
        check=True,
    )
    python = tmp_path / "env" / "bin" / "python"
    environ = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PIP_FIND_LINKS": str(index),
        "PIP_NO_INDEX": "1",
    }

    def run(*words: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(word) for word in words],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    venv.create(tmp_path / "env", with_pip=True)
    assert run(python, "-m", "pip", "install", wheel).returncode == 0
    program = tmp_path / "env" / "bin" / "clew"
    refused = run(program, "web", "--no-open")
    assert refused.returncode == 1
    command = refused.stderr.partition("run: ")[2].strip()
    assert command == f"{python} -m pip install '{wheel}[serve]'"
    added = run("sh", "-c", command)
    assert added.returncode == 0, added.stderr
    assert run(program, "serve", "devices").returncode == 0
    assert run(python, "-c", "import starlette, segno").returncode == 0


@requirement("R295")
@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tool", ["pip", "uv pip", "uv tool"])
def test_each_installer_finds_and_installs_the_newer_version(tmp_path: Path, tool: str) -> None:
    index = tmp_path / "index"
    wheel = build_wheel(index)
    uv = Path(sys.executable).parent / "uv"
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{uv.parent}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        # An index of files, and nothing else.
        "PIP_FIND_LINKS": str(index),
        "UV_FIND_LINKS": str(index),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "UV_OFFLINE": "1",
    }

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    # With the dependencies in the index, nothing else is needed.
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
         "-r", str(ROOT / "locks" / "core.txt"), "-d", str(index)],
        check=True,
    )  # fmt: skip
    if tool == "uv tool":
        run(uv, "tool", "install", "clew")
        program = tmp_path / "bin" / "clew"
    else:
        venv.create(tmp_path / "env", with_pip=True)
        python = tmp_path / "env" / "bin" / "python"
        installer = (python, "-m", "pip") if tool == "pip" else (uv, "pip")
        where = () if tool == "pip" else ("--python", python)
        run(*installer, "install", *where, "clew")
        program = tmp_path / "env" / "bin" / "clew"
    assert f"installed by {tool}" in run(program, "update", "--check")
    assert "this is the newest version" in run(program, "update", "--yes")
    make_newer(wheel, "99.1")
    assert "newest version: 99.1" in run(program, "update", "--check")
    # Without a terminal and without --yes, nothing happens.
    run(program, "update")
    assert run(program, "--version") == f"clew {VERSION}\n"
    run(program, "update", "--yes")
    assert run(program, "--version") == "clew 99.1\n"
