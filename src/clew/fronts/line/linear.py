"""A session line by line: no redraw, what is said stays where it was said.

Owns the order of prompt and turn. Ctrl-C or Escape stops a turn; Ctrl-C at the prompt ends the
session. On every way out it says how to go on.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_never

from clew.agent.conversation import Speaker
from clew.agent.events import Compacted, EngineEvent, TurnEnded
from clew.agent.intake import Raw, Taken, Turn
from clew.agent.options import Options
from clew.commands.line import take_line
from clew.core.input import Clear, CompactSession, ExitSession, Pick, Resume, Rewound, Show
from clew.core.messages.errors import ClewError, CommandLineError, first_of
from clew.fronts.line.questions import Questions, see
from clew.fronts.line.telling import LineWriter, Paper
from clew.fronts.render.recalled import PERSON
from clew.fronts.render.stories import closing
from clew.fronts.terminal.first_run import (
    ENDED_BY,
    FAREWELLS,
    HUNG_UP,
    INTERRUPTED,
    following,
    is_first_start,
    offered,
    ways,
)
from clew.fronts.terminal.keyboard import LineKeyboard
from clew.parts.hooks import Idle
from clew.session.build import session as open_session
from clew.session.session import Session
from clew.system.clock import new_id


def main(options: Options) -> int:
    try:
        with asyncio.Runner() as runner:
            return runner.run(run(options))
    except (ClewError, ExceptionGroup) as raised:
        error = first_of(raised)
        if not isinstance(error, ClewError):
            raise
        print(f"clew: {error}", file=sys.stderr)
        return 2 if isinstance(error, CommandLineError) else 1
    finally:
        # How it ended is said. While the interpreter leaves, a signal would put its own code over it.
        for number in ENDED_BY:
            signal.signal(number, signal.SIG_IGN)


def hear_ends(end: Callable[[int], None]) -> None:
    """Has the signals that end a session told to it; those that come when its loop is over end with the
    same codes, which asyncio's own would leave to the system."""
    loop = asyncio.get_running_loop()

    def tell(number: int, _frame: object) -> None:
        code = ENDED_BY[signal.Signals(number)]
        if loop.is_closed():
            os._exit(code)
        loop.call_soon_threadsafe(end, code)

    for number in ENDED_BY:
        signal.signal(number, tell)


async def run(options: Options) -> int:
    """One session after another: a command may begin a new one or go over to another."""
    paper = Paper(sys.stdout)
    keyboard = LineKeyboard(paper)
    telling = LineWriter(paper)
    code: int | Options = options
    while isinstance(code, Options):
        code = await one_session(code, keyboard, telling, paper)
    return code


async def one_session(
    options: Options, keyboard: LineKeyboard, telling: LineWriter, paper: Paper
) -> int | Options:
    """An exit code, or the options of the session that follows."""
    questions = Questions(keyboard, telling)
    is_new = is_first_start() and keyboard.is_terminal
    async with open_session(
        options, os.environ, str(Path.cwd()), questions.ask, entrypoint="cli"
    ) as session:
        questions.rules = session.rules
        session.commands.extend([see(telling)])
        channel = session.rules.standing.settings.get("preferredNotifChannel")
        telling.rings = channel != "notifications_disabled"
        for notice in session.notices:
            telling.line(f"! {notice}")
        keys = "; Escape stops, Ctrl-D ends" if keyboard.is_terminal else ""
        telling.line(f"clew: {session.model.name}, mode {session.mode}{keys}")
        if session.model_access.lacks_key:
            ask = keyboard.line if keyboard.is_terminal else None
            if await ways(session, telling.line, ask):
                return options
        if is_new and await offered(session, questions.sandbox):
            return options
        if session.resumed is not None:
            telling.history(session.resumed.messages, session.tools.title)
        then = await Dialogue(session, telling, keyboard, paper).run(options.prompt)
        session.parts.ending.followed_by(then)
    for notice in session.parting():
        telling.line(f"! {notice}")
    if len(session.story.history) and session.story.recorder.is_kept:
        telling.line(f"\nTo go on: clew --resume {session.session_id}")
    return then if isinstance(then, int) else following(options, then)


