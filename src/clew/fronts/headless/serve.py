"""A session for a program: prompts and requests in, frames out, until the input ends.

This module owns the sessions of a channel: the handshake, one session after another, the answers to
requests between turns, and the end. `host_view` converts a turn to frames.

Decision: docs/decisions/140-host-protocol.md
"""

import asyncio
import signal
import sys
from collections.abc import Mapping

from msgspec.structs import replace

from clew.agent.deps import Question, Verdict
from clew.agent.options import Options
from clew.core import wire
from clew.core.messages.errors import (
    ClewError,
    MisuseError,
    find_first_error,
    format_error,
)
from clew.core.wire import (
    ControlRequest,
    HostAnswer,
    Incoming,
    MalformedLine,
    Said,
    WithdrawnRequest,
)
from clew.fronts.drive import Driver, make_next_options
from clew.fronts.ends import ENDED_BY
from clew.fronts.headless.channel import HostChannel
from clew.fronts.headless.controls import answer_control
from clew.fronts.headless.handshake import (
    HOST,
    Mirror,
    agents_of,
    apply_handshake,
    hooks_of,
    skills_of,
)
from clew.fronts.headless.host_view import TOO_LATE, HostInput, HostView
from clew.fronts.headless.permission import HostPermission, HostRequests, ask_tool, deny_unasked
from clew.fronts.headless.servers import make_elicit, to_host
from clew.fronts.headless.session_controls import ControlContext
from clew.parts.context import NOTHING, HostParts
from clew.session.build import open_session
from clew.session.session import Session
from clew.system.clock import make_id

LAST_WORDS_S = 2.0


