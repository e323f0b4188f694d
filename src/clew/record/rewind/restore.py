"""Rewind files, the conversation or both to a message, and redo.

Nothing is done unless everything can be done. Missing contents, and files that were changed outside
clew, are reported first. The current state is stored before it is replaced, so that every rewind
can be undone.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from clew.core.json_object import Json, list_of
from clew.core.messages import factories
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.core.messages.text import format_count
from clew.record.rewind.changes import (
    ChangeStep,
    FileState,
    PathChange,
    compute_expected_states,
    compute_wanted_states,
    order_changes,
    step_of,
    to_redo,
)
from clew.record.rewind.disk import Blobs, CannotRestoreError, bring_about, read_state, take_away
from clew.record.rewind.others import NO_COPY, OtherHistory, steps_of_others
from clew.record.transcript.entries import encode
from clew.record.transcript.files import OPEN_ELSEWHERE
from clew.record.transcript.load import load
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log
from clew.record.transcript.paths import get_backup_dir
from clew.record.transcript.policy import NOBODY
from clew.record.transcript.source import TranscriptSource
from clew.system.clock import get_timestamp

NO_REWIND = "no rewind to undo"

# The recorded changes in a session's transcript, and the offset of each message. Reads one file.


_CHANGE = b'"type":"file-change"'
_RESULT = b'"tool_use_id"'


class RecordedChanges(Struct, frozen=True, kw_only=True):
    """The file changes in a transcript; `places` maps UUIDs to offsets in the transcript.

    `steps` include the changes that another program recorded in `others`; `copies` are the files
    with the contents that it saved, by hash.
    """

    steps: list[ChangeStep]
    places: dict[str, int]
    kinds: dict[str, str]
    unread: int
    others: OtherHistory
    copies: dict[str, Path]


def tells_of_changes(path: Path) -> bool:
    """Return whether the transcript records any file changes.

    Raise `OSError` if the file is unreadable.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        source = TranscriptSource(fd)
        return source.last_line_with(_CHANGE, source.size) is not None
    finally:
        os.close(fd)


def read(path: Path, home: Path | None = None) -> RecordedChanges:
    """Read the recorded changes of a session. Raise `OSError` only if the file is unreadable.

    Changes that another program recorded are included if `home`, the config home, is given.
    """
    others = OtherHistory()
    changes: list[tuple[int, dict[str, Any]]] = []
    results: dict[tuple[str, str], int] = {}
    places: dict[str, int] = {}
    kinds: dict[str, str] = {}
    unread = 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, at, raw in TranscriptSource(fd).lines(0):
            try:
                entry = decode(raw)
            except ValueError:
                unread += _CHANGE in raw
                continue
            if type(entry) is not dict:
                continue
            others.add(entry, at)
            if entry.get("type") == "file-change":
                changes.append((at, entry))
            elif type(uuid := entry.get("uuid")) is str:
                places.setdefault(uuid, at)
                kinds[uuid] = _kind(entry)
                for call in _answered(entry) if _RESULT in raw else ():
                    results.setdefault((str(entry.get("sourceToolAssistantUUID")), call), at)
    finally:
        os.close(fd)
    steps = [step_of(line, at, results) for at, line in changes]
    valid_steps = [step for step in steps if step is not None]
    unread += len(steps) - len(valid_steps)
    copies: dict[str, Path] = {}
    if home is not None:
        folder = get_backup_dir(home, path.stem)
        found, copies = steps_of_others(others, places, valid_steps, folder)
        valid_steps += found
    return RecordedChanges(
        steps=sorted(valid_steps, key=lambda step: (step.since, step.at)),
        places=places,
        kinds=kinds,
        unread=unread,
        others=others,
        copies=copies,
    )


def resolve_message(path: Path, text: str) -> str:
    """Resolve a message by its UUID or a unique prefix of it."""
    places = read(path).places
    if text in places:
        return text
    matches = [uuid for uuid in places if uuid.startswith(text)] if text else []
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SessionError(
            f"message {text!r} not found; `clew sessions tree {path.stem}` lists the prompts"
        )
    raise SessionError(f"{text!r} is ambiguous: it matches {len(matches)} messages")


def _answered(entry: dict[str, Any]) -> list[str]:
    message = entry.get("message")
    blocks = list_of(message.get("content") if type(message) is dict else None)
    ids = [b.get("tool_use_id") for b in blocks if type(b) is dict]
    return [call for call in ids if type(call) is str]


def _kind(entry: dict[str, Any]) -> str:
    """Return `prompt` for a user's prompt, otherwise the entry's type."""
    if entry.get("type") != "user" or entry.get("isMeta") is True or _answered(entry):
        return str(entry.get("type"))
    return "prompt"


