"""The writer's thread: order, group commit, results, locks, the end of a process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from clew.record.transcript.files import Files
from clew.record.transcript.log import Log, Saved
from tests.record.transcript.disk import Faulty
from tests.requirements import requirement


def line(n: int) -> bytes:
    return b'{"n":%d}\n' % n


class Gated(Files):
    """Holds the thread in its first sync until let go; counts the syncs."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.is_in_sync = threading.Event()
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.is_in_sync.set()
        assert self.may_go.wait(10)
        super().sync(fd)


@requirement("R184", "W14")
def test_lines_land_in_the_order_handed_over_and_durable_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    log = Log()

    async def main() -> None:
        for n in range(500):
            log.append(path, [line(n)])
        assert await log.durable() == Saved()
        assert path.read_bytes() == b"".join(map(line, range(500)))

    asyncio.run(main())
    assert log.close() == log.close() == Saved()
    with pytest.raises(RuntimeError, match="closed"):
        log.append(path, [line(1)])


def test_those_who_wait_together_share_one_sync(tmp_path: Path) -> None:
    disk = Gated()
    log = Log(files=disk)
    path = tmp_path / "a.jsonl"

    async def main() -> None:
        log.append(path, [line(0)])
        first = asyncio.create_task(log.durable())
        await asyncio.to_thread(disk.is_in_sync.wait, 10)

        async def one(n: int) -> Saved:
            log.append(path, [line(n)])
            return await log.durable()

        others = [asyncio.create_task(one(n)) for n in range(1, 50)]
        await asyncio.sleep(0)
        disk.may_go.set()
        assert (await asyncio.gather(first, *others)) == [Saved()] * 50

    asyncio.run(main())
    assert disk.syncs <= 3
    log.close()


def test_a_waiter_that_gave_up_harms_nobody(tmp_path: Path) -> None:
    disk = Gated()
    log = Log(files=disk)

    async def main() -> None:
        log.append(tmp_path / "a.jsonl", [line(0)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await log.durable()
        disk.may_go.set()
        assert await log.durable() == Saved()

    asyncio.run(main())
    log.close()


@requirement("R258")
def test_a_failing_disk_is_a_warning_that_lasts_until_it_is_well(tmp_path: Path) -> None:
    disk = Faulty(1, under=tmp_path / "projects", is_lasting=True)
    log = Log(files=disk, rescue_dirs=[tmp_path / "spare"])
    path = tmp_path / "projects" / "a.jsonl"
    log.append(path, [line(1)])
    saved = log.flush()
    assert saved.is_durable
    assert [t.rescued_to for t in saved.troubles] == [tmp_path / "spare" / "a.jsonl"]
    assert log.troubles == saved.troubles
    disk.heal()
    log.append(path, [line(2)])
    assert log.flush() == Saved()
    assert log.troubles == ()
    assert path.read_bytes() == line(1) + line(2)
    log.close()


@requirement("W29")
def test_a_lock_is_held_until_released_and_readers_are_never_shut_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1))
    first, second = Log(), Log()
    assert first.claim(path)
    assert not second.claim(path)
    assert path.read_bytes() == line(1)
    assert first.release(path).result(10) == Saved()
    assert second.claim(path)
    first.close()
    second.close()


def test_a_fault_of_the_writer_itself_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Files):
        def write(self, fd: int, data: bytes) -> int:
            raise ZeroDivisionError

    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    log = Log(files=Broken())
    log.append(tmp_path / "a.jsonl", [line(1)])

    async def main() -> None:
        with pytest.raises((asyncio.CancelledError, RuntimeError)):
            await log.durable()

    asyncio.run(main())
    log.close()
    assert len(faults) == 1


@requirement("R184")
def test_a_process_that_forgets_to_close_still_saves(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from clew.record.transcript.log import Log\n"
        "log = Log(); log.append(Path(sys.argv[1]), [b'{}\\n'] * 1000)"
    )
    path = tmp_path / "a.jsonl"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert path.read_bytes() == b"{}\n" * 1000


def test_much_that_nobody_asks_for_is_synced_all_the_same(tmp_path: Path) -> None:
    disk = Gated()
    disk.may_go.set()
    log = Log(files=disk)
    for _ in range(6):
        log.append(tmp_path / "a.jsonl", [b'"' + b"x" * (1 << 20) + b'"\n'])
    log.close()
    assert disk.syncs >= 1
    assert (tmp_path / "a.jsonl").stat().st_size == 6 * ((1 << 20) + 3)


def test_a_forked_child_keeps_no_lock_of_its_parent(tmp_path: Path) -> None:
    """And if the child closes the file, its parent still has the lock."""
    path = tmp_path / "a.jsonl"
    files = Files()
    fd = files.open(path)
    assert files.lock(fd)
    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        files.close(fd)
        os.write(begin, b"closed")
        os._exit(0)
    assert os.read(end, 6) == b"closed"
    other = files.open(path)
    assert not files.lock(other)
    os.waitpid(child, 0)

    child = os.fork()
    if child == 0:
        signal.pause()
    files.close(fd)
    assert files.lock(other)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for left in (other, end, begin):
        os.close(left)
