"""Changes by commands that don't name the file: undone from a copy or git, or reported as lost."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.record.rewind.changes import ABSENT, PathChange
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.git_index import read_tracked, same_look
from clew.record.rewind.repository import Objects
from clew.record.rewind.watch import AT_ONCE, CallWatch, Named
from tests.record.rewind.trips import Trip, bash


def git(folder: Path, *words: str, more: str = "") -> bytes:
    return subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
        input=more.encode(),
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Loose contents, packed ones with deltas, a link, an empty file, folders and odd names."""
    work = tmp_path / "work"
    (work / "deep" / "er").mkdir(parents=True)
    git(work, "init", "-q")
    (work / "empty").touch()
    (work / "to").symlink_to("deep/er")
    (work / "deep" / "caf\u00e9.txt").write_text("x", "utf-8")
    for version in range(6):
        lines = [f"line {n} {n * n}" for n in range(400)]
        lines[version] = f"changed in {version}"
        for n in range(8):
            text = "\n".join([f"file {n}", *lines])
            (work / "deep" / "er" / f"{n}.txt").write_text(text, "utf-8")
        git(work, "add", "-A")
        git(work, "commit", "-qm", f"v{version}")
    git(work, "gc", "-q", "--aggressive")
    (work / "loose").write_text("loose", "utf-8")
    git(work, "add", "loose")
    return work


def contents(work: Path) -> dict[bytes, bytes]:
    """Each tracked file as git itself gives it."""
    listed = git(work, "ls-files", "-s", "-z").split(b"\0")
    names = {line.split(b"\t")[1]: line.split()[1].decode() for line in listed if line}
    return {path: git(work, "cat-file", "blob", oid) for path, oid in names.items()}


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_index_and_contents_are_read_as_git_reads_them(repository: Path, version: str) -> None:
    git(repository, "update-index", f"--index-version={version}")
    if version == "3":
        (repository / "later").touch()
        git(repository, "add", "-N", "later")
    found = read_tracked((repository / ".git" / "index").read_bytes())
    assert found is not None
    assert len(list((repository / ".git" / "objects" / "pack").glob("*.pack"))) == 1
    objects = Objects(repository / ".git" / "objects")
    held = contents(repository)
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    again = read_tracked((repository / ".git" / "index").read_bytes())
    assert again is not None
    assert again.keys() == found.keys()
    assert {path: objects.blob(file.oid) for path, file in found.items()} == held
    assert [path for path, file in found.items() if file.is_link] == [b"to"]
    looks = {path: os.lstat(repository / os.fsdecode(path)) for path in found}
    same = {
        path
        for path, look in looks.items()
        if same_look(
            found[path].stamp, (look.st_size, look.st_mtime_ns, look.st_ctime_ns, look.st_ino)
        )
    }
    assert same == set(found) - {b"later"}
    assert objects.blob(bytes(20)) is None
    objects.close()


def test_borrowed_damaged_and_foreign_stores_are_no_contents(
    repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "--shared", str(repository), str(other))
    objects = Objects(other / ".git" / "objects")
    oid = git(repository, "rev-parse", "HEAD:deep/er/3.txt").decode().strip()
    assert objects.blob(bytes.fromhex(oid)) == (other / "deep/er/3.txt").read_bytes()
    tree = git(repository, "rev-parse", "HEAD:deep").decode().strip()
    assert objects.blob(bytes.fromhex(tree)) is None
    objects.close()
    for pack in (repository / ".git" / "objects" / "pack").iterdir():
        pack.chmod(0o600)
        data = bytearray(pack.read_bytes())
        for at in range(1100, len(data), 7):
            data[at] ^= 0xA5
        pack.write_bytes(bytes(data))
    damaged = Objects(repository / ".git" / "objects")
    assert damaged.blob(bytes.fromhex(oid)) is None
    damaged.close()


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: b"DIRC\0\0\0\2\0\0\0\1" + b))
def test_no_bytes_of_an_index_are_more_than_unreadable(data: bytes) -> None:
    found = read_tracked(data)
    assert found is None or isinstance(found, dict)


def test_an_index_that_is_spread_over_files_is_not_read(repository: Path) -> None:
    git(repository, "update-index", "--split-index")
    assert read_tracked((repository / ".git" / "index").read_bytes()) is None
    assert read_tracked(b"DIRC\0\0\0\5\0\0\0\0" + bytes(20)) is None


