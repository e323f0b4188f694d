"""The real `clew` in a pseudo-terminal: type, and wait for text within limits."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.forked import Forked


def began_before(home: Path) -> None:
    """Make this not the very first start, which offers a sandbox (see `test_sandbox_offer`)."""
    if (home / "config").is_dir() or not (home / "config").exists():
        (home / "config" / "clew").mkdir(parents=True, exist_ok=True)


class OnTerminal:
    """A child that leads a terminal's session, killed if a test leaves it running."""

    child: subprocess.Popen[bytes]
    _fd: int

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal; the test sends no signal to its processes."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Terminal(OnTerminal):
    """A `clew ARGS` with its own terminal.

    `seen` is the output that no test has expected yet, `all` is all output.
    """

    def __init__(
        self,
        home: Path,
        url: str,
        *args: str,
        columns: int = 0,
        is_first: bool = False,
        **environ: str,
    ) -> None:
        work = home / "work"
        work.mkdir(exist_ok=True)
        if not is_first:
            began_before(home)
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.child = Forked(
            args,
            cwd=work,
            env=environment(home, url) | {"TERM": "dumb"} | environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self.all = ""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def expect(self, words: str, *, within_s: float = 30) -> None:
        """Wait for `words` in the output; everything up to them is consumed."""
        deadline = time.monotonic() + within_s
        begin = 0
        while words not in self.seen[begin:]:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{words!r} did not come; seen: {self.seen!r}"
            if select.select([self._fd], [], [], left_s)[0]:
                self.seen += self._read()
        self.seen = self.seen[self.seen.index(words) + len(words) :]

    def _read(self) -> str:
        try:
            read = os.read(self._fd, 65536).decode("utf-8", "replace")
        except OSError:
            return ""  # the other end is closed
        self.all += read
        return read

    def end(self, *, within_s: float = 30) -> int:
        """Return the exit code, after reading all output."""
        deadline = time.monotonic() + within_s
        while self.child.poll() is None:
            assert time.monotonic() < deadline, f"clew did not end; seen: {self.seen!r}"
            if select.select([self._fd], [], [], 0.05)[0]:
                self.seen += self._read()
        while select.select([self._fd], [], [], 0)[0] and (text := self._read()):
            self.seen += text
        return self.child.returncode
