"""What is written on where nothing is drawn: one stream, and whether somebody still reads it.

Must never decide what is said. A terminal that was closed takes nothing more, and fails nobody who writes:
`closed` is told, once. A pipe whose reader is gone fails as ever.
"""

import os
from collections.abc import Callable
from typing import TextIO


class Paper:
    """From the moment the terminal is gone, what is written goes to nobody."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        # Asked once: of one that was closed it would be untrue.
        self.is_terminal = out.isatty()
        self.is_gone = False
        self.closed: Callable[[], object] = lambda: None

    @property
    def columns(self) -> int:
        """0 where it has no width, or does not tell."""
        if not self.is_terminal or self.is_gone:
            return 0
        try:
            return os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            return 0

    def write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            if not self.is_terminal:
                raise
            self.gone()

    def gone(self) -> None:
        """Somebody found that the terminal was closed."""
        if self.is_gone:
            return
        self.is_gone = True
        # What could not be written is still held, and the interpreter writes it at its end.
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, self._out.fileno())
        os.close(nobody)
        self.closed()