START = "start"


class RestorePlan(Struct, frozen=True, kw_only=True):
    """A planned rewind.

    `foreign` are files that were changed outside clew, and `lost` files whose content is missing,
    each with the reason. If `conversation` is set, `leaf` is the new leaf (None: before the first
    message), and `boundary` is the compaction with which the conversation then begins, if any.
    """

    path: Path
    to: str
    changes: tuple[PathChange, ...]
    foreign: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]
    conversation: bool
    leaf: str | None
    leaf_now: str | None
    boundary: str | UnsetType | None = None
    boundary_now: str | None = None
    redo_of: int | None = None

    @property
    def is_clear(self) -> bool:
        return not self.foreign and not self.lost


def plan(path: Path, uuid: str, blobs: Blobs, *, files: bool, conversation: bool) -> RestorePlan:
    """Plan a rewind to before the message `uuid` if it is a prompt, otherwise to after it.

    If `uuid` is `start`, the session is rewound to its beginning.
    """
    story = read(path, blobs.home)
    loaded = load(path, reads_all=True)
    if uuid == START:
        place, leaf = -1, None
    elif uuid not in story.places:
        raise SessionError(
            f"message {uuid} not found in session {path.stem}; "
            "`clew sessions tree` lists the prompts"
        )
    else:
        place = story.places[uuid]
        leaf = _parent(loaded, uuid) if story.kinds[uuid] == "prompt" else uuid
    if conversation and uuid != START and uuid not in loaded.uuids:
        raise SessionError(
            f"the conversation can't be rewound to message {uuid}, which is not part of it"
        )
    return RestorePlan(
        path=path,
        to=uuid,
        conversation=conversation,
        leaf=leaf,
        leaf_now=loaded.leaf_uuid,
        boundary=loaded.chain.boundary_before(uuid) if uuid in loaded.uuids else None,
        boundary_now=loaded.chain.boundary_uuid,
        **(_files_at(story, place, blobs) if files else _NO_FILES),
    )


def plan_redo(path: Path, blobs: Blobs) -> RestorePlan:
    """Plan to undo the latest rewind."""
    story = read(path, blobs.home)
    step = to_redo(story.steps)
    if step is None or step.rewind is None:
        raise SessionError(f"{path.stem}: {NO_REWIND}")
    wanted = {change.path: change.before for change in step.changes}
    now = load(path, reads_all=True)
    return RestorePlan(
        path=path,
        to=step.rewind.to,
        conversation=step.rewind.conversation,
        leaf=step.rewind.leaf,
        leaf_now=now.leaf_uuid,
        boundary=step.rewind.boundary,
        boundary_now=now.chain.boundary_uuid,
        redo_of=step.at,
        **_files(story, wanted, blobs),
    )


_NO_FILES: Json = {"changes": (), "foreign": (), "lost": ()}


def _files_at(story: RecordedChanges, place: int, blobs: Blobs) -> Json:
    wanted = compute_wanted_states(story.steps, place)
    report = _files(story, wanted, blobs)
    unrecorded = [path for path in story.others.unrecorded(place) if path not in wanted]
    report["lost"] += tuple((path, NO_COPY) for path in unrecorded)
    omitted_count = sum(step.more for step in story.steps if step.since > place)
    if omitted_count:
        report["lost"] += (
            (
                format_count(omitted_count, "more file"),
                "a tool call made too many changes to record",
            ),
        )
    return report


def _files(story: RecordedChanges, wanted: dict[str, FileState], blobs: Blobs) -> Json:
    """Return the changes that give each path its wanted state, and what prevents them."""
    expected = compute_expected_states(story.steps)
    changes: list[PathChange] = []
    foreign: list[tuple[str, str]] = []
    lost: list[tuple[str, str]] = []
    for path, then in sorted(wanted.items()):
        now = read_state(path, blobs)
        if now.same(then):
            continue
        if then.sha256 in story.copies and blobs.get(then.sha256) is None:
            blobs.put(story.copies[then.sha256].read_bytes())
        why = _why_lost(then, blobs)
        if why:
            lost.append((path, why))
            continue
        if now.kind == "other":
            lost.append((path, "it is now something other than a file, link or folder"))
            continue
        if not any(now.same(state) for state in expected.get(path, ())):
            foreign.append((path, "it was changed outside clew"))
        changes.append(PathChange(path=path, before=now, after=then))
    return {"changes": tuple(changes), "foreign": tuple(foreign), "lost": tuple(lost)}


def _why_lost(state: FileState, blobs: Blobs) -> str:
    if state.kind in ("other", "unkept"):
        return state.why or "its content is unknown"
    if state.kind == "file" and blobs.get(state.sha256) is None:
        return "its content is no longer stored"
    return ""


