"""The terminal: sets its modes, detects its features, and writes to it.

The original modes are restored however clew exits. Other modules decide what to show. The escape
sequences are those of xterm and of kitty's keyboard protocol, mode 2026 (synchronized updates), and
OSC 7501 (program status, revision 0.4).
"""

import fcntl
import os
import re
import sys
import termios
import tty
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

PASTES, FOCUS = "\x1b[?2004{}", "\x1b[?1004{}"
# Asks whether the terminal shows the status of programs; one that does replies with the same bytes.
STATUS_QUERY = "\x1b]7501;?\x1b\\"
# Queries at start-up: the keyboard protocol, synchronized updates, the background color and program
# status. The last query is one that every terminal answers, so its reply marks the end of the
# replies.
QUESTIONS = f"\x1b[?u\x1b[?2026$p\x1b]11;?\x1b\\{STATUS_QUERY}\x1b[c"
GROUND = re.compile(r"\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
KEYBOARD, KEYBOARD_BACK = "\x1b[>1u", "\x1b[<u"
# After this time the user may have looked away, if the terminal does not report focus.
PATIENCE_S = 10.0
# The longest message in a status report.
STATUS_MAX_BYTES = 2048
# The longest sequence that terminals accept.
CLIPBOARD_MAX_BYTES = 100_000
# Variables of terminals that cut lines where others wrap them.
CUT_BY = ("XTERM_VERSION", "STY")
# A closed terminal needs no output and no restoring.
GONE = (OSError, termios.error)


ProgramState: TypeAlias = Literal["idle", "working", "done", "blocked", "error"]


class Terminal:
    """The terminal with file descriptor `fd`.

    Once the terminal has been closed, which a signal reports, writing does nothing.
    """

    def __init__(self, environ: Mapping[str, str], fd: int = 0) -> None:
        self._environ = environ
        self._fd = fd
        self._before: list[Any] | None = None
        # Whether the terminal has focus; None if the terminal has not reported focus.
        self.is_focused: bool | None = None
        # Whether the terminal's background is light; None if the terminal has not reported the
        # color.
        self.is_light: bool | None = None
        # The notification channel of the settings.
        self.channel = "auto"
        self.has_keyboard = False
        # The bytes typed before the terminal was taken over.
        self.typed_ahead = 0
        self._title = ""
        # The last status report, kept until the terminal has reported support for it.
        self._status = ""
        self._shows_status = False

    @property
    def wraps_again(self) -> bool:
        """True if the terminal wraps the lines on the screen again when it becomes narrower.

        Most terminals do. xterm, GNU screen and the Linux console cut the lines instead.
        """
        name = self._environ.get("TERM", "")
        is_screen = name.startswith("screen") and not self._environ.get("TMUX")
        cuts = any(self._environ.get(variable) for variable in CUT_BY)
        return not (name == "linux" or is_screen or cuts)

    def give_back(self) -> None:
        """Restore the terminal's original mode."""
        if self._before is not None:
            with suppress(*GONE):
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def take(self) -> None:
        """Switch off echo and line editing; keep the input that was typed before."""
        self._before = termios.tcgetattr(self._fd)
        self._raw()
        with suppress(*GONE):
            waiting = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
            self.typed_ahead = int.from_bytes(waiting, sys.byteorder)

    def _raw(self) -> None:
        tty.setraw(self._fd, termios.TCSADRAIN)
        modes: list[Any] = termios.tcgetattr(self._fd)
        # Keep newline translation, because other programs may print.
        modes[tty.OFLAG] |= termios.OPOST
        termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)

    def open(self) -> None:
        self.write(PASTES.format("h") + FOCUS.format("h") + QUESTIONS)

    def pause(self) -> None:
        """Restore the terminal, temporarily or at exit."""
        self.write(self._undone())
        self.has_keyboard = False
        self.give_back()

    def resume(self) -> None:
        with suppress(*GONE):
            self._raw()
        self.open()

    def close(self) -> None:
        if self._title:
            self.title("")
        if self._status:
            self._report("state=clear")
        self.pause()

    def heed_ground(self, answer: str) -> bool:
        """Read the background color in the terminal's reply; return whether `is_light` changed."""
        match = GROUND.match(answer)
        before = self.is_light
        if match is not None:
            red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
            self.is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        return self.is_light is not before

    def use_keyboard(self) -> None:
        """Switch on the keyboard protocol, once the terminal has reported support for it."""
        if not self.has_keyboard:
            self.has_keyboard = True
            self.write(KEYBOARD)

    def _undone(self) -> str:
        keyboard = KEYBOARD_BACK if self.has_keyboard else ""
        return keyboard + FOCUS.format("l") + PASTES.format("l")

    @property
    def size(self) -> tuple[int, int]:
        """The number of columns and rows; 80 by 24 if the terminal does not report its size."""
        try:
            columns, rows = os.get_terminal_size(self._fd)
        except OSError:
            return 80, 24
        return columns or 80, rows or 24

    def write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", "replace"))
        with suppress(*GONE):
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]

    # -- title, bell, clipboard

    def title(self, words: str) -> None:
        if words != self._title:
            self._title = words
            self.write(f"\x1b]0;{words}\x07")

    # -- program status: for terminals and tools that show what runs in many windows

    def report(self, state: ProgramState, *, kind: str = "", words: str = "") -> None:
        """Report what clew is doing.

        If `state` is `blocked`, `kind` is the kind of the open question and `words` is its text.
        """
        pairs = [f"state={state}", "app=clew"]
        if kind:
            pairs.append(f"kind={kind}")
        if words:
            text = words.encode("utf-8", "replace")[:STATUS_MAX_BYTES].decode("utf-8", "ignore")
            pairs.append(f"msg={b64encode(text.encode()).decode()}")
        self._report(":".join(pairs))

    def use_status(self) -> None:
        """Start reporting the state, once the terminal has announced support for that."""
        self._shows_status = True
        status, self._status = self._status, ""
        self._report(status)

    def _report(self, status: str) -> None:
        if status != self._status:
            self._status = status
            if self._shows_status:
                self.write(f"\x1b]7501;{status}\x1b\\")

    def bell(self) -> None:
        self.write("\x07")

    def notify(self, words: str, *, waited_s: float = 0) -> None:
        """Notify the user, unless the terminal has focus.

        If the terminal does not report focus, notify only a user who has waited for a long time.
        """
        if self.is_focused or (self.is_focused is None and waited_s < PATIENCE_S):
            return
        channel = self._channel() if self.channel == "auto" else self.channel
        if channel in ("iterm2", "iterm2_with_bell"):
            self.write(self._passed(f"\x1b]9;{words}\x07"))
        elif channel in ("ghostty", "osc777"):
            self.write(self._passed(f"\x1b]777;notify;clew;{words}\x07"))
        elif channel == "kitty":
            self.write(self._passed(f"\x1b]99;;clew: {words}\x1b\\"))
        if channel in ("terminal_bell", "iterm2_with_bell"):
            self.bell()

    def _channel(self) -> str:
        program, term = self._environ.get("TERM_PROGRAM", ""), self._environ.get("TERM", "")
        if program in ("iTerm.app", "WezTerm"):
            return "iterm2"
        if program == "ghostty" or "ghostty" in term:
            return "ghostty"
        return "kitty" if "kitty" in term else "terminal_bell"

    def copy(self, text: str) -> bool:
        """Copy text to the clipboard of the user's terminal, which also works over SSH.

        Return False if the text is too long.
        """
        data = text.encode()
        if len(data) > CLIPBOARD_MAX_BYTES:
            return False
        self.write(self._passed(f"\x1b]52;c;{b64encode(data).decode()}\x07"))
        return True

    def _passed(self, sequence: str) -> str:
        """Wrap an escape sequence so that tmux, if in use, passes it on to the terminal."""
        if not self._environ.get("TMUX"):
            return sequence
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
