"""Around each call that may change files: what stood there is kept, and what became of it recorded.

Owns which calls are watched, and how. A call is never stopped by what cannot be kept.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from clew.messages.errors import ClewError
from clew.rewind.changes import Change
from clew.rewind.watch import Before, Named, Watch, named_by, placed
from clew.tools.base import Tool, ToolContext, ToolResult, ToolSession
from clew.tools.door import run_tool
from clew.tools.schema import parse_input

# message uuid, tool_use id, the changes, and how many more there were
Record = Callable[[str, str, Sequence[Change], int], None]


class FileRecord:
    """One a session, open as long as the session is; `record` is what writes a line of changes.

    What a call did is looked for when its result is on its way already; the next call that may
    change something waits for that, and so does whoever asks with `settled`.
    """

    def __init__(self, watch: Watch, record: Record) -> None:
        self._watch = watch
        self._record = record
        self._group = asyncio.TaskGroup()
        self._looking: set[asyncio.Task[None]] = set()
        # Agents beside the conversation make calls of their own; one looks at a time.
        self._one = asyncio.Lock()

    async def __aenter__(self) -> "FileRecord":
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._group.__aexit__(None, None, None)

    async def settled(self) -> None:
        """Everything that calls did so far is recorded."""
        while self._looking:
            await asyncio.wait(self._looking)

    async def run(self, tool: Tool[Any], raw: Any, ctx: ToolContext) -> ToolResult:
        """Runs the tool; what it did to files is recorded when it ends, however it ends."""
        await self.settled()
        async with self._one:
            asked = await asyncio.to_thread(self._before, tool, raw, ctx.session)
        if asked is None:
            return await run_tool(tool, raw, ctx)
        try:
            return await run_tool(tool, raw, ctx)
        finally:
            looking = self._group.create_task(self._note(asked, ctx))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    def _before(self, tool: Tool[Any], raw: Any, session: ToolSession) -> Before | None:
        given = parse_input(tool, raw)
        if isinstance(given, ToolResult) or tool.is_read_only(given):
            return None
        command = getattr(given, "command", None)
        if isinstance(command, str):
            named = named_by(command, lambda path: str(session.path(path)))
            known = {record.path for record in session.ledger.records()} | self._watch.touched
            named = Named(deep=named.deep, flat=named.flat | known)
            return self._watch.before(named, session.cwd, whole=True)
        try:
            paths = frozenset(placed(str(session.path(path))) for path in tool.paths(given))
        except ClewError:
            return None
        return self._watch.before(Named(deep=paths), session.cwd, whole=False) if paths else None

    async def _note(self, before: Before, ctx: ToolContext) -> None:
        async with self._one:
            changes, more = await asyncio.to_thread(self._watch.after, before)
        if changes:
            self._record(ctx.message_uuid, ctx.tool_use_id, changes, more)
