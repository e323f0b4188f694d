"""One session of an editor, from opening to closing.

This module owns the waiting prompts, and the mode, plan and context usage that were last sent to
the client. A session runs one turn at a time, in its own task, so that several sessions can run at
once. Every prompt is answered, whatever happens in its turn.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.agent.deps import Question, Refused, Verdict
from clew.agent.events import EngineEvent, ToolFinished, TurnEnded
from clew.agent.intake import Raw, Turn, title_of
from clew.agent.options import Options
from clew.agent.tools.files import decode
from clew.commands.slash.table import collect_commands
from clew.core.input import Show
from clew.core.json_object import Json
from clew.core.ledger.spending import find_last_size
from clew.core.messages.errors import OutsideError, SettingsError, UserError
from clew.core.messages.text import describe_user_rejection
from clew.core.stream.events import MessageFinished
from clew.fronts.drive import Cause, Driver, FrontInput, FrontView, Line, Next
from clew.fronts.editor import protocol
from clew.fronts.editor.asking import EditorQuestions
from clew.fronts.editor.client import EditorClient
from clew.fronts.editor.protocol import AUTH_REQUIRED, EditorPrompt, text
from clew.fronts.editor.telling import EditorUpdates
from clew.parts.context import HostParts
from clew.permissions.in_session import enter_current_mode
from clew.permissions.modes import MODES, RefusedMode
from clew.permissions.request import Mode
from clew.providers.base import Effort
from clew.session.build import open_session
from clew.session.session import Session
from clew.system.jsonrpc.wire import INTERNAL_ERROR, RpcFault

# The options that a client can set: mode, model, reasoning effort.


MODE_WORDS: dict[Mode, tuple[str, str]] = {
    "default": ("Ask", "Ask before edits and commands not covered by an allow rule"),
    "acceptEdits": ("Accept edits", "Make edits in the workspace without asking"),
    "plan": ("Plan", "Read and plan without making changes"),
    "auto": ("Auto", "A reviewer model decides about calls that no rule covers"),
    "dontAsk": ("Don't ask", "Deny calls that no rule allows, without asking"),
    "bypassPermissions": (
        "Bypass permissions",
        "Run calls without asking, except those that rules deny or ask about",
    ),
}
EFFORTS: dict[str, Effort | None] = {
    "default": None, "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh",
    "max": "max",
}  # fmt: skip


class EditorSettings:
    """The options of one session that a client can set. An unavailable value is rejected."""

    def __init__(self, session: Session, *, may_bypass: bool) -> None:
        self._session = session
        self._may_bypass = may_bypass

    def modes(self) -> Json:
        return {
            "currentModeId": self._session.mode,
            "availableModes": [
                {"id": mode, "name": name, "description": words}
                for mode, (name, words) in MODE_WORDS.items()
                if mode in self._modes()
            ],
        }

    def options(self) -> list[Json]:
        modes = [
            {"value": mode, "name": name, "description": words}
            for mode, (name, words) in MODE_WORDS.items()
            if mode in self._modes()
        ]
        efforts = [{"value": word, "name": word.capitalize()} for word in EFFORTS]
        effort = self._session.model_access.requests.template.effort or "default"
        return [
            select("mode", "Mode", self._session.mode, modes),
            select("model", "Model", self._session.model.id, self._models()),
            select("thought_level", "Effort", effort, efforts),
        ]

    async def set(self, key: str, value: Any) -> None:
        """Set an option. Raise `SettingsError` if the option or its value is unknown."""
        if not isinstance(value, str):
            raise SettingsError(f"{key}: must be the ID of a value")
        match key:
            case "mode":
                self._session.parts.planning.change_mode(value)
            case "model":
                await self._session.model_access.switching.to(value)
            case "thought_level" if value in EFFORTS:
                self._session.model_access.speaking.effort(EFFORTS[value])
            case "thought_level":
                raise SettingsError(
                    f"thought_level: expected one of {', '.join(EFFORTS)}, got {value!r}"
                )
            case _:
                raise SettingsError(f"{key}: unknown option")

    def _modes(self) -> list[Mode]:
        standing = self._session.rules.standing
        return [
            mode
            for mode in MODES
            if not isinstance(
                enter_current_mode(replace(standing, context=replace(standing.context, mode=mode))),
                RefusedMode,
            )
            and (mode != "bypassPermissions" or self._may_bypass or mode == self._session.mode)
        ]

    def _models(self) -> list[Json]:
        models = {model.id: model for model in self._session.model_access.speaking.models}
        models.setdefault(self._session.model.id, self._session.model)
        return [{"value": model.id, "name": model.name} for model in models.values()]


def select(key: str, name: str, current: str, values: list[Json]) -> Json:
    return {
        "id": key,
        "name": name,
        "category": key,
        "type": "select",
        "currentValue": current,
        "options": values,
    }


# The maximum size of a replaced file. For a larger file, only the new text is shown.
MAX_SHOWN_BYTES = 128 << 10
TITLE_CHARS = 80
CANCELLED: Json = {"stopReason": "cancelled"}
END_TURN: Json = {"stopReason": "end_turn"}
Answer: TypeAlias = asyncio.Future[Json | RpcFault]


class EditorInput(FrontInput):
    """The prompts from an editor, in order. Each is a request, which gets exactly one answer."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[EditorPrompt, Answer]] = deque()
        self._changed = asyncio.Event()
        self._is_over = False
        # The current prompt and the future of its answer.
        self.prompt = EditorPrompt(text="")
        self._answer: Answer | None = None

    def say(self, prompt: EditorPrompt) -> "Answer":
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting.append((prompt, answer))
        if self._is_over:
            self.cancel()
        self._changed.set()
        return answer

    async def next(self) -> Next:
        while not self._waiting:
            if self._is_over:
                return None
            self._changed.clear()
            await self._changed.wait()
        self.prompt, self._answer = self._waiting.popleft()
        prompt = self.prompt
        return Line(raw=Raw(text=prompt.text, more=prompt.embedded, pasted=prompt.images))

    def answer(self, reply: Json | RpcFault) -> None:
        """Answer the current prompt."""
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(reply)

    def cancel(self) -> None:
        """Answer all waiting prompts as cancelled."""
        while self._waiting:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(CANCELLED)

    def end(self) -> None:
        self._is_over = True
        self.cancel()
        self._changed.set()


