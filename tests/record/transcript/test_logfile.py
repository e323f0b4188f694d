"""One file and its unsaved tail: what a failing disk can and cannot lose."""

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from clew.record.transcript.files import Files
from clew.record.transcript.logfile import LogFile
from tests.record.transcript.disk import Faulty, Powered
from tests.requirements import requirement

NAME = "0b5c2a1e-7d4f-4e0a-9c57-1f2e3d4c5b6a.jsonl"


def line(n: int) -> bytes:
    return b'{"n":%d,"text":"%s"}\n' % (n, b"x" * (n % 7))


def lines_in(*paths: Path) -> list[bytes]:
    found: list[bytes] = []
    for path in paths:
        if path.exists():
            found += [part + b"\n" for part in path.read_bytes().split(b"\n") if part]
    return found


def log_file(folder: Path, files: Files | None = None) -> LogFile:
    return LogFile(
        folder / "projects" / "p" / NAME,
        files=files or Files(),
        rescue_dirs=[folder / "spare"],
    )


@requirement("R164", "R242")
def test_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        file = log_file(tmp_path)
        file.write([line(1)])
        assert file.close() is None
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.path.parent.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_torn_last_line_is_ended_before_the_next_begins(tmp_path: Path, end: bytes) -> None:
    file = log_file(tmp_path)
    file.path.parent.mkdir(parents=True)
    file.path.write_bytes(line(1) + b'{"torn' + end)
    file.write([line(2)])
    file.close()
    assert file.path.read_bytes() == line(1) + b'{"torn\n' + line(2)


def test_a_batch_is_one_write(tmp_path: Path) -> None:
    calls: list[bytes] = []

    class Counting(Files):
        def write(self, fd: int, data: bytes) -> int:
            calls.append(data)
            return super().write(fd, data)

    file = log_file(tmp_path, Counting())
    file.write([line(1), line(2), line(3)])
    assert calls == [line(1) + line(2) + line(3)]
    file.close()


def run_script(file: LogFile) -> list[bytes]:
    """Writes, syncs now and then; what was answered for as durable."""
    handed: list[bytes] = []
    acknowledged: list[bytes] = []
    for n in range(1, 9):
        handed.append(line(n))
        file.write([line(n)])
        if n % 2 == 0:
            trouble = file.sync()
            if trouble is None or trouble.rescued_to is not None:
                acknowledged = list(handed)
    return acknowledged


def count_of_calls(folder: Path) -> int:
    probe = Faulty(0, under=folder / "projects")
    run_script(log_file(folder, probe))
    return probe.calls


@pytest.mark.no_cover
@requirement("W14", "R258")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("is_lasting", [False, True])
@pytest.mark.parametrize("short_bytes", [None, 1, 9])
def test_whatever_call_fails_nothing_acknowledged_is_lost(
    tmp_path: Path, code: int, is_lasting: bool, short_bytes: int | None
) -> None:
    calls = count_of_calls(tmp_path / "probe")
    assert calls > 15
    for n in range(1, calls + 1):
        folder = tmp_path / str(n)
        disk = Faulty(
            n, under=folder / "projects", code=code, is_lasting=is_lasting, short_bytes=short_bytes
        )
        file = log_file(folder, disk)
        acknowledged = run_script(file)
        found = set(lines_in(file.path, folder / "spare" / NAME))
        assert found >= set(acknowledged), f"call {n}"
        assert not is_lasting or acknowledged, "with a spare place everything can be acknowledged"
        disk.heal()
        assert file.close() is None
        everything = [line(k) for k in range(1, 9)]
        assert sorted(set(lines_in(file.path)) & set(everything)) == sorted(everything)
        assert not (folder / "spare" / NAME).exists(), (
            "an emergency copy goes when it is not needed"
        )


def test_without_any_place_left_the_tail_waits_in_memory(tmp_path: Path) -> None:
    disk = Faulty(1, under=tmp_path, is_lasting=True, code=errno.ENOSPC)
    file = log_file(tmp_path, disk)
    file.write([line(1)])
    trouble = file.sync()
    assert trouble is not None
    assert (trouble.unsaved_lines, trouble.rescued_to) == (1, None)
    assert "memory" in str(trouble)
    assert os.strerror(errno.ENOSPC) in str(trouble)
    disk.heal()
    file.write([line(2)])
    assert file.sync() is None
    assert lines_in(file.path) == [line(1), line(2)]
    file.close()


def test_a_recovery_file_is_named_and_brought_home_by_the_next_run(tmp_path: Path) -> None:
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True, code=errno.EROFS)
    file = log_file(tmp_path, disk)
    file.write([line(1), line(2)])
    trouble = file.sync()
    assert trouble is not None
    assert trouble.rescued_to == tmp_path / "spare" / NAME
    assert str(trouble.rescued_to) in str(trouble)
    # The process ends here. The next one finds a disk that works.
    assert file.close() is not None
    following = log_file(tmp_path)
    following.write([line(3)])
    assert following.close() is None
    assert lines_in(following.path) == [line(1), line(2), line(3)]
    assert not (tmp_path / "spare" / NAME).exists()


