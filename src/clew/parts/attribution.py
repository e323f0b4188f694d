"""Record who wrote the lines that a session changes, and state the shares in commit messages.

The state is read from the transcript when it is first needed, so a resumed session continues its
counts. Lines that git restores have no author. Changes between two calls are attributed to others.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from clew.agent.context.output_styles import SHARE, cut_share
from clew.agent.toolset import CallChanges
from clew.core.json_object import Json
from clew.core.messages.encoding import decode_object
from clew.record.rewind.authorship import (
    OTHERS,
    Authorship,
    LineEdit,
    compare_lines,
    encode_file,
)
from clew.record.rewind.changes import PathChange, path_of_text, text_of_path
from clew.record.rewind.disk import Blobs, read_state
from clew.record.transcript.record import Recorder
from clew.record.transcript.source import open_source

SNAPSHOT = b'"type":"attribution-snapshot"'
# The maximum number of files changed by one call whose lines are compared.
FILES_MAX = 300


class Attribution:
    """The authors of lines in a session.

    The argument `credit` is the text at the end of commit messages. The share of lines is inserted
    into it.
    """

    def __init__(self, recorder: Recorder, make_blobs: Callable[[], Blobs], credit: str) -> None:
        self._recorder = recorder
        self._make_blobs = make_blobs
        self._credit = next((line for line in credit.splitlines() if SHARE in line), "")
        self._authors: Authorship | None = None
        self._one = asyncio.Lock()

    async def note(self, call: CallChanges) -> None:
        """Record the authors of what a call changed, and the lines that it committed."""
        async with self._one:
            authors = await self._open()
            files = await asyncio.to_thread(self._follow, authors, call)
            fields: Json = {}
            if call.commits:
                files |= await asyncio.to_thread(self._catch_up, authors)
                total = authors.total()
                authors.ship()
                fields["commit"] = {"agentLines": total.agent, "otherLines": total.others}
            if files or fields:
                self._record(call.message_uuid, files, **fields)

    async def credit(self, command: str, message_uuid: str) -> str:
        """Return a command with the agent's share of lines inserted into its credit text.

        Return the command unchanged if it does not contain the credit text or the agent wrote no
        lines.
        """
        text = cut_share(self._credit).strip()
        if not text or text not in command:
            return command
        async with self._one:
            authors = await self._open()
            files = await asyncio.to_thread(self._catch_up, authors)
            if files:
                self._record(message_uuid, files)
            total = authors.total()
        if not total.agent:
            return command
        share = f"{100 * total.agent / (total.agent + total.others):.0f}%"
        before, _, after = command.rpartition(text)
        return f"{before}{self._credit.strip().replace(SHARE, share)}{after}"

    def _record(self, message_uuid: str, files: Json, **fields: Any) -> None:
        surface = self._recorder.writer.entrypoint
        self._recorder.attribution_snapshot(message_uuid, files, surface=surface, **fields)

    async def _open(self) -> Authorship:
        if self._authors is None:
            await self._recorder.durable()
            self._blobs = self._make_blobs()
            self._authors = await asyncio.to_thread(self._read)
        return self._authors

    def _read(self) -> Authorship:
        authors = Authorship()
        try:
            with open_source(self._recorder.transcript) as source:
                for _, _, raw in source.lines(0):
                    entry = decode_object(raw) if SNAPSHOT in raw else {}
                    if entry.get("type") == "attribution-snapshot":
                        authors.read(entry)
        except OSError:
            return authors  # A session that is not saved, or whose lines wait for a full disk.
        return authors

    def _follow(self, authors: Authorship, call: CallChanges) -> Json:
        """Apply the changes of a call to the authorship. Return the new states of the files."""
        gone = {
            change.before.sha256: text_of_path(change.path)
            for change in call.changes
            if change.before.kind == "file" and change.after.kind == "absent"
        }
        files: Json = {}
        for change in call.changes[:FILES_MAX]:
            path = text_of_path(change.path)
            if path not in authors.contents and (change.after.kind != "file" or not call.writes):
                continue
            if change.after.kind != "file":
                authors.remove(path)
                files[path] = encode_file("", (), authors.count(path))
            elif not change.before.same(change.after):
                author = call.tool_use_id if call.writes else ""
                edits = self._edits(authors, path, change, author, gone)
                self._apply(authors, path, change.after.sha256, edits, files)
        return files

    def _edits(
        self,
        authors: Authorship,
        path: str,
        change: PathChange,
        author: str,
        gone: dict[str, str],
    ) -> list[LineEdit]:
        """Return the edits that led to a file's new content; an empty list if they are unknown."""
        before = change.before.sha256 if change.before.kind == "file" else ""
        after = change.after.sha256
        if not before and after in gone:
            return [LineEdit(author="", before=after, after=after, hunks=(), source=gone[after])]
        is_back = not author and authors.knows(path, after)
        if is_back or change.before.kind not in ("file", "absent"):
            return []
        others = self._of_others(authors, path, before)
        own = self._edit(author, before, after)
        return [] if own is None else [*others, own]

    def _of_others(self, authors: Authorship, path: str, content: str) -> list[LineEdit]:
        """Return the edits that others made since the file's last known content."""
        newest = authors.newest.get(path)
        if newest is None or newest == content or authors.knows(path, content):
            return []
        edit = self._edit(OTHERS, newest, content)
        return [] if edit is None else [edit]

    def _edit(self, author: str, before: str, after: str) -> LineEdit | None:
        contents = [self._blobs.get(name) if name else b"" for name in (before, after)]
        if contents[0] is None or contents[1] is None:
            return None
        hunks = compare_lines(contents[0], contents[1])
        if hunks is None:
            return None
        return LineEdit(author=author, before=before, after=after, hunks=hunks)

    def _apply(
        self, authors: Authorship, path: str, content: str, edits: list[LineEdit], files: Json
    ) -> None:
        for edit in edits:
            authors.edit(path, edit)
        if not edits:
            authors.see(path, content)
        files[path] = encode_file(content, edits, authors.count(path))

    def _catch_up(self, authors: Authorship) -> Json:
        """Look for changes by others in the files in which calls wrote lines.

        Return the new states of the changed files.
        """
        files: Json = {}
        for path in [path for path in authors.newest if authors.count(path).agent]:
            state = read_state(path_of_text(path), self._blobs)
            if state.kind != "file":
                authors.remove(path)
                files[path] = encode_file("", (), authors.count(path))
            elif state.sha256 != authors.newest[path]:
                edits = self._of_others(authors, path, state.sha256)
                self._apply(authors, path, state.sha256, edits, files)
        return files
