"""What is recorded and how it stands on the chain: the guards, the cleaning, the place of a line.

Decides by tables over the kinds of `clew.core.messages.kinds`; knows nothing of files. Lines that break a
rule of this module are refused where they are made, because readers drop them without a word.

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

CONVERSATION = frozenset(tag for tag, kind in KINDS.items() if kind.place == CHAIN)


def is_transcript_message(kind: str | None) -> bool:
    """Whether entries of this kind are the conversation; the only filter of what is loaded."""
    return kind in CONVERSATION


def is_chain_participant(kind: str | None) -> bool:
    """Whether a new entry may name one of this kind as its parent. Progress may not, and nothing
    off the chain: readers of other programs lose the history above a kind they do not know."""
    return is_transcript_message(kind)


def is_ephemeral_progress(data: dict[str, Any]) -> bool:
    """Whether an entry only says how far a tool is: shown, never recorded. Old files hold some,
    even inside the chain; there it is a bridge to its own parent."""
    return data.get("type") == "progress"


# What is taken out of a message before it is recorded, and why. A pointer is taken out only when
# the history no longer holds what it points at.
CLEANED = {
    "display": "display only: how the screen draws the message",
    "progressMessages": "progress data of a tool that runs or ran",
    "liveHandle": "what reaches the running task; means nothing to the next process",
    "isReplay": "a host's note to itself",
    "sourceToolAssistantUUID": "points at a withdrawn message",
}
_POINTERS = frozenset({"sourceToolAssistantUUID"})


def clean_message(message: dict[str, Any], history: Container[str]) -> dict[str, Any]:
    """`message` as it is recorded; `history` are the uuids of the messages that stand."""
    return {
        key: value
        for key, value in message.items()
        if key not in CLEANED or (key in _POINTERS and value in history)
    }


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes an entry and where; what each line of the chain says about its origin."""

    session_id: str
    cwd: str
    version: str
    git_branch: str = "HEAD"
    entrypoint: str = "cli"
    agent_id: str | None = None
    team_name: str | None = None
    agent_name: str | None = None

    def __post_init__(self) -> None:
        if not re.match(r"\d+\.\d+\.\d", self.version):
            raise MisuseError(f"readers count no line of version {self.version!r}; it begins x.y.z")

    def place(self, parent_uuid: str | None) -> dict[str, Any]:
        """The keys of a line of the chain that are not its message's."""
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
    """A message as a line of the chain behind `parent_uuid`, as every known reader accepts it.

    A compaction's boundary begins a chain of its own and names the parent as its logical one.
    """
    kind = message.get("type")
    if not is_chain_participant(kind):
        raise MisuseError(f"{kind!r} does not stand on the chain")
    if problems := find_faults(message):
        raise MisuseError("; ".join(problems))
    if kind == "assistant" and len(message["message"]["content"]) != 1:
        raise MisuseError("an answer is written one block a line")
    if message.get("subtype") == "compact_boundary":
        return writer.place(None) | {"logicalParentUuid": parent_uuid} | message
    return writer.place(parent_uuid) | message
