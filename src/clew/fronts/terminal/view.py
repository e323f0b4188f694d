"""The driver's input and view for a session on the terminal.

After an interruption, messages that the turn did not receive go back to the prompt, because the
user has probably changed their mind.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, assert_never

from clew.agent.events import EngineEvent, Noticed, Recorded, Signalled, TurnEnded
from clew.agent.intake import Raw, Taken
from clew.core.input import Pick, Rewound, Show, make_content
from clew.core.ledger.ledger import Spend
from clew.core.stream.events import TextDelta
from clew.fronts.dialog import Choice, Dialog, DialogAnswer
from clew.fronts.drive import Cause, Driver, FrontInput, FrontView, Line, News, Next
from clew.fronts.leaving import may_exit
from clew.fronts.render.markdown import get_ready
from clew.fronts.render.rows import (
    escape_controls,
    format_row,
    hang_lines,
    join_lines,
)
from clew.fronts.render.stories import describe_turn
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.prompt import Queued, SubmittedText
from clew.fronts.terminal.screen import Screen
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.status import FRAMES_S, Status, Working
from clew.fronts.terminal.todos import changes_todos, read_todos
from clew.fronts.waiting import WaitingMessages
from clew.providers.answer_events import Asking
from clew.session.session import Session
from clew.system.clock import make_id

Begin: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
TITLE_CHARACTERS = 40
# The rows of background subagents show whole seconds.
AGENTS_S = 1.0
# Longer lists are filtered by typing.
MANY = 9
# By then the request has been sent.
GET_READY_S = 0.05
# The delay before the user's status line runs, which combines several changes.
LOOK_AGAIN_S = 0.3


def as_typed(entry: SubmittedText, uuid: str | None = None) -> Line:
    return Line(raw=Raw(text=entry.text, pasted=entry.meant, by_person=True), uuid=uuid)


def as_entry(line: Line) -> SubmittedText:
    return SubmittedText(text=line.raw.text, pasted=line.raw.pasted)


class StatusLine:
    """Decides when the command for the user's own status line runs again."""

    def __init__(self, status: Status, screen: Screen, begin: Begin) -> None:
        self._status = status
        self._screen = screen
        self._begin = begin
        self._asking: asyncio.TimerHandle | None = None

    def look(self) -> None:
        self._status.look()

    def ask_soon(self) -> None:
        """Run the user's command after a delay, so that several changes cause only one run."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.ask)

    def ask(self) -> None:
        self._asking = None
        self._begin(self._ask())

    async def _ask(self) -> None:
        if await self._status.ask():
            self._screen.changed()


class TerminalInput(FrontInput):
    """The source of prompts: those that were sent, and those that wait for the end of a turn."""

    def __init__(self, session: Session, stage: Stage) -> None:
        self._session = session
        self._agents = session.parts.agents
        self._stage = stage
        self._sent: asyncio.Queue[Next] = asyncio.Queue()
        self._is_over = False
        self.waiting = WaitingMessages(session)

    async def next(self) -> Next:
        while not self._is_over:
            self.waiting.settle()
            if self._sent.empty() and (queued := self._stage.queue.next()) is not None:
                self.waiting.begin(queued.uuid)
                return as_typed(queued.entry, queued.uuid)
            event = await self._sent.get()
            if not isinstance(event, News) or self._agents.has_news:
                return event
        return None

    def send(self, entry: SubmittedText) -> None:
        self.waiting.answer_offer()
        self._sent.put_nowait(as_typed(entry))

    def queue(self, entry: SubmittedText) -> None:
        """Queue a prompt until the turn ends."""
        uuid = make_id()
        self.waiting.add(uuid, make_content(entry.text, entry.meant))
        self._stage.queue.add(Queued(entry=entry, uuid=uuid))

    def take_back(self, queued: Queued) -> bool:
        """Take back a queued message; return False if the turn has received it."""
        if queued.is_for_step:
            return self._session.conversation.take_back(queued.uuid) is not None
        if queued.uuid:
            self.waiting.take_back(queued.uuid)
        return True

    def put(self, outcome: Taken | Line) -> None:
        self._sent.put_nowait(outcome)

    def wake(self) -> None:
        """Wake the driver's loop, because background subagents may have news."""
        self._sent.put_nowait(News())

    def end(self) -> None:
        self._is_over = True
        self._sent.put_nowait(None)
        if self._stage.dialog is not None:
            self._stage.dialog.press("escape")


