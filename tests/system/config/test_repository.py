"""Programs that a repository's own settings would have git start, held against git itself."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.system.config.git_config import list_submodules
from clew.system.config.git_guard import find_repository_programs, is_bare


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=folder, env={**os.environ, **IDENTITY}, check=False, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
} | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with one commit, whose `./mark` leaves a file named `ran` outside of it."""
    folder = tmp_path / "top"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("a\n", "utf-8")
    git(folder, "add", "a")
    git(folder, "commit", "-q", "-m", "one")
    mark = tmp_path / "mark"
    mark.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", "utf-8")
    mark.chmod(0o755)
    return folder


def test_a_plain_repository_names_nothing_and_so_does_a_folder_without_one(top: Path) -> None:
    assert find_repository_programs(str(top)) == ()
    assert find_repository_programs(str(top.parent)) == ()


def by_config(top: Path, mark: Path) -> Path:
    git(top, "config", "core.fsmonitor", str(mark))
    return top


def by_a_folder_below(top: Path, mark: Path) -> Path:
    by_config(top, mark)
    (top / "below").mkdir()
    return top / "below"


def by_an_include(top: Path, mark: Path) -> Path:
    (top / "more").write_text(f"[core] fsmonitor = {mark}\n", "utf-8")
    git(top, "config", "include.path", "../more")
    return top


def by_a_condition(top: Path, mark: Path) -> Path:
    (top / "more").write_text(f"[core] fsmonitor = {mark}\n", "utf-8")
    git(top, "config", f"includeIf.gitdir:{top}/.path", "../more")
    return top


def by_a_worktrees_own_file(top: Path, mark: Path) -> Path:
    git(top, "config", "extensions.worktreeConfig", "true")
    git(top, "config", "--worktree", "core.fsmonitor", str(mark))
    return top


def by_a_linked_worktree(top: Path, mark: Path) -> Path:
    git(top, "worktree", "add", "-q", "../linked")
    by_config(top, mark)
    return top.parent / "linked"


def by_a_file_that_names_the_folder(top: Path, mark: Path) -> Path:
    by_config(top, mark)
    (top / ".git").rename(top / "meta")
    (top / ".git").write_text("gitdir: meta\n", "utf-8")
    return top


def by_a_bare_repository(top: Path, mark: Path) -> Path:
    git(top.parent, "clone", "-q", "--bare", str(top), "bare")
    bare = top.parent / "bare"
    (bare / "config").write_text(
        f"[core]\nrepositoryformatversion = 0\nworktree = .\nfsmonitor = {mark}\n", "utf-8"
    )
    return bare


def by_a_false_folder_first(top: Path, mark: Path) -> Path:
    """Git passes by what is no repository, and so does the look."""
    (top / "below" / ".git").mkdir(parents=True)
    by_config(top, mark)
    return top / "below"


def by_a_hook(top: Path, mark: Path) -> Path:
    hook = top / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(mark.read_bytes())
    hook.chmod(0o755)
    later(top / "a")
    return top


def by_a_folder_of_hooks(top: Path, mark: Path) -> Path:
    hook = top / "own" / "post-index-change"
    hook.parent.mkdir()
    hook.write_bytes(mark.read_bytes())
    hook.chmod(0o755)
    git(top, "config", "core.hooksPath", "own")
    later(top / "a")
    return top


def by_a_filter(top: Path, mark: Path) -> Path:
    (top / ".gitattributes").write_text("* filter=f\n", "utf-8")
    git(top, "config", "filter.f.clean", f"{mark}; cat")
    (top / "a").write_text("b\n", "utf-8")
    return top


def by_a_submodule(top: Path, mark: Path) -> Path:
    git(top.parent, "clone", "-q", str(top), "other")
    git(top, "submodule", "--quiet", "add", "../other", "sub")
    git(top / "sub", "config", "core.fsmonitor", str(mark))
    return top


def by_a_repository_within(top: Path, mark: Path) -> Path:
    """A submodule that `.gitmodules` does not know: git asks it all the same."""
    git(top.parent, "clone", "-q", str(top), str(top / "within"))
    git(top, "add", "within")
    git(top / "within", "config", "core.fsmonitor", str(mark))
    return top


def by_a_split_index(top: Path, mark: Path) -> Path:
    by_a_repository_within(top, mark)
    git(top, "update-index", "--split-index")
    return top


def by_a_fourth_index(top: Path, mark: Path) -> Path:
    by_a_repository_within(top, mark)
    git(top, "update-index", "--index-version", "4")
    return top


WAYS = [
    by_config, by_a_folder_below, by_an_include, by_a_condition, by_a_worktrees_own_file,
    by_a_linked_worktree, by_a_file_that_names_the_folder, by_a_bare_repository, by_a_false_folder_first,
    by_a_hook, by_a_folder_of_hooks, by_a_filter, by_a_submodule, by_a_repository_within, by_a_split_index,
    by_a_fourth_index,
]  # fmt: skip


