"""`clew host`: start remote sessions on this machine on request, and keep them running.

For the server, a host is a session of the kind "host". Requests to start a session reach it like
prompts: exactly once, and signed if devices are paired. Sessions start only in the folders that the
user's own settings list. Each is a separate `clew --remote` process. If the process is killed, it
is restarted and continues the session. A session that has ended, or that another machine has taken
over, is not restarted. Described in docs/using/remote.md.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
import uuid
from pathlib import Path

from clew.core import wire
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError, SessionError, UserError
from clew.core.messages.text import replace_unprintable
from clew.core.wire import ControlRequest
from clew.fronts.ends import hear_signals, run_front
from clew.fronts.remote.guard import UNSIGNED
from clew.fronts.remote.keys import find_folder, read_file, read_paired, write_file
from clew.fronts.remote.link import WorkerLink
from clew.fronts.remote.sealed import open_frame, seal_frame, seal_state
from clew.fronts.remote.service import ServiceError, SessionService, open_service, read_event
from clew.fronts.remote.signing import is_signed
from clew.record.library import copies
from clew.record.library.branches import find_end_before, find_prompt_above
from clew.record.stores.sealing import Sealer, SealError, make_sealer
from clew.record.transcript.light import read_outline
from clew.record.transcript.paths import find_session
from clew.record.transcript.running import find_holder
from clew.system.clock import get_timestamp
from clew.system.command_groups import show
from clew.system.config.layers import merge
from clew.system.config.load import load_settings
from clew.system.config.paths import find_config_home, find_places
from clew.system.config.settings import read_list, read_switch
from clew.system.files import is_folder
from clew.system.process.programs import OWN_COMMAND

STATE = "host.json"
BEAT_S = 20.0
ENDS_WITHIN_S = 10.0
# The pause before a killed session is restarted; doubled each time it is soon killed again.
PAUSE_S, LONGEST_PAUSE_S, STEADY_S = 0.5, 60.0, 60.0
# How many answered requests are remembered, so that a duplicate has no second effect.
MOST_KEPT = 500


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="clew host",
        description="Start remote sessions on this machine on request, and keep them running.",
        epilog="The setting remoteFolders lists the folders in which sessions may start.",
    )
    parser.add_argument("--server", default="", metavar="URL", help="Default: CLEW_REMOTE_URL")
    parser.add_argument(
        "--name", default=socket.gethostname(), metavar="NAME", help="Name of this host"
    )
    options = parser.parse_args(argv)
    return run_front(lambda: run(options))


async def run(options: argparse.Namespace) -> int:
    home = find_config_home(os.environ, Path.cwd())
    settings = load_own_settings(home)
    folders = read_folders(settings)
    is_sealing = read_switch(settings, "remoteSealed") is True
    sealer = make_sealer(find_folder()) if is_sealing else None
    async with open_service(options.server, os.environ) as service:
        host = SessionHost(service, home, options.name, folders, sealer)
        hear_signals(host.hear_signal)
        return await host.run()


def load_own_settings(home: Path) -> Json:
    """Return the settings of the user's own files. The settings of projects are ignored."""
    environ = {"CLEW_CONFIG_DIR": str(home), "HOME": os.environ.get("HOME", "")}
    return merge(load_settings(find_places(environ, home), sources=("user",)).layers)


def read_folders(settings: Json) -> list[Path]:
    folders = [Path(str(text)).expanduser() for text in read_list(settings, "remoteFolders") or ()]
    if not folders:
        raise UserError(
            "clew host starts sessions only in folders that you list; set them with: "
            "clew config set remoteFolders '[\"~/project\"]'"
        )
    for folder in folders:
        if not folder.is_absolute():
            raise UserError(f"remoteFolders: {str(folder)!r} must begin with / or ~")
    return [folder.resolve() for folder in folders]


