"""Stored sessions as objects: read, check, repair, fork, extend, search and export them.

No model is used. A change fails with `SessionError` while a process has the session open. Unless
`home` is passed, the process's environment determines where sessions are stored, as for `clew`.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import NoneType
from typing import Literal, TypeAlias, get_args
from uuid import uuid4

from clew.agent.deferred_calls import find_call, find_deferred
from clew.core.catalog.lookup import CATALOG
from clew.core.json_object import Json, object_of
from clew.core.ledger.ledger import Ledger
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import SessionError
from clew.core.messages.history import History
from clew.core.messages.messages import UserMessage
from clew.fronts.sdk.messages import Message, ToolUse, block, read_entry
from clew.fronts.sdk.option_checks import check_choice, check_label, expect
from clew.fronts.sdk.sessions import Folder, Named, find_home, found, list_sessions, place
from clew.record.exchange.bring import bring
from clew.record.exchange.continuation import append_messages, go_back
from clew.record.exchange.export import (
    FORMATS,
    export_session,
    list_agent_files,
    messages_of,
    redaction_of,
)
from clew.record.exchange.formats.conversion import describe_losses
from clew.record.library.branches import SessionTree, read_tree
from clew.record.library.copies import append_beside, fork, graft
from clew.record.library.costs import gather
from clew.record.library.keeping import remove, size_session
from clew.record.library.search import Scope, SearchHit, search
from clew.record.library.words import query_of
from clew.record.transcript.check import BrokenRule
from clew.record.transcript.examine import examine, session_id_of
from clew.record.transcript.light import is_uuid, read_outline
from clew.record.transcript.paths import get_own_dir, home_of
from clew.record.transcript.repair import HeldError, WouldLoseError, carry_out, plan
from clew.system.clock import get_timestamp

# Where to begin: at the last compaction, as the model sees it, or at the session's first message.
Since: TypeAlias = Literal["compaction", "beginning"]
Form: TypeAlias = Literal["markdown", "html", "json", "jsonl"]
MOST_HITS = 50


class StoredSession:
    """A session, or the transcript of one of its subagents. Use `open` or `create` to get one.

    Fields:
        path: The transcript.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Session({str(self.path)!r})"

    @staticmethod
    def open(
        session: Named | bytes, *, cwd: Folder | None = None, home: Folder | None = None
    ) -> "StoredSession":
        """Open a session by ID, title, file, item of `list_sessions`, or its transcript as bytes.

        Bytes are written to a temporary file, which is deleted with the object.
        """
        if isinstance(session, bytes):
            return _open_bytes(session)
        return StoredSession(found(session, cwd, home))

    @staticmethod
    def create(
        messages: Sequence[Json],
        *,
        session_id: str | None = None,
        title: str = "",
        cwd: Folder | None = None,
        home: Folder | None = None,
    ) -> "StoredSession":
        """Create a session from messages of the Messages API (`role` and `content`).

        If `session_id` is not given, the session gets a new ID. Raise `ValueError` if a message is
        invalid.
        """
        if session_id is not None and not is_uuid(session_id):
            raise ValueError(f"session_id: expected a UUID, got {session_id!r}")
        check_label("title", title)
        folder = place(cwd)
        _check_messages(messages, folder)
        return _bring(find_home(home), messages, folder, title, session_id)

    # -- reading

    @property
    def id(self) -> str:
        """The session's ID. For a subagent's transcript, the ID of the session it belongs to."""
        return session_id_of(self.path)

    @property
    def agent_id(self) -> str:
        """The subagent's ID; empty for a session."""
        return "" if is_uuid(self.path.stem) else self.path.stem.removeprefix("agent-")

    @property
    def title(self) -> str:
        """The title: set by the user, generated, or else the first prompt."""
        outline = read_outline(self.path)
        return outline.title if outline else ""

    def entries(self, since: Since = "compaction") -> list[Json]:
        """Return the entries of the conversation as they are stored."""
        check_choice("since", since, get_args(Since))
        return messages_of(self.path, is_all=since == "beginning")

    def messages(self, since: Since = "compaction") -> list[Message]:
        """Return the conversation as the types that a running session yields."""
        return [read_entry(entry) for entry in self.entries(since)]

    def agents(self) -> "list[StoredSession]":
        """Return the transcripts of the session's subagents."""
        return [StoredSession(path) for path in list_agent_files(self.path)]

    def deferred_calls(self) -> list[ToolUse]:
        """Return the calls waiting for approval, which is requested again with the next prompt."""
        history = History(self.entries())
        found = [
            find_call(history, result.tool_use_id)
            for entry in find_deferred(history)
            for result in UserMessage(entry).tool_results
        ]
        blocks = [block(pair[0]) for pair in found if pair is not None]
        return [call for call in blocks if isinstance(call, ToolUse)]

    def ledger(self) -> Ledger:
        """Return the costs of all responses, including compacted history and subagents."""
        return gather([self.path], CATALOG).sessions[0].ledger

    def tree(self) -> SessionTree:
        """Return the prompts of all branches, the session's origin and its forks."""
        return read_tree(self.path)

    def search(self, words: str, *, limit: int = MOST_HITS) -> list[SearchHit]:
        """Return the entries that contain all words, newest first, including subagents'."""
        expect("words", words, (str,), "str")
        expect("limit", limit, (int,), "int")
        if limit < 1:
            raise ValueError(f"limit: must be at least 1, got {limit}")
        scope, query = Scope(session_id=self.id), query_of(words)
        home = home_of(self._saved())
        return search(home, query, scope, limit=limit, use_index=False).hits

    def export(
        self,
        form: Form = "markdown",
        *,
        since: Since = "compaction",
        subagents: bool = True,
        masks: Literal["secrets", "personal", "nothing"] = "secrets",
    ) -> bytes:
        """Return the session in another format. Secrets are masked unless `masks` is "nothing"."""
        check_choice("form", form, FORMATS)
        expect("subagents", subagents, (bool,), "bool")
        check_choice("since", since, get_args(Since))
        check_choice("masks", masks, ("secrets", "personal", "nothing"))
        redaction = redaction_of(redacts=masks == "personal", is_raw=masks == "nothing")
        is_all = since == "beginning"
        return export_session(self.path, form, redaction, subagents=subagents, is_all=is_all)

    def check(self) -> list[BrokenRule]:
        """Return the problems of the file; empty if there are none."""
        return examine(self.path).problems

    # -- changing

    def repair(self) -> "StoredSession":
        """Repair the session, and return it or its repaired copy. No data in the file is lost."""
        path = self._saved()
        try:
            done = carry_out(plan(path), get_own_dir(home_of(path)) / "backups")
        except (HeldError, WouldLoseError) as error:
            raise SessionError(str(error)) from error
        return StoredSession(done.plan.target)

    def fork(self, until: str | None = None, *, title: str = "") -> "StoredSession":
        """Fork the session up to the message `until`, or to its end."""
        return StoredSession(fork(self._saved(), until, title=title, at=get_timestamp()).path)

    def append(self, messages: Sequence[Json]) -> None:
        """Append messages of the Messages API.

        Raise `ValueError` if one is invalid, such as a result without its call.
        """
        append_messages(self._saved(), messages, get_timestamp)

    def rewind(self, uuid: str | None) -> None:
        """Rewind to a message; None means the start. Later messages stay in the file."""
        go_back(self._saved(), uuid, get_timestamp)

    def graft(self, other: "StoredSession", first: str, last: str | None = None) -> None:
        """Append messages from another session: the prompt `first` through the message `last`."""
        expect("other", other, (StoredSession,), "clew.Session")
        graft(self._saved(), other.path, first, last)

    def rename(self, title: str) -> None:
        """Set the title. An empty title removes it."""
        check_label("title", title)
        line = {"type": "custom-title", "customTitle": title, "sessionId": self.id}
        append_beside(self._saved(), line)

    def tag(self, tag: str) -> None:
        """Set the tag. An empty tag removes it."""
        check_label("tag", tag)
        append_beside(self._saved(), {"type": "tag", "tag": tag, "sessionId": self.id})

    def delete(self) -> None:
        """Delete the session with its subagents and file copies."""
        path = self._saved()
        remove(home_of(path), size_session(path))

    def _saved(self) -> Path:
        """Return the path of the transcript.

        Raise `SessionError` for a subagent's transcript, which can't be changed on its own.
        """
        if self.agent_id:
            raise SessionError(f"{self.path}: can't change the transcript of a subagent on its own")
        return self.path


