"""The recorder: decides what is written of a conversation, to which file and with which parent.

Each message is recorded once, after its parent. A tool call is written before it runs, and moved to
its place in the chain later. Each kind of line outside the conversation has its own method. Encoded
lines are passed to the log without waiting; callers wait for durability with `durable`. The format
and the guarantees are in docs/internals/transcript.md.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from clew.core.json_object import text_of
from clew.core.messages import factories
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import MisuseError
from clew.record.transcript import light
from clew.record.transcript.header import FORMAT
from clew.record.transcript.loaded import LoadedSession
from clew.record.transcript.log import Log, Saved
from clew.record.transcript.logfile import Trouble
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import (
    NOBODY,
    Writer,
    clean_message,
    find_block_ids,
    is_chain_participant,
    is_ephemeral_progress,
    place_message,
)
from clew.record.transcript.replacements import find_replacements
from clew.record.transcript.running import Registration
from clew.record.transcript.side_lines import Message, SideLines
from clew.record.transcript.strand import Strand

# The longest time that `flush` waits.
FLUSH_S = 0.1
# Titles are written again before this much data follows them, because lists read only the last 64
# KiB.
REPEAT_AFTER_BYTES = light.READ_SIZE_BYTES // 2
_REPEATED = {"custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag"}

Mirror = Callable[[Path, Sequence[Message]], None]


class Recorder(SideLines):
    """The recorder of the current session. It writes to the place that `paths` names."""

    def __init__(
        self,
        *,
        paths: SessionPaths,
        log: Log | None,
        writer: Writer,
        now: Callable[[], str],
        mirror: Mirror | None = None,
        registration: Registration | None = None,
    ) -> None:
        """Create a recorder. Without a log, every method works the same, but no file is written.

        `mirror` receives everything passed to the log, in order, with its file. `registration`
        tells other processes which session this process has open.
        """
        self.paths = paths
        self.writer = msgspec.structs.replace(writer, session_id=paths.place.session_id)
        # The titles that were set since the recorder was created, by kind of line.
        self.titles: dict[str, str] = {}
        self._log = log
        self._now = now
        self._mirror = mirror
        self._registration = registration
        self._main = Strand(paths.place.transcript)
        self._early: list[Message] = []
        self._bytes_since_titles = 0

    # -- the conversation

    def record(
        self,
        messages: Sequence[Message],
        *,
        hint: str | None = None,
    ) -> str | None:
        """Record the new messages in order, each UUID once.

        A known message becomes the next parent only if no new one came before it. Messages
        that a compaction kept stay after its boundary and change nothing. `hint` is the
        parent of the first message, for callers that pass only new messages. Return the
        UUID of the last message written, or else of the last known message at the
        beginning, or else the hint, which may be None.
        """
        strand, last = self._main, hint
        if hint is not None:
            strand.last = hint
        lines: list[Message] = []
        floor = -1
        for message in messages:
            rank = strand.known.get(message.get("uuid", ""))
            if rank is not None:
                # The entries that a compaction kept were written before the boundary that they now
                # follow.
                floor = rank if message.get("subtype") == "compact_boundary" else floor
                if not lines and rank >= floor and is_chain_participant(message.get("type")):
                    last = strand.last = message["uuid"]
            elif is_chain_participant(message.get("type")):
                lines.append(self._placed(message, strand.last))
                last = strand.last = message["uuid"]
                lines += self._replacements(message)
            elif not is_ephemeral_progress(message):
                raise MisuseError(
                    f"entries of type {message.get('type')!r} must be recorded "
                    "with their own method"
                )
        self._append(lines)
        return last

    def record_compaction(
        self, history: Sequence[Message], boundary: Message, following: Sequence[Message]
    ) -> str | None:
        """Record a boundary and the messages after it, after everything it closes or keeps.

        If the boundary kept an entry that is missing from the file, resuming would lose that entry.
        Return the UUID of the last message written.
        """
        self.record(history)
        meta = boundary.get("compactMetadata")
        segment = meta.get("preservedSegment") if isinstance(meta, dict) else None
        tail = segment.get("tailUuid") if isinstance(segment, dict) else None
        if tail is not None and tail not in self._main.known:
            raise MisuseError("the boundary keeps an entry that is not in the history")
        return self.record([boundary, *following])

    def closed_before(self, boundary: Message, kept_entries: Sequence[Message]) -> None:
        """Forget the entries before `boundary` that are not kept.

        Nothing refers to them anymore.
        """
        self._main.forget_before(boundary["uuid"], {message["uuid"] for message in kept_entries})

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Withdraw messages from the conversation.

        The next message gets the parent of the withdrawn messages.
        """
        at = self._now()
        lines = [
            factories.record(
                "tombstone", messageUuid=uuid, session_id=self.writer.session_id, at=at
            )
            for uuid in uuids
            if self._main.withdraw(uuid)
        ]
        self._append(lines)

    # -- ahead of the conversation

    def tool_started(
        self,
        tool_use_id: str,
        answer: Sequence[Message],
        *,
        after: str | None = None,
    ) -> None:
        """Record a tool call before it runs.

        `answer` contains the entries of its response so far, including the call. Those up to and
        including `after` were recorded with an earlier call. The entries move to the chain when the
        response ends, with its final usage; until then, this line preserves them in case of a
        crash.
        """
        self._note("tool-started", toolUseId=tool_use_id, owed=self._owe(answer, after))

    def tool_finished(self, tool_use_id: str, result: Message) -> None:
        """Record a call that ends before its response does; the result moves to the chain later."""
        self._note("tool-finished", toolUseId=tool_use_id, owed=self._owe([result]))

    # -- lines outside the conversation

    def beside(self, lines: Sequence[Message]) -> None:
        """Append complete side lines from another module to this session."""
        self._append(lines)

    def title(self, text: str) -> None:
        """Set the user's title; an empty string removes it. No line of the chain changes."""
        self._note("custom-title", customTitle=text)
        self.titles["custom-title"] = text
        if self._registration is not None:
            self._registration.update(name=text)

    def generated_title(self, text: str) -> None:
        self._note("ai-title", aiTitle=text)
        self.titles["ai-title"] = text

    def tag(self, text: str) -> None:
        self._note("tag", tag=text)

    def last_prompt(self, text: str) -> None:
        """Record the leaf at the end of a turn, and a title for lists of sessions."""
        if self._main.last is not None:
            # A long prompt would push other lines out of the file's tail, where lists look.
            self._note("last-prompt", lastPrompt=light.in_short(text), leafUuid=self._main.last)
        if self._bytes_since_titles > REPEAT_AFTER_BYTES:
            self._repeat_titles()

    def rewind(self, uuid: str | None) -> None:
        """Make an earlier entry the leaf (None: start over), and record that at once.

        Even if the user quits right after the rewind, the session is still rewound when it is
        resumed.
        """
        if uuid is not None and uuid not in self._main.known:
            raise MisuseError("cannot rewind to an entry that is not in the session")
        self._main.last = uuid
        fields: Message = {"atStart": True} if uuid is None else {}
        self._note("last-prompt", leafUuid=uuid or NOBODY, explicit=True, **fields)

    # -- the session

    @property
    def is_kept(self) -> bool:
        """True if the session is stored."""
        return self._log is not None

    def read_again(self) -> list[Message]:
        """Load the full conversation from the file, and continue from it."""
        from clew.record.transcript.load import load

        loaded = load(self.transcript, reads_all=True)
        self.resume(loaded)
        return loaded.messages

    @property
    def transcript(self) -> Path:
        """The file of this session; hooks receive its path."""
        return self._main.path

    def begin_as(
        self, lines: Iterable[bytes], *, forked_from: Message, agents: Iterable[Path] = ()
    ) -> None:
        """Begin a session as a copy with these first lines, each with its newline.

        `forked_from` names the original session and its last copied message; `agents` are the
        transcripts of the copied subagents.
        """
        from clew.record.transcript.source import entries_of

        if self._log is not None:
            header = self.header() | {"forkedFrom": forked_from}
            all_lines = [encode(header) + b"\n", *lines]
            self._log.append(self.transcript, all_lines)
            if self._mirror is not None:
                self._mirror(self.transcript, [decode(line) for line in all_lines])
                for agent in agents:
                    self._mirror(agent, entries_of(agent))

    def resume(self, loaded: LoadedSession) -> None:
        """Continue a loaded session; entries that were only written ahead move to the chain."""
        self._main = Strand.of(self.transcript, loaded)
        last = loaded.messages[-1] if loaded.messages else {}
        self.writer = msgspec.structs.replace(
            self.writer,
            team_name=text_of(last.get("teamName")) or None,
            agent_name=text_of(last.get("agentName")) or None,
        )
        self._append(loaded.owed)

    def switch(self, session_id: str, folder: Path | None = None) -> None:
        """Switch to another session; the first message of that session creates its file.

        Everything recorded before is written to the old files, everything recorded later to the new
        files.
        """
        if self._log is not None:
            self._log.release(self._main.path)
        place = self.paths.switch(session_id, folder)
        self.writer = msgspec.structs.replace(
            self.writer, session_id=session_id, team_name=None, agent_name=None
        )
        self._main = Strand(place.transcript)
        self._early = []
        self._bytes_since_titles = 0

    def join_team(self, agent_name: str | None = None) -> None:
        """Name the session's team and its member in all entries recorded from now on.

        A session has one team, which exists once the session has a named agent.
        """
        team = self.writer.team_name or f"session-{self.writer.session_id[:8]}"
        self.writer = msgspec.structs.replace(self.writer, team_name=team, agent_name=agent_name)

    def shows(self, status: str) -> None:
        """Tell other processes whether a turn is running: `busy` or `idle`."""
        if self._registration is not None:
            self._registration.update(status=status)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """The lines of the session and its agents that are not in their transcripts now."""
        return () if self._log is None else self._log.troubles

    def news(self) -> tuple[str, ...]:
        """Return messages about unsaved lines since the last call."""
        return () if self._log is None else self._log.news()

    async def durable(self) -> Saved:
        """Wait until everything recorded so far would survive a power failure."""
        if self._log is None or self._log.is_closed:
            return Saved()
        return await self._log.durable()

    def flush(self) -> None:
        """Wait briefly for everything recorded so far to be durable, without an event loop."""
        if self._log is not None:
            with suppress(TimeoutError):
                self._log.flush(FLUSH_S)

    # -- implementation

    def _replacements(self, message: Message) -> list[Message]:
        """Return the line about the tool results that a message replaced; empty if none."""
        replaced = find_replacements(message)
        if not replaced:
            return []
        fields: Message = {"replacements": replaced}
        if message.get("type") == "system":
            fields["messageUuid"] = message["uuid"]
        if self.writer.agent_id is not None:
            fields["agentId"] = self.writer.agent_id
        session_id, at = self.writer.session_id, self._now()
        return [factories.record("content-replacement", session_id=session_id, at=at, **fields)]

    def _placed(self, message: Message, parent: str | None) -> Message:
        strand = self._main
        entry = clean_message(message, strand.known)
        if message.get("subtype") == "compact_boundary":
            entry = {"logicalParentUuid": parent} | entry
            parent = None
        answered = find_block_ids(message, "tool_result", "tool_use_id")
        if len(answered) == 1 and answered[0] in strand.calls:
            parent = strand.calls[answered[0]]
            entry = entry | {"sourceToolAssistantUUID": parent}
        line = place_message(entry, parent_uuid=parent, writer=self.writer)
        strand.add(line)
        return line

    def _owe(self, messages: Sequence[Message], after: str | None = None) -> list[Message]:
        """Return the lines of these messages, except those already written ahead."""
        strand = self._main
        parent = after or strand.last
        owed: list[Message] = []
        for message in messages:
            if message["uuid"] not in strand.known and message["uuid"] not in strand.owed:
                owed.append(self._placed(message, parent))
                strand.known.pop(message["uuid"])
                strand.owed.add(message["uuid"])
            parent = message["uuid"]
        return owed

    def _note(self, kind: str, **fields: Any) -> None:
        session_id = self.writer.session_id
        self._append([factories.record(kind, session_id=session_id, at=self._now(), **fields)])

    def _append(self, entries: Sequence[Message]) -> None:
        if self._log is None or not entries:
            return
        strand = self._main
        if not strand.has_file:
            if not self._may_begin(entries):
                self._early += entries
                return
            strand.has_file = True
            entries = [*self._beginning(), *self._early, *entries]
            self._early = []
        lines = [encode(entry) + b"\n" for entry in entries]
        self._bytes_since_titles += sum(map(len, lines))
        self._log.append(strand.path, lines)
        if self._mirror is not None:
            self._mirror(strand.path, entries)

    def _may_begin(self, entries: Sequence[Message]) -> bool:
        """Return whether these entries may create the file; a session without messages has none."""
        return any(is_chain_participant(entry["type"]) for entry in entries)

    def _beginning(self) -> list[Message]:
        return [self.header()]

    def header(self) -> Message:
        """Return the first line of a session's file."""
        return {
            "type": "clew-session",
            "format": FORMAT,
            "sessionId": self.writer.session_id,
            "version": self.writer.version,
            "cwd": self.writer.cwd,
            "timestamp": self._now(),
            **({"project": self.writer.project} if self.writer.project else {}),
        }

    def _repeat_titles(self) -> None:
        """Repeat the titles and the tag near the end of the file, as they were last set."""
        ends = light.read_ends(self.transcript)
        self._bytes_since_titles = 0
        for kind, key in _REPEATED.items():
            value = light.find_last_field(ends, kind, key) if ends else None
            if value:
                self._note(kind, **{key: value})
