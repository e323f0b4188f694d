"""The file changes that a transcript records, and the state of a file at a message. Does no I/O.

The format of the lines is described in docs/using/rewind.md. Changes are in the order of their
lines, because a working folder has one history, whatever the branches of the conversation.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from clew.core.json_object import Json, text_of

# `other` is a socket, a device or the like; `unkept` is a file whose content was not stored.
Kind: TypeAlias = Literal["absent", "file", "link", "folder", "other", "unkept"]


class FileState(Struct, frozen=True, kw_only=True):
    """The state of a path.

    A file's content is identified by `sha256`. For an absent path, `under` is the topmost missing
    folder above it. If the content was not stored, `why` is the reason.
    """

    kind: Kind
    sha256: str = ""
    size: int = 0
    mode: int = 0
    target: str = ""
    under: str = ""
    why: str = ""

    def same(self, other: "FileState") -> bool:
        """Return whether both states have the same kind, content, mode and link target."""
        mine = (self.kind, self.sha256, self.mode, self.target)
        return mine == (other.kind, other.sha256, other.mode, other.target)

    def as_json(self) -> Json:
        match self.kind:
            case "file":
                return {
                    "kind": "file",
                    "sha256": self.sha256,
                    "size": self.size,
                    "mode": self.mode,
                }
            case "folder":
                return {"kind": "folder", "mode": self.mode}
            case "link":
                return {"kind": "link", "target": text_of_path(self.target)}
            case "absent":
                return {"kind": "absent"} | (
                    {"under": text_of_path(self.under)} if self.under else {}
                )
            case _:
                return {"kind": self.kind, "size": self.size, "mode": self.mode, "why": self.why}


ABSENT = FileState(kind="absent")


_VERBS: dict[Kind, str] = {
    "absent": "removed", "file": "restored", "link": "relinked", "folder": "restored",
}  # fmt: skip


class PathChange(Struct, frozen=True, kw_only=True):
    """The states of a path before and after a call."""

    path: str
    before: FileState
    after: FileState

    @property
    def verb(self) -> str:
        """The effect of restoring `after` on the path, as a verb for display."""
        return "recreated" if self.before.kind == "absent" else _VERBS.get(self.after.kind, "lost")

    def as_json(self) -> Json:
        return {
            "path": text_of_path(self.path),
            "before": self.before.as_json(),
            "after": self.after.as_json(),
        }


class Rewind(Struct, frozen=True, kw_only=True):
    """A rewind recorded in a step: its target, and the previous leaf and compaction boundary.

    If there is no compaction, the boundary is None. Lines written by older versions do not
    record it.
    """

    to: str
    leaf: str | None
    conversation: bool
    boundary: str | UnsetType | None = UNSET
    # The offset of the line that a redo reverts.
    redo_of: int | None = None


class ChangeStep(Struct, frozen=True, kw_only=True):
    """A line of changes.

    `at` is the offset of the line. `since` is the offset from which the changes are in effect: that
    of the tool call's result, or that of the line if there is no result.
    """

    at: int
    since: int
    tool_use_id: str
    message_uuid: str
    timestamp: str
    changes: tuple[PathChange, ...]
    more: int = 0
    rewind: Rewind | None = None


def text_of_path(path: str) -> str:
    """Return a path as a JSON string; a name that is not valid UTF-8 is spelled in base64."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "surrogateescape")
        return "base64:" + base64.b64encode(raw).decode()
    return path


def path_of_text(text: str) -> str:
    if not text.startswith("base64:"):
        return text
    try:
        return base64.b64decode(text[7:], validate=True).decode("utf-8", "surrogateescape")
    except binascii.Error:
        return text


