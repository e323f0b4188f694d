"""Records file changes by tool calls in the session's log, and saves file contents by SHA-256."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.agent.toolset import FileRecord
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.record.transcript.record import Recorder

if TYPE_CHECKING:
    from clew.record.rewind.changes import PathChange
    from clew.record.rewind.watch import CallWatch


class FileHistory(Part):
    """The session part that records file changes.

    `record` is None in a session that is not saved to disk.
    """

    name = "file history"

    def __init__(self, ground: Ground, thread: Thread) -> None:
        self._recorder: Recorder = thread.recorder
        self.record: FileRecord | None = None
        if ground.options.persists:
            self.record = FileRecord(self._make_watch, self._note)
        self._home = ground.began.places.config_home
        self._is_open = False

    def _make_watch(self) -> "CallWatch":
        from clew.record.rewind.disk import Blobs, blobs_dir
        from clew.record.rewind.watch import CallWatch

        return CallWatch(Blobs(blobs_dir(self._home)))

    def _note(
        self,
        message_uuid: str,
        tool_use_id: str,
        changes: "Sequence[PathChange]",
        omitted_count: int,
    ) -> None:
        listed = [change.as_json() for change in changes]
        self._recorder.file_change(message_uuid, tool_use_id, listed, omitted_count)

    async def open(self, _: PartContext, /) -> None:
        if self.record is not None:
            await self.record.__aenter__()
            self._is_open = True

    async def aclose(self) -> None:
        if self.record is not None and self._is_open:
            await self.record.__aexit__(None, None, None)

    async def settled(self) -> None:
        """Wait until all file changes so far are recorded."""
        if self.record is not None:
            await self.record.settled()
