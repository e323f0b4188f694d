"""The editor's files and terminals for a session's tools, if the editor offers them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from clew.agent.tools.base import ToolError
from clew.agent.tools.editor_client import TerminalOutput
from clew.core.json_object import Json
from clew.fronts.editor.client import EditorClient
from clew.system.jsonrpc.peer import PeerAnswer, PeerFailure
from clew.system.jsonrpc.wire import as_object, as_text

FILE_S = 5.0
ASIDE_S = 5.0


class EditorFiles:
    """Reads and writes files through the editor, if supported, to include unsaved changes."""

    def __init__(self, client: EditorClient) -> None:
        self._client = client

    async def text(self, path: str) -> str | None:
        if not self._client.can.reads:
            return None
        outcome = await self._client.ask("fs/read_text_file", {"path": path}, limit_s=FILE_S)
        content = (
            as_object(outcome.result).get("content") if isinstance(outcome, PeerAnswer) else None
        )
        return content if isinstance(content, str) else None

    async def save(self, path: str, text: str) -> str:
        if not self._client.can.writes:
            return ""
        params = {"path": path, "content": text}
        outcome = await self._client.ask("fs/write_text_file", params, limit_s=FILE_S)
        return outcome.message if isinstance(outcome, PeerFailure) else ""


class EditorTerminal:
    def __init__(self, client: EditorClient) -> None:
        self._client = client

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_s: float,
        most_bytes: int,
        on_start: Callable[[str], Awaitable[None]],
    ) -> TerminalOutput:
        params = {
            "command": argv[0],
            "args": list(argv[1:]),
            "cwd": cwd,
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "outputByteLimit": most_bytes,
        }
        created = await self._client.ask("terminal/create", params, limit_s=ASIDE_S)
        result = as_object(created.result) if isinstance(created, PeerAnswer) else {}
        terminal = {"terminalId": as_text(result.get("terminalId"))}
        if not terminal["terminalId"]:
            why = created.message if isinstance(created, PeerFailure) else "it returned no ID"
            raise ToolError(f"The editor could not open a terminal: {why}.")
        is_over = False
        try:
            await on_start(terminal["terminalId"])
            outcome = await self._client.ask("terminal/wait_for_exit", terminal, limit_s=timeout_s)
            if isinstance(outcome, PeerFailure):
                await self._client.ask("terminal/kill", terminal, limit_s=ASIDE_S)
            is_over = True
            return await self._shown(terminal, outcome)
        finally:
            if not is_over:
                await self._client.ask("terminal/kill", terminal, limit_s=ASIDE_S)
            await self._client.ask("terminal/release", terminal, limit_s=ASIDE_S)

    async def _shown(self, terminal: Json, outcome: PeerAnswer | PeerFailure) -> TerminalOutput:
        if isinstance(outcome, PeerFailure) and outcome.kind != "timeout":
            raise ToolError(f"The editor's terminal failed: {outcome.message}.")
        reply = await self._client.ask("terminal/output", terminal, limit_s=ASIDE_S)
        text = (
            as_text(as_object(reply.result).get("output")) if isinstance(reply, PeerAnswer) else ""
        )
        ended = as_object(outcome.result) if isinstance(outcome, PeerAnswer) else {}
        code, signal = ended.get("exitCode"), as_text(ended.get("signal")) or None
        return TerminalOutput(
            text=text,
            code=code if type(code) is int else (1 if signal else 0),
            signal=signal,
            timed_out=isinstance(outcome, PeerFailure),
        )