def _parent(loaded: LoadedSession, uuid: str) -> str | None:
    links = loaded.chain.links
    if uuid not in links.index:
        return None
    parent = links.parents[links.index[uuid]]
    return None if parent < 0 else links.nodes[parent].uuid


class NotClearError(SessionError):
    """Some files prevent a rewind; the plan lists these files."""


def carry_out(planned: RestorePlan, blobs: Blobs, *, force: bool = False) -> None:
    """Carry out a plan completely or not at all, as the session's only writer.

    Raise `NotClearError` if some files prevent the rewind, `SessionError` if another process has
    the session open, and `OSError` if a file is not writable. In all three cases nothing has
    changed.
    """
    _must_be_clear(planned, force=force)
    log = Log()
    try:
        if not log.claim(planned.path):
            raise SessionError(f"session {planned.path.stem} {OPEN_ELSEWHERE}; close it first")

        def append(lines: Sequence[Json]) -> None:
            log.append(planned.path, [encode(line) + b"\n" for line in lines])
            for trouble in log.flush().troubles:
                raise OSError(str(trouble))

        # The plan must be durable before the first file changes.
        append([announced(planned)])
        why = done(planned, blobs)
        append(after(planned, why))
        if why:
            raise SessionError(f"nothing was changed: {why}")
    finally:
        log.close()


async def carry_out_within(
    planned: RestorePlan,
    blobs: Blobs,
    append: Callable[[Sequence[Json]], Awaitable[None]],
    *,
    force: bool = False,
) -> None:
    """Carry out a plan in a session that this process has open.

    `append` returns once its lines are durable.
    """
    _must_be_clear(planned, force=force)
    await append([announced(planned)])
    why = await asyncio.to_thread(done, planned, blobs)
    await append(after(planned, why))
    if why:
        raise SessionError(f"nothing was changed: {why}")


def _must_be_clear(planned: RestorePlan, *, force: bool) -> None:
    if not planned.is_clear and not force:
        raise NotClearError("some files prevent the rewind; check them, then use --force")


def done(planned: RestorePlan, blobs: Blobs) -> str:
    """Restore every file or none. Return the error message, or an empty string."""
    try:
        _apply(planned.changes, blobs)
    except (OSError, CannotRestoreError) as error:
        _apply(_back(planned.changes), blobs)
        return str(error)
    return ""


def after(planned: RestorePlan, why: str) -> list[Json]:
    """Return the lines that record the result: the new leaf, or the failure."""
    if why:
        return [_line(planned, [_turned(change) for change in planned.changes], failed=True)]
    target, current = (planned.leaf, planned.boundary), (planned.leaf_now, planned.boundary_now)
    if planned.conversation and target != current:
        return [_marker(planned)]
    return []


def announced(planned: RestorePlan) -> Json:
    return _line(planned, planned.changes)


def _apply(changes: Sequence[PathChange], blobs: Blobs) -> None:
    away, writes = order_changes(changes)
    for change in away:
        take_away(change.path, change.after)
    for change in writes:
        bring_about(change.path, change.after, blobs)


def _back(changes: Sequence[PathChange]) -> list[PathChange]:
    """Return the changes that undo whichever of `changes` were carried out."""
    now = [(change, read_state(change.path, None)) for change in changes]
    return [
        PathChange(path=change.path, before=state, after=change.before)
        for change, state in now
        if not state.same(change.before)
    ]


def _turned(change: PathChange) -> PathChange:
    return PathChange(path=change.path, before=change.after, after=change.before)


def _line(planned: RestorePlan, changes: Sequence[PathChange], *, failed: bool = False) -> Json:
    rewind: Json = {
        "to": planned.to,
        "leaf": planned.leaf_now,
        "boundary": planned.boundary_now,
        "conversation": planned.conversation,
    }
    if planned.redo_of is not None or failed:
        # A failed rewind cannot be undone.
        rewind["redoOf"] = -1 if planned.redo_of is None else planned.redo_of
    return factories.record(
        "file-change",
        session_id=planned.path.stem,
        at=get_timestamp(),
        changes=[change.as_json() for change in changes],
        rewind=rewind,
    )


def _marker(planned: RestorePlan) -> Json:
    fields: Json = {} if planned.boundary is UNSET else {"boundaryUuid": planned.boundary}
    if planned.leaf is None:
        fields["atStart"] = True
    return factories.record(
        "last-prompt",
        session_id=planned.path.stem,
        at=get_timestamp(),
        leafUuid=planned.leaf or NOBODY,
        explicit=True,
        **fields,
    )


def steps_of(path: Path) -> list[ChangeStep]:
    return read(path).steps if tells_of_changes(path) else []
