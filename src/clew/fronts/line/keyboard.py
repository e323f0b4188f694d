"""Keyboard input in line mode: complete lines on request, interruptions and messages during a turn.

Between turns, the terminal's own line editing applies. During a turn, keys are read one by one, so
that Escape can interrupt. Input that is not a terminal is read only when a line is requested.
"""

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from clew.fronts.line.telling import Paper
from clew.fronts.terminal.terminal import GONE

ESCAPE = b"\x1b"
BACKSPACES = b"\x08\x7f"
READ_BYTES = 65536


class LineKeyboard:
    """The only reader of standard input during a session. Prompts are written to `paper`."""

    def __init__(self, paper: Paper, fd: int = 0) -> None:
        self._paper = paper
        self._fd = fd
        self.is_terminal = os.isatty(fd)
        self._typed = bytearray()
        self._waiting: asyncio.Future[str | None] | None = None
        self._stop: Callable[[], object] | None = None
        self._say: Callable[[str], object] | None = None
        self._is_over = self._is_given_up = False
        self._listeners = 0
        self._is_free = asyncio.Event()
        self._is_free.set()

    async def prompted(self, prompt: str) -> str | None:
        """Wait until no question is open, then ask for a line; None at the end of the input."""
        await self._is_free.wait()
        line = await self.line(prompt)
        if line is None:
            # The input ended without Enter, so the prompt's line is still open.
            self._paper.write("\n")
        return line

    async def line(self, prompt: str) -> str | None:
        """Write `prompt` and return the line that the user enters, or None if the input ended."""
        self._paper.write(prompt)
        if self._is_over or (line := self._whole_line()) is not None:
            return None if self._is_over else line
        # A question can come up while the prompt waits for its line.
        before, self._waiting = self._waiting, asyncio.get_running_loop().create_future()
        self._is_free.clear()
        try:
            with self._listening():
                return await self._waiting
        finally:
            self._waiting = before
            if before is None:
                self._is_free.set()
            elif self._is_given_up:
                self._answer(None)

    async def secret(self, prompt: str) -> str | None:
        """Ask for a line without showing what the user types; None at the end of the input.

        Must not be called during a turn.
        """
        before: list[Any] = []
        with suppress(*GONE):
            before = termios.tcgetattr(self._fd)
            hidden: list[Any] = termios.tcgetattr(self._fd)
            hidden[tty.LFLAG] &= ~termios.ECHO
            termios.tcsetattr(self._fd, termios.TCSADRAIN, hidden)
        try:
            return await self.line(prompt)
        finally:
            with suppress(*GONE):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)
            # Enter was not shown either.
            self._paper.write("\n")

    def reopen(self) -> bool:
        """Resume reading after Ctrl-D; return False if the input is permanently closed."""
        self._is_over = not (self.is_terminal and os.isatty(self._fd))
        return not self._is_over

    def give_up(self) -> None:
        """Stop waiting for input: pending and later requests return None."""
        self._is_over = self._is_given_up = True
        self._answer(None)

    @contextmanager
    def during_turn(
        self, *, stop: Callable[[], object], say: Callable[[str], object]
    ) -> Iterator[None]:
        """While the context is active, Escape calls `stop`, and unrequested lines go to `say`."""
        if not self.is_terminal:
            yield
            return
        before = self._key_by_key()
        self._stop, self._say = stop, say
        try:
            with self._listening():
                yield
        finally:
            self._stop = self._say = None
            with suppress(*GONE):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, before)

    def _key_by_key(self) -> list[Any]:
        """Switch to reading key by key.

        Return the previous terminal settings, or an empty list if the terminal is closed.
        """
        before: list[Any] = []
        with suppress(*GONE):
            before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
            echoing: list[Any] = termios.tcgetattr(self._fd)
            echoing[tty.LFLAG] |= termios.ECHO
            termios.tcsetattr(self._fd, termios.TCSADRAIN, echoing)
        return before

    @contextmanager
    def _listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        try:
            # A turn, a prompt and a question can listen at the same time and finish in any order.
            loop.add_reader(self._fd, self._read)
        except PermissionError:
            self._read()  # A file is always readable, so it is read to its end.
            while self._waiting is not None and not self._waiting.done():
                self._read()
            yield
            return
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1
            if not self._listeners:
                loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            keys = os.read(self._fd, READ_BYTES)
        except OSError:
            if not self.is_terminal:
                raise
            keys = b""  # The terminal was closed.
        if not keys:
            if self.is_terminal and not os.isatty(self._fd):
                self._paper.gone()
            rest = self._typed.decode("utf-8", "replace")
            self._typed.clear()
            self._is_over = True
            self._answer(rest or None)
        elif self._stop is not None and keys.endswith(ESCAPE):
            # Keys typed just before Escape arrive in the same read.
            if not keys.startswith(ESCAPE):
                self._type(keys[:-1])
                self._hand_over()
            self._stop()
        elif not keys.startswith(ESCAPE):
            self._type(keys)
            self._hand_over()

    def _type(self, keys: bytes) -> None:
        """Add typed keys to the input; in key-by-key mode, handle Backspace."""
        for key in keys:
            if self._stop is not None and key in BACKSPACES:
                del self._typed[-1:]
            else:
                self._typed.append(key)

    def _hand_over(self) -> None:
        while self._waiting is None or not self._waiting.done():
            if self._waiting is None and self._say is None:
                return
            line = self._whole_line()
            if line is None:
                return
            if self._waiting is not None:
                self._answer(line)
            elif self._say is not None and line.strip():
                self._say(line.strip())

    def _whole_line(self) -> str | None:
        line, newline, rest = self._typed.partition(b"\n")
        if not newline:
            return None
        self._typed = rest
        return line.decode("utf-8", "replace").rstrip("\r")

    def _answer(self, line: str | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(line)
