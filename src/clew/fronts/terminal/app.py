"""The terminal front end: shows the prompt before loading anything else, then opens a session.

This module starts the terminal, runs the sessions, and maps keys to actions. `stage` decides what
is shown. `desk` implements the key actions on the prompt, and `talk` those on the session. `opened`
is loaded once the prompt is visible. Described in docs/using/terminal.md.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from prompt_toolkit.key_binding import KeyBindings

from clew.fronts.ends import ENDED_BY, HUNG_UP, INTERRUPTED, run_front
from clew.fronts.render.rows import escape_controls, join_lines
from clew.fronts.render.theme import accent_theme, choose_theme
from clew.fronts.terminal.bound import join, leave_insert
from clew.fronts.terminal.completion import Completion
from clew.fronts.terminal.desk import PromptController
from clew.fronts.terminal.history import PromptHistory
from clew.fronts.terminal.keys import read_bindings
from clew.fronts.terminal.prompt import PromptEditor, Queue, Queued, SubmittedText
from clew.fronts.terminal.screen import Screen
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.terminal import Terminal
from clew.system.config.paths import find_config_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, TypeAlias

    from clew.agent.options import Options
    from clew.fronts.remote.control import RemoteControl
    from clew.fronts.terminal.choosing import Chooser
    from clew.fronts.terminal.talk import Talk

    # Opens a session and runs it; returns an exit code or the options of the next session.
    OneSession: TypeAlias = Callable[["TerminalFront", Options | None], Awaitable[int | Options]]

UNDO = "/compact --undo"
# Two presses of Escape within this time count as one gesture.
TWICE_S = 2.0


def main(
    options: Options | None, terminal: Terminal, load_sessions: Callable[[], OneSession]
) -> int:
    return run_front(lambda: TerminalFront(terminal).run(options, load_sessions))


class TerminalFront:
    """The state that all sessions of a run share: screen, prompt, history and key bindings.

    `talk` is the open session, if any.
    """

    def __init__(self, terminal: Terminal) -> None:
        home = find_config_home(os.environ, Path.cwd())
        keys = KeyBindings()
        self.talk: Talk | None = None
        # Set when the first session opens.
        self.remote: RemoteControl | None = None
        self.bindings = read_bindings(home)
        self.history = PromptHistory(home / "history.jsonl", str(Path.cwd()))
        self.stage = Stage(choose_theme("", os.environ), PromptEditor(), Completion(), Queue())
        self.screen = Screen(terminal, self.stage, keys)
        # The accent color of the open session, if it has one.
        self.accent = ""
        self.screen.on_colors = self.recolor
        self.stage.on_question = self._asked
        self.stage.on_answer = self._report_work
        self.desk = PromptController(
            self.stage,
            self.screen,
            self.history,
            self.begin,
            sent=self._sent,
            take_back=self._take_back,
        )
        # The exit code, set even if no session is open that could handle it.
        self.code: int | None = None
        self.is_first = True
        self.is_greeted = False
        # When Escape was pressed with nothing to interrupt.
        self._escaped_s = 0.0
        self._beside: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        join(keys, self.bindings, self.stage, self.desk, self._actions())

    # -- start-up

    async def run(self, options: Options | None, load_sessions: Callable[[], OneSession]) -> int:
        loop = asyncio.get_running_loop()
        self.history.is_kept = options is None or options.persists
        async with self.screen.running(closed=lambda: self.end(HUNG_UP)):
            for number, code in ENDED_BY.items():
                loop.add_signal_handler(number, self.end, code)
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            async with asyncio.TaskGroup() as group:
                self._group = group
                code = await self._sessions(options, load_sessions)
                self._group = None
                for task in self._beside:
                    task.cancel()
        # Prompts that no session has received.
        self.history.begin("")
        return code

    async def _sessions(
        self, options: Options | None, load_sessions: Callable[[], OneSession]
    ) -> int:
        """Run one session after another; return the exit code."""
        # In a thread, so that typed keys are shown at once.
        one_session = await asyncio.to_thread(load_sessions)
        code: int | Options | None = options
        while not isinstance(code, int):
            if self.code is not None:
                return self.code
            code = await one_session(self, code)
        return code

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task, which is cancelled when the screen closes."""
        if self._group is None:
            work.close()
            return
        task = self._group.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def recolor(self) -> None:
        """Apply the theme setting and the terminal's background color to later output."""
        is_light = self.screen.terminal.is_light
        theme = choose_theme(self.screen.theme, os.environ, is_light=is_light)
        self.stage.theme = accent_theme(theme, self.accent)
        if self.stage.transcript is not None:
            self.stage.transcript.theme = self.stage.theme

    # -- key actions

    def _actions(self) -> dict[str, Callable[[], object]]:
        desk, completion = self.desk, self.stage.completion
        return {
            "app:interrupt": self._interrupt,
            "app:exit": self._exit,
            "app:suspend": lambda: self.begin(self.screen.suspend()),
            "app:redraw": self.screen.anew,
            "app:toggleTranscript": self._with_talk(lambda talk: talk.menus.see_folded()),
            "app:toggleTodos": self._with_talk(lambda talk: talk.menus.toggle_todos()),
            "app:tasks": self._with_talk(lambda talk: talk.menus.see_tasks()),
            "task:background": self._with_talk(lambda talk: talk.menus.leave_waited()),
            "chat:cancel": self._escape,
            "chat:submit": desk.submit,
            "chat:queue": self._queue,
            "chat:newline": desk.newline,
            "chat:cycleMode": self._with_talk(lambda talk: talk.menus.next_mode()),
            "chat:externalEditor": desk.edit,
            "chat:imagePaste": desk.paste_picture,
            "chat:stash": desk.stash,
            "chat:modelPicker": self._with_talk(lambda talk: talk.menus.pick_model()),
            "chat:undoSummary": self._with_talk(lambda talk: talk.send(SubmittedText(text=UNDO))),
            "chat:keys": self._with_talk(lambda talk: talk.menus.see_keys(self.bindings)),
            "history:previous": desk.older,
            "history:next": desk.newer,
            "history:search": desk.search,
            "autocomplete:accept": desk.accept,
            "autocomplete:previous": lambda: completion.move(-1),
            "autocomplete:next": lambda: completion.move(1),
            "autocomplete:dismiss": desk.dismiss,
        }

    def _with_talk(self, do: Callable[[Talk], object]) -> Callable[[], object]:
        return lambda: None if self.talk is None else do(self.talk)

    def _queue(self) -> None:
        """Queue the prompt if a turn runs or the session is not open yet.

        Otherwise do nothing, because Tab without a suggestion must not send the prompt.
        """
        if self.talk is None or self.talk.is_running:
            self.desk.queue()

    def _sent(self, entry: SubmittedText, *, later: bool) -> None:
        if self.talk is None:
            self.stage.queue.add(Queued(entry=entry, when="Queued for the start of the session"))
            self.screen.changed()
        else:
            self.talk.send(entry, later=later)

    def _asked(self, dialog: Chooser) -> None:
        """Notify a user who has looked away, and report to the terminal that clew is waiting."""
        title = escape_controls(join_lines(dialog.title))
        self.screen.terminal.notify(f"clew: {title}")
        refuses = any(choice.refuses for choice in dialog.choices)
        kind = "permission" if refuses else "question"
        self.screen.terminal.report("blocked", kind=kind, words=title)

    def _report_work(self) -> None:
        self.screen.terminal.report("idle" if self.stage.working is None else "working")

    def _take_back(self) -> SubmittedText | None:
        """Take back and return the newest message that was sent but not yet received, or None."""
        if self.talk is not None:
            return self.talk.take_back()
        queued = self.stage.queue.take_last()
        return None if queued is None else queued.entry

    def _escape(self) -> None:
        """Handle Escape: leave vim's insert mode if the prompt has text, else interrupt the turn.

        Before the session is open, take back the newest queued message instead.
        """
        if not self.stage.prompt.is_empty and leave_insert():
            return
        if self.talk is None and (entry := self._take_back()) is not None:
            self.stage.prompt.put_back(entry)
        elif self.talk is None or not self.talk.stop():
            self._escape_twice()

    def _escape_twice(self) -> None:
        """On a second Escape, clear the prompt, or rewind if it is empty."""
        is_empty, now_s = self.stage.prompt.is_empty, time.monotonic()
        is_second = now_s - self._escaped_s < TWICE_S
        self._escaped_s = 0.0 if is_second else now_s
        if not is_second:
            then = "rewind" if is_empty else "clear the prompt"
            self.stage.hint(f"Nothing to interrupt · Esc again to {then}")
        elif not is_empty:
            self.desk.clear()
        elif self.talk is not None:
            self.stage.hint("")
            self.talk.send(SubmittedText(text="/rewind"))

    def _interrupt(self) -> None:
        if self.talk is not None:
            if not self.stage.dismiss():
                self.talk.interrupt(self.desk.discard)
        elif self.stage.prompt.is_empty:
            self.end(INTERRUPTED)
        else:
            self.desk.discard()

    def _exit(self) -> None:
        """Handle Ctrl-D: exit if the prompt is empty, otherwise delete a character.

        While a dialog is open, Ctrl-D never exits.
        """
        if self.stage.dialog is not None or not self.stage.prompt.is_empty:
            self.screen.app.current_buffer.delete()
        elif self.talk is not None:
            self.begin(self._leave(self.talk))
        else:
            self.end(0)

    async def _leave(self, talk: Talk) -> None:
        """Exit, unless the user decides to stay because of running background tasks."""
        if await talk.view.may_exit():
            self.end(0)

    def end(self, code: int) -> None:
        self.code = code
        if self.talk is not None:
            self.talk.end(code)
