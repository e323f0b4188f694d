"""A channel without pipes: the program's messages and the session's frames are passed as values.

Frames are copies, so that changing one does not change the session.
"""

import asyncio
import os
from pathlib import Path

from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.wire import Incoming, read_line
from clew.fronts.headless.serve import HostServer
from clew.fronts.sdk.options import ClewOptions

# The most frames that may wait for a slow reader before the session waits, too.
MOST_WAITING = 1000


class MemoryChannel:
    """Both ends of a connection within one process. `frames` is the reader's end."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[Json | None] = asyncio.Queue()
        self._said: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()
        self._is_in_haste = False
        self.is_broken = False

    # -- the session's end

    async def receive(self) -> Incoming | None:
        return await self._said.get()

    async def send(self, frame: Json) -> None:
        self.post(frame)
        await self._room.wait()

    def post(self, frame: Json) -> None:
        self.frames.put_nowait(decode(encode(frame)))
        if self.frames.qsize() > MOST_WAITING and not self._is_in_haste:
            self._room.clear()

    def warn(self, words: str) -> None:
        """Send a warning as a message, because standard error belongs to the program."""
        self.post({"type": "system", "subtype": "warning", "content": words})

    def hurry(self) -> None:
        self._is_in_haste = True
        self._room.set()

    async def aclose(self) -> None:
        self.frames.put_nowait(None)

    # -- the program's end

    def start(self, options: ClewOptions, *, asks_host: bool = False) -> asyncio.Task[int]:
        """Start the session of this channel."""
        cwd = str(Path(options.cwd or ".").resolve())
        environ = os.environ | dict(options.env)
        server = HostServer(options.as_options(asks_host=asks_host), self, environ, cwd)
        return asyncio.create_task(server.run(), name="clew session")

    def say(self, incoming: Incoming) -> None:
        self._said.put_nowait(incoming)

    def say_frame(self, frame: Json) -> None:
        self.say(read_line(encode(frame)))

    def end(self) -> None:
        """End the session's input."""
        self._said.put_nowait(None)

    async def next(self) -> Json | None:
        """Return the next frame, or None if the session is over."""
        frame = await self.frames.get()
        if self.frames.qsize() <= MOST_WAITING:
            self._room.set()
        return frame

    def leave(self) -> None:
        """Stop reading. The session no longer waits for the reader."""
        self.is_broken = True
        self._room.set()
