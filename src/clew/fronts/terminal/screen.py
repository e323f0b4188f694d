"""The live area at the bottom of the terminal, redrawn when its content changes.

This module owns the terminal, its input and the order of output. Finished lines are written once,
above the live area. The live area is redrawn at a limited rate, and at once after a key press.
prompt_toolkit reads and edits the input; it draws nothing.
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
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.renderer import Renderer

from clew.fronts.terminal.stage import EMPTY, Painter, Stage
from clew.fronts.terminal.terminal import Terminal
from clew.fronts.terminal.typed import Typed
from clew.system.config.settings import read_text

# Fast enough for streaming text to look fluent; the effect of a key is drawn at once.
FRAME_S = 1 / 16
MOMENT_S = 0.005
# How long an Escape waits for the rest of a sequence: shorter than typing, longer than a transfer.
ESCAPE_S = 0.04
# While the terminal owes a reply, a sequence that has begun may be that reply on a slow line. A
# single Escape is taken for a key after ESCAPE_S all the same; if it was the start of a reply, the
# rest of the reply is still recognized.
ANSWERS_S = 2.0
# How long a paste may be silent before it is considered complete.
PASTE_S = 2.0
READ_BYTES = 1 << 16
# A window that is being resized reports many sizes, and may already have another one when a frame
# arrives, which would then erase the wrong rows. So nothing is drawn until the size has been the
# same for this long. tmux reports a new size up to a quarter of a second late.
RESIZE_S, TMUX_RESIZE_S = 0.1, 0.35
VIM_MODES = {
    InputMode.NAVIGATION: "NORMAL",
    InputMode.REPLACE: "REPLACE",
    InputMode.REPLACE_SINGLE: "REPLACE",
}


class KeyInput(Vt100Input):
    """Keyboard input, read in large pieces. `closed` is true after the terminal has been closed."""

    def __init__(self, typed: Typed, typed_ahead: int, was_read: Callable[[], object]) -> None:
        """Create the input; `was_read` is called after each read."""
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
            # Enter arrived as a line end while the terminal was still in its normal mode.
            early, data = data[: self._typed_ahead], data[self._typed_ahead :]
            self._typed_ahead -= len(early)
            data = early.replace(b"\n", b"\r") + data
        keys = self._typed.feed(self._decoder.decode(data))
        self._was_read()
        return keys

    def flush_keys(self) -> list[KeyPress]:
        return self._typed.flush()


class _Output(DummyOutput):
    """An output that gives prompt_toolkit the terminal's size and bell, but draws nothing."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def get_size(self) -> Size:
        columns, rows = self._terminal.size
        return Size(rows=rows, columns=columns)

    def bell(self) -> None:
        self._terminal.bell()


class _Drawing(Renderer):
    """A renderer that leaves all drawing to the screen."""

    def __init__(self, screen: "Screen", output: _Output) -> None:
        from prompt_toolkit.styles import DummyStyle

        self._screen = screen
        super().__init__(DummyStyle(), output)

    def render(self, *_: Any, **__: Any) -> None:
        self._screen.draw()

    def erase(self, *_: Any, **__: Any) -> None:
        self._screen.resized()


