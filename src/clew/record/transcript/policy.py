"""The rules for recording messages: guards, cleaning, and the keys of a line in the chain.

Decisions are made by tables over the kinds in `clew.core.messages.kinds`, without access to files.
Lines that break a rule of this module are refused when they are created, because readers drop them
silently.

Decision: docs/decisions/010-views-over-dicts.md
"""

from __future__ import annotations

import re

import msgspec

from clew.core.messages.errors import MisuseError
from clew.core.messages.kinds import CHAIN, KINDS, find_faults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

# The leaf of a conversation that was rewound to before its first message.
NOBODY = "00000000-0000-0000-0000-000000000000"

CONVERSATION = frozenset(tag for tag, kind in KINDS.items() if kind.place == CHAIN)


def is_transcript_message(kind: str | None) -> bool:
    """Return whether entries of this kind are part of the conversation.

    No other filter is used when a session is loaded.
    """
    return kind in CONVERSATION


def is_chain_participant(kind: str | None) -> bool:
    """Return whether a new entry may have a parent of this kind.

    Progress and side lines may not be parents: other programs lose the history above a kind they do
    not know.
    """
    return is_transcript_message(kind)


def is_ephemeral_progress(data: dict[str, Any]) -> bool:
    """Return whether an entry only reports a tool's progress; it is shown but never recorded.

    Old files contain some, even inside the chain, where they link to their own parent.
    """
    return data.get("type") == "progress"


# Fields removed from a message before it is recorded, and why. A pointer is removed only if its
# target is no longer in the history.
CLEANED = {
    "display": "display only: how the screen draws the message",
    "progressMessages": "progress data of a running or finished tool",
    "liveHandle": "handle of the running task; useless in another process",
    "isReplay": "a host's internal note",
    "sourceToolAssistantUUID": "refers to a withdrawn message",
}
_POINTERS = frozenset({"sourceToolAssistantUUID"})


def clean_message(message: dict[str, Any], history: Container[str]) -> dict[str, Any]:
    """Return `message` as it is recorded; `history` contains the UUIDs of the live messages."""
    return {
        key: value
        for key, value in message.items()
        if key not in CLEANED or (key in _POINTERS and value in history)
    }


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """The writer of an entry and its location, as recorded in each line of the chain."""

    session_id: str
    cwd: str
    version: str
    git_branch: str = "HEAD"
    entrypoint: str = "cli"
    agent_id: str | None = None
    team_name: str | None = None
    agent_name: str | None = None
    # The project's identifier, for the first line of a session.
    project: str | None = None

    def __post_init__(self) -> None:
        if not re.match(r"\d+\.\d+\.\d", self.version):
            raise MisuseError(
                f"invalid version {self.version!r}: must begin with x.y.z, "
                "or other programs ignore the line"
            )

    def place(self, parent_uuid: str | None) -> dict[str, Any]:
        """Return the keys that a line of the chain has in addition to those of its message."""
        place: dict[str, Any] = {
            "parentUuid": parent_uuid,
            "isSidechain": self.agent_id is not None,
            "userType": "external",
            "entrypoint": self.entrypoint,
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": self.version,
            "gitBranch": self.git_branch,
        }
        for key, value in (
            ("agentId", self.agent_id),
            ("teamName", self.team_name),
            ("agentName", self.agent_name),
        ):
            if value is not None:
                place[key] = value
        return place


def place_message(
    message: dict[str, Any], *, parent_uuid: str | None, writer: Writer
) -> dict[str, Any]:
    """Return a message as a line of the chain after `parent_uuid`, in a form all readers accept.

    A compaction boundary begins a chain, and names the parent as its logical parent.
    """
    kind = message.get("type")
    if not is_chain_participant(kind):
        raise MisuseError(f"{kind!r} can't be part of the chain")
    if problems := find_faults(message):
        raise MisuseError("; ".join(problems))
    if kind == "assistant" and len(message["message"]["content"]) != 1:
        raise MisuseError("a response must be written with one content block per line")
    if message.get("subtype") == "compact_boundary":
        return writer.place(None) | {"logicalParentUuid": parent_uuid} | message
    return writer.place(parent_uuid) | message


def find_block_ids(entry: dict[str, Any], kind: str, key: str) -> list[str]:
    """Return the IDs of an entry's blocks of one type, in order."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return []
    return [
        block[key]
        for block in content
        if isinstance(block, dict) and block.get("type") == kind and isinstance(block.get(key), str)
    ]