class EditorView(FrontView):
    """The view that sends a session's updates to a client. Nothing is sent twice."""

    def __init__(
        self,
        session: Session,
        client: EditorClient,
        lines: EditorInput,
        choices: EditorSettings,
        cwd: str,
    ) -> None:
        self._session = session
        self._client = client
        self._lines = lines
        self._choices = choices
        self._telling = EditorUpdates(session.tools.title, lambda: cwd, shown_text)
        self._told = {"mode": session.mode, "plan": session.costs.spending.state.todos}
        self._is_titled = bool(len(session.story.history))

    # -- start

    def introduce(self) -> None:
        """Send what a client needs to know about a new session."""
        commands = [
            {
                "name": command.name,
                "description": command.description,
                **({"input": {"hint": command.hint}} if command.hint else {}),
            }
            for command in collect_commands(self._session)
            if not command.is_interactive
        ]
        self._client.tell(
            {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        )
        for notice in self._session.notices:
            self.notice(notice)
        self._tell_usage()

    def replay(self) -> None:
        """Send the conversation so far."""
        for update in self._telling.replayed(self._session.story.history):
            self._client.tell(update)
        if self._session.costs.spending.state.todos:
            self._client.tell(protocol.plan(self._session.costs.spending.state.todos))

    # -- turns

    async def emit(self, event: EngineEvent) -> None:
        for update in self._telling.told(event):
            self._client.tell(update)
        match event:
            case ToolFinished():
                self.tell_changes()
            case MessageFinished():
                self._tell_usage()
        await self._client.room()

    def taking(self, _: Line) -> AbstractAsyncContextManager[None]:
        for words in self._lines.prompt.left_out:
            self.notice(f"omitted from the prompt: {words}")
        return nullcontext()

    async def untaken(self, _: Line) -> None:
        await self._answer(CANCELLED)

    async def show(self, outcome: Show, _: Line | None) -> None:
        self._say(as_block(outcome.text))
        await self._answer(END_TURN)

    async def end_turn(self, ended: TurnEnded, cause: Cause) -> None:
        if cause.order is not None and ended.reason.startswith("aborted"):
            await self._answer(CANCELLED)
        elif cause.order is not None:
            self._say(as_block(ended.message))
            self._tell_usage()
            await self._answer(END_TURN)
        else:
            for update in self._telling.closed():
                self._client.tell(update)
            self._tell_usage()
            self._tell_title(cause.turn)
            await self._answer(ended_as(ended))

    async def _answer(self, reply: Json | RpcFault) -> None:
        self.tell_changes()
        await self._client.room()
        self._lines.answer(reply)

    def describe(self, block: Json) -> None:
        """Send the description of a call that needs approval."""
        for update in self._telling.described(block):
            self._client.tell(update)

    # -- changes

    def _tell_title(self, turn: Turn | None) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        info: Json = {"sessionUpdate": "session_info_update", "updatedAt": now}
        if turn is not None and not self._is_titled:
            self._is_titled = True
            info["title"] = title_of(turn.prompt).strip().split("\n", 1)[0][:TITLE_CHARS]
        self._client.tell(info)

    def tell_changes(self) -> None:
        """Send what has changed since the last update."""
        session = self._session
        if self._told["mode"] != session.mode:
            self._told["mode"] = session.mode
            self._client.tell(
                {"sessionUpdate": "current_mode_update", "currentModeId": session.mode}
            )
            self._client.tell(
                {
                    "sessionUpdate": "config_option_update",
                    "configOptions": self._choices.options(),
                }
            )
        if self._told["plan"] != session.costs.spending.state.todos:
            self._told["plan"] = session.costs.spending.state.todos
            self._client.tell(protocol.plan(session.costs.spending.state.todos))

    def _tell_usage(self) -> None:
        session = self._session
        window, last = session.model.context_window, find_last_size(list(session.story.history))
        if window is None:
            return
        total = session.ledger().total
        cost = {} if total.unpriced else {"cost": {"amount": float(total.usd), "currency": "USD"}}
        used = 0 if last is None else last.total
        self._client.tell({"sessionUpdate": "usage_update", "used": used, "size": window, **cost})

    def notice(self, words: str) -> None:
        self._say(f"> clew: {words}\n\n")

    def _say(self, words: str) -> None:
        self._client.tell({"sessionUpdate": "agent_message_chunk", "content": text(words)})


class EditorSession:
    """One session, from opening to closing. `view` and `session` are set once it has opened."""

    session: Session
    view: EditorView
    choices: EditorSettings

    def __init__(
        self, options: Options, environ: Mapping[str, str], cwd: str, client: EditorClient
    ) -> None:
        self._options = options
        self._environ = environ
        self._cwd = cwd
        self._client = client
        self._lines = EditorInput()
        self._asking: EditorQuestions | None = None
        self._driver: Driver | None = None

    async def live(self, brought: HostParts, opened: "asyncio.Future[Session]") -> None:
        """Run the session until it is closed. If it can't be opened, `opened` raises the error."""
        try:
            async with open_session(
                self._options,
                self._environ,
                self._cwd,
                self._ask,
                entrypoint="acp",
                brought=brought,
            ) as session:
                self.session = session
                self.choices = EditorSettings(session, may_bypass=self._options.may_bypass)
                self._asking = EditorQuestions(self._client, session.rules, self._cwd, shown_text)
                self.view = EditorView(session, self._client, self._lines, self.choices, self._cwd)
                self._driver = Driver(session, self._lines, self.view)
                if not opened.done():
                    opened.set_result(session)
                    await self._driver.run()
        except (UserError, OutsideError, OSError) as error:
            if opened.done():
                self.view.notice(str(error))
            else:
                opened.set_exception(error)
        finally:
            self._lines.end()
            self._lines.answer(CANCELLED)

    def close(self) -> None:
        """Interrupt the running turn, and close the session."""
        self._lines.end()
        self.cancel()

    def state(self) -> Json:
        return {"modes": self.choices.modes(), "configOptions": self.choices.options()}

    async def prompt(self, prompt: EditorPrompt) -> Json | RpcFault:
        """Queue a prompt and return its answer.

        If this call is cancelled, interrupt the prompt's turn.
        """
        try:
            return await asyncio.shield(self._lines.say(prompt))
        except asyncio.CancelledError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Interrupt the running turn, and cancel the waiting prompts."""
        self._lines.cancel()
        if self._driver is not None:
            self._driver.stop()

    async def set_option(self, key: str, value: Any) -> None:
        """Set an option. Raise `SettingsError` if the option or its value is unknown."""
        await self.choices.set(key, value)
        self.view.tell_changes()

    async def _ask(self, question: Question) -> Verdict:
        if self._asking is None:
            return Refused(words=describe_user_rejection(), stop=True)
        self.view.describe(question.block)
        return await self._asking.ask(question)


def as_block(words: str) -> str:
    """Return a command's output, which is laid out for a terminal, as a code block."""
    return f"```\n{words}\n```" if "\n" in words else words


def ended_as(ended: TurnEnded) -> Json | RpcFault:
    """Return the reason why a turn ended, in the protocol's terms.

    For a failed turn, return an error response.
    """
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
    return RpcFault(code=code, message=ended.message or ended.reason, data={"reason": ended.reason})


def shown_text(path: str) -> str | None:
    """Return the text of a file for a diff, or None if the file cannot be shown."""
    try:
        if Path(path).stat().st_size > MAX_SHOWN_BYTES:
            return None
        file_text = decode(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
    return None if file_text is None else file_text.text
