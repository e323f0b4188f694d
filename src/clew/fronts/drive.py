"""The main loop of every front end: turns input into a turn, an immediate result, or an exit.

The loop decides which turn runs next, what happens to messages that a turn did not receive, and how
an interruption is handled. Each front end passes in its input, which supplies the lines, and its
view, which shows output and asks questions. This module never reads or writes a terminal, a file or
a channel.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from clew.agent.conversation import Conversation, Speaker
from clew.agent.deps import Emit
from clew.agent.events import EngineEvent, ToolFinished, TurnEnded
from clew.agent.intake import Raw, Taken, Turn
from clew.agent.options import Options
from clew.agent.tools.base import STRUCTURED_OUTPUT
from clew.agent.transitions import UNSHAPED
from clew.commands.line import take_line
from clew.core.input import (
    Clear,
    CompactSession,
    ExitSession,
    Pick,
    Resume,
    Rewound,
    Show,
    as_list,
)
from clew.core.json_object import Json
from clew.core.messages.errors import find_first_error
from clew.parts.hooks import Idle
from clew.record.transcript import light
from clew.session.session import Session
from clew.system.clock import make_id

# Words that end a session when the user types them.
FAREWELLS = ("exit", "quit")


class Line(Struct, frozen=True, kw_only=True):
    """One line of input to a session.

    `blocks` is a prompt composed by a program: commands and file names in it are not expanded. If
    `asks` is false, the line is recorded without asking the model for an answer.
    """

    raw: Raw = Raw(text="")
    blocks: str | list[Json] | None = None
    uuid: str | None = None
    origin: Json | None = None
    asks: bool = True
    # Whether the line was interrupted while it waited. If so, it ends without being processed.
    is_interrupted: bool = False


class News(Struct, frozen=True):
    """The signal that background tasks have news, which starts a turn."""


class Cause(Struct, frozen=True, kw_only=True):
    """The reason why a turn runs, and the line of input that started it, if any.

    The reason is a prompt, a request to compact the session, news from background tasks, or, if all
    fields are empty, messages that the last turn did not receive.
    """

    line: Line | None = None
    turn: Turn | None = None
    order: CompactSession | None = None
    is_news: bool = False


Next: TypeAlias = Line | News | Taken | None


class FrontInput(Protocol):
    """The source of a session's input. The defaults suit an input that ends on its own."""

    async def next(self) -> Next:
        """Return what to do next, or None if the session is to end."""
        ...

    def put(self, _: Taken | Line) -> None:
        """Queue something that was requested during a turn, to be done when the turn ends."""
        return

    def end(self) -> None:
        """Make `next` return None from now on."""
        return


class FrontView(Protocol):
    """The part of a front end that shows a session's output and asks its user questions.

    The defaults suit a view without a user.
    """

    async def emit(self, event: EngineEvent) -> None:
        """Show an event of a turn."""
        ...

    async def note(self, event: EngineEvent) -> None:
        """Show an event that occurs while a line is processed."""
        await self.emit(event)

    def taking(self, _: Line) -> AbstractAsyncContextManager[object]:
        """Return a context manager that is active while a line is processed."""
        return nullcontext()

    def turn(self, _: Cause) -> AbstractAsyncContextManager[object]:
        """Return a context manager that is active while a turn runs."""
        return nullcontext()

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None: ...

    async def show(self, outcome: Show, line: Line | None) -> None:
        """Show the result of a line that did not go to the model."""
        ...

    async def rewound(self, rewound: Rewound, line: Line | None) -> None:
        await self.show(Show(text=rewound.text), line)

    async def pick(self, pick: Pick, line: Line | None) -> Line | None:
        """Let the user choose; return the line of input that carries out the choice, or None.

        By default only list the choices.
        """
        await self.show(as_list(pick), line)
        return None

    async def untaken(self, line: Line) -> None:
        """Report that a line was cancelled before it had a result."""
        await self.show(Show(text="Cancelled"), line)

    async def may_exit(self) -> bool:
        """Return whether the session may end, after asking about tasks that are still running."""
        return True

    async def leave(self, line: Line | None) -> None:
        """Handle a line that ends the session."""
        await self.show(Show(text=""), line)

    def wait(self, _line: Line, _uuid: str) -> None:
        """Show that a line sent during a turn is waiting.

        The running turn will receive the line under the ID `uuid`. If `uuid` is empty, no turn will
        receive it, and it is given back to the user.
        """
        return

    def give_back(self) -> None:
        """Return waiting messages to the user after an interruption: no turn will receive them."""
        return


