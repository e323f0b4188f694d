"""`/remote` and `clew --remote` in a terminal, which let viewers elsewhere use the session, too.

The user connects the session to a server and disconnects it. Viewers' prompts, answers and
interrupts are then handled like the user's own; the first answer to a question is used. The modules
for connections are loaded when the first connection is made.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from clew.agent.deps import Question, Verdict
from clew.agent.events import EngineEvent, TurnEnded
from clew.core.input import Outcome, Pick, Rewound, Show, SlashCommand
from clew.core.messages.errors import UserError
from clew.fronts.drive import Cause, FrontView, Line
from clew.fronts.remote.desk import SessionDesk
from clew.record.transcript.agents import read_remote_agents
from clew.session.session import Session

if TYPE_CHECKING:
    from clew.fronts.headless.host_view import HostView
    from clew.fronts.remote.shared import SharedSession

AskUser: TypeAlias = Callable[[Question], Awaitable[Verdict]]


class RemoteControl:
    """Connects the successive sessions of one terminal as long as the user wants a connection."""

    # Asks the user of the terminal. Set before a session opens.
    ask_here: AskUser

    def __init__(self, wanted: str | None) -> None:
        # The server, empty for the default one; None if the user wants no connection.
        self._wanted = wanted
        self._shared: SharedSession | None = None
        self._stack = AsyncExitStack()
        self._is_shared = asyncio.Event()
        self._session: Session | None = None
        self._desk: SessionDesk | None = None
        self._dropping: asyncio.Task[None] | None = None

    # -- one session

    @asynccontextmanager
    async def during(self, session: Session, desk: SessionDesk) -> AsyncIterator[None]:
        """Allow the session to be connected until the context ends. Connect it if wanted."""
        self._session, self._desk = session, desk
        if self._wanted is not None:
            try:
                await self.connect(self._wanted)
            except UserError as error:
                self._wanted = None
                desk.tell(f"/remote: {error}")
        if next(read_remote_agents(session.parts.agents.place), None) is not None:
            from clew.fronts.remote.tasks import resume_tasks

            resume_tasks(session, self.ask_for_task)
        try:
            yield
        finally:
            await self._disconnect()
            if self._dropping is not None:
                await self._dropping
            self._session = self._desk = None

    async def connect(self, url: str) -> None:
        """Connect the session; raise `UserError` if that is not possible."""
        session, desk = self._session, self._desk
        if session is None or desk is None:
            raise UserError("the session is still opening; try again")
        if not session.story.recorder.is_kept:
            raise UserError("this session is not saved, so viewers can't follow it")
        from clew.fronts.remote.shared import share

        stack = AsyncExitStack()
        self._shared = await stack.enter_async_context(share(url, session, desk, self._drop))
        self._stack, self._wanted = stack, url
        self._is_shared.set()

    async def disconnect(self) -> None:
        """Disconnect the session at the user's request, and don't connect later sessions."""
        self._wanted = None
        await self._disconnect()

    async def _disconnect(self) -> None:
        self._shared = None
        self._is_shared.clear()
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def _drop(self) -> None:
        """Disconnect because the server refuses this machine. Called by the connection itself."""
        self._dropping = asyncio.create_task(self.disconnect(), name="remote off")

    # -- what the terminal shows and asks

    @property
    def viewers(self) -> "HostView | None":
        """The view for viewers of the session; None if it is not connected."""
        return None if self._shared is None else self._shared.view

    @property
    def state(self) -> str:
        """The connection in a few words, for the status line; empty if there is none."""
        return "" if self._shared is None else self._shared.state

    def describe(self) -> str:
        """Return the state of the connection, and how to follow the session."""
        return "Not connected" if self._shared is None else self._shared.describe()

    async def ask(self, question: Question) -> Verdict:
        """Ask the user and, while the session is connected, its viewers.

        Return the first answer.
        """
        here = asyncio.ensure_future(run(self.ask_here(question)))
        try:
            while True:
                shared = self._shared
                if shared is None:
                    await self._until_shared(here)
                elif (verdict := await shared.ask(question, here)) is not None:
                    return verdict
                if here.done():
                    return here.result()
        finally:
            here.cancel()
            await asyncio.wait([here])

    async def ask_for_task(self, question: Question) -> Verdict:
        """Ask about a call of a remote task, and return the answer.

        If the session ends before there is an answer, don't return, but wait until the task is
        cancelled with the session.
        """
        verdict = await self.ask(question)
        if self._desk is None or self._desk.is_over:
            await asyncio.Event().wait()  # Until the task is cancelled with the session.
        return verdict

    async def _until_shared(self, here: "asyncio.Task[Verdict]") -> None:
        shared = asyncio.ensure_future(self._is_shared.wait())
        try:
            await asyncio.wait((here, shared), return_when=asyncio.FIRST_COMPLETED)
        finally:
            shared.cancel()


async def run(work: Awaitable[Verdict]) -> Verdict:
    return await work


class SharedView(FrontView):
    """Shows a session on the terminal and, while it is connected, its turns to viewers."""

    def __init__(self, here: FrontView, control: RemoteControl) -> None:
        self._here = here
        self._control = control

    async def emit(self, event: EngineEvent) -> None:
        await self._here.emit(event)
        if (viewers := self._control.viewers) is not None:
            await viewers.emit(event)

    @asynccontextmanager
    async def turn(self, cause: Cause) -> AsyncIterator[None]:
        if (viewers := self._control.viewers) is not None:
            viewers.begin()
        async with self._here.turn(cause):
            yield

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        await self._here.end_turn(ended, cause)
        if (viewers := self._control.viewers) is not None:
            await viewers.end_turn(ended, cause)

    # What the user does between turns is shown only on this terminal.

    async def note(self, event: EngineEvent) -> None:
        await self._here.note(event)

    def taking(self, line: Line) -> AbstractAsyncContextManager[object]:
        return self._here.taking(line)

    async def show(self, outcome: Show, line: Line | None) -> None:
        await self._here.show(outcome, line)

    async def rewound(self, rewound: Rewound, line: Line | None) -> None:
        if line is not None and line.origin is not None:
            # A viewer edits the prompt, not the user of this terminal.
            await self._here.show(Show(text=rewound.text), line)
        else:
            await self._here.rewound(rewound, line)

    async def pick(self, pick: Pick, line: Line | None) -> Line | None:
        return await self._here.pick(pick, line)

    async def untaken(self, line: Line) -> None:
        await self._here.untaken(line)

    async def may_exit(self) -> bool:
        return await self._here.may_exit()

    async def leave(self, line: Line | None) -> None:
        await self._here.leave(line)

    def wait(self, line: Line, uuid: str) -> None:
        self._here.wait(line, uuid)

    def give_back(self) -> None:
        self._here.give_back()


def make_command(control: RemoteControl) -> SlashCommand[Session]:
    async def run(session: Session, argument: str) -> Outcome:
        argument = argument.strip()
        word, _, rest = argument.partition(" ")
        if word == "start":
            from clew.fronts.remote.tasks import begin_task

            task = await begin_task(session, rest, control.ask_for_task)
            return Show(text=f"Starting task {task.id}. /tasks {task.id} shows its progress.")
        if argument == "off":
            was_on = control.viewers is not None
            await control.disconnect()
            return Show(text="Disconnected" if was_on else "Not connected")
        if control.viewers is None:
            await control.connect(argument)
        elif argument:
            raise UserError("already connected; run /remote off first")
        return Show(text=control.describe())

    return SlashCommand(
        name="remote",
        description="Share this session, or start a task on another machine",
        run=run,
        hint="[URL | off | start FOLDER PROMPT]",
        is_interactive=True,
    )