class SessionHost:
    """The host on this machine. It saves its state to a file before it answers a request."""

    def __init__(
        self,
        service: SessionService,
        home: Path,
        name: str,
        folders: list[Path],
        sealer: Sealer | None,
    ) -> None:
        self._service = service
        # Seals the frames of this host, if the user wants that.
        self._sealer = sealer
        self._home = home
        self._name = name
        self._folders = folders
        state = read_file(STATE)
        self.id = str(state.get("id") or uuid.uuid4())
        self._cursor = int(state.get("cursor") or 0)
        # The folders of the sessions to keep running, by session ID.
        self._sessions: dict[str, str] = dict(state.get("sessions") or {})
        # Responses that the server may lack, and those that it has, by request ID.
        self._answers: dict[str, Json] = dict(state.get("answers") or {})
        self._link = WorkerLink(service, self.id, name, {"kind": "host"})
        self._running: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_connected = False
        self._group: asyncio.TaskGroup | None = None

    def hear_signal(self, _number: int) -> None:
        self._stopping.set()

    async def run(self) -> int:
        """Serve requests until a signal arrives or the server rejects this host."""
        write_file(STATE, self._state())
        linking = asyncio.create_task(self._work(), name="host")
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            await asyncio.wait((linking, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (linking, stopping):
                task.cancel()
            await asyncio.wait((linking, stopping))
        if linking.cancelled() or (error := linking.exception()) is None:
            return 0
        if isinstance(error, ExceptionGroup):
            refusals = error.subgroup(ServiceError)
            if refusals is not None:
                first: BaseException = refusals
                while isinstance(first, BaseExceptionGroup):
                    first = first.exceptions[0]
                raise UserError(describe_refusal(first))
        raise error

    def _state(self) -> Json:
        answers = dict(list(self._answers.items())[-MOST_KEPT:])
        return {
            "id": self.id,
            "cursor": self._cursor,
            "sessions": self._sessions,
            "answers": answers,
        }

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for session in self._sessions:
                self._keep(session)
            for work in (self._receive, self._report, self._beat):
                group.create_task(
                    self._link.persist(work, self._note, is_up=lambda: self._is_connected)
                )

    def _note(self, error: ServiceError | None) -> None:
        is_up = error is None
        if is_up != self._is_connected or (error and not self._link.epoch):
            words = f"host {self._name} at {self._service.url}" if is_up else f"{error}"
            show(words if is_up else f"connection lost: {words}; reconnecting")
            sys.stdout.flush()
        self._is_connected = is_up

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self._link.ask("POST", "/heartbeat", {})

    async def _report(self) -> None:
        """Send the host's state, and its responses to requests, whenever they change."""
        while True:
            self._changed.clear()
            about = {
                "kind": "host",
                "name": self._name,
                "folders": [str(folder) for folder in self._folders],
                "sessions": list(self._sessions),
            }
            if self._sealer is not None:
                about = seal_state(self._sealer, self.id, about)
            await self._link.ask("PUT", "", {"external_metadata": about})
            if self._answers:
                events = [{"payload": self._seal(answer)} for answer in self._answers.values()]
                await self._link.ask("POST", "/events", {"events": events[-MOST_KEPT:]})
            await self._changed.wait()

    def _seal(self, answer: Json) -> Json:
        return answer if self._sealer is None else seal_frame(self._sealer, self.id, answer)

    # -- requests

    async def _receive(self) -> None:
        async for event in self._link.stream(self._cursor):
            about = read_event(event)
            seq, payload = about.get("sequence_num"), about.get("payload")
            if not isinstance(seq, int) or not isinstance(payload, dict) or seq <= self._cursor:
                continue
            try:
                asked = wire.read(open_frame(self._service.sealer, self.id, payload))
            except SealError:
                asked = wire.read(payload)  # Refused below, because its request is missing.
            if isinstance(asked, ControlRequest) and asked.request_id not in self._answers:
                answer = await self._carry_out(asked, payload)
                name = uuid.uuid5(uuid.UUID(self.id), f"answer:{asked.request_id}")
                self._answers[asked.request_id] = answer | {"uuid": str(name)}
            self._cursor = seq
            await asyncio.to_thread(write_file, STATE, self._state())
            updates = [{"event_id": about.get("event_id"), "status": "processed"}]
            self._changed.set()
            await self._link.ask("POST", "/events/delivery", {"updates": updates})
        raise ServiceError(0, "ended", f"{self._service.url}: the stream ended")

    async def _carry_out(self, asked: ControlRequest, payload: Json) -> Json:
        """Start or fork a session if the request is allowed; return the response."""
        found = self._check(asked, payload)
        if isinstance(found, dict):
            return found
        session, folder = found
        about: Json = {"folder": str(folder)}
        if asked.subtype == "fork_session":
            try:
                fork = await asyncio.to_thread(self._fork, session, asked.fields, folder)
            except ClewError as error:
                return wire.make_refusal(asked.request_id, str(error), code="not_forked")
            session, about = str(fork["session_id"]), about | fork
        self._sessions[session] = str(folder)
        self._keep(session)
        return wire.make_success(asked.request_id, about | {"session_id": session})

    def _check(self, asked: ControlRequest, payload: Json) -> Json | tuple[str, Path]:
        """Return the refusal of a request or, if it is allowed, its session and folder."""
        keys = read_paired()
        if keys and not is_signed(payload, self.id, keys):
            return wire.make_refusal(asked.request_id, UNSIGNED, code="not_allowed")
        if asked.subtype not in ("start_session", "fork_session"):
            words = f"a host does not support the request {asked.subtype!r}"
            return wire.make_refusal(asked.request_id, words, code="unsupported_request")
        try:
            session = str(uuid.UUID(str(asked.fields.get("session_id"))))
        except ValueError:
            words = "session_id must be a UUID"
            return wire.make_refusal(asked.request_id, words, code="invalid_request")
        folder = Path(str(asked.fields.get("folder"))).expanduser()
        if not folder.is_absolute() or folder.resolve() not in self._folders:
            allowed = ", ".join(map(str, self._folders))
            words = f"can't start a session in {str(folder)!r}; remoteFolders allows: {allowed}"
            return wire.make_refusal(asked.request_id, words, code="not_allowed")
        if not is_folder(folder):
            words = f"folder not found on {self._name}: {folder}"
            return wire.make_refusal(asked.request_id, words, code="not_found")
        return session, folder.resolve()

    def _fork(self, session: str, fields: Json, folder: Path) -> Json:
        """Copy a session of the folder up to a prompt, or up to the end of that prompt's turn."""
        for path in find_session(self._home, session):
            outline = read_outline(path)
            if outline is None or not outline.cwd or Path(outline.cwd).resolve() != folder:
                continue
            prompt = find_prompt_above(path, str(fields.get("message_uuid")))
            if prompt is None:
                raise SessionError("prompt not found")
            end: str | None = prompt.end
            if fields.get("before") is True:
                end = find_end_before(path, prompt.uuid)
                if end is None:
                    raise SessionError("can't fork before the first prompt")
            fork = copies.fork(path, end, title="", at=get_timestamp())
            return {"session_id": fork.path.stem, "title": fork.title, "text": prompt.text}
        raise SessionError(f"{self._name} has no session {session} in {folder}")

    # -- sessions

    def _keep(self, session: str) -> None:
        """Run a session, and restart it whenever it is killed."""
        if session not in self._running and self._group is not None:
            self._running[session] = self._group.create_task(self._supervise(session))

    async def _supervise(self, session: str) -> None:
        loop, pause_s = asyncio.get_running_loop(), PAUSE_S
        try:
            await self._end_orphan(session)
            while True:
                began = loop.time()
                code = await self._run(session)
                if code >= 0:
                    break
                show(f"session {session} was killed ({signal.Signals(-code).name}); restarting it")
                sys.stdout.flush()
                pause_s = PAUSE_S if loop.time() - began > STEADY_S else pause_s
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
            show(f"session {session} has ended (exit code {code})")
            sys.stdout.flush()
            del self._sessions[session]
            await asyncio.to_thread(write_file, STATE, self._state())
            self._changed.set()
        finally:
            self._running.pop(session, None)

    async def _run(self, session: str) -> int:
        """Run the session's process until it ends, and return its exit code."""
        known = find_session(self._home, session)
        begins = ["--resume", session] if known else ["--session-id", session]
        environ = os.environ | {"CLEW_REMOTE_URL": self._service.url}
        log = find_folder() / f"{session}.log"
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                *OWN_COMMAND, "--remote", self._service.url, *begins,
                cwd=self._sessions[session],
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=fd,
                stderr=fd,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(fd)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    async with asyncio.timeout(ENDS_WITHIN_S):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()

    async def _end_orphan(self, session: str) -> None:
        """End the session's process that a killed host left running, and wait until it exits."""
        async with asyncio.timeout(ENDS_WITHIN_S):
            while (holder := find_holder(self._home, session)) is not None:
                os.kill(holder.pid, signal.SIGTERM)
                await asyncio.sleep(0.1)


def describe_refusal(error: BaseException) -> str:
    if isinstance(error, ServiceError) and error.status == 409:
        return "another clew host is already running on this machine, so this one exits"
    return replace_unprintable(str(error), mark="?")
