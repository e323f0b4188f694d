"""Git queries in a real repository: the output is parsed, reported and limited."""

import asyncio
import os
import subprocess
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agent.context import git, git_report
from clew.agent.context.git import waits_at
from clew.agent.context.git_report import Commit, Report, format_report, read_log, read_status
from clew.system.process.spawn import Launcher
from tests.requirements import requirement

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
WHO = {
    f"GIT_{w}_{k}": v
    for w in ("AUTHOR", "COMMITTER")
    for k, v in (("NAME", "Ann"), ("EMAIL", "a@b.c"))
}


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=ENV | WHO, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-b", "main")
    for name in ("a.py", "b.py", "c c.py", "d.py"):
        (tmp_path / name).write_text("1\n", "utf-8")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "-m", "begin: with a | sign")
    run_git(tmp_path, "checkout", "-b", "topic")
    return tmp_path


def with_launcher(ask: Any) -> Any:
    async def main() -> Any:
        launcher = Launcher()
        try:
            return await ask(launcher)
        finally:
            await launcher.aclose()

    work: Coroutine[Any, Any, Any] = main()
    return asyncio.run(work)


def report(folder: Path, **more: Any) -> Report | None:
    found: Report | None = with_launcher(lambda launcher: git.report(launcher, folder, ENV, **more))
    return found


@requirement("R118")
def test_a_repository_is_reported_with_its_lists_and_commits(repository: Path) -> None:
    (repository / "a.py").write_text("2\n", "utf-8")
    (repository / "b.py").write_text("2\n", "utf-8")
    run_git(repository, "add", "b.py")
    run_git(repository, "mv", "d.py", "e.py")
    (repository / "new é.txt").write_text("n", "utf-8")
    found = report(repository)
    assert found is not None
    assert (found.branch, found.main_branch) == ("topic", "main")
    assert found.staged == ("b.py", "e.py")
    assert found.modified == ("a.py",)
    assert found.untracked == ("new é.txt",)
    (commit,) = found.commits
    assert (commit.author, commit.subject) == ("Ann", "begin: with a | sign")
    assert commit.hash
    assert "T" in commit.at
    assert not found.is_cut


@requirement("R118")
def test_git_takes_no_lock_and_writes_nothing(repository: Path) -> None:
    (repository / "a.py").touch()
    before = (repository / ".git" / "index").read_bytes()
    report(repository)
    assert (repository / ".git" / "index").read_bytes() == before
    assert git.ENVIRONMENT["GIT_OPTIONAL_LOCKS"] == "0"


def test_no_repository_is_no_report(tmp_path: Path) -> None:
    assert report(tmp_path) is None


def test_no_git_is_no_report(tmp_path: Path) -> None:
    lonely = ENV | {"PATH": str(tmp_path)}
    assert with_launcher(lambda launcher: git.report(launcher, tmp_path, lonely)) is None


