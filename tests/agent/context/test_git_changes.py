"""Changes that git reports: real repositories, and truncated or unusual output."""

from pathlib import Path

import pytest

from clew.agent.context import git
from clew.agent.context.git import Changes
from clew.agent.context.git_report import GitChange, Hunk, describe_untracked, read_changes
from clew.system.process.spawn import Launcher
from tests.agent.context.test_git import ENV, repository, run_git

__all__ = ["repository"]


async def changes(folder: Path) -> Changes:
    launcher = Launcher()
    try:
        found = await git.find_changes(launcher, folder, ENV)
    finally:
        await launcher.aclose()
    assert found is not None
    return found


async def named(folder: Path) -> dict[str, GitChange]:
    return {one.path: one for one in (await changes(folder)).files}


async def test_every_kind_of_change_is_read_with_its_lines(repository: Path) -> None:
    (repository / "long").write_text("".join(f"{n}\n" for n in range(40)), "utf-8")
    (repository / "moved").write_text("".join(f"row {n}\n" for n in range(20)), "utf-8")
    (repository / "link").symlink_to("a.py")
    (repository / "data").write_bytes(b"\0\1")
    (repository / "tail").write_text("no end", "utf-8")
    (repository / "empty lines").write_text("1\n\n\n2\n", "utf-8")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-m", "more")
    # What a person's configuration says of differences is for people.
    for key, value in (
        ("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("color.ui", "always"),
        ("diff.suppressBlankEmpty", "true"), ("diff.context", "9"), ("diff.relative", "true"),
        ("diff.external", "false"), ("core.quotePath", "true"), ("diff.renames", "false"),
    ):  # fmt: skip
        run_git(repository, "config", key, value)
    long = (repository / "long").read_text("utf-8")
    (repository / "long").write_text(long.replace("3\n", "three\n", 1).replace("30\n", ""), "utf-8")
    (repository / "moved").rename(repository / "a\tnew :name")
    (repository / "link").unlink()
    (repository / "link").write_text("a file\n", "utf-8")
    (repository / "data").write_bytes(b"\0\2")
    (repository / "tail").write_text("no end\n", "utf-8")
    (repository / "empty lines").write_text("1\n\n\n3\n", "utf-8")
    (repository / "b.py").unlink()
    (repository / "ä ö.py").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "utf-8")
    run_git(repository, "add", "-A")
    (repository / "new").write_text("one\ntwo", "utf-8")
    (repository / "big").write_bytes(b"x" * (git.NEW_FILE_BYTES + 1))
    (repository / "void").write_bytes(b"")
    (repository / "picture").write_bytes(b"\0\0")
    (repository / "nowhere").symlink_to("gone")
    (repository / ".gitignore").write_text("*.log\n", "utf-8")
    (repository / "x.log").write_text("1\n", "utf-8")
    (repository / "sub").mkdir()
    found = await named(repository / "sub")
    assert sorted(found) == sorted(
        [
            "long", "a\tnew :name", "link", "data", "tail", "empty lines", "b.py", "ä ö.py", "new",
            "big", "void", "picture", ".gitignore",
        ]
    )  # fmt: skip
    assert found["long"] == GitChange(
        path="long",
        status="modified",
        added=1,
        removed=2,
        hunks=(
            Hunk(
                old_start=1,
                old_lines=7,
                new_start=1,
                new_lines=7,
                lines=(" 0", " 1", " 2", "-3", "+three", " 4", " 5", " 6"),
            ),
            Hunk(
                old_start=28,
                old_lines=7,
                new_start=28,
                new_lines=6,
                lines=(" 27", " 28", " 29", "-30", " 31", " 32", " 33"),
            ),
        ),
    )
    moved = found["a\tnew :name"]
    assert (moved.status, moved.previous, moved.hunks) == ("renamed", "moved", ())
    link = found["link"]
    assert (link.status, [h.lines for h in link.hunks or ()]) == (
        "modified",
        [("-a.py",), ("+a file",)],
    )
    assert (found["data"].is_binary, found["data"].hunks) == (True, ())
    assert [h.lines for h in found["tail"].hunks or ()] == [("-no end", "+no end")]
    assert [h.lines for h in found["empty lines"].hunks or ()] == [
        (" 1", " ", " ", "-2", "+3"),
    ]
    assert (found["b.py"].status, found["b.py"].removed) == ("removed", 1)
    odd = found["ä ö.py"]
    assert (odd.status, odd.is_untracked, odd.added) == ("added", False, 3)
    assert [h.lines for h in odd.hunks or ()] == [("+--- a/x", "++++ b/x", "+@@ -1 +1 @@")]
    new = found["new"]
    assert (new.status, new.is_untracked, new.added) == ("added", True, 2)
    assert [h.lines for h in new.hunks or ()] == [("+one", "+two")]
    assert (found["big"].hunks, found["big"].is_binary) == (None, False)
    assert (found["picture"].hunks, found["picture"].is_binary) == ((), True)
    assert found["void"].hunks == ()


