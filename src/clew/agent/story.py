"""The conversation so far, in memory and in the log, changed in one step.

The one place where a history grows. What joins it is recorded at once and durable when `durable`
answered; the loop asks for that before anything that cannot be taken back.
"""

from collections.abc import Callable, Iterable, Sequence

from clew.core.json_object import Json
from clew.core.messages.history import History, with_results
from clew.core.messages.messages import UserMessage
from clew.core.normalize.select import (
    NO_EDITS,
    Edits,
    find_beginning,
    find_kept_uuids,
    find_references,
    is_boundary,
    select_visible,
)
from clew.record.transcript.log import Saved
from clew.record.transcript.record import Recorder
from clew.record.transcript.siblings import find_block_ids


class Story:
    """`history` is a value: whoever took it keeps what they took."""

    def __init__(
        self, recorder: Recorder, history: History | None = None, edits: Edits = NO_EDITS
    ) -> None:
        self.recorder = recorder
        self.history = history or History()
        # What requests leave out of the history, put short, or hold fast.
        self.edits = edits
        # Rises when the history becomes another one than the old one and more.
        self.revision = 0
        self._listeners: list[Callable[[History], None]] = []
        # How many entries were ever said; rises also where the history becomes shorter.
        self.said = len(self.history)
        self._before: list[History] = []

    def add(self, messages: Sequence[Json]) -> None:
        """Records messages and makes them part of the conversation."""
        self.recorder.record(messages)
        self._grown(self.history.with_messages(messages))

    def _grown(self, longer: History) -> None:
        self.said += len(longer) - len(self.history)
        self.history = longer

    def since(self, previous_count: int) -> list[Json]:
        """What was said since `self.said` was so much, as far as it stands in the conversation."""
        length = len(self.history)
        count = (
            min(self.said - previous_count, length - find_beginning(self.history))
            if self.said > previous_count
            else 0
        )
        return [self.history[place] for place in range(length - count, length)]

    def answer(self, messages: Sequence[Json]) -> None:
        """Results join the conversation in which their calls wait, and what stands beside them; a
        second result for a call does not."""
        history, joined = self.history, []
        for message in messages:
            is_result = bool(UserMessage(message).tool_results)
            longer = (with_results if is_result else History.with_messages)(history, [message])
            joined += [longer[i] for i in range(len(history), len(longer))]
            history = longer
        self.recorder.record(joined)
        self._grown(history)

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Takes messages out again; the log keeps them, marked."""
        gone = list(uuids)
        self.recorder.withdraw(gone)
        self._grown(self.history.without(gone))
        self.revision += 1

    def become(self, messages: Sequence[Json]) -> None:
        """Another conversation from here on; whoever records it has done so."""
        self.history = History(messages)
        self.revision += 1
        for listener in self._listeners:
            listener(self.history)

    def edit(self, edits: Edits) -> None:
        """Other edits from the next request on; the history stays as it is."""
        self.recorder.context_edits(edits.as_json())
        self.edits = edits
        self.revision += 1

    @property
    def sent(self) -> list[Json]:
        """The entries that requests are built from."""
        return self.edits.apply(select_visible(list(self.history)))

    def when_another(self, listener: Callable[[History], None]) -> None:
        """Tells `listener` the history each time it has become another one."""
        self._listeners.append(listener)

    def compact(
        self,
        boundary: Json,
        entries: Sequence[Json],
        kept_entries: Sequence[Json],
        *,
        kept_first: bool,
    ) -> None:
        """Begins the conversation anew: behind the boundary what is told, the summary last, and what
        is kept word for word. The log keeps everything; the summary's line makes it count."""
        self.recorder.record_compaction(list(self.history), boundary, entries)
        if self.edits.edits:
            # A reader begins at the boundary.
            self.recorder.context_edits(self.edits.as_json())
        if not self.recorder.is_kept:
            self._before.append(self.history)
        parts = (kept_entries, entries) if kept_first else (entries, kept_entries)
        self.recorder.closed_before(boundary, kept_entries)
        self.become([boundary, *parts[0], *parts[1]])

    async def uncompact(self) -> str:
        """Takes the last compaction back; what was said since stays. Says why where it cannot."""
        history = self.history
        if not len(history) or not is_boundary(history[0]):
            return "nothing was summarised in this conversation"
        answer = await self.durable()
        if answer.troubles:
            return f"not while the log cannot be written: {answer.troubles[0]}"
        own = self._own()
        later = [history[place] for place in range(find_beginning(history), len(history))]
        self.recorder.withdraw(own)
        if self.recorder.is_kept:
            await self.durable()
            self.become(self.recorder.read_again())
        else:
            self.become([*self._before.pop(), *later])
        return ""

    def _own(self) -> list[str]:
        """The boundary that the history begins with, and what came with it: the summary first."""
        kept_ids = find_kept_uuids(self.history[0])
        own = [self.history[place]["uuid"] for place in range(find_beginning(self.history))]
        return [uuid for uuid in reversed(own) if uuid not in kept_ids]

    def holds(self, uuid: str) -> bool:
        """Whether a message is among those that the model is sent."""
        entries = self.sent
        target = next((entry for entry in entries if entry.get("uuid") == uuid), None)
        if target is None:
            return False
        gone = find_references(entries)
        return not any(call in gone for call in find_block_ids(target, "tool_use", "id"))

    async def durable(self) -> Saved:
        return await self.recorder.durable()
