"""Rewind an open session to any of its messages: the conversation, the files or both.

A rewind can also be undone. This module makes the preview and ensures the order of steps: pending
entries are flushed, then the plan is made, recorded in the transcript, and carried out on the files
and the conversation. A rewind is not possible while a turn is running.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.agent.tools.patch import diff_texts
from clew.core.json_object import Json
from clew.core.ledger.state import TodosSet, find_last_todos
from clew.core.messages.errors import SessionError, UserError
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import format_count
from clew.record.library.branches import find_prompt_above
from clew.record.rewind.changes import FileState, PathChange
from clew.record.rewind.disk import Blobs, blobs_dir
from clew.record.rewind.restore import (
    START,
    RestorePlan,
    carry_out_within,
    plan,
    plan_redo,
    read,
    resolve_message,
)
from clew.record.transcript.load import load
from clew.session.session import Session
from clew.system.files import is_there

# The preview of a rewind: each file, and its changes.


# The number of lines shown per file and in total; further lines are counted.
SHOWN_LINES = 40
SHOWN_LINES_WHOLE = 200
DIFFED_MAX_BYTES = 1 << 20


class PlannedFile(Struct, frozen=True, kw_only=True):
    """One file in a plan: the action, and the changed lines, marked with `+` and `-`."""

    path: str
    verb: str
    lines: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0


def plan_file_changes(planned: RestorePlan, blobs: Blobs) -> list[PlannedFile]:
    return [_file_change(change, blobs) for change in planned.changes]


def _file_change(change: PathChange, blobs: Blobs) -> PlannedFile:
    before, after = _text(change.before, blobs), _text(change.after, blobs)
    if before is None or after is None or before == after:
        return PlannedFile(path=change.path, verb=change.verb)
    lines = [line for hunk in diff_texts(before, after) for line in _hunk(hunk)]
    return PlannedFile(
        path=change.path,
        verb=change.verb,
        lines=tuple(lines),
        insertions=sum(line.startswith("+") for line in lines),
        deletions=sum(line.startswith("-") for line in lines),
    )


def _hunk(hunk: dict[str, Any]) -> list[str]:
    head = f"@@ -{hunk['oldStart']},{hunk['oldLines']} +{hunk['newStart']},{hunk['newLines']} @@"
    return [head, *hunk["lines"]]


def _text(state: FileState, blobs: Blobs) -> str | None:
    """Return a file's text in a recorded state, or None if it is binary or too large to compare."""
    if state.kind != "file":
        return ""
    data = blobs.get(state.sha256) if state.size <= DIFFED_MAX_BYTES else None
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def find_conflicts(planned: RestorePlan) -> list[str]:
    return [
        *(f"conflict: {path}: {why}" for path, why in planned.foreign),
        *(f"can't be restored: {path}: {why}" for path, why in planned.lost),
    ]


def format_preview(planned: RestorePlan, blobs: Blobs, where: str) -> str:
    """Return the preview of a rewind as text; `where` describes the conversation's new position."""
    changes = plan_file_changes(planned, blobs)
    lines = [*_files(changes), *find_conflicts(planned)]
    if not lines:
        lines = ["No file would change"]
    if planned.conversation:
        lines.append(f"The conversation would end {where}")
    return "\n".join(lines)


def _files(changes: list[PlannedFile]) -> Iterator[str]:
    left = SHOWN_LINES_WHOLE
    for change in changes:
        yield f"Would be {change.verb}: {change.path} (+{change.insertions} -{change.deletions})"
        room = min(left, SHOWN_LINES)
        yield from (f"    {line}" for line in change.lines[:room])
        if len(change.lines) > room:
            yield f"    ... {format_count(len(change.lines) - room, 'more line')}"
        left -= min(room, len(change.lines))


What: TypeAlias = Literal["both", "conversation", "files"]
SHOWN_CHARACTERS = 60
WHATS: tuple[What, ...] = get_args(What)


class RewindTarget(Struct, frozen=True, kw_only=True):
    """A prompt in this conversation, and the number of files changed since that prompt."""

    uuid: str
    text: str
    files_since: int


