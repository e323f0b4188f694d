"""A personal file is excluded in the repository that it is in, and nothing else is written."""

import os
import subprocess
from pathlib import Path

import pytest

from clew.system.config.git_exclude import exclude_from_git

NAME = ".claude/settings.local.json"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def made(folder: Path) -> Path:
    """Return a settings file in a folder, created the way that clew creates it."""
    path = folder / NAME
    path.parent.mkdir(parents=True)
    path.write_text("{}", "utf-8")
    return path


def excluded(repository: Path) -> list[str]:
    lines = (repository / ".git" / "info" / "exclude").read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "repository")
    return tmp_path / "repository"


@pytest.mark.parametrize("below", ["", "sub/project"])
def test_a_file_is_excluded_by_its_place_in_the_repository(repository: Path, below: str) -> None:
    exclude = repository / ".git" / "info" / "exclude"
    exclude.write_text("*.o", "utf-8")
    path = made(repository / below)
    exclude_from_git(path, os.environ)
    assert excluded(repository) == ["*.o", f"/{path.relative_to(repository)}"]
    assert git(repository, "status", "--short") == ""
    # It is ignored now, so nothing is added again.
    exclude_from_git(path, os.environ)
    assert len(excluded(repository)) == 2


def test_a_file_that_is_ignored_already_changes_nothing(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.local.json\n", "utf-8")
    exclude_from_git(made(repository), os.environ)
    assert excluded(repository) == []


def test_a_linked_working_tree_excludes_in_its_repository(repository: Path) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "begin")
    git(repository, "worktree", "add", "--quiet", "../linked")
    linked = repository.parent / "linked"
    exclude_from_git(made(linked), os.environ)
    assert excluded(repository) == [f"/{NAME}"]
    assert git(linked, "status", "--short") == ""


def test_no_link_of_a_repository_leads_to_another_file(repository: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n", "utf-8")
    exclude = repository / ".git" / "info" / "exclude"
    exclude.unlink()
    exclude.symlink_to(victim)
    path = made(repository)
    exclude_from_git(path, os.environ)
    exclude.unlink()
    (repository / ".git" / "info").rmdir()
    (tmp_path / "folder").mkdir()
    (repository / ".git" / "info").symlink_to(tmp_path / "folder")
    exclude_from_git(path, os.environ)
    assert victim.read_text("utf-8") == "mine\n"
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("how", ["link", "file"])
def test_a_repository_that_belongs_to_another_folder_is_not_written(
    repository: Path, tmp_path: Path, how: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    if how == "link":
        (other / ".git").symlink_to(repository / ".git")
    else:
        (other / ".git").write_text(f"gitdir: {repository / '.git'}\n", "utf-8")
    exclude_from_git(made(other), os.environ)
    assert excluded(repository) == []


def test_outside_of_a_repository_nothing_happens(tmp_path: Path) -> None:
    path = made(tmp_path / "plain")
    exclude_from_git(path, os.environ)
    assert list((tmp_path / "plain").iterdir()) == [path.parent]
