"""`clew --remote URL` without a terminal: a session that is used only by viewers, through a server.

The session works like one that a host program uses (`fronts/headless`). This module is its channel,
which is connected to the server by a bridge.
"""

import asyncio
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from clew.agent.options import Options
from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.wire import ControlRequest, Incoming, Said
from clew.fronts.ends import hear_signals, run_front
from clew.fronts.headless.serve import HostServer
from clew.fronts.remote.bridge import SessionBridge
from clew.fronts.remote.end import BridgeEnd
from clew.fronts.remote.keys import find_folder
from clew.fronts.remote.service import SessionService, open_service
from clew.session.session import Session
from clew.system.clock import make_id

OPENING = "clew-remote-open"


def main(options: Options) -> int:
    return run_front(lambda: run(options))


async def run(options: Options) -> int:
    environ = dict(os.environ) | {"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"}
    options = replace(options, partial=True, replays=True, asks="stdio", is_print=True)
    async with open_service(options.remote or "", os.environ) as service:
        worker = RemoteWorker(service, options)
        server = HostServer(replace(options, prompt=""), worker, environ, str(Path.cwd()))
        worker.server = server
        hear_signals(server.stop)
        linking = asyncio.create_task(worker.link(), name="remote link")
        try:
            code = await server.run()
            await worker.finish()
        finally:
            linking.cancel()
            await asyncio.wait([linking])
    if not linking.cancelled() and (error := linking.exception()) is not None:
        raise error
    return 1 if worker.is_refused else code


class RemoteWorker(BridgeEnd):
    """The channel of a session that has no user at this machine."""

    server: HostServer

    def __init__(self, service: SessionService, options: Options) -> None:
        self._service = service
        self._title = options.name or Path.cwd().name
        self._incoming: asyncio.Queue[Incoming | None] = asyncio.Queue()
        opening = {"subtype": "initialize"}
        self.take(ControlRequest(request_id=OPENING, subtype="initialize", fields=opening))
        if options.prompt:
            self.take(Said(content=options.prompt, uuid=make_id()))
        self._is_open = asyncio.Event()
        self._early: list[Json] = []
        self._bridge: SessionBridge | None = None
        self.is_refused = self.is_broken = False
        self.max_frame_bytes = wire.MAX_FRAME_BYTES

    # -- the session's channel

    async def receive(self) -> Incoming | None:
        return await self._incoming.get()

    async def send(self, frame: Json) -> None:
        self.post(frame)

    def post(self, frame: Json) -> None:
        if self._bridge is not None:
            self._bridge.put(frame)
        elif not self._opens(frame):
            self._early.append(frame)

    def warn(self, words: str) -> None:
        sys.stderr.write(f"clew: {words}\n")

    def has_reader(self) -> bool:
        """Return True: the server keeps what no viewer has read."""
        return True

    def hurry(self) -> None:
        """Do nothing: the session never waits for the server."""

    async def aclose(self) -> None:
        """Do nothing: frames that have not been sent yet are in the outbox."""

    def _opens(self, frame: Json) -> bool:
        """Open the bridge if this frame answers the first request; return whether it does.

        That answer shows that the session is open, and contains its ID.
        """
        response = object_of(frame.get("response"))
        if response.get("request_id") != OPENING:
            return False
        session_id = str(object_of(response.get("response")).get("session_id"))
        bridge = SessionBridge(self._service, find_folder(), session_id, self._title, self)
        bridge.open()
        for early in self._early:
            bridge.put(early)
        self._early = []
        self._bridge = bridge
        self._is_open.set()
        return True

    # -- the bridge's end

    @property
    def session(self) -> Session:
        return self.server.session

    def take(self, incoming: Incoming) -> None:
        self._incoming.put_nowait(incoming)

    def tell(self, words: str) -> None:
        self.warn(words)

    def lose(self) -> None:
        # No viewer could use the session any more.
        self.is_refused = True
        self.server.stop(0)

    async def link(self) -> None:
        await self._is_open.wait()
        assert self._bridge is not None, "the session is not open"
        await self._bridge.link()

    async def finish(self) -> None:
        if self._bridge is not None:
            await self._bridge.finish()
