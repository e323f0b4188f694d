"""The way back: files and conversation to a message, together or one of both, and back again.

Nothing is done unless all of it can be: content that is not kept, and files that somebody else changed
since, are said first. What stands now is kept before it is replaced, so that every way back has a redo.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from clew.core.json_object import Json, list_of
from clew.core.messages import factories
from clew.core.messages.encoding import decode
from clew.core.messages.errors import SessionError
from clew.core.messages.factories import format_timestamp
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
from clew.record.transcript.entries import encode
from clew.record.transcript.leaf import NOBODY
from clew.record.transcript.load import LoadedSession, load
from clew.record.transcript.log import Log
from clew.record.transcript.source import TranscriptSource

# The steps that a session's log tells of, and where in it each message stands. Reads one file.


_CHANGE = b'"type":"file-change"'
_RESULT = b'"tool_use_id"'


class RecordedChanges(Struct, frozen=True, kw_only=True):
    """`places` are where entries stand in the file, by uuid."""

    steps: list[ChangeStep]
    places: dict[str, int]
    kinds: dict[str, str]
    unread: int


def tells_of_changes(path: Path) -> bool:
    """Whether there are steps at all; raises `OSError` only if the file cannot be read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        source = TranscriptSource(fd)
        return source.last_line_with(_CHANGE, source.size) is not None
    finally:
        os.close(fd)


def read(path: Path) -> RecordedChanges:
    """Raises `OSError` only if the file cannot be read."""
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
    return RecordedChanges(
        steps=sorted(valid_steps, key=lambda step: (step.since, step.at)),
        places=places,
        kinds=kinds,
        unread=unread + len(steps) - len(valid_steps),
    )


def resolve_message(path: Path, text: str) -> str:
    """The message that a person means: its uuid, or its beginning if only one begins so."""
    places = read(path).places
    if text in places:
        return text
    matches = [uuid for uuid in places if uuid.startswith(text)] if text else []
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise SessionError(f"no message {text!r}; `clew sessions tree {path.stem}` shows them")
    raise SessionError(f"{len(matches)} messages begin with {text!r}")


def _answered(entry: dict[str, Any]) -> list[str]:
    message = entry.get("message")
    blocks = list_of(message.get("content") if type(message) is dict else None)
    ids = [b.get("tool_use_id") for b in blocks if type(b) is dict]
    return [call for call in ids if type(call) is str]


def _kind(entry: dict[str, Any]) -> str:
    """`prompt` for what a person said; else the entry's type."""
    if entry.get("type") != "user" or entry.get("isMeta") is True or _answered(entry):
        return str(entry.get("type"))
    return "prompt"


START = "start"


class RestorePlan(Struct, frozen=True, kw_only=True):
    """What a way back would do. `foreign` are files somebody else changed since, `lost` those whose
    content nobody has, each with the reason; `leaf` is where the conversation would stand (None:
    before its first message), if `conversation` says that it moves, and `boundary` the compaction it
    would begin with (None: with none)."""

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
    """To the message `uuid`: before it if a person said it, else behind it. `start`: to nothing."""
    story = read(path)
    loaded = load(path, reads_all=True)
    if uuid == START:
        place, leaf = -1, None
    elif uuid not in story.places:
        raise SessionError(f"no message {uuid} in {path.stem}; `clew sessions tree` shows them")
    else:
        place = story.places[uuid]
        leaf = _parent(loaded, uuid) if story.kinds[uuid] == "prompt" else uuid
    if conversation and uuid != START and uuid not in loaded.uuids:
        raise SessionError(f"the conversation cannot stand at {uuid}: it is no part of it")
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
    """Takes the latest way back, back."""
    story = read(path)
    step = to_redo(story.steps)
    if step is None or step.rewind is None:
        raise SessionError(f"{path.stem}: there is no way back to take back")
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
    report = _files(story, compute_wanted_states(story.steps, place), blobs)
    omitted_count = sum(step.more for step in story.steps if step.since > place)
    if omitted_count:
        report["lost"] += (
            (format_count(omitted_count, "more file"), "one call changed too many to be recorded"),
        )
    return report