def step_of(line: Json, at: int, results: Mapping[tuple[str, str], int]) -> ChangeStep | None:
    """Parse a `file-change` line; None if it is invalid.

    `results` maps a message and a call that it made to the offset of the call's result.
    """
    listed = line.get("changes")
    changes = [_change(c) for c in listed] if type(listed) is list else []
    if any(change is None for change in changes):
        return None
    call, message = text_of(line.get("toolUseId")), text_of(line.get("messageId"))
    return ChangeStep(
        at=at,
        since=results.get((message, call), at),
        tool_use_id=call,
        message_uuid=message,
        timestamp=text_of(line.get("timestamp")),
        changes=tuple(change for change in changes if change is not None),
        more=_number(line.get("more")),
        rewind=_rewind(line.get("rewind")),
    )


def _change(value: Any) -> PathChange | None:
    if type(value) is not dict or type(value.get("path")) is not str:
        return None
    before, after = _state(value.get("before")), _state(value.get("after"))
    if before is None or after is None:
        return None
    return PathChange(path=path_of_text(value["path"]), before=before, after=after)


_KINDS: dict[str, Kind] = {
    "absent": "absent", "file": "file", "link": "link", "folder": "folder", "other": "other",
    "unkept": "unkept",
}  # fmt: skip


def _state(value: Any) -> FileState | None:
    kind = _KINDS.get(text_of(value.get("kind"))) if type(value) is dict else None
    if kind is None:
        return None
    return FileState(
        kind=kind,
        sha256=text_of(value.get("sha256")),
        size=_number(value.get("size")),
        mode=_number(value.get("mode")),
        target=path_of_text(text_of(value.get("target"))),
        under=path_of_text(text_of(value.get("under"))),
        why=text_of(value.get("why")),
    )


def _rewind(value: Any) -> Rewind | None:
    if type(value) is not dict:
        return None
    leaf, redo_of = value.get("leaf"), value.get("redoOf")
    boundary = value.get("boundary", UNSET)
    return Rewind(
        boundary=boundary if isinstance(boundary, str | None) else UNSET,
        to=text_of(value.get("to")),
        leaf=leaf if type(leaf) is str else None,
        conversation=value.get("conversation") is True,
        redo_of=redo_of if type(redo_of) is int else None,
    )


def order_changes(changes: Sequence[PathChange]) -> tuple[list[PathChange], list[PathChange]]:
    """Return the changes that remove a path, innermost first, and those that create one.

    Paths to create are sorted outermost first. A path that changes its kind is in both lists.
    """
    away = [c for c in changes if c.before.kind != "absent" and c.before.kind != c.after.kind]
    writes = [c for c in changes if c.after.kind != "absent"]
    return (
        sorted(away, key=lambda c: (-c.path.count("/"), c.path)),
        sorted(writes, key=lambda c: (c.path.count("/"), c.path)),
    )


def compute_wanted_states(steps: Iterable[ChangeStep], place: int) -> dict[str, FileState]:
    """Return the state at an offset in the transcript, for every path that changed after it."""
    states: dict[str, FileState] = {}
    for step in steps:
        if step.since > place:
            for change in step.changes:
                states.setdefault(change.path, change.before)
    return states


def compute_expected_states(steps: Sequence[ChangeStep]) -> dict[str, tuple[FileState, ...]]:
    """Return the states that each path may have if only clew has changed it.

    The expected state is the one after the last step. If a crash may have interrupted a rewind, the
    previous state is possible too, and so is absence if the kind changed.
    """
    expected_states: dict[str, tuple[FileState, ...]] = {}
    for step in steps:
        for change in step.changes:
            states: tuple[FileState, ...] = (change.after,)
            if step.rewind is not None:
                states += (change.before,)
                if change.before.kind != change.after.kind:
                    states += (ABSENT,)
            expected_states[change.path] = states
    return expected_states


def to_redo(steps: Sequence[ChangeStep]) -> ChangeStep | None:
    """Return the latest rewind that was not undone, or None."""
    undone = {step.rewind.redo_of for step in steps if step.rewind is not None}
    for step in reversed(steps):
        if step.rewind is not None and step.rewind.redo_of is None and step.at not in undone:
            return step
    return None


def _number(value: Any) -> int:
    return value if type(value) is int else 0
