"""Output in bounded memory: head and tail are exact, the file holds the whole, a full disk is survived."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.process.output import ProcessOutput

PIECES = st.lists(st.binary(max_size=40), max_size=30)


@given(pieces=PIECES, keep=st.integers(0, 50))
def test_head_and_tail_are_the_ends_of_what_came_and_never_overlap(
    pieces: list[bytes], keep: int
) -> None:
    output = ProcessOutput(keep_bytes=keep)
    for piece in pieces:
        output.feed(piece)
    whole = b"".join(pieces)
    assert output.size == len(whole)
    assert output.head == whole[:keep]
    assert output.tail == (whole[keep:][-keep:] if keep else b"")
    assert output.left_out == max(0, len(whole) - 2 * keep)


@given(pieces=PIECES, keep=st.integers(1, 50), save=st.booleans())
def test_the_file_holds_the_whole_once_memory_does_not(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], keep: int, save: bool
) -> None:
    path = tmp_path_factory.mktemp("spill") / "folder" / "whole.txt"
    output = ProcessOutput(keep_bytes=keep, spill=path)
    for piece in pieces:
        output.feed(memoryview(piece))
    whole = b"".join(pieces)
    assert (output.head, output.tail) == (whole[:keep], whole[keep:][-keep:])
    output.close()
    if save:
        output.save()
        output.close()
    assert (output.head, output.tail) == (whole[:keep], whole[keep:][-keep:])
    assert path.exists() == (len(whole) > 2 * keep or (save and path.exists()))
    if output.saved_at:
        assert path.read_bytes() == whole
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_memory_does_not_grow_with_the_output() -> None:
    output = ProcessOutput(keep_bytes=100)
    for _ in range(10_000):
        output.feed(b"x" * 99)
    assert sum(map(len, output._tail)) < 300


def test_a_full_disk_leaves_head_and_tail_and_gives_its_space_back() -> None:
    output = ProcessOutput(keep_bytes=10, spill=Path("/dev/full"))
    output.feed(b"0123456789" * 5)
    output.feed(b"abcde")
    assert output.head == b"0123456789"
    assert output.tail == b"56789abcde"
    assert output.saved_at is None
    assert Path("/dev/full").exists()


def test_a_disk_that_fills_half_way_keeps_the_tail_of_both_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "whole.txt"
    output = ProcessOutput(keep_bytes=4, spill=path)
    output.feed(b"0123456789ab")
    assert path.read_bytes() == b"0123456789ab"
    fail_next_write(monkeypatch)
    output.feed(b"cd")
    assert (bytes(output.head), output.tail, output.size) == (b"0123", b"abcd", 14)
    assert not path.exists()
    output.feed(b"ef")
    assert (output.tail, output.saved_at, output.left_out) == (b"cdef", None, 8)


def fail_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk cannot be filled half-way through one file without filling it for everyone."""

    def full(descriptor: int, data: bytes) -> int:
        monkeypatch.undo()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)


def test_a_runaway_output_stops_growing_the_file(tmp_path: Path) -> None:
    output = ProcessOutput(keep_bytes=4, spill=tmp_path / "whole.txt", file_max_bytes=20)
    for _ in range(10):
        output.feed(b"01234")
    output.close()
    assert (tmp_path / "whole.txt").read_bytes() == b"01234" * 4
    assert output.saved_bytes == 20
    assert (output.tail, output.size) == (b"1234", 50)


def test_a_pipe_is_moved_into_the_file_unseen_and_the_tail_is_still_known(tmp_path: Path) -> None:
    there, ours = os.pipe()
    os.set_blocking(there, False)
    output = ProcessOutput(keep_bytes=4, spill=tmp_path / "whole.txt")
    os.write(ours, b"abcdef")
    assert output.take_from(there, 100) is None
    output.feed(b"0123456789")
    assert output.take_from(there, 100) == 6
    with pytest.raises(BlockingIOError):
        output.take_from(there, 100)
    assert (output.size, output.tail) == (16, b"cdef")
    os.close(ours)
    assert output.take_from(there, 100) == 0
    output.close()
    assert (tmp_path / "whole.txt").read_bytes() == b"0123456789abcdef"
    os.close(there)


def test_a_move_that_fails_takes_nothing_from_the_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, ours = os.pipe()
    output = ProcessOutput(keep_bytes=4, spill=tmp_path / "whole.txt")
    output.feed(b"0123456789")
    os.write(ours, b"ab")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "splice", full)
    assert output.take_from(there, 100) is None
    assert os.read(there, 9) == b"ab"
    output.close()
    os.close(there)
    os.close(ours)
