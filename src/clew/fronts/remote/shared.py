"""A terminal's session while it is connected to a server: sends frames, receives viewers' messages.

Viewers see the session as if it were run by `clew --remote` without a terminal (`fronts/headless`
makes the frames), with one difference: it can be ended only at its terminal.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from clew.agent.conversation import words_of
from clew.agent.deps import Question, Verdict
from clew.agent.intake import Raw
from clew.agent.options import Options
from clew.core import wire
from clew.core.json_object import Json
from clew.core.messages.text import replace_unprintable
from clew.core.wire import ControlRequest, HostAnswer, Incoming, Said
from clew.fronts.drive import Line
from clew.fronts.headless.controls import answer_control
from clew.fronts.headless.host_view import HostInput, HostView
from clew.fronts.headless.permission import (
    ASKED,
    HostRequests,
    describe_question,
    heed,
    keep_spelling,
)
from clew.fronts.headless.session_controls import ControlContext
from clew.fronts.remote.bridge import SessionBridge
from clew.fronts.remote.desk import SessionDesk
from clew.fronts.remote.end import BridgeEnd
from clew.fronts.remote.keys import find_folder
from clew.fronts.remote.service import SessionService, open_service
from clew.session.session import Session
from clew.system.clock import make_id

NOT_FROM_AFAR = "this session runs in a terminal; only the user at that terminal can end it"


class RelayedInput(HostInput):
    """The waiting prompts of viewers. They are queued in the terminal's session itself."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._conversation = session.conversation

    def withdraw(self, uuid: str) -> bool:
        return self._conversation.take_back(uuid) is not None


class SharedSession(BridgeEnd):
    """A connected session. `view` shows it to viewers; `drop` requests that it be disconnected."""

    def __init__(
        self,
        service: SessionService,
        session: Session,
        desk: SessionDesk,
        drop: Callable[[], None],
    ) -> None:
        self._session = session
        self._desk = desk
        self._drop = drop
        self.max_frame_bytes = wire.MAX_FRAME_BYTES
        self.is_broken = False
        lines = RelayedInput(session)
        environ = {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
        self.view = HostView(self, environ, lines)
        self._host = HostRequests(self.post, make_id)
        self._context = ControlContext(view=self.view, lines=lines, host=self._host)
        title = session.parts.title.text or Path(session.workspace.cwd).name
        self._bridge = SessionBridge(service, find_folder(), session.session_id, title, self)
        self._answering: set[asyncio.Task[None]] = set()
        # Set when viewers are no longer asked.
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """Send and receive until cancelled, or until the server rejects this machine."""
        await self._bridge.link()

    async def open(self) -> None:
        """Queue the session so far, and every frame from now on."""
        self._bridge.open()
        await self.view.open(self._session, Options(partial=True, replays=True), "")
        if self._session.conversation.is_running:
            self.view.begin()

    async def aclose(self) -> None:
        """Withdraw viewers' open questions; send the remaining frames if the server responds."""
        self._closing.set()
        for request_id in self._host.open_requests():
            self._host.end(request_id)
        for task in self._answering:
            task.cancel()
        self.view.unwatch()
        await self.view.close()
        if not self._bridge.status.is_refused:
            self._bridge.status.note("closed", "off")
        if self._bridge.status.is_connected:
            await self._bridge.finish()

    def close(self) -> None:
        self._bridge.close()

    @property
    def state(self) -> str:
        return "remote" if self._bridge.status.is_connected else "remote: not connected"

    def describe(self) -> str:
        """Return the state of the connection, and how to follow the session."""
        if not self._bridge.status.is_connected:
            return f"Connecting to {self._bridge.status.url} (/remote off to cancel)"
        return (
            f"Connected; follow this session with: {self._bridge.status.address}\n"
            "Disconnect with: /remote off"
        )

    async def ask(self, question: Question, here: "asyncio.Task[Verdict]") -> Verdict | None:
        """Ask viewers; return None if the user answers `here` first, or if no viewer can answer."""
        described = describe_question(question, self._session.rules)
        request_id, answer = self._host.begin(ASKED, described)
        self.view.change_state("requires_action")
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((answer, here, closing), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() or answer.cancelled():
                return None
            verdict = heed(answer.result(), self._session.rules, self.view.notice)
            return keep_spelling(verdict, described)
        finally:
            closing.cancel()
            if not self._closing.is_set():
                self._host.end(request_id)
            self.view.change_state("running")

    # -- the channel of the view

    async def receive(self) -> Incoming | None:
        """Return None, because viewers' messages are handled as they arrive."""
        return None

    async def send(self, frame: Json) -> None:
        self._bridge.put(frame)

    def post(self, frame: Json) -> None:
        self._bridge.put(frame)

    def warn(self, _words: str) -> None:
        """Do nothing: the terminal shows the notices of its session itself."""

    def has_reader(self) -> bool:
        """Return True: the server keeps what no viewer has read."""
        return True

    def hurry(self) -> None:
        """Do nothing: the session never waits for the server."""

    # -- the bridge's end

    @property
    def session(self) -> Session:
        return self._session

    def take(self, incoming: Incoming) -> None:
        match incoming:
            case Said() if incoming.typed is not None:
                # A command that this machine made of a viewer's request.
                self._desk.receive(Line(raw=Raw(text=incoming.typed), origin=incoming.origin))
            case Said():
                text = replace_unprintable(words_of(incoming.content), mark="?")
                sender = str((incoming.origin or {}).get("device") or "a viewer")
                is_late = self._session.conversation.is_running
                about = f" for the next step: {text}" if is_late else ""
                self.show_act(f"Remote: {sender} sent a prompt{about}")
                blocks, origin = incoming.content, incoming.origin
                self._desk.receive(
                    Line(raw=Raw(text=text), blocks=blocks, uuid=incoming.uuid, origin=origin)
                )
            case HostAnswer():
                self._host.answered(incoming)
            case ControlRequest():
                task = asyncio.create_task(self._answer(incoming))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case _:
                pass  # Viewers' other messages are not passed on.

    async def _answer(self, request: ControlRequest) -> None:
        if request.subtype == "interrupt":
            # As with the Escape key, waiting prompts are not sent after all.
            self._desk.stop()
        self._bridge.put(await answer_control(self._context, request))
        self._desk.changed()

    def awaits(self, request_id: str) -> bool:
        return self._host.awaits(request_id)

    def check(self, request: ControlRequest) -> str:
        return NOT_FROM_AFAR if request.subtype == "end_session" else ""

    def tell(self, words: str) -> None:
        self._desk.tell(replace_unprintable(words, mark="?"))

    def show_act(self, words: str) -> None:
        self._desk.tell(replace_unprintable(words, mark="?"))

    def lose(self) -> None:
        self._drop()


@asynccontextmanager
async def share(
    url: str, session: Session, desk: SessionDesk, drop: Callable[[], None]
) -> AsyncIterator[SharedSession]:
    """Connect a session until the context ends."""
    async with open_service(url, os.environ) as service:
        shared = SharedSession(service, session, desk, drop)
        await shared.open()
        linking = asyncio.create_task(shared.run(), name="remote link")
        try:
            yield shared
        finally:
            await shared.aclose()
            linking.cancel()
            await asyncio.wait([linking])
            shared.close()
    if not linking.cancelled() and (error := linking.exception()) is not None:
        raise error