class Rewinding:
    """Rewinds a session. Stateless; created for each use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._story = session.story
        self._recorder = session.story.recorder
        home = session.rules.standing.places.config_home
        self.blobs = Blobs(blobs_dir(home), syncs=True)

    @property
    def keeps_files(self) -> bool:
        """True if the session records changes to files."""
        return self._recorder.is_kept

    async def prompts(self) -> list[RewindTarget]:
        """Return the prompts of this conversation, newest first."""
        steps, places = [], {}
        if is_there(self._recorder.transcript):
            await self._settled()
            changes = await asyncio.to_thread(read, self._recorder.transcript, self.blobs.home)
            steps, places = changes.steps, changes.places
        targets = []
        for message in self._story.history:
            if (
                message.get("type") == "user"
                and (user_message := UserMessage(message)).face == "typed"
            ):
                if user_message.text.startswith("<bash-stdout>"):
                    continue  # This entry is the output of a shell command line.
                place = places.get(message["uuid"], -1)
                since = {c.path for s in steps if s.since > place for c in s.changes}
                targets.append(
                    RewindTarget(
                        uuid=message["uuid"], text=user_message.text, files_since=len(since)
                    )
                )
        return targets[::-1]

    async def planned(self, message: str, what: What) -> RestorePlan:
        """Plan a rewind to a message, given its UUID or a prefix of it.

        Raise `SessionError` if the message is not found.
        """
        await self._settled()
        path = self._recorder.transcript
        uuid = message if message == START else resolve_message(path, message)
        return await asyncio.to_thread(
            plan,
            path,
            uuid,
            self.blobs,
            files=what != "conversation",
            conversation=what != "files",
        )

    async def where(self, planned: RestorePlan) -> str:
        """Describe the end of the conversation after a rewind by the prompt at that position."""
        if planned.leaf is None or not planned.conversation:
            return "at its beginning"
        to = await asyncio.to_thread(find_prompt_above, planned.path, planned.to)
        if to is not None and to.uuid == planned.to and planned.redo_of is None:
            return f"before {quoted(to.text)}"
        at = await asyncio.to_thread(find_prompt_above, planned.path, planned.leaf)
        return f"at {planned.leaf}" if at is None else f"after the answer to {quoted(at.text)}"

    async def planned_redo(self) -> RestorePlan:
        await self._settled()
        return await asyncio.to_thread(plan_redo, self._recorder.transcript, self.blobs)

    async def _settled(self) -> None:
        """Wait until the transcript is complete. Raise an error if a rewind is not possible now."""
        if self._session.conversation.is_running:
            raise UserError("a turn is running; stop it first")
        if not self._recorder.is_kept:
            raise UserError("can't rewind: this session is not saved to disk")
        await self._session.parts.file_history.settled()
        saved = await self._recorder.durable()
        if saved.troubles or not is_there(self._recorder.transcript):
            why = "; ".join(map(str, saved.troubles)) or "there are no messages yet"
            raise SessionError(f"can't rewind: {why}")

    async def carry_out(self, planned: RestorePlan, *, force: bool = False) -> None:
        """Carry out the entire plan or nothing.

        If the plan includes the conversation, the conversation continues from the new position.
        """
        await carry_out_within(planned, self.blobs, self._append, force=force)
        self._session.parts.file_history.forget()
        if planned.conversation:
            loaded = await asyncio.to_thread(load, self._recorder.transcript)
            self._recorder.resume(loaded)
            self._story.rewind(loaded.messages)
            todos = find_last_todos(loaded.messages)
            self._session.costs.spending.change(TodosSet(todos=todos))
            self._session.tools.take_up(todos)

    async def _append(self, lines: Sequence[Json]) -> None:
        self._recorder.beside(lines)
        saved = await self._recorder.durable()
        for trouble in saved.troubles:
            raise OSError(str(trouble))

    def said_at(self, uuid: str) -> str:
        """Return the user's text in a message, or an empty string if it is not a prompt."""
        for message in self._story.history:
            if message.get("uuid") == uuid and message.get("type") == "user":
                user_message = UserMessage(message)
                return user_message.text if user_message.face == "typed" else ""
        return ""


def quoted(words: str) -> str:
    ellipsis = "…" if len(words) > SHOWN_CHARACTERS else ""
    return f"“{words[:SHOWN_CHARACTERS]}{ellipsis}”"
