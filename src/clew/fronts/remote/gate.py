"""Frames that wait until their entries are in the transcript.

A frame is created as soon as a block is complete, before the block's entry is written. But only
data that is in the transcript may be sent.
"""

from collections import deque

from clew.core.json_object import Json
from clew.fronts.remote.end import BridgeEnd


class FrameGate:
    """The waiting frames of one session, in order."""

    def __init__(self, end: BridgeEnd) -> None:
        self._end = end
        self._held: deque[Json] = deque()
        self._recorded: set[str] = set()
        self._looked_at = 0

    @property
    def is_empty(self) -> bool:
        return not self._held

    def put(self, frame: Json) -> None:
        self._held.append(frame)

    def is_recorded(self, name: str) -> bool:
        """Return whether the transcript had an entry with this ID at the last call of `take`."""
        return name in self._recorded

    def take(self) -> list[Json]:
        """Remove and return the frames before the first one whose entry is not recorded yet."""
        session = self._end.session
        story = session.story
        self._recorded |= {str(entry.get("uuid")) for entry in story.since(self._looked_at)}
        self._looked_at = story.said
        frames: list[Json] = []
        while self._held:
            frame = self._held[0]
            is_entry = frame["type"] in ("assistant", "user") and "agent_id" not in frame
            if is_entry and frame["uuid"] not in self._recorded and session.conversation.is_running:
                break
            frames.append(self._held.popleft())
        return frames

    def keep_recorded(self) -> None:
        """Drop the frames of a turn that is still running; the next connection sends them."""
        self._held = deque(self.take())
