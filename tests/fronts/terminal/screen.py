"""The real `clew` on a terminal emulator: type, wait for text, look at the whole screen."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyte

from tests.fronts.headless.clew_process import environment
from tests.fronts.headless.forked import Forked
from tests.fronts.terminal.terminal import OnTerminal, began_before

COLUMNS, ROWS = 80, 24
# What an ordinary terminal answers when it is asked what it can do.
PLAIN = {"\x1b[?2026$p": "\x1b[?2026;2$y", "\x1b[c": "\x1b[?62;c"}
BEGIN_FRAME, END_FRAME = b"\x1b[?2026h", b"\x1b[?2026l"


class Glass(pyte.HistoryScreen):
    """A terminal with a scrollback; cursor key modes and titles are recorded separately."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows, history=100_000)

    @property
    def scrolled(self) -> list[str]:
        lines = self.history.top
        return ["".join(line[x].data for x in range(self.columns)).rstrip() for line in lines]

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.display]


class OnScreen(OnTerminal):
    """A `clew ARGS` with its own terminal; `raw` is its complete output."""

    def __init__(
        self,
        home: Path,
        url: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        answers: Mapping[str, str] = PLAIN,
        columns: int = COLUMNS,
        rows: int = ROWS,
        is_first: bool = False,
    ) -> None:
        work = home / "work"
        work.mkdir(exist_ok=True)
        if not is_first:
            began_before(home)
        self._fd, theirs = pty.openpty()
        self.resize(columns, rows)
        colors = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": "", "NO_COLOR": "1"}
        self.child = Forked(
            args,
            cwd=work,
            env=environment(home, url) | colors | dict(env or {}),
            terminal=os.ttyname(theirs),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        self.glass = Glass(columns, rows)
        self._stream = pyte.ByteStream(self.glass)
        self._answers = dict(answers)
        self.raw = b""
        self._unfinished = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        data = keys.encode()
        while data:
            # What clew writes is read meanwhile, so that neither waits for the other.
            _, writable, _ = select.select([], [self._fd], [], 0)
            if writable:
                data = data[os.write(self._fd, data[:1024]) :]
            self._take(0.0 if writable else 0.01)

    # -- what is seen

    @property
    def rows(self) -> list[str]:
        return self.glass.rows

    @property
    def text(self) -> str:
        """Return all text, from the top of the scrollback to the bottom of the screen."""
        return "\n".join([*self.glass.scrolled, *self.rows])

    @property
    def picture(self) -> str:
        """Return the screen as a snapshot contains it: without the empty rows at the bottom."""
        return "\n".join(self.rows).rstrip("\n") + "\n"

    def expect(self, words: str | Callable[[str], bool], *, within_s: float = 30) -> None:
        """Wait until a text is on the terminal, or until a condition on its text is true."""
        is_there = words if callable(words) else (lambda text: words in text)
        deadline = time.monotonic() + within_s
        while not is_there(self.picture):
            assert time.monotonic() < deadline, f"{words!r} did not come:\n{self.text}"
            self._take(0.05)

    def expect_gone(self, words: str) -> None:
        self.expect(lambda text: words not in text)

    def expect_rest(self) -> None:
        """Wait until no turn runs, and a complete frame shows it."""
        self.expect_gone("to interrupt)")
        self.settle()
        self.expect_gone("to interrupt)")

    def settle(self) -> None:
        """Wait until there was no output for a moment."""
        while self._take(0.15):
            pass

    def _take(self, wait_s: float) -> bool:
        if not select.select([self._fd], [], [], wait_s)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other end is closed
            self._stream.feed(self._unfinished)
            self._unfinished = b""
            return False
        self.raw += data
        # Half a frame is not shown, as on a terminal that has synchronized updates.
        new = self._unfinished + data
        begin = new.rfind(BEGIN_FRAME)
        end = begin if begin > new.rfind(END_FRAME) else len(new)
        self._unfinished = new[end:]
        self._stream.feed(new[:end])
        for asked, answer in list(self._answers.items()):
            if asked.encode() in self.raw:
                del self._answers[asked]
                os.write(self._fd, answer.encode())
        return bool(data)

    def end(self, *, within_s: float = 30) -> int:
        deadline = time.monotonic() + within_s
        while self.child.poll() is None:
            assert time.monotonic() < deadline, f"clew did not end:\n{self.text}"
            self._take(0.05)
        while self._take(0):
            pass
        return self.child.returncode
