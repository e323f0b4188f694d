"""A session on the screen: the driver's input and view of a terminal.

After a stop, what the turn had not heard goes back to the prompt, for then something else was meant.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from clew.agent.events import EngineEvent, Noticed, Recorded, Signalled, TurnEnded
from clew.agent.intake import Raw, Taken
from clew.core.input import Pick, Rewound, Show
from clew.core.stream.events import TextDelta
from clew.fronts.dialog import Choice
from clew.fronts.drive import Cause, Driver, FrontInput, FrontView, Line, News, Next
from clew.fronts.render.markdown import get_ready
from clew.fronts.render.rows import Span, escape_controls, format_row, join_lines, wrap_spans
from clew.fronts.terminal.choosing import Chooser
from clew.fronts.terminal.prompt import Queued, SubmittedText
from clew.fronts.terminal.screen import Screen
from clew.fronts.terminal.stage import Stage
from clew.fronts.terminal.status import FRAMES_S, Status, Working
from clew.providers.answer_events import Asking
from clew.session.session import Session

Begin: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
TITLE_CHARACTERS = 40
# More than that is searched by typing.
MANY = 9
# By then the request is on its way.
GET_READY_S = 0.05
# The user's own last line is asked for that long after a change, with whatever changes until then.
LOOK_AGAIN_S = 0.3


def as_typed(entry: SubmittedText) -> Line:
    return Line(raw=Raw(text=entry.text, pasted=entry.meant, by_person=True))


def as_entry(line: Line) -> SubmittedText:
    return SubmittedText(text=line.raw.text, pasted=line.raw.pasted)


class StatusLine:
    """When the user's own last line is asked for again."""

    def __init__(self, status: Status, screen: Screen, begin: Begin) -> None:
        self._status = status
        self._screen = screen
        self._begin = begin
        self._asking: asyncio.TimerHandle | None = None

    def look(self) -> None:
        self._status.look()

    def ask_soon(self) -> None:
        """What the line may tell has changed; of much at once it hears once."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.ask)

    def ask(self) -> None:
        self._asking = None
        self._begin(self._ask())

    async def _ask(self) -> None:
        if await self._status.ask():
            self._screen.changed()


class TerminalInput(FrontInput):
    """What was sent from the prompt, and what waits for the end of a turn."""

    def __init__(self, session: Session, stage: Stage) -> None:
        self._agents = session.parts.agents
        self._stage = stage
        self._sent: asyncio.Queue[Next] = asyncio.Queue()
        self._is_over = False

    async def next(self) -> Next:
        while not self._is_over:
            if self._sent.empty() and (waiting := self._stage.queue.next()) is not None:
                return as_typed(waiting)
            event = await self._sent.get()
            if not isinstance(event, News) or self._agents.has_news:
                return event
        return None

    def send(self, entry: SubmittedText) -> None:
        self._sent.put_nowait(as_typed(entry))

    def put(self, outcome: Taken) -> None:
        self._sent.put_nowait(outcome)

    def wake(self) -> None:
        """Subagents in the background may have news."""
        self._sent.put_nowait(News())

    def end(self) -> None:
        self._is_over = True
        self._sent.put_nowait(None)
        if self._stage.dialog is not None:
            self._stage.dialog.press("escape")


class TerminalView(FrontView):
    """`driver` is there once it was made; `begin` has something done beside the typing."""

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
        # Words of the answer that came since they were last shown.
        self._words: list[TextDelta] = []
        # What is still to be said about the line that was sent.
        self._noticed: list[Noticed] = []
        self._began_s = 0.0
        # Whether what reads answers was loaded, or is about to be.
        self._is_ready = False
        stage.catch_up = self._catch_up

    # -- lines and turns

    @asynccontextmanager
    async def taking(self, line: Line) -> AsyncIterator[None]:
        self._begin_work()
        try:
            yield
        finally:
            self._stage.working = None
        # What a command ended, /tasks stop, may have been told of while it ran; or it set something.
        self._lines.wake()
        self._screen.changed()
        if line.raw.text.startswith("/"):
            self._obey()

    @asynccontextmanager
    async def turn(self, cause: Cause) -> AsyncIterator[None]:
        self._begin_work()
        text = "" if cause.line is None or cause.order is not None else cause.line.raw.text
        # A line for the shell stands already above what it printed.
        self._echo(None if text.startswith("!") else cause.line)
        if text:
            self._screen.terminal.title(f"clew: {join_lines(text)[:TITLE_CHARACTERS]}")
        try:
            yield
        finally:
            self._stage.working = None

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        self._tell(ended)
        self._screen.changed()
        if not self.driver.is_stopped:
            lasted_s = time.monotonic() - self._began_s
            self._screen.terminal.notify("clew is done", waited_s=lasted_s)
        self.status.look()
        # The model may have changed a setting, or somebody the files.
        self._obey()
        if cause.order is not None and cause.order.undo and not ended.is_error:
            self.say(ended.message)

    def _obey(self) -> None:
        self._screen.obey(self._session.rules.standing.settings)
        self.status.ask()

    def _begin_work(self) -> None:
        self._began_s = time.monotonic()
        self._stage.working = Working(self._began_s)
        self._tick()

    def _tick(self) -> None:
        """Draws while a turn runs, though nothing comes: the time goes on."""
        if self._stage.working is not None:
            self._screen.flows()
            asyncio.get_running_loop().call_later(FRAMES_S, self._tick)

    def wait(self, line: Line, uuid: str) -> None:
        self._stage.queue.add(
            Queued(entry=as_entry(line), uuid=uuid, when="Queued for the next step")
        )
        self._screen.changed()

    def give_back(self) -> None:
        """What was not heard before a stop may be written anew."""
        for queued in reversed(self._stage.queue.take_all()):
            if not queued.uuid or self._session.conversation.take_back(queued.uuid):
                self._stage.prompt.put_back(queued.entry)

    # -- what a line comes to

    async def show(self, outcome: Show, line: Line | None) -> None:
        self._echo(line)
        self.say(outcome.text, part="error" if outcome.is_error else "")

    async def rewound(self, rewound: Rewound, line: Line | None) -> None:
        self._echo(line)
        self.say(rewound.text)
        if rewound.prompt:
            self._stage.prompt.put_back(SubmittedText(text=rewound.prompt))

    async def pick(self, pick: Pick, _: Line | None) -> Line | None:
        text = await (self._picked_session(pick) if pick.of else self._picked(pick))
        return as_typed(SubmittedText(text=text)) if text else None

    async def _picked_session(self, pick: Pick) -> str:
        from clew.fronts.terminal.session_picker import SessionPicker

        session = self._session
        home = session.rules.standing.places.config_home
        picker = SessionPicker(self._stage, home, session.workspace.cwd, without=session.session_id)
        path = await picker.pick(everywhere=pick.of == "all sessions")
        return f"/resume {path}" if path else ""

    async def _picked(self, pick: Pick) -> str:
        """The line that does what was chosen; empty for nothing."""
        style = self._stage.theme[""]

        def text(width: int) -> list[str]:
            return [
                format_row(row)
                for row in wrap_spans([Span(escape_controls(pick.text), style)], width)
            ]

        choices = [Choice(label=join_lines(row.label)) for row in pick.rows]
        body = text if pick.text else (lambda _: ())
        chooser = Chooser(pick.title, choices, body=body, searches=len(choices) > MANY, at=pick.at)
        answer = await self._stage.answered(self._stage.show(chooser))
        return "" if answer is None else pick.rows[answer.chosen[0]].line

    async def leave(self, _: Line | None) -> None:
        """The line that ends the session is not shown above what is said at its end."""

    # -- what is shown

    async def note(self, event: EngineEvent) -> None:
        """What is to be said about a line stands below it."""
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
            # Written as it is: of all that a hook may say, only such signals come this way.
            self._screen.terminal.write(event.sequence)
        if isinstance(event, Recorded):
            self._heard(event)
            self.status.ask_soon()
        if isinstance(event, Asking) and not self._is_ready:
            # While the service thinks, not between two words of its answer.
            self._is_ready = True
            asyncio.get_running_loop().call_later(GET_READY_S, self._get_ready)
        self._tell(event)

    def _get_ready(self) -> None:
        """On a thread, so that what is typed meanwhile is seen at once."""
        self._begin(asyncio.to_thread(get_ready))

    def _catch_up(self) -> None:
        """Words come faster than they are drawn: what came between two frames is read as one."""
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
        """What was typed, above what it comes to."""
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