Session: TypeAlias = StoredSession


def sessions(
    cwd: Folder | None = None,
    *,
    everywhere: bool = False,
    since: datetime | None = None,
    home: Folder | None = None,
) -> Iterator[StoredSession]:
    """Yield the sessions of a folder, or of all folders if `everywhere`, newest first.

    If `since` is given, yield only sessions that were changed at that time or later.
    """
    expect("since", since, (datetime, NoneType), "datetime")
    for outline in list_sessions(cwd, everywhere=everywhere, home=home):
        if since is None or outline.modified_at >= since.timestamp():
            yield StoredSession(outline.path)


def _open_bytes(data: bytes) -> StoredSession:
    name = next(filter(is_uuid, map(_session_id, data.split(b"\n"))), None) or str(uuid4())
    home = tempfile.mkdtemp(prefix="clew-")
    path = Path(home, "projects", "bytes", f"{name.lower()}.jsonl")
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    session = StoredSession(path)
    weakref.finalize(session, shutil.rmtree, home, ignore_errors=True)
    return session


def _session_id(line: bytes) -> str:
    try:
        entry = decode(line)
    except ValueError:
        return ""
    value = entry.get("sessionId") if isinstance(entry, dict) else None
    return value if isinstance(value, str) else ""


def _check_messages(messages: Sequence[Json], cwd: str) -> None:
    """Raise `ValueError` for a message that can't be imported, before anything is written."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        _bring(Path(folder), messages, cwd, "")


def _bring(
    home: Path, messages: Sequence[Json], cwd: str, title: str, session_id: str | None = None
) -> StoredSession:
    # The ID makes the entries' own IDs different each time that the same messages are imported.
    state = {"title": title, "sessionId": session_id or str(uuid4())}
    times = {"timestamp": get_timestamp()}
    document = {
        "id": str(uuid4()),
        "state": state,
        "messages": [times | object_of(message) for message in messages],
    }
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        source = Path(folder, "messages.json")
        source.write_bytes(encode(document))
        try:
            imported = bring(
                home, source, os.fspath(cwd), now=get_timestamp, has_new_id=session_id is None
            )
        except SessionError as error:
            raise ValueError(f"messages: {error}") from error
    if imported.losses:
        raise ValueError(
            f"messages: some parts cannot be imported: {describe_losses(imported.losses)}"
        )
    return StoredSession(imported.path)
