"""What agents of a session say, as frames under the call that began each.

Hosts see which tools an agent uses and what came of them; what it says and thinks only where they
asked for it. Each entry is told once.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from clew.engine.events import BlockSaid, FromAgent, Recorded, ToolFinished
from clew.wire import frames

Json: TypeAlias = dict[str, Any]


class Delegated:
    """`tells_text`: what agents say is told too."""

    def __init__(self, session_id: str, *, tells_text: bool) -> None:
        self._session_id = session_id
        self._tells_text = tells_text
        self._told: set[str] = set()

    def framed(self, said: FromAgent) -> list[Json]:
        match said.event:
            case BlockSaid():
                found = self._entry(said.event.entry, said.tool_use_id)
            case ToolFinished():
                found = self._entry(said.event.entry, said.tool_use_id)
            case Recorded():
                found = self._entries(said.event.entries, said.tool_use_id)
            case _:
                return []
        return [
            frames.of_agent(
                frame, agent_id=said.agent_id, kind=said.kind, description=said.description
            )
            for frame in found
        ]

    def _entries(self, entries: Iterable[Json], parent: str) -> list[Json]:
        return [frame for entry in entries for frame in self._entry(entry, parent)]

    def _entry(self, entry: Json, parent: str) -> list[Json]:
        if entry["uuid"] in self._told:
            return []
        frame = self._frame(entry, parent)
        if frame is None:
            return []
        self._told.add(entry["uuid"])
        return [frame]

    def _frame(self, entry: Json, parent: str) -> Json | None:
        kinds = block_types(entry)
        if entry.get("type") == "assistant" and (self._tells_text or "tool_use" in kinds):
            return frames.assistant(entry, session_id=self._session_id, parent=parent)
        if entry.get("type") == "user" and "tool_result" in kinds:
            return frames.user(entry, session_id=self._session_id, parent=parent)
        return None


def block_types(entry: Json) -> set[str]:
    content = entry.get("message", {}).get("content")
    blocks = content if isinstance(content, list) else []
    return {str(block.get("type")) for block in blocks if isinstance(block, dict)}
