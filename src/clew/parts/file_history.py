"""What calls do to files, recorded in the session's log; the contents beside it, by their sha256."""

from collections.abc import Sequence

from clew.agent.toolset import FileRecord
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.record.rewind.changes import PathChange
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.watch import CallWatch
from clew.record.transcript.record import Recorder


class FileHistory(Part):
    """`record` is None in a session that is not kept on disk."""

    name = "file history"

    def __init__(self, ground: Ground, thread: Thread) -> None:
        self._recorder: Recorder = thread.recorder
        self.record: FileRecord | None = None
        if ground.options.persists:
            watch = CallWatch(Blobs(blobs_dir(ground.began.places.config_home)))
            self.record = FileRecord(watch, self._note)
        self._is_open = False

    def _note(
        self, message_uuid: str, tool_use_id: str, changes: Sequence[PathChange], more: int
    ) -> None:
        listed = [change.as_json() for change in changes]
        self._recorder.file_change(message_uuid, tool_use_id, listed, more)

    async def open(self, _: PartContext, /) -> None:
        if self.record is not None:
            await self.record.__aenter__()
            self._is_open = True

    async def aclose(self) -> None:
        if self.record is not None and self._is_open:
            await self.record.__aexit__(None, None, None)

    async def settled(self) -> None:
        """Wait until everything that calls did so far is recorded."""
        if self.record is not None:
            await self.record.settled()
