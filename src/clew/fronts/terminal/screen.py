"""The place at the bottom of the terminal, drawn when something changed and there is time for it.

Owns the terminal, its input and the order of what is written: finished lines go above, once; what
changes is drawn at most so many times a second, and at once after a key. prompt_toolkit reads and
edits; it draws nothing.
"""

import asyncio
import os
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import Renderer

from clew.fronts.terminal.stage import EMPTY, Painter, Stage
from clew.fronts.terminal.terminal import Terminal
from clew.fronts.terminal.typed import Typed
from clew.system.config.settings import read_text

# As often as words that come are seen to flow; what a key does is drawn at once.
FRAME_S = 1 / 16
MOMENT_S = 0.005
# How long an Escape waits for the rest of a sequence: less than anybody types, more than a line takes.
ESCAPE_S = 0.04
# While the terminal owes a reply, a sequence that has begun may be that reply on a slow line. A single
# Escape is a key after ESCAPE_S all the same; if a reply follows, its rest is still recognised.
ANSWERS_S = 2.0
# How long nothing comes of a paste before its end is waited for no longer.
PASTE_S = 2.0
READ_BYTES = 1 << 16


class KeyInput(Vt100Input):
    """What is typed, read in large pieces; a terminal that was closed is `closed`."""

    def __init__(self, typed: Typed, typed_ahead: int, was_read: Callable[[], object]) -> None:
        """`was_read` is told after each reading."""
        super().__init__(sys.stdin)
        self._was_read = was_read
        self._typed = typed
        self._typed_ahead = typed_ahead
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._is_closed = False

    @property
    def closed(self) -> bool:
        return self._is_closed

    def read_keys(self) -> list[KeyPress]:
        try:
            data = os.read(self.fileno(), READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""
        self._is_closed = not data
        if self._typed_ahead:
            # Enter came as the end of a line while the terminal was still the system's.
            early, data = data[: self._typed_ahead], data[self._typed_ahead :]
            self._typed_ahead -= len(early)
            data = early.replace(b"\n", b"\r") + data
        keys = self._typed.feed(self._decoder.decode(data))
        self._was_read()
        return keys

    def flush_keys(self) -> list[KeyPress]:
        return self._typed.flush()


class _Output(DummyOutput):
    """The size is all that prompt_toolkit needs to know of the terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def get_size(self) -> Size:
        columns, rows = self._terminal.size
        return Size(rows=rows, columns=columns)

    def bell(self) -> None:
        self._terminal.bell()


class _Drawing(Renderer):
    """Where prompt_toolkit would draw, the screen does."""

    def __init__(self, screen: "Screen", output: _Output) -> None:
        from prompt_toolkit.styles import DummyStyle

        self._screen = screen
        super().__init__(DummyStyle(), output)

    def render(self, *_: Any, **__: Any) -> None:
        self._screen.draw()

    def erase(self, *_: Any, **__: Any) -> None:
        self._screen.erase()


class Screen:
    """`stage` is asked what should stand at the bottom, for a width and at most so many rows."""

    def __init__(self, terminal: Terminal, stage: Stage, keys: KeyBindingsBase) -> None:
        self.terminal = terminal
        self._stage = stage
        stage.changed = self.changed
        self._painter = Painter()
        self._above: list[str] = []
        self._frame: asyncio.TimerHandle | None = None
        self._drawn_s = 0.0
        self._columns = self.terminal.size[0]
        self._is_away = False
        # What the settings say of colours, once there are any.
        self.theme = ""
        # Told when they say otherwise, and when the terminal's ground turns out to be light, or dark.
        self.on_colours: Callable[[], object] = lambda: None
        output = _Output(self.terminal)
        self._typed = Typed(self._answered)
        self.app: Application[None] = Application(
            layout=stage.layout,
            key_bindings=keys,
            input=KeyInput(self._typed, terminal.typed_ahead, self._wait_for_the_rest),
            output=output,
            terminal_size_polling_interval=None,
            erase_when_done=True,
        )
        self._owed: asyncio.TimerHandle | None = None
        self.app.renderer = _Drawing(self, output)

    def obey(self, settings: Mapping[str, Any]) -> None:
        """What a person's settings say of keys, bells and colours; they may change while the screen is there."""
        is_vim = read_text(settings, "editorMode") == "vim"
        mode = EditingMode.VI if is_vim else EditingMode.EMACS
        if self.app.editing_mode != mode:
            self.app.editing_mode = mode
        self.terminal.channel = read_text(settings, "preferredNotifChannel") or ""
        if self.theme != (theme := read_text(settings, "theme") or ""):
            self.theme = theme
            self.on_colours()
            self.changed()

    @asynccontextmanager
    async def running(self, closed: Callable[[], object]) -> AsyncIterator[None]:
        """The screen stands while this is entered. `closed` is called when the terminal is gone."""
        loop = asyncio.get_running_loop()
        self.terminal.open()
        self._await_answers()
        try:
            async with asyncio.TaskGroup() as group:
                stands = asyncio.Event()
                group.create_task(self._read(stands, closed))
                await stands.wait()
                loop.set_exception_handler(self._failed)
                try:
                    yield
                finally:
                    loop.set_exception_handler(None)
                    if self.app.is_running and not self.app.is_done:
                        self.app.exit()
        finally:
            if self._frame is not None:
                self._frame.cancel()
            self._heard_all()
            self.bare()
            self.terminal.close()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Somebody else has the terminal while this is entered."""
        self.bare()
        self._is_away = True
        with self.app.input.detach():
            self.terminal.pause()
            try:
                yield
            finally:
                self.terminal.resume()
                self._await_answers()
                self._is_away = False
                self._painter.forget()
        self.draw()

    async def suspend(self) -> None:
        """Ctrl-Z: clew and what shares its terminal stand still until `fg`."""
        async with self.away():
            os.kill(0, signal.SIGTSTP)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A fault of clew's own in what a key does ends it, instead of being written over the screen."""
        error = context.get("exception")
        if isinstance(error, Exception) and self.app.is_running and not self.app.is_done:
            self.app.exit(exception=error)
        else:
            loop.default_exception_handler(context)

    async def _read(self, stands: asyncio.Event, closed: Callable[[], object]) -> None:
        try:
            await self.app.run_async(
                pre_run=stands.set, set_exception_handler=False, handle_sigint=False
            )
        except EOFError:
            closed()

    # -- what is shown

    def say(self, lines: Iterable[str]) -> None:
        """Puts finished lines above everything, in the terminal's own scrollback."""
        self._above += lines
        self.flows()

    def changed(self) -> None:
        """Something looks different; it is drawn at once, with what else changes in the same moment."""
        self._draw_at(asyncio.get_running_loop().time() + MOMENT_S)

    def flows(self) -> None:
        """Something that changes all the time does; it is drawn with the next frame."""
        now_s = asyncio.get_running_loop().time()
        self._draw_at(max(now_s + MOMENT_S, self._drawn_s + FRAME_S))

    def _draw_at(self, due_s: float) -> None:
        if self._frame is not None:
            if self._frame.when() <= due_s:
                return
            self._frame.cancel()
        self._frame = asyncio.get_running_loop().call_at(due_s, self.draw)

    def draw(self) -> None:
        self._stage.catch_up()
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None
        if not self.app.is_running or self._is_away:
            return
        self._drawn_s = asyncio.get_running_loop().time()
        columns, rows = self.terminal.size
        scene = self._stage.look(columns, rows)
        above, self._above = self._above, []
        if text := self._painter.paint(scene, above):
            self.terminal.write(text)

    def erase(self) -> None:
        """Takes everything away; after a change of size, what the terminal made of it."""
        columns, _ = self.terminal.size
        narrower, self._columns = columns < self._columns, columns
        text = self._painter.rewrapped(columns) if narrower else self._painter.erase()
        self.terminal.write(text)

    def anew(self) -> None:
        """Draws everything again, for a terminal that somebody else wrote on."""
        self.terminal.write(self._painter.erase())
        self.draw()

    def bare(self) -> None:
        """Writes what is still to be said and leaves no more behind."""
        self._stage.catch_up()
        above, self._above = self._above, []
        self.terminal.write(self._painter.paint(EMPTY, above) + self._painter.erase())

    # -- what the terminal says

    def _await_answers(self) -> None:
        """Questions went out; the answer to the last of them says that no more will come."""
        self._heard_all()
        self._typed.awaits_replies = True
        self._owed = asyncio.get_running_loop().call_later(ANSWERS_S, self._heard_all)

    def _wait_for_the_rest(self) -> None:
        """So long, from what was read last on, until what has begun there is taken as it is."""
        is_key = self._owed is None or self._typed.holds_escape
        waits_s = ESCAPE_S if is_key else ANSWERS_S
        self.app.ttimeoutlen = PASTE_S if self._typed.is_pasting else waits_s

    def _heard_all(self) -> None:
        self._typed.awaits_replies = False
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _answered(self, reply: str) -> None:
        if reply.endswith("c"):
            self._heard_all()
        if reply in ("I", "O"):
            self.terminal.is_focused = reply == "I"
        elif reply.endswith("u"):
            self.terminal.use_keyboard()
        elif reply in ("?2026;1$y", "?2026;2$y"):
            self._painter.is_synchronised = True
        elif reply.startswith("]") and self.terminal.heed_ground(reply):
            self.on_colours()
            self.anew()
