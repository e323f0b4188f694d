"""A session that a program talks to: prompts and requests in, frames out, until it says no more.

Owns the life of the session behind a channel: the handshake, one turn after another, the answers
beside them, and the end. A turn always ends in a result frame, whatever happened in it. When this
file grows, ask which attribute can leave.

Decision: docs/decisions/140-host-protocol.md
"""

import asyncio
import signal
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from clew.agent.conversation import Speaker
from clew.agent.deps import Question, Verdict
from clew.agent.events import Compacted, EngineEvent, Recorded, TurnEnded
from clew.agent.intake import Raw, Taken, Turn
from clew.agent.options import Options
from clew.agent.tasks.registry import BackgroundTask, Moment
from clew.commands.line import take_line
from clew.commands.slash.table import known
from clew.core import wire
from clew.core.input import Clear, CompactSession, ExitSession, Resume, TypedCommand, parse
from clew.core.json_object import Json
from clew.core.ledger.ledger import Spend
from clew.core.ledger.totals import usage_by_model
from clew.core.messages.errors import ClewError, MisuseError
from clew.core.wire import (
    ControlRequest,
    HostAnswer,
    Incoming,
    MalformedLine,
    Said,
    WithdrawnRequest,
)
from clew.fronts.headless import framing as task_frames
from clew.fronts.headless.channel import HostChannel
from clew.fronts.headless.controls import Controls, output_style
from clew.fronts.headless.framing import StreamOptions, TurnFrames
from clew.fronts.headless.handshake import (
    HOST,
    Mirror,
    agents_of,
    gone_over,
    hooks_of,
    skills_of,
    told_by,
)
from clew.fronts.headless.permission import HostPermission, HostRequests, ask_tool, nobody
from clew.fronts.headless.result import Shaped, compacted, cost_of, done_beside, result, usage_of
from clew.fronts.headless.servers import eliciting, listed, to_host
from clew.fronts.headless.suggesting import Suggestions
from clew.parts.context import HostParts
from clew.session.build import session as open_session
from clew.session.session import Session
from clew.system.clock import new_id

ENDED_BY = {signal.SIGTERM: 143, signal.SIGHUP: 129}
LAST_WORDS_S = 2.0