async def test_before_the_first_commit_everything_is_new(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-b", "main")
    (tmp_path / "a").write_text("1\n", "utf-8")
    run_git(tmp_path, "add", "a")
    found = await named(tmp_path)
    assert (found["a"].status, found["a"].is_untracked, found["a"].added) == ("added", False, 1)


async def test_a_clean_branch_is_told_by_what_it_adds_to_the_main_one(repository: Path) -> None:
    (repository / "of the branch").write_text("1\n", "utf-8")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-m", "more")
    found = await changes(repository)
    assert [one.path for one in found.files] == ["of the branch"]
    assert (found.branch, len(found.base)) == ("main", 40)
    # What is not committed comes first.
    (repository / "a.py").write_text("2\n", "utf-8")
    found = await changes(repository)
    assert ([one.path for one in found.files], found.base) == (["a.py"], "")
    run_git(repository, "checkout", "-f", "main")
    assert (await changes(repository)) == Changes(root=repository, files=())


async def test_a_merge_that_waits_is_told_as_it_stands(repository: Path) -> None:
    for branch, text in (("main", "main\n"), ("topic", "topic\n")):
        run_git(repository, "checkout", branch)
        (repository / "a.py").write_text(text, "utf-8")
        run_git(repository, "commit", "-am", branch)
    with pytest.raises(Exception, match="merge"):
        run_git(repository, "merge", "main")
    found = await named(repository)
    assert list(found) == ["a.py"]
    assert any("+<<<<<<< HEAD" in hunk.lines for hunk in found["a.py"].hunks or ())


async def test_where_is_no_repository_there_are_no_changes(tmp_path: Path) -> None:
    launcher = Launcher()
    try:
        assert await git.find_changes(launcher, tmp_path, ENV) is None
    finally:
        await launcher.aclose()


async def test_files_that_git_does_not_know_are_bounded(repository: Path) -> None:
    for number in range(git.NEW_FILES + 3):
        (repository / f"n{number:04}").write_text("1\n", "utf-8")
    found = await changes(repository)
    assert (len(found.files), found.is_cut) == (git.NEW_FILES, True)


RAW = (
    b":100644 100644 1 2 M\0a\0:100644 100644 1 2 R050\0o\0n\0:100644 100644 1 2 M\0z\0"
    b"1\t1\ta\0" b"1\t0\t\0o\0n\0" b"-\t-\tz\0\0"
)  # fmt: skip
PATCH = (
    b"diff --git a/a b/a\nindex 1..2\n--- a/a\n+++ b/a\n@@ -1 +1 @@ above\n-x\n+y\n\\ No newline at end of file\n"
    b"diff --git a/o b/n\n@@ -1,0 +2 @@\n+w\n"
    b"diff --git a/z b/z\nBinary files a/z and b/z differ\n"
)


def test_an_output_that_is_cut_gives_what_is_whole_in_it() -> None:
    whole = read_changes(RAW + PATCH)
    assert [(c.path, c.previous, c.status) for c in whole] == [
        ("a", "", "modified"),
        ("n", "o", "renamed"),
        ("z", "", "modified"),
    ]
    assert [len(c.hunks or ()) for c in whole] == [1, 1, 0]
    data = RAW + PATCH
    for end in range(len(data)):
        found = read_changes(data[:end], is_cut=True)
        assert len(found) <= len(whole)
        for one, full in zip(found, whole, strict=False):
            assert one.hunks is None or one.hunks == full.hunks, (end, one)
    assert read_changes(b"") == []
    assert read_changes(b"odd\0\0nothing of a patch\n@@ -1 +1 @@\n") == []


def test_a_hunk_that_promises_more_than_there_is_ends_with_the_patch() -> None:
    (change,) = read_changes(
        b":1 1 1 2 M\0a\0" + b"1\t1\ta\0\0diff --git a/a b/a\n@@ -1,5 +1,5 @@\n x"
    )
    assert [hunk.lines for hunk in change.hunks or ()] == [(" x",)]


def test_a_new_file_is_all_its_lines_as_far_as_it_is_text() -> None:
    assert describe_untracked("a", b"") == GitChange(path="a", status="added", is_untracked=True)
    assert describe_untracked("a", None).hunks is None
    assert describe_untracked("a", b"\0").is_binary
    assert [h.lines for h in describe_untracked("a", b"x").hunks or ()] == [("+x",)]
    assert describe_untracked("a", b"\xff\r\n").hunks == (
        Hunk(old_start=0, old_lines=0, new_start=1, new_lines=1, lines=("+\ufffd\r",)),
    )