class TerminalView(FrontView):
    """The driver's view of a session on the terminal.

    `driver` is set after construction; `begin` starts a background task.
    """

    driver: Driver

    def __init__(
        self, session: Session, stage: Stage, screen: Screen, begin: Begin, lines: TerminalInput
    ) -> None:
        assert stage.transcript is not None
        assert stage.status is not None
        self._session = session
        self._stage = stage
        self.transcript = stage.transcript
        self.status = StatusLine(stage.status, screen, begin)
        self._screen = screen
        self._begin = begin
        self._lines = lines
        # The response text that arrived since the last frame.
        self._words: list[TextDelta] = []
        # Notices about the current line that are still to be shown.
        self._noticed: list[Noticed] = []
        self._began_s = 0.0
        # What had been spent when the turn began.
        self._spent = Spend()
        # Whether the Markdown renderer is loaded, or about to be.
        self._is_ready = False
        screen.terminal.report("idle")
        stage.catch_up = self._catch_up
        stage.todos.update(read_todos(session))
        self._is_ticking = False
        session.parts.tasks.watchers.append(lambda *_: self._tick_soon())

    # -- lines and turns

    @asynccontextmanager
    async def taking(self, line: Line) -> AsyncIterator[None]:
        self._begin_work()
        try:
            yield
        finally:
            self._stage.working = None
        # A command may have ended a task, as /tasks stop does, or changed a setting.
        self._lines.wake()
        self._stage.todos.update(read_todos(self._session))
        self._screen.changed()
        if line.raw.text.startswith("/"):
            self._screen.terminal.report("idle")
            self._show_title()
            self._obey()

    @asynccontextmanager
    async def turn(self, cause: Cause) -> AsyncIterator[None]:
        self._begin_work()
        text = "" if cause.line is None or cause.order is not None else cause.line.raw.text
        # A shell command is already shown above its output; a viewer's prompt is never one.
        is_shell = text.startswith("!") and cause.line is not None and cause.line.blocks is None
        self._echo(None if is_shell else cause.line)
        self._show_title(text)
        try:
            yield
        finally:
            self._stage.working = None

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        self._tell(ended)
        self._sum_up(ended, cause)
        if ended.is_blocked and cause.line is not None and cause.line.origin is None:
            self._stage.prompt.put_back(as_entry(cause.line))
        self._screen.changed()
        is_idle = self.driver.is_stopped or ended.is_blocked
        self._screen.terminal.report("idle" if is_idle else "error" if ended.is_error else "done")
        if not self.driver.is_stopped:
            lasted_s = time.monotonic() - self._began_s
            self._screen.terminal.notify("clew is done", waited_s=lasted_s)
        if not ended.is_error:
            self._session.parts.title.generate(self._show_title)
        self._show_title()
        self.status.look()
        self._stage.todos.update(read_todos(self._session))
        # The model may have changed a setting, or another program a settings file.
        self._obey()
        if cause.order is not None and cause.order.undo and not ended.is_error:
            self.say(ended.message)

    def _sum_up(self, ended: TurnEnded, cause: Cause) -> None:
        """Show the time, tokens and cost of a successful turn that used a model."""
        spend = self._session.ledger().total - self._spent
        if spend.requests and not ended.is_error and cause.order is None:
            self.say(describe_turn(time.monotonic() - self._began_s, spend))

    def _show_title(self, prompt: str = "") -> None:
        """Set the terminal's title: the session's title or, before the first turn, the prompt."""
        title = self._session.parts.title.text or prompt
        if title:
            self._screen.terminal.title(f"clew: {join_lines(title)[:TITLE_CHARACTERS]}")

    def _obey(self) -> None:
        self._screen.obey(self._session.rules.standing.settings)
        self.status.ask()

    def _begin_work(self) -> None:
        self._began_s, self._spent = time.monotonic(), self._session.ledger().total
        self._stage.working = Working(self._began_s, self._session.parts.mcp.describe_wait)
        self._screen.terminal.report("working")
        self._tick_soon()

    def _tick_soon(self) -> None:
        if not self._is_ticking:
            self._tick()

    def _tick(self) -> None:
        """Redraw regularly while a turn or a subagent runs, to update the elapsed time."""
        is_working = self._stage.working is not None
        self._is_ticking = is_working or self._stage.agents.is_shown
        if self._is_ticking:
            self._screen.flows()
            due_s = FRAMES_S if is_working else AGENTS_S
            asyncio.get_running_loop().call_later(due_s, self._tick)

    def wait(self, line: Line, uuid: str) -> None:
        self._stage.queue.add(
            Queued(
                entry=as_entry(line),
                uuid=uuid,
                is_for_step=bool(uuid),
                when="Queued for the next step",
            )
        )
        self._screen.changed()

    def give_back(self) -> None:
        """Move messages that the turn has not received back to the prompt."""
        for queued in reversed(self._stage.queue.take_all()):
            if self._lines.take_back(queued):
                self._stage.prompt.put_back(queued.entry)

    # -- results of lines

    async def show(self, outcome: Show, line: Line | None) -> None:
        self._echo(line)
        if outcome.page is not None:
            self._screen.say(self.transcript.page(outcome.page))
            self._screen.changed()
        elif outcome.has_diffs:
            self._screen.say(self.transcript.patches(outcome.text))
            self._screen.changed()
        else:
            self.say(outcome.text, part="error" if outcome.is_error else "")
        if outcome.is_unknown and line is not None and self._stage.prompt.is_empty:
            self._stage.prompt.put(as_entry(line))
            self._stage.completion.close(line.raw.text)

    async def rewound(self, rewound: Rewound, line: Line | None) -> None:
        self._echo(line)
        self.say(rewound.text)
        if rewound.prompt:
            self._stage.prompt.put_back_sent(rewound.prompt)

    async def pick(self, pick: Pick, _: Line | None) -> Line | None:
        match pick.of:
            case "sessions" | "all sessions":
                text = await self._picked_session(pick)
            case "themes":
                from clew.fronts.terminal.theme_picker import pick_theme

                is_light = self._screen.terminal.is_light
                text = await pick_theme(self._stage, pick, is_light=is_light)
            case "":
                text = await self._picked(pick)
            case _:
                assert_never(pick.of)
        return as_typed(SubmittedText(text=text)) if text else None

    async def _picked_session(self, pick: Pick) -> str:
        from clew.fronts.terminal.session_picker import SessionPicker

        session = self._session
        home = session.rules.standing.places.config_home
        picker = SessionPicker(self._stage, home, session.workspace.cwd, without=session.session_id)
        path = await picker.pick(everywhere=pick.of == "all sessions")
        return f"/resume {path}" if path else ""

    async def _picked(self, pick: Pick) -> str:
        """Let the user choose; return the line that carries out the choice, or an empty string."""

        def text(width: int) -> list[str]:
            return self.transcript.paint_patches(pick.text, width)

        choices = [Choice(label=join_lines(row.label)) for row in pick.rows]
        body = text if pick.text else (lambda _: ())
        chooser = Chooser(pick.title, choices, body=body, searches=len(choices) > MANY, at=pick.at)
        answer = await self._stage.answered(self._stage.show(chooser))
        return "" if answer is None else pick.rows[answer.chosen[0]].line

    async def may_exit(self) -> bool:
        return await may_exit(self._session.parts.tasks, self._choose, self.say)

    async def _choose(self, dialog: Dialog) -> DialogAnswer | None:
        """Show a dialog that the user opened; return the answer, or None if there is none."""
        text = escape_controls(dialog.text)
        chooser = Chooser(
            dialog.title,
            dialog.choices,
            body=lambda width: [format_row(row) for row in hang_lines(text, "", width)],
            at=dialog.at,
            escape=dialog.escape,
        )
        return await self._stage.answered(self._stage.show(chooser))

    async def leave(self, _: Line | None) -> None:
        """Show nothing for the line that ends the session."""

    # -- events

    async def note(self, event: EngineEvent) -> None:
        """Collect notices about a line, to show them below that line; show other events at once."""
        if isinstance(event, Noticed):
            self._noticed.append(event)
        else:
            await self.emit(event)

    async def emit(self, event: EngineEvent) -> None:
        if isinstance(event, TextDelta):
            self._words.append(event)
            self._screen.flows()
            return
        self._catch_up()
        if isinstance(event, Signalled):
            # Written unchanged, because only harmless signals of hooks are passed on.
            self._screen.terminal.write(event.sequence)
        self._stage.agents.heed(event)
        if changes_todos(event):
            self._stage.todos.update(read_todos(self._session))
        if isinstance(event, Recorded):
            self._heard(event)
            self.status.ask_soon()
        if isinstance(event, Asking) and not self._is_ready:
            # Load the renderer while the API works on the response, not between two words of the
            # response.
            self._is_ready = True
            asyncio.get_running_loop().call_later(GET_READY_S, self._get_ready)
        self._tell(event)

    def _get_ready(self) -> None:
        """Load the Markdown renderer in a thread, so that typed keys still appear at once."""
        self._begin(asyncio.to_thread(get_ready))

    def _catch_up(self) -> None:
        """Show the text that has arrived since the last frame, as one piece.

        Several pieces of text may arrive between two frames.
        """
        words, self._words = self._words, []
        if words:
            text = "".join(delta.text for delta in words)
            self._tell(TextDelta(index=words[-1].index, text=text))

    def _tell(self, event: EngineEvent | TurnEnded) -> None:
        if self._stage.working is not None and not isinstance(event, TurnEnded):
            self._stage.working.heed(event, time.monotonic())
        self._screen.say(self.transcript.feed(event))

    def _heard(self, event: Recorded) -> None:
        for entry in event.entries:
            queued = self._stage.queue.heard(str(entry.get("uuid")))
            if queued is not None:
                self._screen.say(self.transcript.prompt(queued.entry.text))

    def _echo(self, line: Line | None) -> None:
        """Show the line that the user typed and then the notices about it, before its result."""
        self._catch_up()
        if line is not None:
            self._screen.say(self.transcript.prompt(line.raw.text))
            self._screen.changed()
        noticed, self._noticed = self._noticed, []
        for event in noticed:
            self._tell(event)

    def say(self, text: str, part: str = "quiet") -> None:
        self._catch_up()
        if text:
            self._screen.say(self.transcript.note(text, part=part))
            self._screen.changed()