def test_what_a_command_changes_without_naming_it_comes_back(
    repository: Path, tmp_path: Path
) -> None:
    trip = Trip(tmp_path)
    (trip.work / "deep" / "er" / "1.txt").write_text("mine, not committed", "utf-8")
    (trip.work / "untracked").write_text("nobody's yet", "utf-8")
    (trip.work / ".gitignore").write_text("*.o\nout/\n", "utf-8")
    git(trip.work, "status")
    states = files(trip)
    ref = git(trip.work, "rev-parse", "HEAD")
    trip.turn(
        "one",
        bash(r"find . -path ./.git -prune -o -type f -exec sh -c 'echo x >> $1' - {} \;"),
        bash("for d in out; do mkdir $d; echo 2 > $d/b; done"),
    )
    assert files(trip) != states
    done = trip.rewind(trip.prompt("one"))
    assert done["done"], done
    assert files(trip) == states | {"out/b": "644 2\n"}
    git(trip.work, "fsck", "--strict")
    assert git(trip.work, "rev-parse", "HEAD") == ref


def test_a_switch_of_branches_comes_back_from_gits_own_contents(
    repository: Path, tmp_path: Path
) -> None:
    trip = Trip(tmp_path)
    git(trip.work, "commit", "-qm", "loose")
    states = files(trip)
    trip.turn("one", bash("git checkout -q HEAD~4 && rm -rf deep"))
    assert "deep/er/1.txt" not in files(trip)
    copied = sum(1 for path in blobs_dir(trip.home / "config").rglob("*") if path.is_file())
    assert copied <= len(states) + 1
    assert trip.rewind(trip.prompt("one"))["done"]
    assert files(trip) == states


def files(trip: Trip) -> dict[str, str]:
    return {k: v for k, v in trip.files().items() if v != "folder"}


def watched(watch: CallWatch, work: Path, line: str) -> list[PathChange]:
    before = watch.before(Named(), str(work), looks_everywhere=True)
    subprocess.run(["sh", "-c", line], cwd=work, check=True, timeout=60)
    return watch.after(before)[0]


def test_only_what_git_does_not_have_is_copied_and_each_once(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "commit", "-qm", "loose")
    blobs = Blobs(tmp_path / "home" / "clew" / "files")
    watch = CallWatch(blobs)
    assert watched(watch, repository, ":") == []
    assert len(list(blobs.each())) <= 1  # what was written in the moment of the index
    (repository / "mine").write_text("untracked", "utf-8")
    (repository / "loose").write_text("changed", "utf-8")
    assert watched(watch, repository, ":") == []
    kept = {blobs.get(name) for name, _ in blobs.each()}
    assert {b"untracked", b"changed"} <= kept
    assert len(kept) <= 3


def test_what_was_there_before_and_unseen_is_not_taken_for_new(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".gitignore").write_text("hidden\n", "utf-8")
    (work / "hidden").write_text("old", "utf-8")
    os.utime(work / "hidden", (1, 1))
    watch = CallWatch(Blobs(tmp_path / "home" / "clew" / "files"))
    before = watch.before(Named(), str(work), looks_everywhere=True)
    before.begin_ns += 10**15
    (work / ".gitignore").write_text("", "utf-8")
    changes = {Path(c.path).name: c for c in watch.after(before)[0]}
    assert changes["hidden"].before.kind == "unkept"
    assert watched(watch, work, "echo new > made")[0].before == ABSENT


def test_a_home_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret", "utf-8")
    blobs = Blobs(tmp_path / "config" / "clew" / "files")
    watch = CallWatch(blobs)
    assert watched(watch, tmp_path, ":") == []
    assert list(blobs.each()) == []


def test_what_a_first_command_does_not_wait_for_is_copied_after_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for n in range(AT_ONCE + 50):
        (work / f"{n}").write_text(f"number {n}", "utf-8")
    blobs = Blobs(tmp_path / "home" / "clew" / "files")
    watch = CallWatch(blobs)
    before = watch.before(Named(), str(work), looks_everywhere=True)
    assert len(list(blobs.each())) == AT_ONCE
    assert watch.after(before) == ([], 0)
    assert len(list(blobs.each())) == AT_ONCE + 50
    changes = watched(watch, work, "for f in *; do echo x >> $f; done")
    assert {c.before.kind for c in changes} == {"file"}