def test_a_run_that_finds_the_disk_as_it_was_continues_in_the_recovery_file(tmp_path: Path) -> None:
    copy = tmp_path / "spare" / NAME
    for number in (1, 2, 3):
        disk = Faulty(1, under=tmp_path / "projects", is_lasting=True, code=errno.EROFS)
        file = log_file(tmp_path, disk)
        assert file.claim()
        file.write([line(number)])
        trouble = file.sync()
        assert trouble is not None
        assert (trouble.unsaved_lines, trouble.rescued_to) == (number, copy)
        assert lines_in(copy) == [line(n) for n in range(1, number + 1)]
        if number < 3:
            file.close()
    disk.heal()
    assert file.close() is None
    assert lines_in(file.path) == [line(1), line(2), line(3)]
    assert not copy.exists()


class Closed(Files):
    """A disk with a folder that nobody may look into: whether there is a file is not to be known."""

    def exists(self, path: Path) -> bool:
        if path.parent.name == "p":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return super().exists(path)


def test_where_nobody_may_look_a_file_is_taken_with_what_its_copy_has(tmp_path: Path) -> None:
    copy = tmp_path / "spare" / NAME
    copy.parent.mkdir(mode=0o700)
    copy.write_bytes(line(1))
    file = log_file(tmp_path, Closed())
    assert file.claim()
    assert file.trouble is not None
    assert (file.trouble.reason, file.trouble.rescued_to) == ("Permission denied", copy)
    file.close()
    assert lines_in(copy) == [line(1)]
    following = log_file(tmp_path)
    assert following.claim()
    assert following.close() is None
    assert lines_in(following.path, copy) == [line(1)]


def test_a_recovery_file_has_one_writer(tmp_path: Path) -> None:
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True, code=errno.EROFS)
    first, second = log_file(tmp_path, disk), log_file(tmp_path, disk)
    first.write([line(1)])
    assert first.sync() is not None
    assert not second.claim()
    first.close()
    assert second.claim()
    second.close()


class Full(Files):
    """A disk that gives out names and takes no byte."""

    def write(self, fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_copy_that_nothing_could_be_written_to_does_not_stay(tmp_path: Path) -> None:
    file = log_file(tmp_path, Full())
    file.write([line(1)])
    trouble = file.sync()
    assert trouble is not None
    assert trouble.rescued_to is None
    assert not (tmp_path / "spare" / NAME).exists()
    file.close()


def test_a_copy_that_someone_removed_is_made_again_with_everything(tmp_path: Path) -> None:
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True, code=errno.EROFS)
    file = log_file(tmp_path, disk)
    file.write([line(1)])
    file.sync()
    (tmp_path / "spare" / NAME).unlink()
    file.write([line(2)])
    file.sync()
    assert lines_in(tmp_path / "spare" / NAME) == [line(1), line(2)]
    file.close()


def test_copies_in_two_places_are_all_brought_home(tmp_path: Path) -> None:
    places = [tmp_path / "first", tmp_path / "second"]
    for number, place in enumerate(places):
        place.mkdir(mode=0o700)
        (place / NAME).write_bytes(b"\n" + line(number))
    file = LogFile(tmp_path / "projects" / NAME, files=Files(), rescue_dirs=places)
    assert file.claim()
    assert lines_in(file.path) == [line(0), line(1)]
    assert not any((place / NAME).exists() for place in places)
    file.close()


def test_what_an_earlier_run_left_stands_before_what_is_not_saved_though_nobody_claimed_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "spare").mkdir(mode=0o700)
    (tmp_path / "spare" / NAME).write_bytes(b"\n" + line(1))
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True, code=errno.EROFS)
    file = log_file(tmp_path, disk)
    file.write([line(2)])
    assert file.sync() is not None
    assert lines_in(tmp_path / "spare" / NAME) == [line(1), line(2)]
    disk.heal()
    assert file.close() is None
    assert lines_in(file.path) == [line(1), line(2)]
    assert not (tmp_path / "spare" / NAME).exists()


def test_a_recovery_file_has_each_line_once_though_a_better_place_is_tried_each_time(
    tmp_path: Path,
) -> None:
    (tmp_path / "projects").write_bytes(b"")  # no folder can be made here, nor in the first place
    (tmp_path / "first").write_bytes(b"")
    places = [tmp_path / "first" / "deep", tmp_path / "second"]
    file = LogFile(tmp_path / "projects" / NAME, files=Files(), rescue_dirs=places)
    for number in (1, 2, 3):
        file.write([line(number)])
        trouble = file.sync()
        assert trouble is not None
        assert trouble.rescued_to == tmp_path / "second" / NAME
    written = (tmp_path / "second" / NAME).read_bytes().split(b"\n")
    assert [raw + b"\n" for raw in written if raw] == [line(1), line(2), line(3)]


