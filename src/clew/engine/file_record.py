"""Around each call that may change files: what stood there is kept, and what became of it recorded.

Owns which calls are watched, and how. A call is never stopped by what cannot be kept.
"""

import asyncio
from collections.abc import Callable, Sequence
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
    """One a session; `record` is what writes a line of changes."""

    def __init__(self, watch: Watch, record: Record) -> None:
        self._watch = watch
        self._record = record

    async def run(self, tool: Tool[Any], raw: Any, ctx: ToolContext) -> ToolResult:
        """Runs the tool; what it did to files is recorded when it ends, however it ends."""
        asked = await asyncio.to_thread(self._before, tool, raw, ctx.session)
        if asked is None:
            return await run_tool(tool, raw, ctx)
        try:
            result = await run_tool(tool, raw, ctx)
        except asyncio.CancelledError:
            self._note(asked, ctx)  # no waiting any more: the turn ends
            raise
        await asyncio.to_thread(self._note, asked, ctx)
        return result

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

    def _note(self, before: Before, ctx: ToolContext) -> None:
        changes, more = self._watch.after(before)
        if changes:
            self._record(ctx.message_uuid, ctx.tool_use_id, changes, more)