class Driver:
    """The main loop of one session.

    `idle`, which is passed if a user is at the keyboard, tells hooks when clew waits for that user.
    """

    def __init__(
        self,
        session: Session,
        lines: FrontInput,
        view: FrontView,
        *,
        is_shaped: bool = False,
        idle: Idle | None = None,
    ) -> None:
        self.session = session
        self._lines = lines
        self._view = view
        self._idle = idle
        self._shaped = Shaped(session.conversation, view.emit, is_wanted=is_shaped)
        self._taking: asyncio.Task[Taken] | None = None
        # The received lines that wait until the work before them ends, oldest first.
        self._received: list[Line] = []
        # Whether a line is being processed or a turn runs, and whether it was interrupted.
        self.is_working = self.is_stopped = False
        # Whether the line that is being processed was interrupted.
        self._is_untaken = False
        self._code = 0
        # Whether the session is to end.
        self.is_over = False
        session.parts.agents.heard = self.hear

    async def run(self) -> int | Clear | Resume:
        """Run the session to its end.

        Return an exit code, or the command that starts the next session.
        """
        then: Clear | Resume | None = None
        try:
            if self._idle is not None and (offer := offer_at_start(self.session)) is not None:
                then = await self._do(offer, None)
            while then is None and (event := await self._lines.next()) is not None:
                then = await self._heed(event)
        finally:
            self._rest(is_waiting=False)
        return self._code if then is None else then

    # -- while it runs

    def stop(self) -> bool:
        """Interrupt the line or turn in progress; return False if there is none."""
        if not self.is_working:
            return False
        self.is_stopped = True
        if self._taking is not None:
            self._taking.cancel()
        self.session.conversation.interrupt()
        return True

    def interrupt(self) -> bool:
        """Interrupt the turn in progress, or the line that is being processed.

        Unlike `stop`, keep the waiting messages and lines. Return False if there is nothing to
        interrupt.
        """
        if self._taking is None:
            return self.session.conversation.interrupt()
        self._is_untaken = True
        self._taking.cancel()
        return True

    def end(self, code: int) -> None:
        """Interrupt the line or turn in progress, and end the session with an exit code."""
        self._code, self.is_over = code, True
        self._lines.end()
        self.stop()

    async def say(self, line: Line) -> None:
        """Handle a line that the user sends while a turn runs.

        The model receives a message at its next step. A command runs at once, or after the turn.
        """
        outcome = await self._taken(line, self._view.emit)
        conversation = self.session.conversation
        match outcome:
            case Turn() if conversation.is_running:
                uuid = make_id()
                conversation.say(
                    outcome.prompt, self._speaker(line), uuid=uuid, context=outcome.context
                )
                # A message that is shown as waiting survives a crash.
                self.session.story.recorder.flush()
                self._view.wait(line, uuid)
            case Turn() if self.is_stopped:
                self._view.wait(line, "")
                self._view.give_back()
            case Show():
                await self._view.show(outcome, line)
            case ExitSession():
                if await self._view.may_exit():
                    self.end(0)
            case _:
                self._lines.put(outcome)

    def receive(self, line: Line) -> None:
        """Handle a prompt that did not come from this input, such as a viewer's.

        The running turn receives it, unless an earlier such prompt is still waiting for its own
        turn.
        """
        conversation = self.session.conversation
        if conversation.is_running and line.blocks is not None and not self._received:
            conversation.say(line.blocks, self._speaker(line), uuid=line.uuid)
        else:
            self._received.append(line)
            self._lines.put(line)

    async def hear(self, event: EngineEvent) -> None:
        """Show an event of a subagent, unless the user is at the prompt."""
        if self._idle is None or self.session.conversation.is_running:
            await self._view.emit(event)

    # -- one line after another

    async def _heed(self, event: Line | News | Taken) -> Clear | Resume | None:
        if isinstance(event, News):
            await self._answer_unheard(Cause(is_news=True))
            return None
        if not isinstance(event, Line):
            return await self._do(event, None)
        if event in self._received:
            self._received.remove(event)
        outcome = await self._take(event)
        if outcome is None:
            await self._view.untaken(event)
            return None
        return await self._do(outcome, event)

    async def _take(self, line: Line) -> Taken | None:
        """Process a line of input; return None if the user interrupted the processing."""
        self._begin()
        self._is_untaken = line.is_interrupted
        try:
            async with self._view.taking(line), asyncio.TaskGroup() as group:
                self._taking = taking = group.create_task(self._taken(line, self._view.note))
                if self._is_untaken:
                    taking.cancel()
        except ExceptionGroup as raised:
            raise find_first_error(raised) from None
        finally:
            self._taking, self.is_working = None, False
        is_untaken = taking.cancelled() or self.is_stopped or self._is_untaken
        return None if is_untaken else taking.result()

    async def _taken(self, line: Line, emit: Emit) -> Taken:
        if line.blocks is None:
            if self._idle is not None and line.raw.text.strip() in FAREWELLS:
                return ExitSession()
            return await take_line(self.session, line.raw, emit)
        self.session.parts.skills.take_back()
        return await self.session.asked(line.blocks)

    async def _do(self, outcome: Taken, line: Line | None) -> Clear | Resume | None:
        match outcome:
            case Turn():
                await self._answer(outcome, line)
            case CompactSession():
                work = self.session.conversation.compact(outcome, self._view.emit)
                await self._hear_out(work, Cause(line=line, order=outcome))
            case Show():
                await self._view.show(outcome, line)
            case Rewound():
                await self._view.rewound(outcome, line)
            case Pick():
                if (chosen := await self._view.pick(outcome, line)) is not None:
                    return await self._heed(chosen)
            case Clear() | Resume():
                return outcome
            case ExitSession():
                if await self._view.may_exit():
                    self._lines.end()
                    await self._view.leave(line)
            case _:
                assert_never(outcome)
        return None

    async def _answer(self, turn: Turn, line: Line | None) -> None:
        speaker = self._speaker(line)
        uuid = None if line is None else line.uuid
        if line is not None and not line.asks:
            await self.session.conversation.keep(
                turn.prompt, self._view.emit, said_by=speaker, uuid=uuid, context=turn.context
            )
            await self._view.show(Show(text=""), line)
        else:
            work = self._shaped.submit(turn, speaker, uuid)
            await self._hear_out(work, Cause(line=line, turn=turn))

    async def _answer_unheard(self, cause: Cause) -> None:
        await self._hear_out(self._shaped.answer_unheard(self._speaker(None)), cause)

    async def _hear_out(self, turn: Coroutine[Any, Any, TurnEnded], cause: Cause) -> None:
        """Run a turn, and then further turns for messages that the previous one did not receive."""
        conversation = self.session.conversation
        await self._work(turn, cause)
        while conversation.has_unheard and not (self.is_stopped or self.is_over):
            await self._work(self._shaped.answer_unheard(self._speaker(None)), Cause())
        # At the end of the session, waiting messages stay in the transcript for the next run.
        if self.is_stopped and not self.is_over:
            self._view.give_back()

    async def _work(self, turn: Coroutine[Any, Any, TurnEnded], cause: Cause) -> None:
        self._begin()
        try:
            async with self._view.turn(cause):
                ended = await turn
        finally:
            self.is_working = False
        # A user who rejects a call without giving a reason interrupts the turn.
        self.is_stopped |= self._idle is not None and ended.reason == "denied_and_stopped"
        await self._view.end_turn(ended, cause)
        self._rest(is_waiting=True)

    def _begin(self) -> None:
        self.is_working, self.is_stopped = True, False
        self._rest(is_waiting=False)

    def _rest(self, *, is_waiting: bool) -> None:
        """Tell `idle`, if given, that clew starts or stops waiting for the user."""
        if self._idle is not None:
            (self._idle.begin if is_waiting else self._idle.end)()

    def _speaker(self, line: Line | None) -> Speaker:
        mode, origin = self.session.mode, None if line is None else line.origin
        if self._idle is not None and origin is None:
            return Speaker(source="typed", mode=mode, origin={"kind": "human"})
        return Speaker(source="sdk", mode=mode, origin=origin)


