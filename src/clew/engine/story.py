"""The conversation so far, in memory and in the log, changed in one step.

The one place where a history grows. What joins it is recorded at once and durable when `durable`
answered; the loop asks for that before anything that cannot be taken back.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from clew.messages.changes import with_results
from clew.messages.history import History
from clew.messages.messages import User
from clew.normalize.select import visible
from clew.transcript.log import Saved
from clew.transcript.record import Recorder

Json: TypeAlias = dict[str, Any]


class Story:
    """`history` is a value: whoever took it keeps what they took."""

    def __init__(self, recorder: Recorder, history: History | None = None) -> None:
        self.recorder = recorder
        self.history = history or History()
        # Rises when the history becomes another one than the old one and more.
        self.revision = 0
        self._listeners: list[Callable[[History], None]] = []

    def add(self, messages: Sequence[Json]) -> None:
        """Records messages and makes them part of the conversation."""
        self.recorder.record(messages)
        self.history = self.history.with_messages(messages)

    def answer(self, messages: Sequence[Json]) -> None:
        """Results join the conversation in which their calls wait, and what stands beside them; a
        second result for a call does not."""
        history, joined = self.history, []
        for message in messages:
            is_result = bool(User(message).tool_results)
            longer = (with_results if is_result else History.with_messages)(history, [message])
            joined += [longer[i] for i in range(len(history), len(longer))]
            history = longer
        self.recorder.record(joined)
        self.history = history

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Takes messages out again; the log keeps them, marked."""
        gone = list(uuids)
        self.recorder.withdraw(gone)
        self.history = self.history.without(gone)
        self.revision += 1

    def become(self, messages: Sequence[Json]) -> None:
        """Another conversation from here on; whoever records it has done so."""
        self.history = History(messages)
        self.revision += 1
        for listener in self._listeners:
            listener(self.history)

    def when_another(self, listener: Callable[[History], None]) -> None:
        """Tells `listener` the history each time it has become another one."""
        self._listeners.append(listener)

    def holds(self, uuid: str) -> bool:
        """Whether a message is among those that the model is sent."""
        return any(entry.get("uuid") == uuid for entry in visible(list(self.history)))

    async def durable(self) -> Saved:
        return await self.recorder.durable()