class Screen:
    """The live area on the terminal.

    `stage` lays out the content for the terminal's width and number of rows.
    """

    def __init__(self, terminal: Terminal, stage: Stage, keys: KeyBindingsBase) -> None:
        self.terminal = terminal
        self._stage = stage
        stage.changed = self.changed
        self._painter = Painter()
        self._above: list[str] = []
        self._frame: asyncio.TimerHandle | None = None
        self._drawn_s = 0.0
        # The size for which the live area was drawn.
        self._size = self.terminal.size
        self._is_away = False
        # Draws again when the size has settled; None unless the window is being resized.
        self._resizing: asyncio.TimerHandle | None = None
        self._resize_s = TMUX_RESIZE_S if os.environ.get("TMUX") else RESIZE_S
        # The theme setting, once the settings are loaded.
        self.theme = ""
        # Called when the theme setting or the terminal's background color changes.
        self.on_colors: Callable[[], object] = lambda: None
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
        stage.editing = self._editing
        # The next prompt begins in insert mode, as it would in a new editor.
        stage.prompt.on_take = self.app.vi_state.reset

    def obey(self, settings: Mapping[str, Any]) -> None:
        """Apply the settings for editing keys, notifications and theme.

        These settings can change while the screen is open.
        """
        is_vim = read_text(settings, "editorMode") == "vim"
        mode = EditingMode.VI if is_vim else EditingMode.EMACS
        if self.app.editing_mode != mode:
            self.app.editing_mode = mode
        self.terminal.channel = read_text(settings, "preferredNotifChannel") or ""
        if self.theme != (theme := read_text(settings, "theme") or ""):
            self.theme = theme
            self.on_colors()
            self.changed()

    def _editing(self) -> str:
        """Return the name of vim's mode, or an empty string if vim keys are off."""
        if self.app.editing_mode != EditingMode.VI:
            return ""
        if self._stage.prompt.buffer.selection_state is not None:
            return "VISUAL"
        return VIM_MODES.get(self.app.vi_state.input_mode, "INSERT")

    @asynccontextmanager
    async def running(self, closed: Callable[[], object]) -> AsyncIterator[None]:
        """Show the screen while this context is active; call `closed` when the terminal is gone."""
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
        """Hand the terminal to another program while this context is active."""
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
        """Handle Ctrl-Z: suspend clew and its process group until the user runs `fg`."""
        async with self.away():
            os.kill(0, signal.SIGTSTP)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End clew if a key's handler raises an error.

        Otherwise, the error would be printed over the screen.
        """
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

    # -- output

    def say(self, lines: Iterable[str]) -> None:
        """Write finished lines above the live area, into the terminal's scrollback."""
        self._above += lines
        self.flows()

    def changed(self) -> None:
        """Redraw at once. Changes that occur at the same moment share a frame."""
        self._draw_at(asyncio.get_running_loop().time() + MOMENT_S)

    def flows(self) -> None:
        """Redraw in the next frame. Used for content that changes continually."""
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
        if not self.app.is_running or self._is_away or self._resizing is not None:
            return
        if self.terminal.size != self._size:
            self.resized()
            return
        self._drawn_s = asyncio.get_running_loop().time()
        columns, rows = self._size
        scene = self._stage.look(columns, rows)
        above, self._above = self._above, []
        if text := self._painter.paint(scene, above):
            self.terminal.write(text)

    def resized(self) -> None:
        """Draw nothing until the window's size has settled. At the end of a run, just erase."""
        if not self.app.is_running or self.app.is_done:
            self.erase()
            return
        if self._resizing is not None:
            self._resizing.cancel()
        loop = asyncio.get_running_loop()
        self._resizing = loop.call_later(self._resize_s, self._settle)

    def _settle(self) -> None:
        self._resizing = None
        self.erase()
        self.draw()

    def erase(self) -> None:
        """Erase the live area, even if a narrower window has wrapped its lines."""
        if self._resizing is not None:
            self._resizing.cancel()
            self._resizing = None
        (before, _), self._size = self._size, self.terminal.size
        is_wrapped = self._size[0] < before and self.terminal.wraps_again
        text = self._painter.rewrapped(self._size[0]) if is_wrapped else self._painter.erase()
        self.terminal.write(text)

    def anew(self) -> None:
        """Redraw the live area after another program has written to the terminal."""
        self.erase()
        self.draw()

    def bare(self) -> None:
        """Write the remaining finished lines and erase the live area."""
        self._stage.catch_up()
        self.erase()
        above, self._above = self._above, []
        self.terminal.write(self._painter.paint(EMPTY, above) + self._painter.erase())

    # -- replies of the terminal

    def _await_answers(self) -> None:
        """Expect replies to the terminal queries until the last reply or a time limit."""
        self._heard_all()
        self._typed.awaits_replies = True
        self._owed = asyncio.get_running_loop().call_later(ANSWERS_S, self._heard_all)

    def _wait_for_the_rest(self) -> None:
        """Set how long to wait for the rest of an incomplete key sequence or paste."""
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
        elif reply == "]7501;?":
            self.terminal.use_status()
        elif reply.startswith("]") and self.terminal.heed_ground(reply):
            self.on_colors()
            self.anew()
