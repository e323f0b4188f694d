"""The driver's input and view for a session that a host uses over a channel.

This module owns the waiting prompts and the frames around a turn. A turn always ends with a result
frame, whatever happened in the turn.

Decision: docs/decisions/140-host-protocol.md
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from msgspec.structs import replace

from clew.agent.conversation import Speaker
from clew.agent.events import Compacted, EngineEvent, Recorded, TurnEnded
from clew.agent.intake import Raw
from clew.agent.options import Options
from clew.agent.tasks.registry import BackgroundTask, Moment
from clew.commands.slash.table import collect_commands
from clew.core import wire
from clew.core.input import Show, TypedCommand, parse
from clew.core.json_object import Json
from clew.core.ledger.ledger import Spend
from clew.core.ledger.spending import TokenCounts
from clew.core.wire import Said
from clew.fronts.drive import Cause, FrontInput, FrontView, Line, News, Next
from clew.fronts.headless import framing as task_frames
from clew.fronts.headless.channel import HostChannel
from clew.fronts.headless.framing import TurnFrames, list_commands, list_servers
from clew.fronts.headless.permission import make_describer
from clew.fronts.headless.result import (
    end_compaction,
    end_without_turn,
    find_error,
    make_result,
    result_of,
)
from clew.fronts.headless.suggesting import Suggestions
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.config.environment import freeze

NEWS = "task-notification"
# The errors of a full disk, by the names that hosts know.
FULL = frozenset({"ENOSPC", "EDQUOT"})
TOO_LATE = "a signal ended the session before it could answer this prompt"


class HostInput(FrontInput):
    """The queue of the host's prompts, shared by the successive sessions of a channel."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._prompts: deque[Line] = deque()
        self._known: set[str] = set()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        # The input has ended; prompts that have arrived are still answered.
        self.is_unspoken = False
        # Whether news about background tasks is worth waiting for, and how to tell the operator.
        self.may_wait: Callable[[], bool] = lambda: True
        self.tell: Callable[[str], object] = lambda _: None
        # A signal arrived; nothing new is started.
        self.is_stopped = False

    def __bool__(self) -> bool:
        return bool(self._prompts)

    @property
    def uuids(self) -> list[str]:
        """The IDs that the host gave to the waiting prompts."""
        waiting = (line for line in self._prompts if not line.is_interrupted)
        return [line.uuid for line in waiting if line.uuid is not None]

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    def use(self, session: Session) -> None:
        """Send later prompts to this session."""
        self._session = session
        self._known |= {str(entry.get("uuid")) for entry in session.story.history}
        session.parts.tasks.listeners.append(self._changed.set)

    def say(self, prompt: Said) -> None:
        """Queue a prompt or pass it to the running turn.

        Ignore a prompt that has already arrived.
        """
        if prompt.uuid is not None and prompt.uuid in self._known:
            return
        if prompt.uuid is not None:
            self._known.add(prompt.uuid)
        session = self._session
        waits = not prompt.asks or (prompt.typed is not None and is_command(prompt.typed))
        # A resumed session may still be opening.
        if self._prompts or waits or session is None or not session.conversation.is_running:
            self._prompts.append(line_of(prompt))
            self._changed.set()
        else:
            speaker = Speaker(source="sdk", mode=session.mode, origin=prompt.origin)
            session.conversation.say(prompt.content, speaker, uuid=prompt.uuid)

    def withdraw(self, uuid: str) -> bool:
        """Withdraw a prompt that no turn has received. Return False if there is no such prompt."""
        prompt = next((line for line in self._prompts if line.uuid == uuid), None)
        if prompt is not None:
            self._prompts.remove(prompt)
        elif self._session is not None:
            return self._session.conversation.take_back(uuid) is not None
        return prompt is not None

    def interrupt(self, uuids: Collection[str], *, with_first: bool) -> None:
        """Interrupt these waiting prompts and, if `with_first` is set, the first waiting prompt.

        Each of them still gets a turn, which ends at once. Prompts that arrive later are not
        affected.
        """
        for place, line in enumerate(self._prompts):
            if line.asks and (with_first or line.uuid in uuids):
                self._prompts[place] = replace(line, is_interrupted=True)
                with_first = False
        if self._session is None:
            return
        for uuid in uuids:
            if (message := self._session.conversation.take_back(uuid)) is not None:
                blocks, origin = message["message"]["content"], message.get("origin")
                line = Line(blocks=blocks, uuid=uuid, origin=origin, is_interrupted=True)
                self._prompts.append(line)
                self._changed.set()

    def return_line(self, line: Line) -> None:
        """Put back a line that was not started."""
        self._prompts.appendleft(line)

    async def next(self) -> Next:
        while True:
            if self._prompts and not self.is_stopped:
                return self._prompts.popleft()
            if self.is_over:
                return None
            if await self._is_due():
                return News()
            if self.is_unspoken and not self._prompts:
                return None
            self._changed.clear()
            await self._changed.wait()

    async def _is_due(self) -> bool:
        """Return whether background tasks have news that should start a turn.

        After the end of the input, wait for running tasks.
        """
        assert self._session is not None
        if not self.is_unspoken:
            return self._session.parts.tasks.has_news()
        return await self._session.parts.tasks.wait_for_news(
            self._ended, may_wait=self.may_wait, tell=self.tell
        )

    def close(self) -> None:
        """Record that the host will send no more prompts."""
        self.is_unspoken = True
        self._changed.set()

    def end(self) -> None:
        self._ended.set()
        self._changed.set()


