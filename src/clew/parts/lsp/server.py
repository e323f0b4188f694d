"""The life cycle of one language server: started on demand and kept in sync with the files.

Owns the process (through `process/`), the documents open in it, and its latest diagnostics. The
server's requests are answered from its configuration. None of its messages can change a file.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.agent.tools.files import decode
from clew.core.json_object import Json
from clew.core.messages.errors import OutsideError
from clew.parts.lsp.config import LanguageServerSpec, ending_of
from clew.parts.lsp.protocol import DIALECT, UTF_16, LspProblem, make_initialize_params, problems_of
from clew.system.files import read_content
from clew.system.jsonrpc.child import ChildLine
from clew.system.jsonrpc.connection import Connection
from clew.system.jsonrpc.framing import Headed, with_header
from clew.system.jsonrpc.peer import Outcome, PeerAnswer, PeerFailure
from clew.system.jsonrpc.wire import (
    METHOD_NOT_FOUND,
    Params,
    RpcFault,
    as_list,
    as_object,
    as_text,
    path_of,
    uri_of,
)
from clew.system.process.spawn import Launcher

MAX_MESSAGE_BYTES = 32 << 20
MAX_FILE_BYTES = 4 << 20
ANSWER_S = 30.0
SHUTDOWN_S = 2.0
# How long a server may take to report diagnostics for a file it just received.
SPEAK_S = 5.0
CHANGED = 2


class CannotServeError(OutsideError):
    """Raised when the server is not available or does not respond. The message is for the model."""


class OpenDocument(Struct, frozen=True, kw_only=True):
    """A file that is open in the server, with the content that the server has."""

    version: int
    text: str


class LanguageServer:
    """One language server.

    `live` runs the server. It returns only when the server is stopped or its process exits.
    """

    def __init__(
        self,
        spec: LanguageServerSpec,
        root: str,
        launcher: Launcher,
        environ: Mapping[str, str],
    ) -> None:
        self.spec = spec
        self.problems: dict[str, tuple[LspProblem, ...]] = {}
        self.encoding = UTF_16
        self.is_over = False
        self._root = spec.folder or root
        self._launcher = launcher
        self._environ = {**environ, **spec.env}
        self._awaited: dict[str, list[asyncio.Future[None]]] = {}
        self._capabilities: Json = {}
        self._connection: Connection | None = None
        self._documents: dict[str, OpenDocument] = {}
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stopping = asyncio.Event()

    # -- life cycle

    async def live(self) -> None:
        """Start the server and serve until it is stopped or exits. No process is left running."""
        why = "it was stopped"
        try:
            async with asyncio.TaskGroup() as group:
                child = ChildLine(Headed(max_bytes=MAX_MESSAGE_BYTES), with_header)
                connection = Connection(child.send, self, DIALECT, group)
                try:
                    why = await self._serve(child, connection, group)
                finally:
                    await self._leave(child, connection)
        finally:
            self.is_over = True
            self._settle(why)

    async def _serve(
        self, child: ChildLine, connection: Connection, group: asyncio.TaskGroup
    ) -> str:
        """Serve until the server stops, and return why it stopped."""
        argv = [self.spec.command, *self.spec.args]
        try:
            await child.open(self._launcher, argv, cwd=self._root, env=self._environ)
        except OSError as error:
            return f"it cannot be started: {error}"
        child.listen(connection)
        ending = group.create_task(child.ended())
        stopping = group.create_task(self._stopping.wait())
        try:
            problem = await self._agree(connection)
            if problem:
                return problem
            self._connection = connection
            self._settle("")
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return ending.result() if ending.done() else "it was stopped"
        finally:
            ending.cancel()
            stopping.cancel()

    async def _agree(self, connection: Connection) -> str:
        name = Path(self._root).name
        params = make_initialize_params(self._root, name, os.getpid(), self.spec.options)
        outcome = await connection.request("initialize", params, limit_s=self.spec.startup_s)
        if isinstance(outcome, PeerFailure):
            return outcome.message
        self._capabilities = as_object(as_object(outcome.result).get("capabilities"))
        self.encoding = as_text(self._capabilities.get("positionEncoding")) or UTF_16
        connection.notify("initialized", {})
        if self.spec.settings:
            connection.notify("workspace/didChangeConfiguration", {"settings": self.spec.settings})
        return ""

    async def _leave(self, child: ChildLine, connection: Connection) -> None:
        """Shut the server down as the protocol requires, within a time limit.

        Afterward, end the process in any case.
        """
        if self._connection is not None and not connection.is_lost:
            await connection.request("shutdown", limit_s=SHUTDOWN_S)
            connection.notify("exit")
        self._connection = None
        connection.lose("the language server was stopped")
        await child.aclose()

    def stop(self) -> None:
        self._stopping.set()

    def _settle(self, why: str) -> None:
        if not self._ready.done():
            self._ready.set_result(why)

    async def ready(self) -> None:
        """Wait until startup is finished. Raise `CannotServeError` if it failed."""
        why = await asyncio.shield(self._ready)
        if why or self.is_over:
            raise CannotServeError(f"The language server {self.spec.name} is not available: {why}.")

    # -- requests

    def offers(self, provider: str) -> bool:
        """Return whether the server declared a capability: as true, or as an object."""
        return self._capabilities.get(provider) not in (None, False)

    async def request(self, method: str, params: Params, *, limit_s: float = ANSWER_S) -> Any:
        """Send a request and return its result. Raise `CannotServeError` if it fails."""
        if self._connection is None:
            raise CannotServeError(f"The language server {self.spec.name} has stopped.")
        outcome: Outcome = await self._connection.request(method, params, limit_s=limit_s)
        match outcome:
            case PeerAnswer():
                return outcome.result
            case PeerFailure():
                raise CannotServeError(f"{self.spec.name}: {outcome.message}")

    def sync(self, path: str) -> str:
        """Send a file's current content to the server if it has changed, and return the content.

        Raise OSError if the file is unreadable, and `CannotServeError` if it is too large or not
        text.
        """
        # The path is real. A link that has taken its place since could lead to a denied file.
        data = read_content(Path(path), MAX_FILE_BYTES + 1, through_links=False)
        file_text = decode(data) if len(data) <= MAX_FILE_BYTES else None
        if file_text is None:
            what = "too large" if len(data) > MAX_FILE_BYTES else "not a text file"
            raise CannotServeError(f"{path} is {what}.")
        before = self._documents.get(path)
        if before is None:
            self._opened(path, file_text.text)
        elif before.text != file_text.text:
            self._changed(path, file_text.text, before.version + 1)
        return file_text.text

    def _opened(self, path: str, text: str) -> None:
        language = self.spec.languages.get(ending_of(path), "plaintext")
        self._documents[path] = OpenDocument(version=1, text=text)
        document = {"uri": uri_of(path), "languageId": language, "version": 1, "text": text}
        self._tell("textDocument/didOpen", {"textDocument": document})

    def _changed(self, path: str, text: str, version: int) -> None:
        self._documents[path] = OpenDocument(version=version, text=text)
        document: Json = {"uri": uri_of(path)}
        self._tell(
            "textDocument/didChange",
            {"textDocument": document | {"version": version}, "contentChanges": [{"text": text}]},
        )
        self._tell("textDocument/didSave", {"textDocument": document, "text": text})
        changes = [{"uri": uri_of(path), "type": CHANGED}]
        self._tell("workspace/didChangeWatchedFiles", {"changes": changes})

    def sync_all(self) -> None:
        """Sync all files that are open in the server; close those that can no longer be read."""
        for path in list(self._documents):
            try:
                self.sync(path)
            except (OSError, CannotServeError):
                del self._documents[path]
                self.problems.pop(path, None)
                self._tell("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def _tell(self, method: str, params: Params) -> None:
        if self._connection is not None:
            self._connection.notify(method, params)

    async def pull(self, path: str) -> None:
        """Request a file's diagnostics, from a server that supports such requests."""
        document = {"textDocument": {"uri": uri_of(path)}}
        report = as_object(await self.request("textDocument/diagnostic", document))
        if report.get("kind") == "full":
            self._found(path, report.get("items"))

    async def spoken_about(self, path: str) -> None:
        """Wait, for a limited time, until the server has reported a file's diagnostics."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(path, []).append(waiting)
        await asyncio.wait({waiting}, timeout=SPEAK_S)

    # -- messages from the server

    def told(self, method: str, params: Params) -> None:
        fields = as_object(params)
        if method == "textDocument/publishDiagnostics":
            self._found(path_of(as_text(fields.get("uri"))), fields.get("diagnostics"))

    def _found(self, path: str, items: Any) -> None:
        self.problems[path] = problems_of(items)
        for waiting in self._awaited.pop(path, ()):
            if not waiting.done():
                waiting.set_result(None)

    def odd(self, why: str) -> None:
        """Ignore output that is not part of the protocol."""

    async def asked(self, method: str, params: Params) -> Any | RpcFault:
        match method:
            case "workspace/configuration":
                return [self._setting(item) for item in as_list(as_object(params).get("items"))]
            case "workspace/workspaceFolders":
                return [{"uri": uri_of(self._root), "name": Path(self._root).name}]
            case "workspace/applyEdit":
                return {
                    "applied": False,
                    "failureReason": "clew does not apply edits from language servers",
                }
            case (
                "client/registerCapability"
                | "client/unregisterCapability"
                | "window/workDoneProgress/create"
                | "window/showMessageRequest"
                | "workspace/diagnostic/refresh"
                | "workspace/semanticTokens/refresh"
                | "workspace/inlayHint/refresh"
                | "workspace/codeLens/refresh"
            ):
                return None
        return RpcFault(code=METHOD_NOT_FOUND, message=f"{method} is not supported")

    def _setting(self, item: Any) -> Any:
        """Return the section of the settings that the server asks for by a dotted name."""
        value: Any = self.spec.settings
        for part in filter(None, as_text(as_object(item).get("section")).split(".")):
            value = as_object(value).get(part)
        return value
