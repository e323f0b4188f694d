"""A channel without pipes, which passes the program's messages and the session's frames as values.

Frames are copied, so that the program cannot change the session by changing a frame.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path

from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.wire import MAX_FRAME_BYTES, Incoming, read_line
from clew.fronts.headless.serve import HostServer
from clew.fronts.sdk.options import ClewOptions
from clew.parts.context import NOTHING, HostParts

# The most frames, and bytes of frames, that may wait for a slow reader before the session waits.
MOST_WAITING = 1000
MOST_WAITING_BYTES = 4 * 1024 * 1024
# Variables that a session needs even if it doesn't inherit the program's environment.
BASIC = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL")
HIDE = "CLEW_SUBPROCESS_ENV_HIDE"
LOOKS_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|(^|_)KEY($|_)")


class MemoryChannel:
    """Both ends of a connection within one process.

    The session waits while too many of its frames have not been read and released.
    """

    def __init__(self) -> None:
        # The frames for the reader, each with its size.
        self._frames: asyncio.Queue[tuple[Json, int] | None] = asyncio.Queue()
        self._waiting = self._waiting_bytes = 0
        self._server: HostServer | None = None
        self._said: asyncio.Queue[Incoming | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()
        self._is_in_haste = False
        self.is_broken = False
        # Nothing is encoded, so no frame is too long.
        self.max_frame_bytes = MAX_FRAME_BYTES

    # -- the session's end

    async def receive(self) -> Incoming | None:
        return await self._said.get()

    async def send(self, frame: Json) -> None:
        self.post(frame)
        await self._room.wait()

    def post(self, frame: Json) -> None:
        encoded = encode(frame)
        self._frames.put_nowait((decode(encoded), len(encoded)))
        self._waiting += 1
        self._waiting_bytes += len(encoded)
        if not self._has_room and not self._is_in_haste and not self.is_broken:
            self._room.clear()

    def warn(self, words: str) -> None:
        """Send a warning as a message, because standard error belongs to the program."""
        self.post({"type": "system", "subtype": "warning", "content": words})

    def hurry(self) -> None:
        self._is_in_haste = True
        self._room.set()

    def has_reader(self) -> bool:
        return not self.is_broken

    async def aclose(self) -> None:
        self._frames.put_nowait(None)

    @property
    def _has_room(self) -> bool:
        return self._waiting <= MOST_WAITING and self._waiting_bytes <= MOST_WAITING_BYTES

    # -- the program's end

    def start(
        self,
        options: Options,
        environ: Mapping[str, str],
        cwd: str,
        brought: HostParts = NOTHING,
    ) -> asyncio.Task[int]:
        """Start the session of this channel."""
        self._server = HostServer(options, self, environ, cwd, brought)
        return asyncio.create_task(self._server.run(), name="clew session")

    @property
    def failure(self) -> BaseException | None:
        """The reason why the session could not be opened, if any."""
        return None if self._server is None else self._server.failure

    def say(self, incoming: Incoming) -> None:
        self._said.put_nowait(incoming)

    def say_frame(self, frame: Json) -> None:
        self.say(read_line(encode(frame)))

    def end(self) -> None:
        """End the session's input."""
        self._said.put_nowait(None)

    async def next(self) -> tuple[Json, int] | None:
        """Return the next frame and its size, or None if the session is over.

        The frame is treated as unread until the reader calls `release` with its size.
        """
        return await self._frames.get()

    def release(self, size: int) -> None:
        """Let the session send more after a frame of this size was read."""
        self._waiting -= 1
        self._waiting_bytes -= size
        if self._has_room:
            self._room.set()

    def leave(self) -> None:
        """Stop reading. The session no longer waits for the reader."""
        self.is_broken = True
        self._room.set()


def find_folder(cwd: str | os.PathLike[str] | None) -> str:
    return str(Path(cwd or ".").resolve())


def make_environ(options: ClewOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a session from the options and the program's environment.

    The session may use the program's keys and tokens, for example in MCP servers. Commands that the
    model runs get only those that the option `env` contains.
    """
    inherited = environ if options.inherit_env else {n: environ[n] for n in BASIC if n in environ}
    result = {**inherited, **options.env}
    if options.home is not None:
        result["CLEW_CONFIG_DIR"] = str(Path(options.home).resolve())
    hidden = [n for n in inherited if n not in options.env and LOOKS_SECRET.search(n.upper())]
    if hidden:
        result[HIDE] = ",".join([*filter(None, [result.get(HIDE)]), *hidden])
    return result