class HostServer:
    """`run` ends with the exit code; `session` may be asked for once the first line was taken."""

    def __init__(
        self, options: Options, channel: HostChannel, environ: Mapping[str, str], cwd: str
    ) -> None:
        self._options = options
        self._channel = channel
        self._environ = environ
        self._cwd = cwd
        self._host = HostRequests(channel, new_id)
        self._permission = HostPermission(self._host, state=self._change_state, notice=self._notice)
        self._controls = Controls(self)
        self._session: Session | None = None
        self._framing = TurnFrames("", new_id, StreamOptions())
        self._prompts: deque[Said] = deque()
        self._something = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_over = False
        self._suggestions: Suggestions | None = None
        # Nothing more will be said; what was asked for is still done.
        self._is_unspoken = False
        self._is_answered = self._is_introduced = True
        self._mark = 0
        self._is_error = False
        self._known: set[str] = set()
        # While no session is open nothing can be asked of one.
        self._is_open = asyncio.Event()
        self._is_stopped = False
        self._answering: set[asyncio.Task[None]] = set()
        self._ended_by: int | None = None
        self.state: wire.State = "idle"
        # What was said before the host had introduced itself, where that is waited for.
        self._early: list[Said] = []
        self._is_at_end = False
        # What the handshake brought; every session of this channel has it.
        self._handshake: ControlRequest | None = None
        self._brought = HostParts()

    # -- its life

    async def run(self) -> int:
        try:
            first = await self._first()
            if first is None:
                return 0
            await self._serve(first)
        except MisuseError:
            raise
        except ClewError as error:
            # A session that cannot be opened: hosts look for a result before they look at the code.
            self._channel.warn(str(error))
            self.post(self._failed(str(error)))
            return 1
        finally:
            if not self._is_answered:
                self.post(self._failed("clew failed in this turn; what it had done is in the log"))
            await self._leave()
        if self._ended_by is not None:
            return ENDED_BY[signal.Signals(self._ended_by)]
        return 1 if self._is_error or self._channel.is_broken else 0

    async def _first(self) -> Incoming | None:
        """The first line that asks for something; before it there is nothing to open a session for."""
        early: list[Said] = []
        while (line := await self._channel.receive()) is not None:
            if isinstance(line, Said) and self._options.awaits_host:
                early.append(line)
                continue
            if isinstance(line, Said | ControlRequest):
                self._early = early
                return line
            if isinstance(line, MalformedLine):
                self._complain(line)
        self._is_at_end = True
        self._early = early[1:]
        return early[0] if early else None

    async def _serve(self, first: Incoming) -> None:
        """One session, and each that a command goes over to, until the host says no more."""
        options: Options | None = self._options
        if isinstance(first, ControlRequest) and first.subtype == "initialize":
            options = self._options = told_by(self._options, first.fields)
            self._bring(first)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(first, group))
            failure: ClewError | None = None
            try:
                while options is not None:
                    options = await self._session_of(options)
            except ClewError as error:
                # Out of the group as itself.
                failure = error
                for task in self._answering:
                    task.cancel()  # there will be no session that they could wait for
            reading.cancel()
        if failure is not None:
            raise failure

    def _bring(self, asked: ControlRequest) -> None:
        """Takes what a handshake brings; the last one counts."""
        self._handshake = asked
        self._brought = HostParts(
            hooks=hooks_of(asked.fields.get("hooks"), self._host),
            to_host=to_host(self._host),
            elicit=eliciting(self._host, state=self._change_state, now=lambda: self.state),
            agents=agents_of(asked.fields),
            skills=skills_of(asked.fields),
        )

    async def _session_of(self, options: Options) -> Options | None:
        """One session to its end; what is to be opened after it, if anything."""
        async with open_session(
            options,
            self._environ,
            self._cwd,
            self._ask,
            entrypoint=entrypoint(self._environ),
            brought=self._brought,
            mirror=Mirror(self.post, self._channel.warn) if options.mirrors else None,
        ) as session:
            before, self._session = self._session, session
            wanted = StreamOptions(
                partial=options.partial,
                replays=options.replays,
                hooks=options.hook_events,
                agent_text=options.agent_text,
            )
            self._framing = TurnFrames(session.session_id, new_id, wanted)
            session.parts.agents.heard = self._emit
            session.parts.tasks.watchers.append(self._task)
            session.parts.tasks.listeners.append(self._something.set)
            for task in session.parts.tasks.running:
                # What a person kept, and runs still.
                self._task(task, "began")
            self._known |= {str(entry.get("uuid")) for entry in session.story.history}
            for notice in session.notices:
                self._channel.warn(notice)
            self._is_open.set()
            if before is not None:
                await self._gone_over(before.session_id)
            self._suggestions = Suggestions(session, self.post) if options.suggests else None
            try:
                taken = await self._turns()
                session.parts.ending.followed_by(taken)
            finally:
                if self._suggestions is not None:
                    in_haste = not self._is_unspoken or self._is_over
                    await self._suggestions.aclose(in_haste=in_haste)
            self._is_open.clear()
        for notice in session.parting():
            self._channel.warn(notice)
        return None if taken is None else gone_over(options, taken)

    async def _gone_over(self, before: str) -> None:
        """Tells the host that what follows is another conversation."""
        self.post(wire.reset(before, self.session.session_id, uuid=new_id()))
        await self._channel.send(self._introduction())
        self._framing.tally.turns = 0
        await self._end_turn(TurnEnded(reason="completed"), time.monotonic(), Spend())

    async def _leave(self) -> None:
        """Waits until everything is said, but not for ever where the process was told to end."""
        try:
            async with asyncio.timeout(LAST_WORDS_S if self._is_stopped else None):
                await self._channel.aclose()
        except TimeoutError:
            self._channel.warn("the host does not read; the last lines are lost to it")

    def stop(self, number: int) -> None:
        """A signal: the turn ends and keeps its work, and the session ends with it."""
        self._is_stopped = True
        self._channel.hurry()
        if number in ENDED_BY:
            self._ended_by = number
        if self._session is not None:
            self._session.conversation.interrupt()
        self.end()

    # -- what the host says

    async def _read(self, first: Incoming, group: asyncio.TaskGroup) -> None:
        line: Incoming | None = first
        while line is not None:
            self._take(line, group)
            for early in self._early:
                self._take(early, group)
            self._early = []
            line = None if self._is_at_end else await self._channel.receive()
        self._host.leave()
        self._is_unspoken = True
        self._something.set()

    def _take(self, line: Incoming, group: asyncio.TaskGroup) -> None:
        match line:
            case Said():
                self._said(line)
            case ControlRequest():
                task = group.create_task(self._answer(line))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case HostAnswer():
                self._host.answered(line)
            case MalformedLine():
                self._complain(line)
            case WithdrawnRequest():
                pass  # every request is answered at once: there is nothing left to withdraw

    def _complain(self, line: MalformedLine) -> None:
        """Says what is wrong with a line, where it can be read; the session goes on."""
        self._channel.warn(f"a line of standard input was not taken: {line.why}")
        if line.request_id is not None:
            self.post(wire.refused(line.request_id, line.why))
        else:
            self._notice(f"a line of standard input was not taken: {line.why}")

    async def _answer(self, asked: ControlRequest) -> None:
        await self._is_open.wait()
        if asked.subtype == "initialize" and asked is not self._handshake:
            self._bring(asked)
            self.session.parts.hooks.remove(HOST)
            self.session.parts.hooks.add(self._brought.hooks)
            self.session.parts.skills.want(self._brought.skills)
            for fault in self.session.parts.agents.replace_hosts(self._brought.agents):
                self._channel.warn(fault)
        if asked.subtype == "initialize":
            await self.session.parts.mcp.in_host()
        await self._channel.send(await self._controls.answer(asked))

    def _said(self, said: Said) -> None:
        """Queues a prompt, or gives it to the turn that runs; one that came already is not new."""
        if said.uuid is not None and said.uuid in self._known:
            return
        if said.uuid is not None:
            self._known.add(said.uuid)
        waits = not said.asks or is_command(said)
        # A session that goes on may still be opening.
        runs = self._session is not None and self._session.conversation.is_running
        if self._prompts or waits or not runs:
            self._prompts.append(said)
            self._something.set()
        else:
            self.session.conversation.say(said.content, self._speaker(said), uuid=said.uuid)

    # -- turns

    async def _turns(self) -> Clear | Resume | None:
        """Turns until the host says no more, or a command leads into another session."""
        while True:
            while self._prompts and not self._is_stopped:
                elsewhere = await self._turn(self._prompts.popleft())
                if elsewhere is not None:
                    return elsewhere
            if self._prompts or (self._is_stopped and self.session.conversation.has_unheard):
                # What was said and not begun when a signal came is not begun any more.
                self.post(self._failed("a signal ended this session before it could answer"))
            if self._is_over:
                return None
            if await self._is_due():
                await self._hear_news()
                continue
            if self._is_unspoken and not self._prompts:
                return None
            self._something.clear()
            await self._something.wait()

    async def _is_due(self) -> bool:
        """Whether background tasks have something to say that a turn is for; when nothing more will be
        typed, agents are waited for, and their news alone."""
        session = self.session
        if not self._is_unspoken:
            return session.parts.tasks.has_news()
        return await session.parts.agents.settled(self._ended)

    async def _hear_news(self) -> None:
        """A turn that nobody typed: the model hears what its tasks came to."""
        self._begin()
        begin_s, before = time.monotonic(), self.session.ledger().total
        ended = await self.session.conversation.answer_unheard(self._emit)
        await self._end_turn(ended, begin_s, before, origin={"kind": "task-notification"})
        await self._hear_rest()

    async def _hear_rest(self) -> None:
        """What came during a turn and was not heard in it is the next turn."""
        conversation = self.session.conversation
        while conversation.has_unheard and not self._is_stopped:
            self._begin()
            begin_s, before = time.monotonic(), self.session.ledger().total
            await self._end_turn(await conversation.answer_unheard(self._emit), begin_s, before)

    async def _turn(self, said: Said) -> Clear | Resume | None:
        self._begin()
        conversation, speaker = self.session.conversation, self._speaker(said)
        begin_s, before = time.monotonic(), self.session.ledger().total
        taken = await self._taken(said)
        if self._is_stopped:
            self._prompts.appendleft(said)
            return None
        if isinstance(taken, Clear | Resume):
            self._is_answered = True
            return taken
        if not isinstance(taken, Turn):
            if isinstance(taken, ExitSession):
                self.end()
            ended = await self._beside(taken)
            await self._introduce()
        elif said.asks:
            shaped = Shaped(
                conversation, self._emit, is_wanted=self._options.json_schema is not None
            )
            ended = await shaped.submit(
                taken.prompt,
                self._framing.tally,
                said_by=speaker,
                uuid=said.uuid,
                context=taken.context,
            )
        else:
            await conversation.keep(
                taken.prompt, self._emit, said_by=speaker, uuid=said.uuid, context=taken.context
            )
            self._framing.tally.turns = 0
            ended = TurnEnded(reason="completed")
        await self._end_turn(ended, begin_s, before, origin=said.origin)
        await self._hear_rest()
        return None

    async def _beside(self, taken: Taken) -> TurnEnded:
        """What a command does that asks the model nothing in the conversation."""
        tally = self._framing.tally
        if not isinstance(taken, CompactSession):
            return done_beside(taken, tally)
        return compacted(await self.session.conversation.compact(taken, self._emit), tally)

    async def _taken(self, said: Said) -> Taken:
        """What a prompt comes to; a host's own text may be no command and names no files."""
        if said.typed is not None and said.asks:
            return await take_line(
                self.session, Raw(text=said.typed, more=said.piped, is_lasting=True), self._emit
            )
        self.session.parts.lent.take_back()
        return await self.session.asked(said.content)

    def _begin(self) -> None:
        if self._suggestions is not None:
            self._suggestions.drop()
        self._is_answered = False
        self._is_introduced = False
        self._mark = self.session.story.said
        self._framing.begin()
        self._change_state("running")

    async def _emit(self, event: EngineEvent) -> None:
        framed = self._framing.framed(event)
        if isinstance(event, Compacted):
            # That it is done is told first, then how the session stands, then what it came to.
            await self._channel.send(framed.pop(0))
        if isinstance(event, Recorded | Compacted):
            await self._introduce()
        for frame in framed:
            await self._channel.send(frame)

    async def _introduce(self) -> None:
        if not self._is_introduced:
            self._is_introduced = True
            await self._channel.send(self._introduction())

    async def _end_turn(
        self, ended: TurnEnded, begin_s: float, before: Spend, origin: Json | None = None
    ) -> None:
        framing, session = self._framing, self.session
        # What an interruption cut off was recorded without an event.
        rest = session.story.since(self._mark)
        for frame in [*framing.entries(rest), *framing.close_stream()]:
            await self._channel.send(frame)
        ledger = session.ledger()
        framing.tally.api_ms = round(session.costs.spending.state.api_ms)
        said = result(
            ended,
            framing.tally,
            uuid=new_id(),
            duration_ms=round((time.monotonic() - begin_s) * 1000),
            usage=usage_of(ledger.total - before),
            cost_usd=cost_of(ledger.total),
            model_usage=usage_by_model(ledger),
        )
        said |= wire.answering(framing.answers)
        self._is_error = bool(said["is_error"])
        self._is_answered = True
        await self._channel.send(said if origin is None else said | {"origin": origin})
        if self._suggestions is not None and not self._is_error:
            self._suggestions.begin()
        waits = self._prompts or session.conversation.has_unheard or session.parts.agents.has_news
        if not waits and not session.parts.agents.are_working:
            self._change_state("idle")

    def _failed(self, words: str) -> Json:
        """The result of what failed before it could have one."""
        self._is_error = self._is_answered = True
        ended = TurnEnded(reason="failed", message=words)
        return result(
            ended,
            self._framing.tally,
            uuid=new_id(),
            duration_ms=0,
            usage=usage_of(Spend()),
            cost_usd=0.0,
            model_usage={},
        )

    async def _ask(self, asked: Question) -> Verdict:
        if self._options.asks is None:
            return await nobody(asked)
        if self._options.asks != "stdio":
            return await ask_tool(asked, self._options.asks, self.session)
        return await self._permission.ask(asked, self.session.rules)

    # -- what the controls need

    @property
    def session(self) -> Session:
        assert self._session is not None, "no session before the first line"
        return self._session

    @property
    def may_bypass(self) -> bool:
        return self._options.may_bypass

    def interrupt(self) -> list[str]:
        self.session.conversation.interrupt()
        return [said.uuid for said in self._prompts if said.uuid is not None]

    def withdraw(self, uuid: str) -> bool:
        found = next((said for said in self._prompts if said.uuid == uuid), None)
        if found is None:
            return self.session.conversation.take_back(uuid)
        self._prompts.remove(found)
        return True

    def end(self) -> None:
        self._is_over = True
        self._ended.set()
        self._something.set()

    def post(self, frame: Json) -> None:
        self._channel.post(frame)

    def status(self, **fields: Any) -> Json:
        return self._framing.system("status", **fields)

    def pending(self) -> list[str]:
        return self._host.open_requests()

    # -- small things

    def _speaker(self, said: Said) -> Speaker:
        return Speaker(source="sdk", mode=self.session.mode, origin=said.origin)

    def _introduction(self) -> Json:
        session = self.session
        return wire.init(
            session_id=session.session_id,
            uuid=new_id(),
            cwd=session.workspace.cwd,
            tools=[tool["name"] for tool in session.tools.definitions()],
            model=session.model.id,
            mode=session.mode,
            mcp_servers=listed(session.parts.mcp),
            key_source=session.model_access.key_source,
            commands=[command.name for command in known(session)],
            agents=[spec.name for spec in session.parts.agents.catalog],
            skills=[skill.name for skill in session.parts.skills.all() if skill.folder],
            plugins=[plugin.record() for plugin in session.parts.plugins],
            output_style=output_style(session),
            directories=session.rules.standing.context.directories,
        )

    def _task(self, task: BackgroundTask, moment: Moment) -> None:
        for frame in task_frames.framed(
            task, moment, self.session.parts.tasks.running, self._framing.system
        ):
            self.post(frame)

    def _notice(self, words: str) -> None:
        self.post(self._framing.notice(words))

    def _change_state(self, state: wire.State) -> None:
        """Tells those who asked to be told; the mark says that the host reads it and shows it nobody."""
        if state == self.state:
            return
        self.state = state
        emits = self._environ.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
        reads = self._environ.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
        if emits or reads:
            self.post(
                wire.state_changed(
                    state,
                    session_id=self.session.session_id,
                    uuid=new_id(),
                    for_host_only=not emits,
                )
            )


def is_command(said: Said) -> bool:
    """Whether a line of the host's is one of clew's own commands, which no running turn hears."""
    return said.typed is not None and isinstance(parse(said.typed, by_person=False), TypedCommand)


def entrypoint(environ: Mapping[str, str]) -> str:
    """Who started this process, as the log says it."""
    return environ.get("CLAUDE_CODE_ENTRYPOINT") or "sdk-cli"