def test_a_repository_before_its_first_commit(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-b", "trunk")
    found = report(tmp_path)
    assert found == Report(branch="trunk")


def test_the_main_branch_is_the_one_the_origin_names(repository: Path) -> None:
    run_git(repository, "update-ref", "refs/remotes/origin/develop", "HEAD")
    run_git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop")
    found = report(repository)
    assert found is not None
    assert found.main_branch == "develop"


@requirement("R118")
def test_the_difference_is_there_for_those_who_ask(repository: Path) -> None:
    assert with_launcher(lambda launcher: git.read_difference(launcher, repository, ENV)) == ""
    (repository / "a.py").write_text("changed\n", "utf-8")
    made = with_launcher(lambda launcher: git.read_difference(launcher, repository, ENV))
    assert "+changed" in made


def test_a_long_difference_is_cut_and_says_so(repository: Path) -> None:
    (repository / "a.py").write_text("x\n" * 200_000, "utf-8")
    made = with_launcher(lambda launcher: git.read_difference(launcher, repository, ENV))
    assert made.endswith("(output truncated)")
    assert len(made) < git.KEEP_BYTES + 100


STATUS = "\0".join(
    [
        "# branch.oid abc",
        "# branch.head topic",
        "# branch.ab +2 -1",
        "1 MM N... 100644 100644 100644 aaa bbb both.py",
        "2 R. N... 100644 100644 100644 aaa bbb R100 new name.py",
        "old name.py",
        "u UU N... 100644 100644 100644 100644 aaa bbb ccc torn.py",
        "? extra\nline.txt",
        "! ignored",
        "1 cut",
        "",
    ]
)


def test_the_status_is_read_field_by_field() -> None:
    assert read_status(STATUS) == Report(
        branch="topic",
        ahead=2,
        behind=1,
        staged=("both.py", "new name.py"),
        modified=("both.py",),
        untracked=("extra\nline.txt",),
        conflicted=("torn.py",),
    )
    assert read_status("# branch.head (detached)\0# branch.ab odd").branch == "HEAD"


def test_the_report_is_told_on_clean_lines() -> None:
    lines = format_report(read_status(STATUS)).split("\n")
    assert lines == [
        "Branch: topic (2 ahead, 1 behind its upstream)",
        "Conflicted:", "  torn.py", "Staged:", "  both.py", "  new name.py",
        "Modified:", "  both.py", "Untracked:", "  'extra\\nline.txt'",
    ]  # fmt: skip
    commit = Commit(hash="1", author="Ann", at="now", subject="begin")
    clean = format_report(Report(branch="main", main_branch="main", commits=(commit,)))
    assert clean.split("\n")[1:] == ["Main branch: main", "Working tree: clean", "Recent commits:", "  1 now Ann: begin"]  # fmt: skip
    assert "Working tree: unknown" in format_report(Report(branch="x", is_cut=True))


def test_many_paths_are_told_in_few_lines() -> None:
    many = Report(branch="x", untracked=tuple(f"f{n}" for n in range(5_000)), is_cut=True)
    words = format_report(many)
    assert "... and 4960 more" in words
    assert "(incomplete:" in words
    assert len(format_report(Report(branch="b" * 9_000))) == git_report.MAX_TOLD


@given(st.text(st.sampled_from("12u?#! .MR\0abc+-"), max_size=60))
def test_any_output_is_read(output: str) -> None:
    assert format_report(read_status(output))
    assert read_log(output) == ()


NAMES = (
    ".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/refs/heads/topic",
    ".git/info/exclude", ".gitignore", "deeper/still/.gitignore",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_at_which_git_waits_for_ever_holds_nobody_up(
    repository: Path, name: str, kind: str
) -> None:
    """Git itself would wait forever here; the test's own time limit would end it."""
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "new.py").write_text("1\n", "utf-8")
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    found = report(repository, timeout_s=3600)
    # A link is not followed everywhere; then there is an answer.
    assert found is None or (kind == "device" and found.branch)


def test_pipes_that_git_does_not_open_hold_no_report(repository: Path) -> None:
    os.mkfifo(repository / "pipe")
    (repository / ".git" / "packed-refs").symlink_to(os.devnull)
    (repository / ".git" / "ipc").symlink_to("nowhere")
    found = report(repository)
    assert found is not None
    assert found.branch == "topic"


def test_a_linked_checkout_is_looked_through_where_its_repository_lies(repository: Path) -> None:
    linked = repository.parent / f"{repository.name}-linked"
    run_git(repository, "worktree", "add", "-b", "other", str(linked))
    found = report(linked)
    assert found is not None
    assert found.branch == "other"
    assert waits_at(linked, everywhere=True) is None
    (own,) = (repository / ".git" / "worktrees").iterdir()
    (own / "HEAD").unlink()
    os.mkfifo(own / "HEAD")
    assert report(linked, timeout_s=3600) is None
    os.mkfifo(repository / ".git" / "refs" / "heads" / "pipe")
    (own / "HEAD").unlink()
    assert str(waits_at(linked, everywhere=True)).endswith("/refs/heads/pipe")
    assert waits_at(Path("/")) is None
