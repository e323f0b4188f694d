"""Programs that clew runs itself: from PATH, but never from the project."""

import os
from pathlib import Path

import pytest

from clew.fronts.terminal.prompt import CLIPBOARDS
from clew.system.process.programs import OWN_PROGRAMS, find_own_program


def program(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "git"
    file.write_text("#!/bin/sh\n", "utf-8")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / "below").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return project


def test_folders_of_the_project_and_relative_ones_are_left_out(
    project: Path, tmp_path: Path
) -> None:
    system = program(tmp_path / "system")
    program(project / "bin")
    program(project / "below" / "bin")
    (tmp_path / "link").symlink_to(project / "bin")
    for first in (
        "bin",
        "",
        ".",
        "../project/bin",
        str(project / "bin"),
        f"{tmp_path}/system/../project/bin",
        str(tmp_path / "link"),
    ):
        path = f"{first}{os.pathsep}{tmp_path / 'system'}"
        assert find_own_program("git", path) == system, first
    assert find_own_program("git", str(project / "bin")) is None


def test_the_folder_of_a_call_counts_as_a_project_too(project: Path, tmp_path: Path) -> None:
    theirs = program(tmp_path / "theirs" / "bin")
    path = str(tmp_path / "theirs" / "bin")
    assert find_own_program("git", path) == theirs
    assert find_own_program("git", path, folder=str(tmp_path / "theirs")) is None


def test_the_users_own_programs_count_in_a_session_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = program(tmp_path / ".local" / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_own_program("git", str(tmp_path / ".local" / "bin")) == own


def test_a_folder_that_is_gone_leaves_the_systems_programs(project: Path, tmp_path: Path) -> None:
    system = program(tmp_path / "system")
    (project / "below").rmdir()
    project.rmdir()
    assert find_own_program("git", str(tmp_path / "system")) == system


def test_programs_that_print_the_clipboard_are_clews_own() -> None:
    assert {argv[0] for *_, argv in CLIPBOARDS} <= OWN_PROGRAMS
