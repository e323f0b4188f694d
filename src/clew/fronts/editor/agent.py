"""The agent side of the editor protocol: its methods and the open sessions.

This module owns the sessions of one connection. A request that cannot be carried out is answered
with an error that explains why. Only the end of the input ends the process.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.agent.models import find_wanted_model
from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.errors import (
    CommandLineError,
    OutsideError,
    SessionError,
    SettingsError,
    UserError,
    describe_error,
)
from clew.fronts.editor import protocol
from clew.fronts.editor.client import EditorClient, EditorConnection
from clew.fronts.editor.editor_side import EditorFiles, EditorTerminal
from clew.fronts.editor.protocol import prompt_of
from clew.fronts.editor.servers import EditorServers, entries_of
from clew.fronts.editor.session import EditorSession
from clew.parts.context import HostParts, prepare_ground
from clew.record.library.listing import list_newest_first
from clew.record.transcript.light import Outline
from clew.session.flags import parse
from clew.session.session import Session
from clew.system.config.paths import find_places
from clew.system.files import is_folder
from clew.system.jsonrpc.wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Params,
    RpcFault,
    as_list,
    as_object,
    as_text,
)

# The stored sessions for an editor: newest first, in pages.


def page(environ: Mapping[str, str], cwd: str, begin: int, count: int) -> list[Json]:
    """Return a page of the sessions in the folder `cwd`, or in all folders if `cwd` is empty."""
    home = find_places(environ, Path(cwd or Path.cwd())).config_home
    outlines = (
        outline
        for outline in list_newest_first(home, cwd or "/", everywhere=not cwd)
        if outline.cwd is not None and (not cwd or outline.cwd == cwd)
    )
    return [told(outline) for outline in islice(outlines, begin, begin + count)]


def told(outline: Outline) -> Json:
    moment = datetime.fromtimestamp(outline.modified_at, UTC).isoformat(timespec="seconds")
    return {
        "sessionId": outline.session_id,
        "cwd": outline.cwd,
        "title": outline.title,
        "updatedAt": moment.replace("+00:00", "Z"),
    }


Handler: TypeAlias = Callable[["EditorAgent", Json], Awaitable[Json | RpcFault]]

PAGE = 50
NO_KEY = "no API key: run `clew login`, or set ANTHROPIC_API_KEY or the variable of another service"


class EditorAgent:
    """Handles the editor's requests. The sessions and their turns run as tasks of `group`."""

    def __init__(
        self,
        argv: list[str],
        environ: Mapping[str, str],
        line: EditorConnection,
        group: asyncio.TaskGroup,
        can: protocol.ClientAbilities,
    ) -> None:
        self._argv = argv
        self._environ = environ
        self._line = line
        self._group = group
        self._can = can
        self._sessions: dict[str, EditorSession] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        # The connections to MCP servers in the editor, once needed.
        self._lines: EditorServers | None = None

    # -- handling requests

    def told(self, method: str, params: Params) -> None:
        fields = as_object(params)
        session = self._sessions.get(session_id_of(fields))
        if method == "session/cancel" and session is not None:
            session.cancel()
        elif method == "mcp/message" and self._lines is not None:
            self._lines.told(fields)

    def odd(self, why: str) -> None:
        sys.stderr.write(f"clew: {why}\n")

    async def asked(self, method: str, params: Params) -> Any | RpcFault:
        handler = HANDLERS.get(method)
        if handler is None:
            return RpcFault(code=METHOD_NOT_FOUND, message=f"method not found: {method}")
        try:
            return await handler(self, as_object(params))
        except SessionError as error:
            return RpcFault(code=protocol.NOT_FOUND, message=str(error))
        except (UserError, OutsideError, OSError) as error:
            return RpcFault(code=INVALID_PARAMS, message=describe_error(error))

    async def aclose(self) -> None:
        """End every session after recording its messages."""
        for session_id in list(self._sessions):
            await self._closed(session_id)

    # -- start

    async def initialize(self, params: Json) -> Json:
        self._can = protocol.ClientAbilities(params.get("clientCapabilities"))
        return protocol.make_initialize_answer(self._can)

    async def authenticate(self, params: Json) -> Json | RpcFault:
        """Check again for an API key, because the user may have logged in since."""
        method = params.get("methodId")
        if method != protocol.BY_KEY:
            return RpcFault(code=INVALID_PARAMS, message=f"methodId: unknown method {method!r:.40}")
        async with AsyncExitStack() as opened:
            ground = await prepare_ground(self._options(), self._environ, str(Path.cwd()), opened)
            model = find_wanted_model(ground.options, ground.environment, ground.began.settings)
            lacks = not ground.service.can_ask(model or ground.service.default_model)
        return RpcFault(code=protocol.AUTH_REQUIRED, message=NO_KEY) if lacks else {}

    # -- sessions

    async def new(self, params: Json) -> Json | RpcFault:
        return await self._opened(params, {}, begun)

    async def load(self, params: Json) -> Json | RpcFault:
        def loaded(session: EditorSession, state: Json) -> Json:
            session.view.replay()
            return state

        return await self._gone_on(params, loaded)

    async def resume(self, params: Json) -> Json | RpcFault:
        return await self._gone_on(params, lambda _, state: state)

    async def fork(self, params: Json) -> Json | RpcFault:
        options = {"resume": session_id_of(params), "fork": True}
        return await self._opened(params, options, begun)

    async def close(self, params: Json) -> Json | RpcFault:
        session_id = session_id_of(params)
        if session_id not in self._sessions:
            return unknown(params)
        await self._closed(session_id)
        return {}

    async def listed(self, params: Json) -> Json | RpcFault:
        cwd, cursor = as_text(params.get("cwd")), as_text(params.get("cursor"))
        if cursor and not (cursor.isdecimal() and len(cursor) < 9):
            return RpcFault(code=INVALID_PARAMS, message=f"cursor: invalid value {cursor!r:.40}")
        if "\0" in cwd:
            return RpcFault(code=INVALID_PARAMS, message=f"cwd: folder not found: {cwd!r}")
        begin = int(cursor or 0)
        sessions = page(self._environ, cwd, begin, PAGE + 1)
        cursor_fields = {"nextCursor": str(begin + PAGE)} if len(sessions) > PAGE else {}
        return {"sessions": sessions[:PAGE], **cursor_fields}

    async def _gone_on(
        self, params: Json, answer: Callable[[EditorSession, Json], Json]
    ) -> Json | RpcFault:
        """Reopen a stored session; if it is already open, close it first."""
        session_id = session_id_of(params)
        folder_of(
            params
        )  # Raises an error before anything is closed if the folder cannot be opened.
        if session_id in self._sessions:
            await self._closed(session_id)
        return await self._opened(params, {"resume": session_id}, answer)

    async def _opened(
        self, params: Json, session_options: Json, answer: Callable[[EditorSession, Json], Json]
    ) -> Json | RpcFault:
        cwd, base = folder_of(params), self._options()
        folders = [f for f in as_list(params.get("additionalDirectories")) if isinstance(f, str)]
        options = replace(base, directories=(*base.directories, *folders), **session_options)
        client = EditorClient(self._line, self._can)
        session = EditorSession(options, self._environ, cwd, client)
        opened: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        life = self._group.create_task(session.live(self._brought(params, client), opened))
        new_session = await opened
        client.session_id = new_session.session_id
        if new_session.model_access.lacks_key:
            session.close()
            await life
            return RpcFault(code=protocol.AUTH_REQUIRED, message=NO_KEY)
        self._sessions[new_session.session_id] = session
        self._lives[new_session.session_id] = life
        reply = answer(session, session.state())
        # The client knows the session's id only after the answer.
        asyncio.get_running_loop().call_soon(session.view.introduce)
        return reply

    def _options(self) -> Options:
        options = parse(self._argv)
        if options.is_print or options.prompt or options.resume is not None or options.continues:
            raise CommandLineError(
                "clew acp: remove --print, --resume, --continue and the prompt; the editor selects "
                "the session and sends the prompts"
            )
        return options

    def _brought(self, params: Json, client: EditorClient) -> HostParts:
        can = client.can
        files = EditorFiles(client) if can.reads or can.writes else None
        terminal = EditorTerminal(client) if can.runs else None
        if self._lines is None:
            self._lines = EditorServers(self._line.connection)
        return HostParts(
            buffers=files,
            terminal=terminal,
            servers=entries_of(params.get("mcpServers")),
            in_host=self._lines.make,
        )

    async def _closed(self, session_id: str) -> None:
        session, life = self._sessions.pop(session_id), self._lives.pop(session_id)
        session.close()
        await life

    # -- a single session

    async def server_asks(self, params: Json) -> Json | RpcFault:
        """Handle a message from an MCP server that runs inside the editor."""
        if self._lines is None:
            return RpcFault(code=METHOD_NOT_FOUND, message="no MCP server is connected")
        answer: Json | RpcFault = await self._lines.asked(params)
        return answer

    async def prompt(self, params: Json) -> Json | RpcFault:
        session = self._sessions.get(session_id_of(params))
        if session is None:
            return unknown(params)
        if not isinstance(params.get("prompt"), list):
            return RpcFault(
                code=INVALID_PARAMS, message="prompt: expected an array of content blocks"
            )
        return await session.prompt(prompt_of(params["prompt"]))

    async def set_mode(self, params: Json) -> Json | RpcFault:
        return await self._set(params, "mode", params.get("modeId"))

    async def set_option(self, params: Json) -> Json | RpcFault:
        return await self._set(params, as_text(params.get("configId")), params.get("value"))

    async def _set(self, params: Json, key: str, value: Any) -> Json | RpcFault:
        session = self._sessions.get(session_id_of(params))
        if session is None:
            return unknown(params)
        await session.set_option(key, value)
        return {"configOptions": session.choices.options()} if "configId" in params else {}


