"""Record file changes by tool calls in the transcript, and save the files' contents by SHA-256.

Snapshots are also recorded, in the format that other tools use to rewind. A session has no
snapshots before its first file change.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.agent.context.output_styles import get_commit_credit
from clew.agent.story import Story
from clew.agent.toolset import CallChanges, FileRecord
from clew.core.json_object import Json
from clew.core.messages.messages import UserMessage
from clew.parts.context import Ground, Thread
from clew.parts.part import Part, PartContext
from clew.record.transcript.record import Recorder
from clew.system.clock import get_timestamp

if TYPE_CHECKING:
    from clew.parts.attribution import Attribution
    from clew.record.rewind.backups import PromptBackups
    from clew.record.rewind.changes import PathChange
    from clew.record.rewind.disk import Blobs
    from clew.record.rewind.watch import CallWatch


class FileHistory(Part):
    """The session part that records file changes.

    `record` is None in a session that is not saved to disk.
    """

    name = "file history"

    def __init__(self, ground: Ground, thread: Thread) -> None:
        self._recorder: Recorder = thread.recorder
        self._story: Story = thread.story
        self.record: FileRecord | None = None
        if ground.options.persists:
            self.record = FileRecord(self._make_watch, self)
        self._home = ground.began.places.config_home
        self._credit = get_commit_credit(ground.began.settings)
        self._attribution: Attribution | None = None
        self._cwd = ground.cwd
        self._backups: PromptBackups | None = None
        self._is_open = False

    def _make_watch(self) -> "CallWatch":
        from clew.record.rewind.watch import CallWatch

        return CallWatch(self._make_blobs())

    def _make_blobs(self) -> "Blobs":
        from clew.record.rewind.disk import Blobs, blobs_dir

        return Blobs(blobs_dir(self._home))

    @property
    def attribution(self) -> "Attribution":
        if self._attribution is None:
            from clew.parts.attribution import Attribution

            self._attribution = Attribution(self._recorder, self._make_blobs, self._credit)
        return self._attribution

    async def note(self, call: CallChanges) -> None:
        if call.changes:
            listed = [change.as_json() for change in call.changes]
            self._recorder.file_change(
                call.message_uuid, call.tool_use_id, listed, call.omitted_count
            )
            await self._back_up(call.message_uuid, call.changes)
        await self.attribution.note(call)

    async def credit(self, command: str, message_uuid: str) -> str:
        return await self.attribution.credit(command, message_uuid)

    async def _back_up(self, message_uuid: str, changes: "Sequence[PathChange]") -> None:
        backups, self._backups = self._backups, None
        try:
            if backups is None:
                await self._recorder.durable()
                backups = await asyncio.to_thread(self._open_backups)
            prompts = self._new_prompts(message_uuid, backups.prompt)
            lines = await asyncio.to_thread(backups.note, prompts, changes, get_timestamp())
        except OSError:
            # Without a copy, a snapshot would restore the wrong content. The next change reads the
            # transcript again.
            return
        for line in lines:
            if line.path:
                self._recorder.file_history_delta(
                    message_uuid,
                    snapshot_message_id=line.prompt,
                    path=line.path,
                    backup=line.files,
                )
            else:
                self._recorder.file_history_snapshot(
                    line.prompt, line.files, is_update=line.is_update
                )
        self._backups = backups

    def _open_backups(self) -> "PromptBackups":
        from clew.record.rewind.backups import PromptBackups

        session_id = self._recorder.writer.session_id
        backups = PromptBackups(self._home, session_id, self._cwd, self._make_blobs())
        backups.resume(self._recorder.transcript)
        return backups

    def _new_prompts(self, message_uuid: str, newest: str | None) -> list[str]:
        """Return the IDs of the prompts after the newest one with a snapshot, up to a message."""
        prompts: list[str] = []
        history = self._story.history
        for place in range(len(history) - 1, -1, -1):
            message = history[place]
            uuid = message.get("uuid")
            if uuid == newest:
                break
            if uuid == message_uuid:
                # Prompts that came while the call was running belong to later changes.
                prompts = []
            elif is_prompt(message):
                prompts.append(str(uuid))
        return prompts[::-1]

    def forget(self) -> None:
        """Read the transcript again before the next change, because a rewind has changed files."""
        self._backups = None

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


def is_prompt(message: Json) -> bool:
    return message.get("type") == "user" and UserMessage(message).face == "typed"
