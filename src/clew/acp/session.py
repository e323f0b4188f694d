"""One session of an editor: opened, prompted one turn at a time, cancelled, closed.

Owns the turn that runs and what the client was last told of mode, plan and window. It lives in a task of
its own, so that many stand side by side; whatever becomes of one turn, its prompt is answered.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from clew.acp import calls
from clew.acp.asking import Asking, Client
from clew.acp.choices import Choices
from clew.acp.content import Prompt, text
from clew.acp.protocol import AUTH_REQUIRED
from clew.acp.telling import Telling
from clew.app.brought import Brought
from clew.app.build import session as open_session
from clew.app.session import Session
from clew.app.slash import known
from clew.commands.outcome import Compact
from clew.engine.conversation import Speaker
from clew.engine.deps import Question, Refused, Verdict
from clew.engine.events import EngineEvent, ToolFinished, TurnEnded
from clew.engine.intake import Raw, Taken, Turn, title_of
from clew.headless.result import beside
from clew.jsonrpc.wire import INTERNAL_ERROR, Fault
from clew.messages.errors import OutsideError, UserError
from clew.messages.wording import rejected_by_user
from clew.options import Options
from clew.session.recache import last_size
from clew.stream.events import MessageFinished
from clew.tools.text_file import decode

Json: TypeAlias = dict[str, Any]

# Of a file that a call will replace: a larger one is shown as what it will be.
MAX_SHOWN_BYTES = 128 << 10
TITLE_CHARS = 80
CANCELLED: Json = {"stopReason": "cancelled"}


class EditorSession:
    """`session` is there once `opened` has told so; `group` holds the turns."""

    def __init__(
        self,
        options: Options,
        environ: Mapping[str, str],
        cwd: str,
        client: Client,
        group: asyncio.TaskGroup,
    ) -> None:
        self._options = options
        self._environ = environ
        self._cwd = cwd
        self._client = client
        self._group = group
        self._session: Session | None = None
        self._asking: Asking | None = None
        self._one_turn = asyncio.Lock()
        self._cancels = 0
        self._taking: asyncio.Future[Taken] | None = None
        self._over = asyncio.Event()
        self._is_titled = False
        self._told: dict[str, Any] = {}

    # -- its life

    async def live(self, brought: Brought, opened: "asyncio.Future[Session]") -> None:
        """Stands open until it is closed; what keeps it from opening is told to `opened`."""
        try:
            async with open_session(
                self._options,
                self._environ,
                self._cwd,
                self._ask,
                entrypoint="acp",
                brought=brought,
            ) as session:
                self._begin(session)
                if not opened.done():
                    opened.set_result(session)
                    await self._over.wait()
        except (UserError, OutsideError, OSError) as error:
            if opened.done():
                self._notice(str(error))
            else:
                opened.set_exception(error)

    def _begin(self, session: Session) -> None:
        self._session = session
        session.agents.heard = self._emit
        self.choices = Choices(session, may_bypass=self._options.may_bypass)
        self._asking = Asking(self._client, session.rules, self._cwd, shown_text)
        self._telling = Telling(session.tools.title, lambda: self._cwd, shown_text)
        self._told = {"mode": session.mode, "plan": session.spending.state.todos}
        self._is_titled = bool(len(session.story.history))

    @property
    def session(self) -> Session:
        assert self._session is not None, "the session is not open yet"
        return self._session

    async def close(self) -> None:
        """Ends the turn that runs, and then the session."""
        self.cancel()
        async with self._one_turn:
            self._over.set()

    # -- what the client is told at the start

    def state(self) -> Json:
        return {"modes": self.choices.modes(), "configOptions": self.choices.options()}

    def introduce(self) -> None:
        """What a client wants to know of a session that it just got."""
        commands = [
            {
                "name": command.name,
                "description": command.description,
                **({"input": {"hint": command.hint}} if command.hint else {}),
            }
            for command in known(self.session)
            if not command.is_interactive
        ]
        self._client.tell(
            {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        )
        for notice in self.session.notices:
            self._notice(notice)
        self._tell_usage()

    def replay(self) -> None:
        """The conversation so far."""
        for update in self._telling.replayed(self.session.story.history):
            self._client.tell(update)
        if self.session.spending.state.todos:
            self._client.tell(calls.plan(self.session.spending.state.todos))

    # -- turns

    async def prompt(self, prompt: Prompt) -> Json | Fault:
        """Answers a prompt after those before it. Whoever takes the request back ends the turn."""
        turn = self._group.create_task(self._turn(prompt, self._cancels))
        try:
            return await asyncio.shield(turn)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Ends the turn that runs, and those that wait for it."""
        self._cancels += 1
        if self._taking is not None:
            self._taking.cancel()
        if self._session is not None:
            self._session.conversation.interrupt()

    async def _turn(self, prompt: Prompt, cancels: int) -> Json | Fault:
        async with self._one_turn:
            if self._cancels != cancels or self._over.is_set():
                return CANCELLED
            for words in prompt.left_out:
                self._notice(f"left out of the prompt: {words}")
            raw = Raw(text=prompt.text, more=prompt.embedded, pasted=prompt.images)
            taken = await self._taken(self.session.take(raw, self._emit))
            if taken is None:
                answer: Json | Fault = CANCELLED
            elif isinstance(taken, Turn):
                answer = await self._answered(taken)
            elif isinstance(taken, Compact):
                answer = await self._shortened(taken)
            else:
                self._say(as_block(beside(taken).text))
                answer = {"stopReason": "end_turn"}
            self._tell_changes()
            await self._client.room()
            return answer

    async def _taken(self, work: Coroutine[Any, Any, Taken]) -> Taken | None:
        """What a prompt comes to; None where it was cancelled on the way."""
        self._taking = taking = asyncio.ensure_future(work)
        try:
            await asyncio.wait({taking})
        finally:
            self._taking = None
        return None if taking.cancelled() else taking.result()

    async def _shortened(self, order: Compact) -> Json | Fault:
        ended = await self.session.conversation.compact(order, self._emit)
        if ended.reason.startswith("aborted"):
            return CANCELLED
        self._say(as_block(ended.message))
        self._tell_usage()
        return {"stopReason": "end_turn"}

    async def _answered(self, turn: Turn) -> Json | Fault:
        session = self.session
        ended = await session.conversation.submit(
            turn.prompt,
            self._emit,
            said_by=Speaker(source="sdk", mode=session.mode),
            context=turn.context,
        )
        for update in self._telling.closed():
            self._client.tell(update)
        self._tell_usage()
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        info: Json = {"sessionUpdate": "session_info_update", "updatedAt": now}
        if not self._is_titled:
            self._is_titled = True
            info["title"] = title_of(turn.prompt).strip().split("\n", 1)[0][:TITLE_CHARS]
        self._client.tell(info)
        return ended_as(ended)

    async def _emit(self, event: EngineEvent) -> None:
        for update in self._telling.told(event):
            self._client.tell(update)
        match event:
            case ToolFinished():
                self._tell_changes()
            case MessageFinished():
                self._tell_usage()
        await self._client.room()

    async def _ask(self, question: Question) -> Verdict:
        if self._asking is None:
            return Refused(words=rejected_by_user(), stop=True)
        for update in self._telling.described(question.block):
            self._client.tell(update)
        return await self._asking.ask(question)

    # -- what changed

    async def set_option(self, key: str, value: Any) -> None:
        """Raises `SettingsError` where there is no such setting or value."""
        await self.choices.set(key, value)
        self._tell_changes()

    def _tell_changes(self) -> None:
        """What is another than the client was last told."""
        session = self.session
        if self._told["mode"] != session.mode:
            self._told["mode"] = session.mode
            self._client.tell(
                {"sessionUpdate": "current_mode_update", "currentModeId": session.mode}
            )
            self._client.tell(
                {
                    "sessionUpdate": "config_option_update",
                    "configOptions": self.choices.options(),
                }
            )
        if self._told["plan"] != session.spending.state.todos:
            self._told["plan"] = session.spending.state.todos
            self._client.tell(calls.plan(session.spending.state.todos))

    def _tell_usage(self) -> None:
        session = self.session
        window, last = session.model.context_window, last_size(list(session.story.history))
        if window is None:
            return
        total = session.ledger().total
        cost = {} if total.unpriced else {"cost": {"amount": float(total.usd), "currency": "USD"}}
        used = 0 if last is None else last.total
        self._client.tell({"sessionUpdate": "usage_update", "used": used, "size": window, **cost})

    def _notice(self, words: str) -> None:
        self._say(f"> clew: {words}\n\n")

    def _say(self, words: str) -> None:
        self._client.tell({"sessionUpdate": "agent_message_chunk", "content": text(words)})


def as_block(words: str) -> str:
    """The words of a command, which are laid out for a terminal."""
    return f"```\n{words}\n```" if "\n" in words else words


def ended_as(ended: TurnEnded) -> Json | Fault:
    """Why a turn ended, in the protocol's words; a failure is an error of the request."""
    match ended.reason:
        case "aborted_streaming" | "aborted_tools" | "denied_and_stopped":
            return CANCELLED
        case "max_turns":
            return {"stopReason": "max_turn_requests"}
        case "refused":
            return {"stopReason": "refusal"}
        case "completed" if ended.stop_reason == "max_tokens":
            return {"stopReason": "max_tokens"}
        case "completed" | "stopped_by_hook" | "left":
            return {"stopReason": "end_turn"}
    code = AUTH_REQUIRED if ended.status == 401 else INTERNAL_ERROR
    return Fault(code=code, message=ended.message or ended.reason, data={"reason": ended.reason})


def shown_text(path: str) -> str | None:
    """The text of a file as a diff shows it."""
    try:
        if Path(path).stat().st_size > MAX_SHOWN_BYTES:
            return None
        found = decode(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
    return None if found is None else found.text
