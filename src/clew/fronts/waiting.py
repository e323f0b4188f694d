"""Messages that wait for a session. They are recorded, so that none is lost in a crash.

When a turn receives a message, the transcript contains the message under its UUID. Any other
message waits until it is withdrawn or processed, even across runs.
"""

from typing import Any

from clew.core.json_object import object_of
from clew.record.transcript.agents import Letter, find_unheard
from clew.session.session import Session

# `via` in the origin of a viewer's prompt.
REMOTE = "remote"


class WaitingMessages:
    """The record of a session's waiting messages, including those that the last run left."""

    def __init__(self, session: Session) -> None:
        self._recorder = session.story.recorder
        resumed = session.resumed is not None
        # The messages that waited when the last run ended, oldest first.
        self.left: list[Letter] = self._find_left() if resumed else []
        self._offered = [letter.uuid for letter in self.left]
        self._done: list[str] = []

    def _find_left(self) -> list[Letter]:
        try:
            letters = find_unheard(self._recorder.transcript, self._recorder.paths.home)
        except OSError:
            return []  # a session that exists only in a store or as a copy has no file here
        # A viewer's prompt that no turn received is still at the server, which sends it again.
        return [
            letter
            for letter in letters
            if object_of(letter.about.get("origin")).get("via") != REMOTE
        ]

    def add(self, uuid: str, content: Any) -> None:
        """Record a message, because a message that is shown as waiting must survive a crash."""
        self._recorder.enqueue(uuid, content)
        self._recorder.flush()

    def take_back(self, uuid: str) -> None:
        self._recorder.dequeue(uuid)

    def begin(self, uuid: str) -> None:
        """Note that a message is being processed. `settle` will record that this is done."""
        self._done.append(uuid)

    def answer_offer(self) -> None:
        """Note that the user has sent something after seeing the messages left by the last run.

        `settle` will record those messages as done.
        """
        self._done += self._offered
        self._offered = []

    def settle(self) -> None:
        """Record that the messages that were being processed are done."""
        done, self._done = self._done, []
        for uuid in done:
            self._recorder.dequeue(uuid)