# Results with a required schema: ask once more if there is none.


REMINDER = "Call StructuredOutput with the result now; the calling program reads nothing else."


class Shaped:
    """Runs turns and, if `is_wanted`, requires a result that matches the session's schema.

    If a turn ends without such a result, the model is reminded once. If there is no such result
    after the reminder, the turn ends with an error, unless no prompt began it: the result of an
    earlier turn then remains.
    """

    def __init__(self, conversation: Conversation, emit: Emit, *, is_wanted: bool) -> None:
        self._conversation = conversation
        self._emit = emit
        self._is_wanted = is_wanted
        self._has_shape = False

    async def submit(self, turn: Turn, said_by: Speaker, uuid: str | None) -> TurnEnded:
        self._has_shape = False
        ended = await self._run(turn.prompt, said_by, uuid, turn.context)
        ended = await self._remind(ended, said_by)
        if self._lacks_shape(ended):
            return replace(ended, reason=UNSHAPED.reason, message=UNSHAPED.message)
        return ended

    async def answer_unheard(self, said_by: Speaker) -> TurnEnded:
        self._has_shape = False
        return await self._remind(await self._conversation.answer_unheard(self._heard), said_by)

    async def _remind(self, ended: TurnEnded, said_by: Speaker) -> TurnEnded:
        if self._lacks_shape(ended):
            ended = await self._run(REMINDER, replace(said_by, source="system", origin=None))
        return ended

    async def _run(
        self,
        prompt: str | list[Json],
        said_by: Speaker,
        uuid: str | None = None,
        context: Sequence[Json] = (),
    ) -> TurnEnded:
        return await self._conversation.submit(
            prompt, self._heard, said_by=said_by, uuid=uuid, context=context
        )

    def _lacks_shape(self, ended: TurnEnded) -> bool:
        return self._is_wanted and not ended.is_error and not self._has_shape

    async def _heard(self, event: EngineEvent) -> None:
        await self._emit(event)
        if isinstance(event, ToolFinished) and event.block["name"] == STRUCTURED_OUTPUT:
            self._has_shape |= not event.is_error


def make_next_options(options: Options, then: Clear | Resume) -> Options:
    """Return the options for the next session, which the command `then` starts."""
    return replace(
        options,
        prompt="",
        continues=False,
        fork=False,
        session_id=None,
        name=None,
        resume_at=None,
        drops_turn=None,
        resume=then.session if isinstance(then, Resume) else None,
        is_cleared=isinstance(then, Clear),
    )


def offer_at_start(session: Session) -> Pick | None:
    """Return the question to ask before an interactive session's first prompt, if there is one."""
    if session.resumed is not None:
        return session.parts.compaction.offer()
    recorder = session.story.recorder
    project, own = recorder.writer.project, recorder.transcript.parent
    # Ask nothing once the folder has sessions.
    if project is None or not recorder.is_kept or light.list_session_files(own):
        return None
    from clew.parts.moved_projects import offer_moved_sessions

    home, cwd = session.rules.standing.places.config_home, recorder.writer.cwd
    return offer_moved_sessions(home, cwd, project)