def test_nothing_is_rescued_into_or_taken_from_a_folder_open_to_others(tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    spare.chmod(0o777)
    (spare / NAME).write_bytes(b'{"planted":true}\n')
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True)
    file = log_file(tmp_path, disk)
    file.write([line(1)])
    trouble = file.sync()
    assert trouble is not None
    assert trouble.rescued_to is None
    disk.heal()
    assert file.close() is None
    assert lines_in(file.path) == [line(1)]


def test_a_folder_that_vanishes_comes_back_with_the_whole_session(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.write([line(1)])
    file.sync()
    shutil.rmtree(tmp_path / "projects")
    file.write([line(2)])
    assert file.sync() is None
    assert lines_in(file.path) == [line(1), line(2)]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    file.close()


def test_a_folder_that_is_moved_away_comes_back_with_the_whole_session(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.write([line(1)])
    file.sync()
    (tmp_path / "projects").rename(tmp_path / "elsewhere")
    file.write([line(2)])
    assert file.sync() is None
    assert lines_in(file.path) == [line(1), line(2)]
    file.close()


class Asked(Files):
    """Counts how often it is asked whether a path still names its file."""

    count = 0

    def is_at(self, fd: int, path: Path) -> bool:
        self.count += 1
        return super().is_at(fd, path)


def test_it_is_asked_once_for_each_promise_whether_the_file_is_still_at_its_path(
    tmp_path: Path,
) -> None:
    files = Asked()
    file = log_file(tmp_path, files)
    for n in range(3):
        file.write([line(n)])
        file.write([line(n)])
        assert file.sync() is None
    assert files.count == 3
    file.close()


def test_while_a_vanished_folder_cannot_come_back_the_tail_is_kept(tmp_path: Path) -> None:
    for n in range(1, 12):
        folder = tmp_path / str(n)
        disk = Faulty(99, under=folder / "projects", code=errno.ENOSPC, is_lasting=True)
        file = log_file(folder, disk)
        file.write([line(1)])
        file.sync()
        shutil.rmtree(folder / "projects")
        disk.fail_from_now(n)
        file.write([line(2)])
        file.sync()
        disk.heal()
        assert file.sync() is None
        assert set(lines_in(file.path)) == {line(1), line(2)}, n
        file.close()


def test_a_file_put_in_our_place_is_continued(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.write([line(1)])
    file.sync()
    other = file.path.with_suffix(".new")
    other.write_bytes(line(1) + line(7))
    other.rename(file.path)
    file.write([line(2)])
    assert file.close() is None
    assert lines_in(file.path) == [line(1), line(7), line(2)]


@requirement("W29")
def test_a_second_writer_gets_a_value_and_never_a_byte_into_the_file(tmp_path: Path) -> None:
    first, second = log_file(tmp_path), log_file(tmp_path)
    assert first.claim()
    first.write([line(1)])
    assert first.sync() is None
    assert not second.claim()
    second.write([line(2)])
    trouble = second.sync()
    assert trouble is not None
    assert "another process" in trouble.reason
    assert lines_in(first.path) == [line(1)]
    first.close()
    assert second.claim()
    assert second.close() is None
    assert lines_in(first.path) == [line(1), line(2)]


def test_what_others_append_in_the_meantime_stays(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.write([line(1)])
    with file.path.open("ab") as host:
        host.write(b'{"type":"custom-title"}\n')
    file.write([line(2)])
    file.close()
    assert lines_in(file.path) == [line(1), b'{"type":"custom-title"}\n', line(2)]


def test_a_link_to_nothing_makes_no_file_elsewhere(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.path.parent.mkdir(parents=True)
    file.path.symlink_to(tmp_path / "elsewhere")
    file.write([line(1)])
    assert file.sync() is not None
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_of_the_users_own_leads_to_the_transcript(tmp_path: Path) -> None:
    file = log_file(tmp_path)
    file.path.parent.mkdir(parents=True)
    target = tmp_path / "kept"
    target.write_bytes(line(0))
    file.path.symlink_to(target)
    file.write([line(1)])
    assert file.sync() is None
    assert target.read_bytes() == line(0) + line(1)
    assert file.path.is_symlink()


@requirement("W23")
def test_a_power_cut_after_any_step_takes_nothing_acknowledged(tmp_path: Path) -> None:
    disk = Powered()
    file = log_file(tmp_path, disk)
    acknowledged: list[bytes] = []
    handed: list[bytes] = []
    states = 0
    for n in range(1, 7):
        handed.append(line(n))
        file.write([line(n)])
        if n % 2 == 0:
            assert file.sync() is None
            acknowledged = list(handed)
        for content in disk.after_cut(file.path):
            states += 1
            whole = [part + b"\n" for part in content.split(b"\n")[:-1]]
            assert whole[: len(acknowledged)] == acknowledged
    assert states > 40
    file.close()
