"""Workers of `clew web`: one process for each session that the page uses.

A worker is a `clew --remote` process that is connected to this process's server and ends with it.
"""

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from clew.serve.log import RefusedError
from clew.system.process.programs import OWN_COMMAND

START_S = 30.0
# How long a worker may take to send the history of its session.
HISTORY_S = 10.0
POLL_S = 0.1
LAST_S = 10.0
# The server is this machine's own, so there is nothing to hide from it.
SETTINGS = '{"remoteAnswers":"session","remoteSealed":false}'


class Workers:
    """The running workers of the server.

    `is_connected` returns whether a session's worker has reached the server. `has_event` returns
    whether it has sent a given event.
    """

    def __init__(
        self,
        url: str,
        token: str,
        environ: Mapping[str, str],
        is_connected: Callable[[str], Awaitable[bool]],
        has_event: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        self._url = url
        self._environ = dict(environ) | {"CLEW_REMOTE_URL": url, "CLEW_REMOTE_TOKEN": token}
        self._is_connected = is_connected
        self._has_event = has_event
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._starting = asyncio.Lock()

    @property
    def pids(self) -> set[int]:
        return {process.pid for process in self._running.values() if process.returncode is None}

    async def start_new(self, folder: str) -> str:
        session = str(uuid.uuid4())
        await self.start(["--session-id", session], session, folder)
        return session

    async def start(self, words: list[str], session: str, folder: str) -> None:
        """Start the worker of a session, and wait until it has reached the server."""
        async with self._starting:
            process = self._running.get(session)
            if process is not None and process.returncode is None:
                return
            if not folder or not await asyncio.to_thread(Path(folder).is_dir):
                raise RefusedError(409, "no_folder", f"the folder {folder!r} no longer exists")
            command = (*OWN_COMMAND, "--remote", self._url, "--settings", SETTINGS)
            process = await asyncio.create_subprocess_exec(
                *command,
                *words,
                cwd=folder,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            self._running[session] = process
            assert process.stderr is not None, "the process has no error output"
            output: list[str] = []
            reading = asyncio.create_task(keep_last(process.stderr, output), name="worker's output")
            try:
                async with asyncio.timeout(START_S):
                    while not await self._is_connected(session):
                        if process.returncode is not None:
                            await reading
                            words_said = " ".join(output[-3:]) or f"exit code {process.returncode}"
                            raise RefusedError(409, "not_started", f"clew exited: {words_said}")
                        await asyncio.sleep(POLL_S)
            except TimeoutError:
                process.terminate()
                raise RefusedError(503, "not_started", "clew did not start in time") from None

    async def wait_for_history(self, session: str, last: str) -> None:
        """Wait until a worker has sent its session's last event, so that a prompt follows it.

        Give up after `HISTORY_S`.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HISTORY_S):
                while True:
                    if await self._has_event(session, last):
                        return
                    await asyncio.sleep(POLL_S)

    async def aclose(self) -> None:
        """End all workers; a worker that does not end in time is killed."""
        alive = [process for process in self._running.values() if process.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        for process in alive:
            try:
                async with asyncio.timeout(LAST_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def keep_last(stream: asyncio.StreamReader, said: list[str]) -> None:
    """Read a worker's output to its end, and keep its last lines."""
    while line := await stream.readline():
        said.append(line.decode("utf-8", "replace").strip())
        del said[:-20]
