"""The writer of a session: a thread that owns the files, and a queue of lines to write.

`append` queues lines and returns; `durable` waits until they would survive a power failure. The
thread takes all waiting jobs, passes the lines to the kernel in one write per file, and syncs once
for all callers (group commit). Nothing here blocks the event loop, and a failing disk never raises.

Decision: docs/decisions/051-durability.md
"""

import asyncio
import atexit
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

import msgspec

from clew.record.transcript.files import Files
from clew.record.transcript.header import require_known_format
from clew.record.transcript.logfile import LogFile, Trouble

# The most data that may wait for a sync that no caller requested; until then it also stays in
# memory.
UNSYNCED_LIMIT_BYTES = 4 << 20
CLOSE_TIMEOUT_S = 30.0


T = TypeVar("T")


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `durable`. If `troubles` is empty, every line is durable in its transcript."""

    troubles: tuple[Trouble, ...] = ()

    @property
    def is_durable(self) -> bool:
        """True if every line survives a power failure, in the transcript or a recovery file."""
        return all(trouble.rescued_to for trouble in self.troubles)


class _Write(msgspec.Struct, frozen=True):
    path: Path
    lines: Sequence[bytes]


class _Claim(msgspec.Struct, frozen=True):
    path: Path
    answer: Future[bool]


class _Flush(msgspec.Struct, frozen=True):
    answer: Future[Saved]


class _Close(msgspec.Struct, frozen=True):
    """A job for the writer: release one file or, if `path` is None, stop."""

    path: Path | None
    answer: Future[Saved]


_Job = _Write | _Claim | _Flush | _Close


class Log:
    """A session's writer.

    Only its thread touches files; it shares nothing but the queue with callers.
    """

    def __init__(self, *, files: Files | None = None, rescue_dirs: Sequence[Path] = ()) -> None:
        self._files = files or Files()
        self._rescue_dirs = tuple(rescue_dirs)
        self._open: dict[Path, LogFile] = {}
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._saved = Saved()
        # The troubles already reported. A trouble whose line count has grown is not reported again.
        self._told: set[tuple[Path, str, Path | None]] = set()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="clew-log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """The current problems: which lines are not in their transcripts now."""
        return self._saved.troubles

    def news(self) -> tuple[str, ...]:
        """Return messages about new and solved problems since the last call, each only once."""
        now = {(t.path, t.reason, t.rescued_to): str(t) for t in self.troubles}
        new = [words for trouble, words in now.items() if trouble not in self._told]
        if self._told and not now:
            new.append("All unsaved lines have been saved.")
        self._told = set(now)
        return tuple(new)

    @property
    def is_closed(self) -> bool:
        """True if the log is closed, and everything in it is as durable as possible."""
        return self._ended

    def append(self, path: Path, lines: Sequence[bytes]) -> None:
        """Queue complete lines in order; each ends with its newline."""
        self._put(_Write(path, lines))

    async def durable(self) -> Saved:
        """Wait until everything appended so far is durable, or is known not to be."""
        answer: Future[Saved] = Future()
        self._put(_Flush(answer))
        return await asyncio.wrap_future(answer)

    def flush(self, timeout_s: float = CLOSE_TIMEOUT_S) -> Saved:
        """Run `durable` for a caller without an event loop, such as an exit handler or a script."""
        answer: Future[Saved] = Future()
        self._put(_Flush(answer))
        return answer.result(timeout_s)

    def claim(self, path: Path, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Lock an existing transcript; False if another process has it open.

        Raise `SessionError` if a newer clew wrote it.
        """
        require_known_format(path)
        answer: Future[bool] = Future()
        self._put(_Claim(path, answer))
        return answer.result(timeout_s)

    def release(self, path: Path) -> Future[Saved]:
        """Save everything appended to one file, and then release its lock.

        Other files stay open.
        """
        answer: Future[Saved] = Future()
        self._put(_Close(path, answer))
        return answer

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> Saved:
        """Save everything, release the locks and stop the thread. May be called repeatedly."""
        if not self._ended:
            answer: Future[Saved] = Future()
            self._put(_Close(None, answer))
            self._ended = True
            self._saved = answer.result(timeout_s)
            atexit.unregister(self.close)
        self._thread.join(timeout_s)
        return self._saved

    def _put(self, job: _Job) -> None:
        if self._ended:
            raise RuntimeError("the log is closed")
        self._jobs.put(job)
        if not self._thread.is_alive() and not isinstance(job, _Write):
            job.answer.cancel()

    # -- the thread

    def _run(self) -> None:
        last: _Close | None = None
        batch: list[_Job] = []
        try:
            while last is None:
                batch = self._wait()
                self._write(batch)
                last = self._answer(batch)
            for file in self._open.values():
                file.close()
            self._note()
            _resolve(last.answer, self._saved)
        finally:
            self._ended = True
            if last is None:
                # An internal error ended the thread. Cancel the waiting jobs, so that no caller
                # waits forever.
                for job in [*batch, *self._drain()]:
                    if not isinstance(job, _Write):
                        job.answer.cancel()

    def _drain(self) -> list[_Job]:
        return [self._jobs.get_nowait() for _ in range(self._jobs.qsize())]

    def _wait(self) -> list[_Job]:
        batch = [self._jobs.get()]
        while True:
            try:
                batch.append(self._jobs.get_nowait())
            except Empty:
                return batch

    def _write(self, batch: Sequence[_Job]) -> None:
        by_path: dict[Path, list[bytes]] = {}
        for job in batch:
            if isinstance(job, _Write):
                by_path.setdefault(job.path, []).extend(job.lines)
        for path, lines in by_path.items():
            file = self._file(path)
            file.write(lines)
            if file.unsynced_bytes > UNSYNCED_LIMIT_BYTES:
                file.sync()

    def _answer(self, batch: Sequence[_Job]) -> _Close | None:
        if any(isinstance(job, _Flush) for job in batch):
            for file in self._open.values():
                file.sync()
        self._note()
        end: _Close | None = None
        for job in batch:
            match job:
                case _Claim():
                    is_ours = self._file(job.path).claim()
                    self._note()
                    _resolve(job.answer, is_ours)
                case _Flush():
                    _resolve(job.answer, self._saved)
                case _Close(path=None):
                    end = job
                case _Close(path=path):
                    self._close_one(path)
                    _resolve(job.answer, self._saved)
                case _Write():
                    pass
        return end

    def _close_one(self, path: Path | None) -> None:
        file = self._open.pop(path, None) if path else None
        if file is not None and file.close() is not None:
            self._open[file.path] = file  # Keep the file open, because it still has unsaved lines.
        self._note()

    def _note(self) -> None:
        troubles = tuple(f.trouble for f in self._open.values() if f.trouble is not None)
        if troubles != self._saved.troubles:
            self._saved = Saved(troubles=troubles)

    def _file(self, path: Path) -> LogFile:
        if path not in self._open:
            self._open[path] = LogFile(path, files=self._files, rescue_dirs=self._rescue_dirs)
        return self._open[path]


def _resolve(answer: Future[T], value: T) -> None:
    if answer.set_running_or_notify_cancel():
        answer.set_result(value)
