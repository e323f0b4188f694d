"""Files and a terminal of the editor that a session runs in, where it has one.

The disk stays the truth: what the editor has not saved is what tools read and change, and what they
wrote is handed to the editor too, so that its buffers are in step. A command in the editor's terminal is
one that a person can watch there; behind walls it runs as it does without an editor.

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
from clew.system.files import is_folder, is_there, read_content

Run: TypeAlias = Callable[[BoundCall, ToolContext], Awaitable[ToolOutcome]]

READS = frozenset({"Read", "Edit", "MultiEdit", "Write"})
WRITES = READS - {"Read"}
MAX_BYTES = 4 << 20


def with_buffers(buffers: Buffers, run: Run) -> Run:
    """Runs calls that read or write a text file with what the editor holds of it."""

    async def running(call: BoundCall, ctx: ToolContext) -> ToolOutcome:
        path = path_of(call, ctx.session)
        if path is None:
            return await run(call, ctx)
        async with as_held(buffers, path, ctx.session):
            result = await run(call, ctx)
        if tool_name(call) not in WRITES or result.is_error:
            return result
        return await told(buffers, path, result)

    return running


@asynccontextmanager
async def as_held(buffers: Buffers, path: str, session: ToolSession) -> AsyncIterator[None]:
    """While it lasts, tools see of a file what the editor holds of it."""
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
    """What `rehearse` says, of the file as the editor holds it."""
    path = path_of(call, session)
    if path is None:
        return rehearse(call, session)
    async with as_held(buffers, path, session):
        return rehearse(call, session)


def tool_name(call: BoundCall) -> str:
    """The name of the tool itself, which answers to others too."""
    return "" if call.tool is None else call.tool.name


def path_of(call: BoundCall, session: ToolSession) -> str | None:
    if tool_name(call) not in READS or call.given is None:
        return None
    (name,) = call.paths
    return os.path.realpath(session.path(name))


async def unsaved_bytes(buffers: Buffers, path: str) -> bytes | None:
    """The file as the editor holds it, where that is another text than the disk's."""
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


async def told(buffers: Buffers, path: str, result: ToolOutcome) -> ToolOutcome:
    """Hands the editor what was written; that it does not take it is said beside the result."""
    text = decode(on_disk(path) or b"")
    error = "" if text is None else await buffers.save(path, text.text)
    if not error or not isinstance(result.content, str):
        return result
    return replace(result, content=f"{result.content}\n(The editor did not take it: {error}.)")


def line_of(command: str, first: Path | None, report: Path) -> list[str]:
    """The shell's arguments for a terminal; where the command ended is told in a file."""
    begin = f"trap 'command pwd -P >\"{report}\" 2>/dev/null' EXIT\n"
    if first is not None and is_there(first):
        begin += f". {quote_text(str(first))} >/dev/null\n"
    return [find_shell(), "-c", f"{begin}unset CDPATH\neval {quote_text(command)}"]


async def in_terminal(
    terminal: RemoteTerminal, command: str, ctx: ToolContext, *, timeout_s: float, most_bytes: int
) -> TerminalOutput:
    """Runs a command there; the folder that it ends in is the session's."""
    from clew.agent.tools.base import Progress

    async def begun(terminal_id: str) -> None:
        await ctx.emit(Progress(text="", data={"terminalId": terminal_id}))

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "ended-in"
        output = await terminal.run(
            line_of(command, ctx.session.shell.env_file, report),
            cwd=ctx.session.cwd,
            env={"CLEW": "1", "GIT_EDITOR": "true"},
            timeout_s=timeout_s,
            most_bytes=most_bytes,
            on_start=begun,
        )
        ctx.session.cwd = told_folder(report) or ctx.session.cwd
    return output


def told_folder(report: Path) -> str | None:
    folder = os.fsdecode(on_disk(str(report)) or b"").rstrip("\n")
    return folder if folder and is_folder(folder) else None
