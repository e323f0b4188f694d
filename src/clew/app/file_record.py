"""What calls do to files, recorded in the session's log; the contents beside it, by their sha256."""

from collections.abc import Sequence
from pathlib import Path

from clew.engine.file_record import FileRecord
from clew.rewind.blobs import Blobs, blobs_dir
from clew.rewind.changes import Change
from clew.rewind.watch import Watch
from clew.transcript.record import Recorder


def file_record(home: Path, recorder: Recorder) -> FileRecord:
    def note(message_uuid: str, tool_use_id: str, changes: Sequence[Change], more: int) -> None:
        listed = [change.as_json() for change in changes]
        recorder.file_change(message_uuid, tool_use_id, listed, more)

    return FileRecord(Watch(Blobs(blobs_dir(home))), note)