class Dialogue:
    """Prompt, turn, prompt. A signal to end is heeded between the two and in the middle of either."""

    def __init__(
        self, session: Session, telling: LineWriter, keyboard: LineKeyboard, paper: Paper
    ) -> None:
        self._session = session
        self._telling = telling
        self._keyboard = keyboard
        self._paper = paper
        self._code = 0
        self._is_stopping = self._is_stopped = False
        self._is_ending = False
        # What was asked for during a turn and has to wait for its end.
        self._later: list[Taken] = []
        # What was said during a turn, by the uuid it would be heard under.
        self._said: dict[str, str] = {}
        self._then: Clear | Resume | None = None
        self._news = asyncio.Event()
        self._idle = Idle(session.parts.hooks, lambda: session.rules.standing.settings)

    async def run(self, first: str) -> int | Clear | Resume:
        """An exit code, or what is to follow this session."""
        try:
            return await self._talked(first)
        finally:
            self._idle.end()

    async def _talked(self, first: str) -> int | Clear | Resume:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop)
        hear_ends(self._end)
        self._paper.closed = lambda: self._end(HUNG_UP)
        if self._paper.is_gone:
            return HUNG_UP
        self._session.parts.agents.heard = self._hear
        self._session.parts.tasks.listeners.append(self._news.set)
        offer = self._session.parts.compaction.offer()
        if offer is not None:
            await self._choose(offer)
        line: str | None = first or await self._line()
        while line is not None and line.strip() not in FAREWELLS:
            if line.strip() and not await self._heed(line):
                break
            while self._later and not self._is_ending:
                if not await self._do(self._later.pop(0)):
                    return self._code if self._then is None else self._then
            line = None if self._is_ending else await self._line()
        return self._code if self._then is None else self._then

    async def _line(self) -> str | None:
        """The next line; a turn for what agents in the background came to goes before it."""
        while True:
            if self._session.parts.agents.has_news:
                await self._heard_out(self._session.conversation.answer_unheard(self._telling.emit))
            self._news.clear()
            async with asyncio.TaskGroup() as group:
                line = group.create_task(self._keyboard.prompted(PERSON))
                news = group.create_task(self._agents_news())
                await asyncio.wait([line, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if not line.done():
                    line.cancel()
            if not line.cancelled():
                return line.result()
            self._telling.line("")

    async def _agents_news(self) -> None:
        while not self._session.parts.agents.has_news:
            self._news.clear()
            await self._news.wait()

    async def _hear(self, event: EngineEvent) -> None:
        """What agents do is shown while a turn runs; nobody is disturbed at the prompt."""
        if self._session.conversation.is_running:
            await self._telling.emit(event)

    async def _heed(self, line: str) -> bool:
        """Does what a line says; False when the session ends with it."""
        self._idle.end()
        return await self._do(await self._taken(line))

    async def _taken(self, line: str) -> Taken:
        return await take_line(self._session, Raw(text=line, by_person=True), self._telling.emit)

    async def _do(self, taken: Taken) -> bool:
        match taken:
            case Turn():
                await self._turn(taken)
            case CompactSession():
                await self._compact(taken)
            case Show():
                self._telling.line(f"! {taken.text}" if taken.is_error else taken.text)
            case Pick():
                return await self._choose(taken)
            case Rewound():
                self._telling.line(taken.text)
                if taken.prompt:
                    self._telling.line(f"What was said there:\n{taken.prompt}")
            case Clear() | Resume():
                self._then = taken
                return False
            case ExitSession():
                return False
            case _:
                assert_never(taken)
        return True

    async def _choose(self, pick: Pick) -> bool:
        """Asks which; another line than a number is heeded as what it is."""
        if pick.text:
            self._telling.line(pick.text)
        for number, row in enumerate(pick.rows, 1):
            self._telling.line(f"{number:>3}  {row.label}")
        answer = await self._keyboard.line(f"{pick.title} (number; Enter for nothing)? ")
        answer = (answer or "").strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(pick.rows):
            answer = pick.rows[int(answer) - 1].line
        return not answer or await self._heed(answer)

    async def _turn(self, turn: Turn) -> None:
        conversation = self._session.conversation
        await self._heard_out(
            conversation.submit(
                turn.prompt, self._telling.emit, said_by=self._person(), context=turn.context
            )
        )

    async def _heard_out(self, turn: Awaitable[TurnEnded]) -> None:
        """Runs a turn, and what was said to it and not heard in it as the next."""
        conversation = self._session.conversation
        await self._running(turn)
        while conversation.has_unheard and not self._is_stopped:
            await self._running(conversation.answer_unheard(self._telling.emit))
        # What was said before a stop meant a turn that is no more.
        unheard = [line for uuid, line in self._said.items() if conversation.take_back(uuid)]
        self._said.clear()
        for line in unheard:
            self._unheard(line)

    def _unheard(self, line: str) -> None:
        self._telling.line(f"[the model did not hear: {line}]")

    def _person(self) -> Speaker:
        return Speaker(source="typed", mode=self._session.mode, origin={"kind": "human"})

    async def _running(self, turn: Awaitable[TurnEnded]) -> None:
        self._is_stopping = self._is_stopped = False
        self._idle.end()
        async with asyncio.TaskGroup() as group:
            with self._keyboard.during_turn(
                stop=self._interrupt,
                say=lambda words: group.create_task(self._meanwhile(words)),
            ):
                ended = await turn
        self._telling.line(closing(ended))
        self._telling.ring()
        self._idle.begin()

    async def _meanwhile(self, line: str) -> None:
        """A line that was typed while a turn runs: the model hears words, a command is done, at once or
        when the turn has ended."""
        if line in FAREWELLS:
            self._end(0)
            return
        taken = await self._taken(line)
        conversation = self._session.conversation
        if isinstance(taken, Turn) and conversation.is_running:
            uuid = new_id()
            self._said[uuid] = line
            conversation.say(taken.prompt, self._person(), uuid=uuid, context=taken.context)
        elif isinstance(taken, Show):
            await self._do(taken)
        elif isinstance(taken, ExitSession):
            self._end(0)
        elif isinstance(taken, Turn) and self._is_stopped:
            self._unheard(line)
        else:
            if conversation.is_running:
                self._telling.line("[done when the turn has ended]")
            self._later.append(taken)

    async def _compact(self, order: CompactSession) -> None:
        told: list[str] = []

        async def emit(event: EngineEvent) -> None:
            if isinstance(event, Compacted):
                told.append(event.message)
            await self._telling.emit(event)

        async def said() -> TurnEnded:
            ended = await self._session.conversation.compact(order, emit)
            if ended.message not in told:
                self._telling.line(f"! {ended.message}" if ended.is_error else ended.message)
            return TurnEnded(reason="completed")

        await self._heard_out(said())

    def _stop(self) -> None:
        """The second Ctrl-C of a turn ends the session too: what was said is on the disk by then."""
        if self._is_stopping or not self._interrupt():
            self._end(INTERRUPTED)
        self._is_stopping = True

    def _interrupt(self) -> bool:
        self._is_stopped = self._session.conversation.interrupt()
        return self._is_stopped

    def _end(self, code: int) -> None:
        self._code = code
        self._is_ending = True
        self._keyboard.give_up()
        self._interrupt()