class HostServer:
    """Serves a host over a channel. `run` returns the exit code."""

    def __init__(
        self,
        options: Options,
        channel: HostChannel,
        environ: Mapping[str, str],
        cwd: str,
        brought: HostParts = NOTHING,
    ) -> None:
        self._options = options
        self._channel = channel
        self._environ = environ
        self._cwd = cwd
        self._lines = HostInput()
        self._lines.may_wait = self._may_wait
        self._lines.tell = channel.warn
        self._view = view = HostView(channel, environ, self._lines)
        self._host = HostRequests(channel.post, make_id)
        self._permission = HostPermission(self._host, state=view.change_state, notice=view.notice)
        self._driver: Driver | None = None
        # Set while a session is open. Until then, requests have to wait.
        self._is_open = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()
        self._ended_by: int | None = None
        self._has_lost_entries = False
        # Why no session could be opened, for programs in the same process.
        self.failure: ClewError | None = None
        # Prompts that arrived before the handshake, if one is expected.
        self._early: list[Said] = []
        # The time limit for writing the last frames.
        self._leaving: asyncio.Timeout | None = None
        self._is_at_end = False
        # The last handshake; it applies to every session of this channel.
        self._handshake: ControlRequest | None = None
        self._brought = brought
        # Why lines of transcripts are lost, by session.
        self._lost: dict[str, str] = {}

    # -- running

    @property
    def error(self) -> str:
        """The error of the last turn; empty if it had none."""
        return self._view.error

    @property
    def session(self) -> Session:
        return self._view.session

    async def run(self) -> int:
        try:
            first = await self._first()
            if first is None:
                return 0
            await self._serve(first)
        except MisuseError:
            raise
        except ClewError as error:
            # The session could not be opened. Hosts read a result before the exit code.
            self.failure = error
            self._channel.warn(str(error))
            self._view.fail(str(error))
            return 1
        finally:
            if not self._view.is_answered:
                why = describe_crash(sys.exc_info()[1])
                self._view.fail(
                    f"clew failed during this turn{why}; the work so far is in the transcript"
                )
            if self._ended_by is not None:
                self._view.tell_end("host_exit")
            elif self._lost and not self._view.is_error:
                self._view.tell_lost(self._lost)
            await self._leave()
        if self._ended_by is not None:
            return ENDED_BY[signal.Signals(self._ended_by)]
        is_bad = self._view.is_error or self._channel.is_broken or self._has_lost_entries
        return 1 if is_bad else 0

    async def _first(self) -> Incoming | None:
        """Read up to the first line that needs a session; return it, or None if none arrives."""
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
        """Run a session, and then those that its commands start, until the input ends."""
        if isinstance(first, ControlRequest) and first.subtype == "initialize":
            self._options = apply_handshake(self._options, first.fields)
            self._bring(first)
        if self._options.max_frame_bytes is not None:
            self._channel.max_frame_bytes = self._options.max_frame_bytes
        options: Options | None = self._options
        controls = ControlContext(view=self._view, lines=self._lines, host=self._host)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(first, controls, group))
            failure: ClewError | None = None
            before = ""
            try:
                while options is not None:
                    options, before = await self._session_of(options, before)
            except ClewError as error:
                # Raised outside the task group, which would wrap it.
                failure = error
                for task in self._answering:
                    task.cancel()  # No session will open that these tasks could wait for.
            reading.cancel()
        if failure is not None:
            raise failure

    def _bring(self, request: ControlRequest) -> None:
        """Apply a handshake, which replaces any earlier one."""
        self._handshake = request
        self._brought = replace(
            self._brought,
            hooks=hooks_of(request.fields.get("hooks"), self._host),
            to_host=to_host(self._host),
            elicit=make_elicit(
                self._host, state=self._view.change_state, now=lambda: self._view.state
            ),
            agents=agents_of(request.fields),
            skills=skills_of(request.fields),
        )

    async def _session_of(self, options: Options, before: str) -> tuple[Options | None, str]:
        """Run one session.

        Return the options of the next session, or None if there is none, and the ID of this
        session.
        """
        view, lines = self._view, self._lines
        async with open_session(
            options,
            self._environ,
            self._cwd,
            self._ask,
            entrypoint=entrypoint(self._environ),
            brought=self._brought,
            mirror=Mirror(view.post, self._channel.warn) if options.mirrors else None,
        ) as session:
            lines.use(session)
            self._driver = Driver(session, lines, view, is_shaped=options.json_schema is not None)
            self._is_open.set()
            await view.open(session, options, before)
            try:
                then = await self._driver.run()
                view.is_answered |= not isinstance(then, int)
                if lines.is_stopped and (lines or session.conversation.has_unheard):
                    view.fail(TOO_LATE)
                session.parts.hooks.ending.followed_by(None if isinstance(then, int) else then)
            finally:
                await view.close()
            self._is_open.clear()
        self._has_lost_entries |= session.has_lost_entries
        for notice in session.parting():
            self._channel.warn(notice)
        if code := session.why_lines_are_lost():
            self._lost[session.session_id] = code
        return None if isinstance(then, int) else make_next_options(
            options, then
        ), session.session_id

    async def _leave(self) -> None:
        """Wait until all frames are written, but only briefly if the process has to end."""
        try:
            most_s = LAST_WORDS_S if self._lines.is_stopped else None
            async with asyncio.timeout(most_s) as self._leaving:
                await self._channel.aclose()
        except TimeoutError:
            self._channel.warn("the host stopped reading; the last lines were not delivered")

    def _may_wait(self) -> bool:
        """Return whether to wait for background tasks: nothing follows a failed turn."""
        return self._channel.has_reader() and not self._view.is_error

    def stop(self, number: int) -> None:
        """Handle a signal: interrupt the turn, keep its work, and end the session."""
        self._lines.is_stopped = True
        self._channel.hurry()
        if self._leaving is not None:
            self._leaving.reschedule(asyncio.get_running_loop().time() + LAST_WORDS_S)
        if number in ENDED_BY:
            self._ended_by = number
        self._lines.end()
        if self._driver is not None:
            self._driver.end(0)

    # -- input

    async def _read(
        self, first: Incoming, controls: ControlContext, group: asyncio.TaskGroup
    ) -> None:
        line: Incoming | None = first
        while line is not None:
            self._take(line, controls, group)
            for early in self._early:
                self._lines.say(early)
            self._early = []
            line = None if self._is_at_end else await self._channel.receive()
        self._host.leave()
        self._lines.close()

    def _take(self, line: Incoming, controls: ControlContext, group: asyncio.TaskGroup) -> None:
        match line:
            case Said():
                self._lines.say(line)
            case ControlRequest():
                if line.subtype == "interrupt":
                    self._interrupt(line)
                task = group.create_task(self._answer(line, controls))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case HostAnswer():
                self._host.answered(line)
            case MalformedLine():
                self._complain(line)
            case WithdrawnRequest():
                pass  # Every request is answered at once, so nothing can be withdrawn.

    def _interrupt(self, request: ControlRequest) -> None:
        """Interrupt the running turn or, if none runs, the prompt that would run next.

        Also interrupt the waiting prompts in `message_uuids`. This happens as soon as the request
        arrives, so that it can't affect a later prompt.
        """
        driver = self._driver if self._is_open.is_set() else None
        is_working = driver is not None and driver.interrupt()
        uuids = request.fields.get("message_uuids")
        self._lines.interrupt(uuids if isinstance(uuids, list) else (), with_first=not is_working)

    def _complain(self, line: MalformedLine) -> None:
        """Report an invalid line on standard error and to the host. The session continues."""
        words = f"ignored an invalid line on standard input: {line.why}"
        self._channel.warn(words)
        if line.request_id is not None:
            self._view.post(wire.make_refusal(line.request_id, line.why))
        else:
            self._view.notice(words)

    async def _answer(self, request: ControlRequest, controls: ControlContext) -> None:
        await self._is_open.wait()
        if request.subtype == "initialize":
            session = self._view.session
            if request is not self._handshake:
                self._bring(request)
                session.parts.hooks.remove(HOST)
                session.parts.hooks.add(self._brought.hooks)
                session.parts.skills.want(self._brought.skills)
                for fault in session.parts.agents.replace_hosts(self._brought.agents):
                    self._channel.warn(fault)
            await session.parts.mcp.in_host()
        await self._channel.send(await answer_control(controls, request))

    async def _ask(self, question: Question) -> Verdict:
        session = self._view.session
        if self._options.asks is None:
            return await deny_unasked(question)
        if self._options.asks != "stdio":
            return await ask_tool(question, self._options.asks, session)
        return await self._permission.ask(question, session.rules)


def describe_crash(raised: BaseException | None) -> str:
    """Return why a turn failed, for its result; empty if the session was merely cancelled."""
    error = None if raised is None else find_first_error(raised)
    if error is None or isinstance(error, asyncio.CancelledError):
        return ""
    return ": " + " ".join([format_error(error), *getattr(error, "__notes__", ())])


def entrypoint(environ: Mapping[str, str]) -> str:
    """Return the name of the program that started this process, for the transcript."""
    return environ.get("CLAUDE_CODE_ENTRYPOINT") or "sdk-cli"