def later(file: Path) -> None:
    """Gives a file another time, so that git refreshes its index."""
    os.utime(file, (1_000_000_000, 1_000_000_000))


@pytest.mark.parametrize("way", WAYS)
def test_where_git_status_starts_a_program_its_setting_is_named(
    top: Path, way: Callable[[Path, Path], Path]
) -> None:
    where = way(top, top.parent / "mark")
    (top.parent / "ran").unlink(missing_ok=True)
    named = find_repository_programs(str(where))
    git(where, "status")
    assert (top.parent / "ran").exists(), "the way does not show what it is for"
    assert named


def test_a_change_of_the_settings_is_seen_at_the_next_look(top: Path) -> None:
    for file in (top / ".git").rglob("*"):
        later(file)
    assert find_repository_programs(str(top)) == ()
    (top / ".git" / "config").write_text("[core]\npager = x\n", "utf-8")
    assert find_repository_programs(str(top)) == ("core.pager",)
    (top / ".git" / "config").write_text("[core]\neditor = x\n", "utf-8")
    assert find_repository_programs(str(top)) == ("core.editor",)


def test_a_working_tree_elsewhere_is_named_because_its_files_would_be_shown(top: Path) -> None:
    git(top, "config", "core.worktree", str(top.parent))
    assert find_repository_programs(str(top)) == ("core.worktree",)
    git(top, "config", "core.worktree", "..")
    assert find_repository_programs(str(top)) == ()


@pytest.mark.parametrize("text", ["[core\n", "[a]\nb = \\x\n", "[a]\nb=" + "x" * 2_000_000])
def test_settings_that_cannot_be_read_are_named_as_such(top: Path, text: str) -> None:
    (top / ".git" / "config").write_text(text, "utf-8")
    (named,) = find_repository_programs(str(top))
    assert named.startswith(".git/config: ")


def test_an_index_that_cannot_be_read_is_named(top: Path) -> None:
    (top / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1" + b"\xff" * 40 + b"\0\0\xe0\0")
    assert find_repository_programs(str(top)) == (".git/index cannot be read",)


def test_files_that_include_one_another_come_to_an_end(top: Path) -> None:
    git(top, "config", "include.path", "config")
    assert find_repository_programs(str(top)) == ("include.path",)


def test_a_file_below_gits_own_installation_is_named_because_it_is_not_known_here(
    top: Path,
) -> None:
    git(top, "config", "include.path", "%(prefix)/x")
    assert find_repository_programs(str(top)) == ("include.path",)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(top: Path) -> None:
    (top / ".git" / "config").unlink()
    os.mkfifo(top / ".git" / "config")
    (named,) = find_repository_programs(str(top))
    assert named.startswith(".git/config: ")


def test_a_bare_repository_is_known_from_the_folders_within_too(top: Path) -> None:
    git(top.parent, "clone", "-q", "--bare", str(top), "bare")
    bare = top.parent / "bare"
    assert is_bare(bare)
    assert is_bare(bare / "refs" / "heads")
    assert not is_bare(top)
    assert not is_bare(top.parent)
    assert not is_bare(top / ".git")


def test_an_index_with_names_of_32_bytes_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "within").mkdir()
    git(tmp_path / "within", "init", "-q", "--object-format=sha256")
    git(tmp_path / "within", "commit", "-q", "--allow-empty", "-m", "x")
    git(tmp_path, "add", "within")
    assert list_submodules((tmp_path / ".git" / "index").read_bytes()) == (b"within",)


def test_an_index_that_writes_what_names_share_is_read(top: Path) -> None:
    for name in ("long" + "x" * 300, "within"):
        git(top.parent, "clone", "-q", str(top), f"top/{name}"[:200])
        git(top, "add", name[:196])
    git(top, "update-index", "--index-version", "4")
    found = list_submodules((top / ".git" / "index").read_bytes())
    assert found == (b"long" + b"x" * 192, b"within")


@pytest.mark.parametrize("index", [b"", b"DIRC\0\0\0\2\0\0\0\0", b"x" * 100])
def test_an_index_without_submodules_is_not_looked_through(index: bytes) -> None:
    assert list_submodules(index) == ()


@pytest.mark.parametrize(
    "index", [b"\0\0\xe0\0" * 30, b"DIRC\0\0\0\5" + b"\0\0\xe0\0" * 30, b"DIRC\0\0\0\2\0\0\xe0\0"]
)
def test_an_index_that_may_hold_a_submodule_and_cannot_be_read_is_a_fault(index: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        list_submodules(index)
