"""Line mode: the driver's input and view for terminals that are not redrawn.

Prompts and turns alternate. Ctrl-C or Escape interrupts a turn; Ctrl-C at the prompt ends the
session. However the session ends, clew prints how to resume it.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from clew.agent.conversation import words_of
from clew.agent.events import Compacted, EngineEvent, TurnEnded
from clew.agent.intake import Raw, Taken
from clew.agent.options import Options
from clew.core.input import Pick, Rewound, Show
from clew.core.ledger.ledger import Spend
from clew.fronts.drive import (
    Cause,
    Driver,
    FrontInput,
    FrontView,
    Line,
    News,
    Next,
    make_next_options,
)
from clew.fronts.ends import HUNG_UP, INTERRUPTED, code_of, hear_signals, run_front
from clew.fronts.leaving import list_left_tasks, may_exit
from clew.fronts.line.keyboard import LineKeyboard
from clew.fronts.line.questions import LineQuestions, login, see
from clew.fronts.line.telling import LineWriter, Paper
from clew.fronts.remote.control import RemoteControl, SharedView, make_command
from clew.fronts.remote.desk import SessionDesk
from clew.fronts.render.folders import Folders
from clew.fronts.render.recalled import PERSON
from clew.fronts.render.rows import escape_controls
from clew.fronts.render.stories import describe_closing, describe_turn
from clew.fronts.terminal.first_run import is_first_start, offer_sandbox, show_ways
from clew.fronts.waiting import WaitingMessages
from clew.parts.hooks import Idle
from clew.permissions.modes import describe_mode
from clew.session.build import open_session
from clew.session.notices import choose_announcement
from clew.session.session import Session
from clew.system.config.settings import read_switch, read_text


def main(options: Options) -> int:
    return run_front(lambda: run(options))


async def run(options: Options) -> int:
    """Run one session after another, because a command can start or resume another session."""
    paper = Paper(sys.stdout)
    keyboard = LineKeyboard(paper)
    telling = LineWriter(paper)
    control = RemoteControl(options.remote)
    code: int | Options = options
    while isinstance(code, Options):
        code = await one_session(code, keyboard, telling, paper, control)
    return code


async def one_session(
    options: Options,
    keyboard: LineKeyboard,
    telling: LineWriter,
    paper: Paper,
    control: RemoteControl,
) -> int | Options:
    """Run one session; return an exit code, or the options of the next session."""
    questions = LineQuestions(keyboard, telling)
    control.ask_here = questions.ask
    is_new = is_first_start() and keyboard.is_terminal
    async with open_session(
        options, os.environ, str(Path.cwd()), control.ask, entrypoint="cli"
    ) as session:
        questions.rules = session.rules
        questions.cwd = session.workspace.where
        questions.mode_before_plan = lambda: session.parts.planning.mode_before
        session.commands.extend(
            [
                see(telling),
                make_command(control),
                *([login(keyboard, telling)] * keyboard.is_terminal),
            ]
        )
        home = os.environ.get("HOME", "")
        telling.folders = Folders(cwd=session.workspace.cwd, home=home)
        settings = session.rules.standing.settings
        if options.verbose or read_switch(settings, "verbose"):
            telling.show_in_full()
        channel = read_text(settings, "preferredNotifChannel")
        telling.rings = channel != "notifications_disabled"
        for notice in session.notices:
            telling.line(f"! {notice}")
        keys = " · Esc to interrupt · Ctrl-D to exit" if keyboard.is_terminal else ""
        telling.line(f"clew: {session.model.name}, {describe_mode(session.mode)}{keys}")
        if announcement := choose_announcement(session):
            telling.line(announcement)
        if session.model_access.lacks_key:
            await show_ways(session, telling.line)
        if is_new and await offer_sandbox(session, questions.sandbox):
            return options
        if session.resumed is not None:
            telling.history(session.resumed.messages, session.tools.title)
        view = LineView(session, telling, keyboard, questions)
        lines = LineInput(session, telling, keyboard, options.prompt, view.may_exit)
        driver = view.driver = Driver(
            session,
            lines,
            SharedView(view, control),
            idle=Idle(session.parts.hooks, lambda: session.rules.standing.settings),
        )
        hear_signals(view.heed_signal)
        paper.closed = lambda: driver.end(HUNG_UP)
        async with control.during(session, LineDesk(driver, lines)):
            then = HUNG_UP if paper.is_gone else await driver.run()
        for line in list_left_tasks(session):
            telling.line(f"! {line}")
        session.parts.hooks.ending.followed_by(then)
    for notice in session.parting():
        telling.line(f"! {notice}")
    if len(session.story.history) and session.story.recorder.is_kept:
        telling.line(f"\nResume this session with: clew --resume {session.session_id}")
    if isinstance(then, int):
        return 1 if then == 0 and session.has_lost_entries else then
    return make_next_options(options, then)


def typed(text: str) -> Line:
    return Line(raw=Raw(text=text, by_person=True))


class LineInput(FrontInput):
    """The lines that the user enters. `first` is the prompt given on the command line."""

    def __init__(
        self,
        session: Session,
        telling: LineWriter,
        keyboard: LineKeyboard,
        first: str,
        may_exit: Callable[[], Awaitable[bool]],
    ) -> None:
        self._session = session
        self._telling = telling
        self._keyboard = keyboard
        self._first = first
        self._may_exit = may_exit
        # What was requested during a turn and runs after it, and prompts of viewers.
        self._later: list[Taken | Line] = []
        # Notices that are shown above the next prompt.
        self._notices: list[str] = []
        self._is_asking = False
        self._news = asyncio.Event()
        self._is_over = False
        self._waiting = WaitingMessages(session)
        for letter in self._waiting.left:
            telling.line(f"[not sent before clew ended: {words_of(letter.content)}]")
        session.parts.tasks.listeners.append(self._news.set)

    async def next(self) -> Next:
        if self._is_over:
            return None
        self._waiting.settle()
        if self._later:
            return self._later.pop(0)
        text: str | None
        text, self._first = self._first, ""
        is_asked = False
        while not text or not text.strip():
            if self._session.parts.agents.has_news:
                return News()
            if self._later:
                return self._later.pop(0)
            self._show_notices()
            text = await self._line()
            if await self._is_end(text, is_asked=is_asked):
                return None
            is_asked = text is None
        self._waiting.answer_offer()
        return typed(text)

    async def _is_end(self, text: str | None, *, is_asked: bool) -> bool:
        """Return whether the session ends here: at Ctrl-D, or because it was ended in the meantime.

        At the first Ctrl-D, ask about running background tasks. At a second one, or if the input is
        closed, end the session without asking again.
        """
        if text is not None or self._is_over:
            return self._is_over
        return is_asked or not self._keyboard.reopen() or await self._may_exit()

    async def _line(self) -> str | None:
        """Ask for a line and return it, or an empty string if news arrives first.

        Return None at the end of the input.
        """
        self._news.clear()
        self._is_asking = True
        async with asyncio.TaskGroup() as group:
            line = group.create_task(self._keyboard.prompted(PERSON))
            news = group.create_task(self._await_news())
            await asyncio.wait([line, news], return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            if not line.done():
                line.cancel()
        self._is_asking = False
        if not line.cancelled():
            return line.result()
        self._telling.line("")
        return ""

    async def _await_news(self) -> None:
        while not (self._session.parts.agents.has_news or self._later or self._notices):
            self._news.clear()
            await self._news.wait()

    def put(self, outcome: Taken | Line) -> None:
        if self._session.conversation.is_running:
            self._telling.line("[will run when the turn ends]")
        self._later.append(outcome)
        self._news.set()

    def tell(self, words: str) -> None:
        """Show a notice at once. If a prompt is open, show it again below the notice."""
        self._notices.append(words)
        if self._is_asking:
            self._news.set()
        else:
            self._show_notices()

    def _show_notices(self) -> None:
        notices, self._notices = self._notices, []
        for words in notices:
            self._telling.line(f"! {words}")

    def end(self) -> None:
        self._is_over = True
        self._keyboard.give_up()


class LineDesk(SessionDesk):
    """The interface through which viewers control a session in line mode."""

    def __init__(self, driver: Driver, lines: LineInput) -> None:
        self._driver = driver
        self._lines = lines

    @property
    def is_over(self) -> bool:
        return self._driver.is_over

    def receive(self, line: Line) -> None:
        self._driver.receive(line)

    def stop(self) -> bool:
        return self._driver.stop()

    def tell(self, words: str) -> None:
        self._lines.tell(words)


class LineView(FrontView):
    """The view in line mode. `driver` is set after construction. Printed text never changes."""

    driver: Driver

    def __init__(
        self,
        session: Session,
        telling: LineWriter,
        keyboard: LineKeyboard,
        questions: LineQuestions,
    ) -> None:
        self._session = session
        self._questions = questions
        self._telling = telling
        self._keyboard = keyboard
        self._is_stopping = False
        # Messages sent during a turn, by the uuid under which the model receives them.
        self._waiting: dict[str, str] = {}
        # When the turn began, and what had been spent by then.
        self._began_s, self._spent = 0.0, Spend()
        # The result of a compaction, if an event reported one.
        self._told = ""

    def heed_signal(self, number: int) -> None:
        """Handle a signal.

        The first Ctrl-C interrupts the turn. A second one, Ctrl-C without a turn and any other
        signal end the session. All messages have been saved by then.
        """
        if number != signal.SIGINT:
            self.driver.end(code_of(number))
            return
        if self._is_stopping or not self.driver.stop():
            self.driver.end(INTERRUPTED)
        self._is_stopping = True

    async def emit(self, event: EngineEvent) -> None:
        if isinstance(event, Compacted):
            self._told = event.message
        await self._telling.emit(event)

    @asynccontextmanager
    async def turn(self, cause: Cause) -> AsyncIterator[None]:
        self._is_stopping, self._told = False, ""
        if cause.line is not None and cause.line.origin is not None:
            # A viewer sent the line, so it is not on the terminal yet.
            who = cause.line.origin.get("device") or "viewer"
            self._telling.line(escape_controls(f"{who}> {cause.line.raw.text}"))
        self._began_s, self._spent = time.monotonic(), self._session.ledger().total
        async with asyncio.TaskGroup() as group:
            with self._keyboard.during_turn(
                stop=self.driver.stop,
                say=lambda words: group.create_task(self.driver.say(typed(words))),
            ):
                yield

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        if cause.order is None:
            words = describe_closing(ended)
            is_marked = ended.is_error or ended.reason == "stopped_by_hook"
            self._telling.line(f"! {words}" if words and is_marked else words)
            spend = self._session.ledger().total - self._spent
            if spend.requests and not ended.is_error:
                self._telling.line(describe_turn(time.monotonic() - self._began_s, spend))
            if not ended.is_error:
                self._session.parts.title.generate()
        elif ended.message != self._told:
            await self.show(Show(text=ended.message, is_error=ended.is_error), None)
        self._telling.ring()

    async def may_exit(self) -> bool:
        """Return whether the session may end. On a terminal, ask about running tasks first."""
        if not self._keyboard.is_terminal:
            return True
        tasks = self._session.parts.tasks
        return await may_exit(tasks, self._questions.choose, self._telling.line)

    async def show(self, outcome: Show, _: Line | None) -> None:
        self._telling.line(f"! {outcome.text}" if outcome.is_error else outcome.text)

    async def rewound(self, rewound: Rewound, _: Line | None) -> None:
        self._telling.line(rewound.text)
        if rewound.prompt:
            self._telling.line(f"Your prompt was:\n{rewound.prompt}")

    async def pick(self, pick: Pick, _: Line | None) -> Line | None:
        """Ask the user to pick a choice by number; return the line of input for it.

        Any other input is an ordinary line. Return None if the user enters nothing.
        """
        if pick.text:
            self._telling.line(pick.text)
        for number, row in enumerate(pick.rows, 1):
            self._telling.line(f"{number:>3}  {row.label}")
        answer = await self._keyboard.line(f"{pick.title} (number; Enter to cancel): ")
        answer = (answer or "").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(pick.rows):
            answer = pick.rows[int(answer) - 1].line
        return typed(answer) if answer else None

    def wait(self, line: Line, uuid: str) -> None:
        self._waiting[uuid] = line.raw.text

    def give_back(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for uuid, text in waiting.items():
            if not uuid or self._session.conversation.take_back(uuid):
                self._telling.line(f"[not sent: {text}]")