def _files(story: RecordedChanges, wanted: dict[str, FileState], blobs: Blobs) -> Json:
    """What is to be changed so that each path is what is wanted, and what stands against it."""
    expected = compute_expected_states(story.steps)
    changes: list[PathChange] = []
    foreign: list[tuple[str, str]] = []
    lost: list[tuple[str, str]] = []
    for path, then in sorted(wanted.items()):
        now = read_state(path, blobs)
        if now.same(then):
            continue
        why = _why_lost(then, blobs)
        if why:
            lost.append((path, why))
            continue
        if now.kind == "other":
            lost.append((path, "what stands there now is no file, link or folder"))
            continue
        if not any(now.same(state) for state in expected.get(path, ())):
            foreign.append((path, "it was changed since, by somebody else"))
        changes.append(PathChange(path=path, before=now, after=then))
    return {"changes": tuple(changes), "foreign": tuple(foreign), "lost": tuple(lost)}


def _why_lost(state: FileState, blobs: Blobs) -> str:
    if state.kind in ("other", "unkept"):
        return state.why or "its content is not known"
    if state.kind == "file" and blobs.get(state.sha256) is None:
        return "its content is not kept any more"
    return ""


def _parent(loaded: LoadedSession, uuid: str) -> str | None:
    links = loaded.chain.links
    if uuid not in links.index:
        return None
    parent = links.parents[links.index[uuid]]
    return None if parent < 0 else links.nodes[parent].uuid


class NotClearError(SessionError):
    """Something stands against it; the plan says what."""


def carry_out(planned: RestorePlan, blobs: Blobs, *, force: bool = False) -> None:
    """Does all of it or nothing, as the session's only writer.

    Raises `NotClearError`, `SessionError` if another process has the session open, and `OSError` if
    a file cannot be written; then everything is as it was.
    """
    _must_be_clear(planned, force=force)
    log = Log()
    try:
        if not log.claim(planned.path):
            raise SessionError(
                f"session {planned.path.stem} is open in another process; end it first"
            )

        def append(lines: Sequence[Json]) -> None:
            log.append(planned.path, [encode(line) + b"\n" for line in lines])
            for trouble in log.flush().troubles:
                raise OSError(str(trouble))

        # What is to be done is durable before the first file changes.
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
    """The same for a session that is open here: `append` is durable when it answered."""
    _must_be_clear(planned, force=force)
    await append([announced(planned)])
    why = await asyncio.to_thread(done, planned, blobs)
    await append(after(planned, why))
    if why:
        raise SessionError(f"nothing was changed: {why}")


def _must_be_clear(planned: RestorePlan, *, force: bool) -> None:
    if not planned.is_clear and not force:
        raise NotClearError("files stand against it; look, then --force")


def done(planned: RestorePlan, blobs: Blobs) -> str:
    """Brings every file about, or none; why it could not, or nothing."""
    try:
        _apply(planned.changes, blobs)
    except (OSError, CannotRestoreError) as error:
        _apply(_back(planned.changes), blobs)
        return str(error)
    return ""


def after(planned: RestorePlan, why: str) -> list[Json]:
    """What the log says when the files are brought about, or when it failed."""
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
    """What it takes for each path to be what it was before."""
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
        # One that failed is no step to take back.
        rewind["redoOf"] = -1 if planned.redo_of is None else planned.redo_of
    return factories.record(
        "file-change",
        session_id=planned.path.stem,
        at=format_timestamp(time.time_ns() // 1_000_000),
        changes=[change.as_json() for change in changes],
        rewind=rewind,
    )


def _marker(planned: RestorePlan) -> Json:
    fields = {} if planned.boundary is UNSET else {"boundaryUuid": planned.boundary}
    return factories.record(
        "last-prompt",
        session_id=planned.path.stem,
        at=format_timestamp(time.time_ns() // 1_000_000),
        leafUuid=planned.leaf or NOBODY,
        explicit=True,
        **fields,
    )


def steps_of(path: Path) -> list[ChangeStep]:
    return read(path).steps if tells_of_changes(path) else []