def begun(session: EditorSession, state: Json) -> Json:
    return {"sessionId": session.session.session_id, **state}


def folder_of(params: Json) -> str:
    """Return the folder of a session. Raise `SettingsError` if it does not exist."""
    cwd = as_text(params.get("cwd"))
    if not cwd.startswith("/") or not is_folder(cwd):
        raise SettingsError(f"cwd: expected the absolute path of an existing folder, got {cwd!r}")
    return cwd


def session_id_of(params: Json) -> str:
    return as_text(params.get("sessionId"))


def unknown(params: Json) -> RpcFault:
    words = f"session {session_id_of(params):.60} is not open"
    return RpcFault(code=protocol.NOT_FOUND, message=words)


HANDLERS: dict[str, Handler] = {
    "initialize": EditorAgent.initialize,
    "authenticate": EditorAgent.authenticate,
    "session/new": EditorAgent.new,
    "session/load": EditorAgent.load,
    "session/resume": EditorAgent.resume,
    "session/fork": EditorAgent.fork,
    "session/list": EditorAgent.listed,
    "session/close": EditorAgent.close,
    "session/prompt": EditorAgent.prompt,
    "mcp/message": EditorAgent.server_asks,
    "session/set_mode": EditorAgent.set_mode,
    "session/set_config_option": EditorAgent.set_option,
}
