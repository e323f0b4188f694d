"""What of a conversation is written, where, and on which parent: the session's side of the log.

Records each message once, behind the entry it follows; calls are written ahead of their place
before they run; what stands beside the conversation has a call of its own. Hands encoded lines to
the log and never waits: durability is asked for with `durable`. The format and the guarantees are
in docs/internals/transcript.md.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.core.messages import factories
from clew.core.messages.encoding import decode, decode_object
from clew.core.messages.errors import MisuseError
from clew.record.transcript import light
from clew.record.transcript.agents import AgentMetadata, encode_metadata, write_metadata
from clew.record.transcript.entries import encode
from clew.record.transcript.leaf import NOBODY
from clew.record.transcript.load import LoadedSession, load
from clew.record.transcript.log import Log, Saved
from clew.record.transcript.logfile import Trouble
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import (
    Writer,
    clean_message,
    is_chain_participant,
    is_ephemeral_progress,
    place_message,
)
from clew.record.transcript.running import Registration
from clew.record.transcript.siblings import find_block_ids
from clew.record.transcript.source import open_source
from clew.record.transcript.strand import Strand

FORMAT = 1
# What a session's prompt can be coloured: the published names, and the one that takes a colour away.
COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan")
NO_COLOR = "default"
# Titles are written again before this much lies behind them: lists look at the last 64 KiB only.
REPEAT_AFTER_BYTES = light.READ_SIZE_BYTES // 2
_REPEATED = {"custom-title": "customTitle", "ai-title": "aiTitle", "tag": "tag"}

Message = dict[str, Any]
Mirror = Callable[[Path, Sequence[Message]], None]


class Recorder:
    """The session that runs now. What it writes goes where `paths` says the session lies."""

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
        """Without a log nothing is kept: the same calls, the same answers, no file.

        `mirror` is told what was handed to the log, in order, with the file it is for. `registration`
        says to other processes who has the session.
        """
        self.paths = paths
        self.writer = msgspec.structs.replace(writer, session_id=paths.place.session_id)
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
        team: str | None = None,
    ) -> str | None:
        """Writes what is new of `messages`, in order; each uuid once.

        Messages that are known move the place of the next one only as long as nothing new came
        before them: what a compaction kept stands behind its boundary and moves nothing. `hint` is
        the parent of the first, for callers that pass only what is new. Answers the uuid of the
        last message written, else of the last known one at the beginning, else the hint.
        """
        writer = msgspec.structs.replace(self.writer, team_name=team) if team else self.writer
        return self._record(messages, writer, hint)

    def record_compaction(
        self, history: Sequence[Message], boundary: Message, following: Sequence[Message]
    ) -> str | None:
        """Writes a boundary and what follows it, after everything it closes or keeps.

        A boundary that keeps an entry which is not in the file would lose it on resume.
        """
        self.record(history)
        meta = boundary.get("compactMetadata")
        segment = meta.get("preservedSegment") if isinstance(meta, dict) else None
        tail = segment.get("tailUuid") if isinstance(segment, dict) else None
        if tail is not None and tail not in self._main.known:
            raise MisuseError("the boundary keeps an entry that is not in the history")
        return self.record([boundary, *following])

    def closed_before(self, boundary: Message, kept_entries: Sequence[Message]) -> None:
        """From here on nobody names what stands before `boundary` and is not among `kept_entries`."""
        self._main.begin_anew(boundary["uuid"], {message["uuid"] for message in kept_entries})

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Takes messages out of the conversation; what is next hangs on what they hung on."""
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
        """Before a call runs: `answer` are the entries of its answer so far, the call among them;
        those up to `after` were told with an earlier call and need not be told again.

        They go to the chain with the answer's end and its final usage; until then this line is
        what a crash leaves of them.
        """
        self._note("tool-started", toolUseId=tool_use_id, owed=self._owe(answer, after))

    def tool_finished(self, tool_use_id: str, result: Message) -> None:
        """When a call ends before its answer does: the result, until it can be recorded."""
        self._note("tool-finished", toolUseId=tool_use_id, owed=self._owe([result]))

    # -- beside the conversation

    def queue_operation(self, operation: str, content: Any = None, **about: Any) -> None:
        """Words that wait to be heard, or no longer do; `about` is what they will be as a message."""
        fields = {} if content is None else {"content": content}
        self._note("queue-operation", operation=operation, **fields, **about)

    def file_history_snapshot(
        self, message_id: str, snapshot: Message, *, is_update: bool = False
    ) -> None:
        self._note(
            "file-history-snapshot",
            messageId=message_id,
            snapshot=snapshot,
            isSnapshotUpdate=is_update,
        )

    def file_history_delta(
        self, message_id: str, *, snapshot_message_id: str, path: str, backup: Message
    ) -> None:
        self._note(
            "file-history-delta",
            messageId=message_id,
            snapshotMessageId=snapshot_message_id,
            trackingPath=path,
            backup=backup,
        )

    def file_change(
        self, message_id: str, tool_use_id: str, changes: list[Message], omitted_count: int
    ) -> None:
        """What a call did to files; `omitted_count` changes were too many to be listed."""
        rest = {"more": omitted_count} if omitted_count else {}
        self._note(
            "file-change", messageId=message_id, toolUseId=tool_use_id, changes=changes, **rest
        )

    def task_ended(
        self, task_id: str, tool_use_id: str, *, status: str, words: str, exit_code: int | None
    ) -> None:
        """How a command in the background ended, before the conversation hears of it."""
        self._note(
            "task-ended",
            taskId=task_id,
            toolUseId=tool_use_id,
            status=status,
            words=words,
            exitCode=exit_code,
        )

    def beside(self, lines: Sequence[Message]) -> None:
        """Whole lines beside the conversation that somebody else made for this session."""
        self._append(lines)

    def attribution_snapshot(self, message_id: str, snapshot: Message) -> None:
        self._note("attribution-snapshot", **{**snapshot, "messageId": message_id})

    def content_replacement(self, replacements: Sequence[Message]) -> None:
        agent_id = self.writer.agent_id
        fields = {} if agent_id is None else {"agentId": agent_id}
        self._note("content-replacement", replacements=list(replacements), **fields)

    def title(self, text: str) -> None:
        """The person's own title; an empty one takes it away. No line of the chain changes."""
        self._note("custom-title", customTitle=text)
        if self._registration is not None:
            self._registration.update(name=text)

    def generated_title(self, text: str) -> None:
        self._note("ai-title", aiTitle=text)

    def tag(self, text: str) -> None:
        self._note("tag", tag=text)

    def agent_name(self, name: str) -> None:
        self._note("agent-name", agentName=name)

    def agent_color(self, color: str) -> None:
        """The colour of the session's prompt: one of `COLORS`, or `NO_COLOR`."""
        self._note("agent-color", agentColor=color)

    def agent_setting(self, name: str) -> None:
        """The kind of agent that the session is from here on."""
        self._note("agent-setting", agentSetting=name)

    def worktree_state(self, worktree: Message | None) -> None:
        """The checkout that the session works in from here on; None: in none of its own."""
        self._note("worktree-state", worktreeSession=worktree)

    def mode(self, mode: str) -> None:
        self._note("mode", mode=mode)

    def permission_mode(self, mode: str) -> None:
        self._note("permission-mode", permissionMode=mode)

    def cost_state(self, **totals: Any) -> None:
        """The session's totals so far, in their written spelling; the last one counts."""
        self._note("cost-state", **totals)

    def request_cost(self, **cost: Any) -> None:
        """What one request cost, in its written spelling: of compactions and side requests too."""
        self._note("request-cost", **cost)

    def request_repairs(self, repairs: Sequence[Message]) -> None:
        """What the history needs beside what was said before; the lines of this kind together say all."""
        self._note("request-repairs", repairs=list(repairs))

    def context_edits(self, edits: Sequence[Message]) -> None:
        """What requests leave out, put short or hold fast; the last line of this kind says all of it."""
        self._note("context-edits", edits=list(edits))

    def prompt_hashes(self, **hashes: str) -> None:
        """Which stored instructions and tools the requests begin with from here on."""
        self._note("prompt-hashes", **hashes)

    def last_prompt(self, text: str) -> None:
        """At the end of a turn: where the conversation stands, and a title for lists."""
        if self._main.last is not None:
            # A long one would stand in the way of whoever looks for it at the end of the file.
            self._note("last-prompt", lastPrompt=light.in_short(text), leafUuid=self._main.last)
        if self._bytes_since_titles > REPEAT_AFTER_BYTES:
            self._repeat_titles()

    def rewind(self, uuid: str | None) -> None:
        """Makes an earlier entry the last one (None: begins anew), and says so at once.

        Said now, not with the next prompt: who rewinds and quits finds it rewound.
        """
        if uuid is not None and uuid not in self._main.known:
            raise MisuseError("cannot rewind to an entry that is not in the session")
        self._main.last = uuid
        self._note("last-prompt", leafUuid=uuid or NOBODY, explicit=True)

    # -- the session

    @property
    def is_kept(self) -> bool:
        """Whether there is a log at all."""
        return self._log is not None

    def read_again(self) -> list[Message]:
        """The conversation as the whole of its file has it, and goes on from there."""
        loaded = load(self.transcript, reads_all=True)
        self.resume(loaded)
        return loaded.messages

    @property
    def transcript(self) -> Path:
        """Where this session is written; what hooks are told."""
        return self._main.path

    def begin_as(
        self, lines: Iterable[bytes], *, forked_from: Message, agents: Iterable[Path] = ()
    ) -> None:
        """A session that begins as a copy: its first lines, each with its end. `forked_from` names the
        session and the message up to which it was copied; `agents` are the transcripts it was given."""
        if self._log is not None:
            header = self.header() | {"forkedFrom": forked_from}
            all_lines = [encode(header) + b"\n", *lines]
            self._log.append(self.transcript, all_lines)
            if self._mirror is not None:
                self._mirror(self.transcript, [decode(line) for line in all_lines])
                for agent in agents:
                    self._mirror(agent, entries_of(agent))

    def resume(self, loaded: LoadedSession) -> None:
        """Goes on from a loaded session; entries that were only written ahead get their place."""
        self._main = Strand.of(self.transcript, loaded)
        self._append(loaded.owed)

    def of_agent(self, agent_id: str) -> "AgentRecorder":
        """The recorder of a subagent of this session; `resume` lets it go on from what it said."""
        return AgentRecorder(self, agent_id)

    def switch(self, session_id: str, folder: Path | None = None) -> None:
        """Another session from here on; its file is made by its first message.

        Everything recorded before is in the old files, nothing after is.
        """
        if self._log is not None:
            self._log.release(self._main.path)
        place = self.paths.switch(session_id, folder)
        self.writer = msgspec.structs.replace(self.writer, session_id=session_id)
        self._main = Strand(place.transcript)
        self._early = []
        self._bytes_since_titles = 0

    def shows(self, status: str) -> None:
        """Says to other processes whether a turn runs: `busy`, or `idle`."""
        if self._registration is not None:
            self._registration.update(status=status)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """What is not in its transcript now, of the session and its agents."""
        return () if self._log is None else self._log.troubles

    def news(self) -> tuple[str, ...]:
        """What to tell people of that since this was asked last."""
        return () if self._log is None else self._log.news()

    async def durable(self) -> Saved:
        """Answers when everything recorded so far would survive a power cut."""
        return Saved() if self._log is None else await self._log.durable()

    # -- how

    def _record(self, messages: Sequence[Message], writer: Writer, hint: str | None) -> str | None:
        strand, last = self._main, hint
        if hint is not None:
            strand.last = hint
        lines: list[Message] = []
        floor = -1
        for message in messages:
            rank = strand.known.get(message.get("uuid", ""))
            if rank is not None:
                # What a compaction kept was written before the boundary it now stands behind.
                floor = rank if message.get("subtype") == "compact_boundary" else floor
                if not lines and rank >= floor and is_chain_participant(message.get("type")):
                    last = strand.last = message["uuid"]
            elif is_chain_participant(message.get("type")):
                lines.append(self._placed(message, writer, strand.last))
                last = strand.last = message["uuid"]
            elif not is_ephemeral_progress(message):
                raise MisuseError(f"{message.get('type')!r} has a call of its own")
        self._append(lines)
        return last

    def _placed(self, message: Message, writer: Writer, parent: str | None) -> Message:
        strand = self._main
        entry = clean_message(message, strand.known)
        if message.get("subtype") == "compact_boundary":
            entry = {"logicalParentUuid": parent} | entry
            parent = None
        answered = find_block_ids(message, "tool_result", "tool_use_id")
        if len(answered) == 1 and answered[0] in strand.calls:
            parent = strand.calls[answered[0]]
            entry = entry | {"sourceToolAssistantUUID": parent}
        line = place_message(entry, parent_uuid=parent, writer=writer)
        strand.add(line)
        return line

    def _owe(self, messages: Sequence[Message], after: str | None = None) -> list[Message]:
        """The lines these messages will be, but for those owed before."""
        strand = self._main
        parent = after or strand.last
        owed: list[Message] = []
        for message in messages:
            if message["uuid"] not in strand.known and message["uuid"] not in strand.owed:
                owed.append(self._placed(message, self.writer, parent))
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
        """A session nobody spoke in leaves no file."""
        return any(is_chain_participant(entry["type"]) for entry in entries)

    def _beginning(self) -> list[Message]:
        return [self.header()]

    def header(self) -> Message:
        """The first line of a file."""
        return {
            "type": "clew-session",
            "format": FORMAT,
            "sessionId": self.writer.session_id,
            "version": self.writer.version,
            "cwd": self.writer.cwd,
            "timestamp": self._now(),
        }

    def _repeat_titles(self) -> None:
        """Brings titles and tag back into the reach of lists, as whoever wrote last has them."""
        ends = light.read_ends(self.transcript)
        self._bytes_since_titles = 0
        for kind, key in _REPEATED.items():
            value = light.find_last_field(ends, kind, key) if ends else None
            if value:
                self._note(kind, **{key: value})


