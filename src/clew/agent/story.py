"""The conversation so far, changed in memory and in the transcript in one step.

The history grows only here. New entries are recorded at once, and they are durable once `durable`
has returned; the loop waits for that before it does anything irreversible.
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
from clew.record.transcript.policy import find_block_ids
from clew.record.transcript.record import Recorder


class Story:
    """A conversation and its transcript. `history` is an immutable value."""

    def __init__(
        self, recorder: Recorder, history: History | None = None, edits: Edits = NO_EDITS
    ) -> None:
        self.recorder = recorder
        self.history = history or History()
        # The edits that make requests omit, shorten or pin parts of the history.
        self.edits = edits
        # Increases when the history is replaced instead of extended.
        self.revision = 0
        self._listeners: list[Callable[[History], None]] = []
        # Called after a rewind with the IDs of the messages that left and joined the conversation.
        self.rewind_watchers: list[Callable[[list[str], list[str]], object]] = []
        # The number of entries ever added; it also rises when the history gets shorter.
        self.said = len(self.history)
        self._before: list[History] = []

    def add(self, messages: Sequence[Json]) -> None:
        """Record messages and add them to the conversation."""
        self.recorder.record(messages)
        self._grown(self.history.with_messages(messages))

    def _grown(self, longer: History) -> None:
        self.said += len(longer) - len(self.history)
        self.history = longer

    def since(self, previous_count: int) -> list[Json]:
        """Return the entries that were added since `self.said` was `previous_count`.

        Entries that are no longer in the history are omitted.
        """
        length = len(self.history)
        count = (
            min(self.said - previous_count, length - find_beginning(self.history))
            if self.said > previous_count
            else 0
        )
        return [self.history[place] for place in range(length - count, length)]

    def answer(self, messages: Sequence[Json]) -> None:
        """Add results of open calls, and the entries that go with them, to the conversation.

        A second result for a call is ignored.
        """
        history, joined = self.history, []
        for message in messages:
            is_result = bool(UserMessage(message).tool_results)
            longer = (with_results if is_result else History.with_messages)(history, [message])
            joined += [longer[i] for i in range(len(history), len(longer))]
            history = longer
        self.recorder.record(joined)
        self._grown(history)

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Remove messages from the conversation; the transcript keeps them, marked as withdrawn."""
        gone = list(uuids)
        self.recorder.withdraw(gone)
        self._grown(self.history.without(gone))
        self.revision += 1

    def become(self, messages: Sequence[Json]) -> None:
        """Replace the conversation. The caller must have recorded the change."""
        self.history = History(messages)
        self.revision += 1
        for listener in self._listeners:
            listener(self.history)

    def rewind(self, messages: Sequence[Json]) -> None:
        """Continue from another place, and tell which messages are no longer or again in use."""
        before = list_message_ids(self.history)
        self.become(messages)
        after = list_message_ids(self.history)
        left, joined = set(before) - set(after), set(after) - set(before)
        for tell in self.rewind_watchers:
            tell([i for i in before if i in left], [i for i in after if i in joined])

    def edit(self, edits: Edits) -> None:
        """Set the edits that apply from the next request on; the history does not change."""
        self.recorder.context_edits(edits.as_json())
        self.edits = edits
        self.revision += 1

    @property
    def sent(self) -> list[Json]:
        """The entries that requests are built from."""
        return self.edits.apply(select_visible(list(self.history)))

    def when_another(self, listener: Callable[[History], None]) -> None:
        """Call `listener` with the history each time it is replaced."""
        self._listeners.append(listener)

    def compact(
        self,
        boundary: Json,
        entries: Sequence[Json],
        kept_entries: Sequence[Json],
        *,
        kept_first: bool,
    ) -> None:
        """Replace the conversation with the boundary, the new entries and the kept entries.

        The last of the new entries is the summary. The transcript keeps everything; the
        compaction takes effect with the summary's line.
        """
        self.recorder.record_compaction(list(self.history), boundary, entries)
        if self.edits.edits:
            # A reader of the transcript starts at the boundary, so the edits are repeated there.
            self.recorder.context_edits(self.edits.as_json())
        if not self.recorder.is_kept:
            self._before.append(self.history)
        parts = (kept_entries, entries) if kept_first else (entries, kept_entries)
        self.recorder.closed_before(boundary, kept_entries)
        self.become([boundary, *parts[0], *parts[1]])

    async def uncompact(self) -> str:
        """Undo the last compaction and keep later entries.

        Return the reason on failure, else an empty string.
        """
        history = self.history
        if not len(history) or not is_boundary(history[0]):
            return "this conversation has no compaction to undo"
        answer = await self.durable()
        if answer.troubles:
            return f"the transcript can't be written: {answer.troubles[0]}"
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
        """Return the IDs of the compaction at the beginning of the history, the summary first.

        They are the IDs of the boundary and of the entries that the compaction added.
        """
        kept_ids = find_kept_uuids(self.history[0])
        own = [self.history[place]["uuid"] for place in range(find_beginning(self.history))]
        return [uuid for uuid in reversed(own) if uuid not in kept_ids]

    def holds(self, uuid: str) -> bool:
        """Return whether requests include the message with this ID."""
        entries = self.sent
        target = next((entry for entry in entries if entry.get("uuid") == uuid), None)
        if target is None:
            return False
        gone = find_references(entries)
        return not any(call in gone for call in find_block_ids(target, "tool_use", "id"))

    async def durable(self) -> Saved:
        return await self.recorder.durable()


def list_message_ids(history: History) -> list[str]:
    """Return the IDs of prompts, results and responses."""
    return [str(entry["uuid"]) for entry in history if entry.get("type") in ("user", "assistant")]
