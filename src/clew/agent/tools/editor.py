"""Tools that work with the files and the terminal of the editor that hosts the session.

Tools start from the editor's unsaved text if it differs from the file. They write the result to the
file, which remains authoritative, and also send it to the editor, so that its buffers match. A
command in the editor's terminal is visible to the user there; a sandboxed command runs as it does
without an editor.

Decision: docs/decisions/072-file-edits.md
"""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from clew.agent.calls import BoundCall, rehearse
from clew.agent.tools.base import ToolContext, ToolOutcome, ToolSession
from clew.agent.tools.editor_client import Buffers, RemoteTerminal, TerminalOutput
from clew.agent.tools.files import crlf, decode
from clew.agent.tools.shell_script import find_shell, quote_text
from clew.system.config.environment import AGENT_VARIABLES
from clew.system.files import is_folder, is_there, read_content

Run: TypeAlias = Callable[[BoundCall, ToolContext], Awaitable[ToolOutcome]]

READS = frozenset({"Read", "Edit", "MultiEdit", "Write"})
WRITES = READS - {"Read"}
MAX_BYTES = 4 << 20


def with_buffers(buffers: Buffers, run: Run) -> Run:
    """Wrap `run` so that a call on a text file works on the file's buffer in the editor."""

    async def running(call: BoundCall, ctx: ToolContext) -> ToolOutcome:
        path = path_of(call, ctx.session)
        if path is None:
            return await run(call, ctx)
        async with as_held(buffers, path, ctx.session):
            result = await run(call, ctx)
        if tool_name(call) not in WRITES or result.is_error:
            return result
        return await send_to_editor(buffers, path, result)

    return running


@asynccontextmanager
async def as_held(buffers: Buffers, path: str, session: ToolSession) -> AsyncIterator[None]:
    """Make tools see the editor's text of a file until the context exits."""
    unsaved = await unsaved_bytes(buffers, path)
    if unsaved is not None:
        session.files.unsaved[path] = unsaved
    try:
        yield
    finally:
        session.files.unsaved.pop(path, None)


async def rehearse_in_editor(
    buffers: Buffers, call: BoundCall, session: ToolSession
) -> ToolOutcome | None:
    """Rehearse a call with the editor's text of its file.

    Return the result if the call would fail, otherwise None.
    """
    path = path_of(call, session)
    if path is None:
        return rehearse(call, session)
    async with as_held(buffers, path, session):
        return rehearse(call, session)


def tool_name(call: BoundCall) -> str:
    """Return the tool's own name, whichever alias the call used."""
    return "" if call.tool is None else call.tool.name


def path_of(call: BoundCall, session: ToolSession) -> str | None:
    if tool_name(call) not in READS or call.given is None:
        return None
    (name,) = call.paths
    return call.places.get(name) or os.path.realpath(session.path(name))


async def unsaved_bytes(buffers: Buffers, path: str) -> bytes | None:
    """Return the editor's text of a file, or None if it equals the text on disk."""
    saved = on_disk(path)
    if saved is None:
        return None
    text = decode(saved)
    buffer = None if text is None else await buffers.text(path)
    if text is None or buffer is None or flat(buffer) == flat(text.text):
        return None
    try:
        return text.encode(crlf(buffer) if text.is_crlf else buffer)
    except UnicodeEncodeError:
        return None


def on_disk(path: str) -> bytes | None:
    try:
        data = read_content(Path(path), MAX_BYTES + 1)
    except OSError:
        return None
    return None if len(data) > MAX_BYTES else data


def flat(text: str) -> str:
    return text.replace("\r\n", "\n")


async def send_to_editor(buffers: Buffers, path: str, result: ToolOutcome) -> ToolOutcome:
    """Send the written text to the editor; if the editor rejects it, add a note to the result."""
    text = decode(on_disk(path) or b"")
    error = "" if text is None else await buffers.save(path, text.text)
    if not error or not isinstance(result.content, str):
        return result
    return replace(result, content=f"{result.content}\n(The editor rejected it: {error}.)")


def line_of(command: str, first: Path | None, report: Path) -> list[str]:
    """Return the arguments of a shell that runs `command` and reports the folder it ends in."""
    begin = f"trap 'command pwd -P >\"{report}\" 2>/dev/null' EXIT\n"
    if first is not None and is_there(first):
        begin += f". {quote_text(str(first))} >/dev/null\n"
    return [find_shell(), "-c", f"{begin}unset CDPATH\neval {quote_text(command)}"]


async def in_terminal(
    terminal: RemoteTerminal, command: str, ctx: ToolContext, *, timeout_s: float, most_bytes: int
) -> TerminalOutput:
    """Run a command in the terminal; the session moves to the folder in which the command ends."""
    from clew.agent.tools.base import Progress

    async def begun(terminal_id: str) -> None:
        await ctx.emit(Progress(text="", data={"terminalId": terminal_id}))

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "ended-in"
        output = await terminal.run(
            line_of(command, ctx.session.shell.env_file, report),
            cwd=ctx.session.cwd,
            env={**AGENT_VARIABLES, "GIT_EDITOR": "true"},
            timeout_s=timeout_s,
            most_bytes=most_bytes,
            on_start=begun,
        )
        ctx.session.cwd = read_reported_folder(report) or ctx.session.cwd
    return output


def read_reported_folder(report: Path) -> str | None:
    folder = os.fsdecode(on_disk(str(report)) or b"").rstrip("\n")
    return folder if folder and is_folder(folder) else None