def entries_of(path: Path) -> list[Message]:
    """Every line of a file that is an entry."""
    with open_source(path) as source:
        return [entry for _, _, raw in source.lines(0) if (entry := decode_object(raw))]


class AgentRecorder(Recorder):
    """A subagent's: its own file and chain, the log, the mirror and the id of its session.

    What its requests cost, and titles, are the session's. Who it is stands in a file beside the
    transcript, which mirrors are told as an entry of their own.
    """

    def __init__(self, session: Recorder, agent_id: str) -> None:
        super().__init__(
            paths=session.paths,
            log=session._log,
            writer=session.writer,
            now=session._now,
            mirror=session._mirror,
        )
        self.writer = msgspec.structs.replace(session.writer, agent_id=agent_id)
        self.agent_id = agent_id
        self._session = session
        self._described: AgentMetadata | None = None
        self._main = Strand(session.paths.agent(agent_id))

    def describe(self, metadata: AgentMetadata) -> None:
        """Says what kind of agent this is, for whoever lets it go on; again when that changes."""
        if self._log is not None and metadata != self._described:
            self._described = metadata
            write_metadata(self.transcript, metadata, self.paths.home)
            if self._mirror is not None:
                record = {"type": "agent_metadata"} | encode_metadata(metadata)
                self._mirror(self.transcript, [record])

    def rest(self) -> None:
        """Gives the file back as long as nothing is written: a session may have hundreds of agents."""
        if self._log is not None:
            self._log.release(self.transcript)

    def moved_to(self, cwd: str) -> None:
        """The agent works in another folder than its session."""
        self.writer = msgspec.structs.replace(self.writer, cwd=cwd)

    def request_cost(self, **cost: Any) -> None:
        purpose = "subagent" if cost.get("purpose") == "turn" else cost.get("purpose")
        self._session.request_cost(**cost | {"purpose": purpose, "agentId": self.agent_id})

    def title(self, text: str) -> None:
        self._session.title(text)

    def last_prompt(self, text: str) -> None:
        """The place and the title of a session are not an agent's to say."""

    def _may_begin(self, _: Sequence[Message]) -> bool:
        return True

    def _beginning(self) -> list[Message]:
        return []