def origin_of_news(entries: Iterable[Json]) -> Json:
    """Return the origin of the first news in a turn, without the IDs of messages."""
    origins = (entry.get("origin") or {} for entry in entries)
    origin: Json = next((o for o in origins if o.get("kind") == NEWS), {"kind": NEWS})
    return {name: value for name, value in origin.items() if name != "messages"}


def is_command(typed: str) -> bool:
    """Return whether a prompt is a clew command, which is never passed to a running turn."""
    return isinstance(parse(typed, takes_notes=False), TypedCommand)


def line_of(prompt: Said) -> Line:
    """Return a host's prompt as a line of input.

    Content blocks are used as they are: commands and mentions of files in them are not expanded.
    """
    line = Line(blocks=prompt.content, uuid=prompt.uuid, origin=prompt.origin, asks=prompt.asks)
    if prompt.typed is None or not prompt.asks:
        return line
    raw = Raw(text=prompt.typed, more=prompt.piped, is_lasting=True)
    return Line(raw=raw, uuid=prompt.uuid, origin=prompt.origin)


class HostView(FrontView):
    """The view for a host.

    `session` is available once a session has been opened. Earlier frames belong to no session.
    """

    def __init__(self, channel: HostChannel, environ: Mapping[str, str], lines: HostInput) -> None:
        self._channel = channel
        self._environ = environ
        self._lines = lines
        self._session: Session | None = None
        self._framing = TurnFrames("", make_id, Options())
        self.state: wire.State = "idle"
        # Whether the turn has its result, and whether the last result was an error.
        self.is_answered, self.is_error = True, False
        # The error of the last result; empty if the last result was not an error.
        self.error = ""
        self._is_introduced = True
        self._suggestions: Suggestions | None = None
        # The slash commands that the host knows, from its handshake on.
        self._commands: list[Json] | None = None
        # The start of the turn, and the messages and cost at that time.
        self._began_s, self._said, self._spent = 0.0, 0, Spend()

    @property
    def session(self) -> Session:
        assert self._session is not None, "the session is not open yet"
        return self._session

    async def open(self, session: Session, options: Options, before: str) -> None:
        """Show this session from now on. `before` is the ID of the previous session, if any."""
        self._session = session
        self._framing = TurnFrames(
            session.session_id,
            make_id,
            options,
            summarizes_calls=freeze(self._environ).switch("tool_summaries"),
            describe_input=make_describer(session),
        )
        session.parts.tasks.watchers.append(self._task)
        session.rules.mode_watchers.append(self.tell_mode)
        session.story.rewind_watchers.append(self.tell_rewind)
        for task in session.parts.tasks.running:
            # A task that the user kept running in an earlier session.
            self._task(task, "began")
        for notice in session.notices:
            self._channel.warn(notice)
        self._suggestions = None
        if before:
            await self._follow(before)
        if options.suggests:
            self._suggestions = Suggestions(session, self._channel.post)

    def unwatch(self) -> None:
        """Stop reporting tasks, modes and rewinds of a session that continues without this view."""
        self.session.parts.tasks.watchers.remove(self._task)
        self.session.rules.mode_watchers.remove(self.tell_mode)
        self.session.story.rewind_watchers.remove(self.tell_rewind)

    async def close(self) -> None:
        """Finish or drop a pending suggestion.

        Background tasks that end later are still reported.
        """
        if self._suggestions is not None:
            in_haste = not self._lines.is_unspoken or self._lines.is_over
            await self._suggestions.aclose(in_haste=in_haste)

    async def _follow(self, before: str) -> None:
        """Tell the host that this conversation replaces that of the session `before`."""
        self._channel.post(wire.reset(before, self.session.session_id, uuid=make_id()))
        await self._channel.send(self._introduction())
        self._framing.tally.turns = 0
        self._began_s, self._spent = time.monotonic(), Spend()
        await self._end(TurnEnded(reason="completed"), None)

    # -- turns

    def taking(self, _: Line) -> AbstractAsyncContextManager[None]:
        self.begin()
        return nullcontext()

    def turn(self, cause: Cause) -> AbstractAsyncContextManager[None]:
        if cause.line is None:
            self.begin()
        return nullcontext()

    def begin(self) -> None:
        """Begin a turn, or the processing of a line."""
        if self._suggestions is not None:
            self._suggestions.drop()
        self.is_answered = self._is_introduced = False
        self._said = self.session.story.said
        self._framing.begin()
        self.change_state("running")
        self._began_s, self._spent = time.monotonic(), self.session.ledger().in_turns

    async def emit(self, event: EngineEvent) -> None:
        framed = self._framing.framed(event)
        if isinstance(event, Compacted):
            # The order is: the turn is done, the state of the session, the result.
            await self._channel.send(framed.pop(0))
        if isinstance(event, Recorded | Compacted):
            await self._introduce()
        for frame in framed:
            await self._channel.send(frame)

    async def show(self, outcome: Show, line: Line | None) -> None:
        ended = end_without_turn(outcome, self._framing.tally)
        await self._introduce()
        if not outcome.is_error:
            frame = self._framing.system("local_command_output", content=outcome.text)
            await self._channel.send(frame)
        await self._end(ended, line)

    async def untaken(self, line: Line) -> None:
        if self._lines.is_stopped:
            self._lines.return_line(line)
            return
        session = self.session
        if line.blocks is not None or not is_command(line.raw.text):
            typed = "\n".join(filter(None, [line.raw.text, line.raw.more]))
            prompt = typed if line.blocks is None else line.blocks
            speaker = Speaker(source="sdk", mode=session.mode, origin=line.origin)
            await session.conversation.keep_interrupted(
                prompt, self.emit, said_by=speaker, uuid=line.uuid
            )
        await self._introduce()
        await self._end(TurnEnded(reason="aborted_streaming"), line)

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        if cause.order is not None:
            ended = end_compaction(ended, self._framing.tally)
            await self._introduce()
        await self._end(ended, cause.line, is_news=cause.is_news)

    async def _end(self, ended: TurnEnded, line: Line | None, *, is_news: bool = False) -> None:
        framing, session = self._framing, self.session
        # Entries of an interrupted turn may have been recorded without an event.
        rest = session.story.since(self._said)
        origin = origin_of_news(rest) if is_news else None if line is None else line.origin
        for frame in [*framing.entries(rest), *framing.sum_up_calls(), *framing.close_stream()]:
            await self._channel.send(frame)
        if ended.reason == "refused":
            refused = self._framing.system(
                "model_refusal_no_fallback",
                original_model=session.model.id,
                request_id=framing.request_id,
                content=ended.message,
            )
            await self._channel.send(refused)
        answers = framing.answers
        if not answers and line is not None and line.uuid is not None:
            answers = [line.uuid]  # A command, which is not recorded as a prompt.
        report = result_of(
            session, ended, framing.tally, began_s=self._began_s, before=self._spent
        ) | wire.describe_answered_prompts(answers)
        self.is_answered, self.is_error = True, bool(report["is_error"])
        self.error = find_error(ended) if self.is_error else ""
        await self._channel.send(report if origin is None else report | {"origin": origin})
        if self._suggestions is not None and not self.is_error:
            self._suggestions.begin()
        if self._commands is not None:
            self.tell_commands()
        waits = self._lines or session.conversation.has_unheard or session.parts.agents.has_news
        if not waits and not session.parts.agents.are_working:
            self.change_state("idle")

    def fail(self, words: str) -> None:
        """Send the result of a turn that failed before it produced one."""
        self.is_error = self.is_answered = True
        ended = TurnEnded(reason="failed", message=words)
        self._channel.post(
            make_result(
                ended,
                self._framing.tally,
                uuid=make_id(),
                duration_ms=0,
                usage=TokenCounts().as_usage(),
                cost_usd=0.0,
                model_usage={},
            )
        )

    # -- frames outside turns

    def post(self, frame: Json) -> None:
        self._channel.post(frame)

    def notice(self, words: str) -> None:
        self._channel.post(self._framing.notice(words))

    def tell_commands(self) -> None:
        """Send the slash commands if they have changed since the host received them."""
        commands = list_commands(self.session)
        if self._commands is not None and commands != self._commands:
            self._channel.post(self._framing.system("commands_changed", commands=commands))
        self._commands = commands

    def tell_end(self, reason: str) -> None:
        """Report that this process is about to end, and why."""
        if self._session is not None:
            self._channel.post(self._framing.system("worker_shutting_down", reason=reason))

    def tell_lost(self, codes: Mapping[str, str]) -> None:
        """Report that lines of these sessions' transcripts were lost because the disk was full."""
        full = [code for code in codes.values() if code in FULL]
        if full:
            self._channel.post(
                self._framing.system(
                    "session_writes_lost",
                    error_code=full[0],
                    lost=["transcript"],
                    transcript_session_ids=[name for name in codes if codes[name] in FULL],
                )
            )

    def tell_mode(self, mode: str) -> None:
        """Report a change of the permission mode."""
        self._channel.post(self._framing.system("status", status=None, permissionMode=mode))

    def tell_rewind(self, removed: list[str], restored: list[str]) -> None:
        """Report which messages are no longer, and which are again, part of the conversation."""
        frame = self._framing.system(
            "rewound", content="The conversation was rewound", removed=removed, restored=restored
        )
        self._channel.post(frame)

    def change_state(self, state: wire.State) -> None:
        """Send the state to hosts that asked for it, in a frame marked as not for display."""
        if state == self.state:
            return
        self.state = state
        emits = self._environ.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
        reads = self._environ.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
        if emits or reads:
            session_id = self.session.session_id
            self._channel.post(
                wire.state_changed(
                    state, session_id=session_id, uuid=make_id(), for_host_only=not emits
                )
            )

    def _task(self, task: BackgroundTask, moment: Moment) -> None:
        running = self.session.parts.tasks.running
        for frame in task_frames.frame_event(task, moment, running, self._framing.system):
            self._channel.post(frame)

    async def _introduce(self) -> None:
        if not self._is_introduced:
            self._is_introduced = True
            await self._channel.send(self._introduction())

    def _introduction(self) -> Json:
        session = self.session
        return wire.init(
            session_id=session.session_id,
            uuid=make_id(),
            cwd=session.workspace.cwd,
            tools=session.tools.names(),
            model=session.model.id,
            mode=session.mode,
            mcp_servers=list_servers(session.parts.mcp),
            key_source=session.model_access.key_source,
            commands=[command.name for command in collect_commands(session)],
            agents=[spec.name for spec in session.parts.agents.catalog],
            skills=[skill.name for skill in session.parts.skills.all() if skill.folder],
            plugins=[plugin.record() for plugin in session.parts.plugins],
            output_style=session.parts.output_styles.named,
            directories=session.rules.standing.context.directories,
        )
