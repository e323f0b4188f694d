"""A session in this process: prompts in, typed messages out, permission requests to a function.

This module owns the task in which the session runs. When the client's context exits, the session
ends: its work is recorded and its child processes are ended. Cancelling `query` has the same
effect.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.agent.options import Options
from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import SessionError, find_first_error, format_error
from clew.core.messages.kinds import find_prompt_faults
from clew.core.wire import HostAnswer, Said
from clew.fronts.headless.host_view import NEWS
from clew.fronts.headless.permission import HostError, HostRequests
from clew.fronts.sdk.callbacks import call_hook, call_permission, report_failure
from clew.fronts.sdk.definition_checks import find_unmatched, may_match_nothing
from clew.fronts.sdk.memory import MemoryChannel, find_folder, make_environ
from clew.fronts.sdk.messages import Message, Result, read
from clew.fronts.sdk.option_checks import check_store, expect
from clew.fronts.sdk.option_words import say_in_python
from clew.fronts.sdk.options import ClewOptions, blocks_on_failure
from clew.parts.context import HostParts
from clew.parts.mcp.functions import answer_message
from clew.system.clock import make_id
from clew.system.config.paths import find_config_home
from clew.system.files import is_folder

if TYPE_CHECKING:
    from clew.fronts.sdk.session_store import ProgramStore, StoreMirror

OTHER_LOOP = (
    "this client belongs to the event loop that entered it; from another thread, use "
    "asyncio.run_coroutine_threadsafe, or create another client"
)
INNER_TURN = (
    "the running turn waits for this function, so another turn can't start; use `client.query`, "
    "whose prompt the model receives afterwards"
)
TWO_READERS = "another task is reading these messages; read them in one task and pass them on"


async def query(
    prompt: str | Sequence[Json], options: ClewOptions | None = None
) -> AsyncGenerator[Message, None]:
    """Send one prompt, and yield all messages up to its result."""
    async with ClewClient(options) as client:
        await client.query(prompt)
        async with aclosing(client.receive_response()) as messages:
            async for message in messages:
                yield message


def run_sync(prompt: str | Sequence[Json], options: ClewOptions | None = None) -> Result:
    """Send one prompt and return its result, in a program without an event loop."""

    async def run() -> Result:
        async with ClewClient(options) as client, client.turn(prompt) as turn:
            return await turn.finish()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    raise RuntimeError(
        "run_sync can't be called while an event loop is running, as in async functions and "
        "notebooks; use `async for message in clew.query(...)` or `async with clew.ClewClient(...)`"
    )


class ClewClient:
    """A session for several prompts.

    Use it as `async with ClewClient() as client`, then use `turn` for each prompt, or `query` and
    `receive_response`.

    Fields:
        options: The options of the session.
        session_id: The session's ID. It is known from the first message on, and changes with
            `/clear`.
        info: The session's description of itself: its commands, models and agents.
    """

    options: ClewOptions
    session_id: str | None
    info: Json

    def __init__(self, options: ClewOptions | None = None) -> None:
        expect("options", options, (ClewOptions, NoneType), "clew.ClewOptions")
        self.options = options or ClewOptions()
        self._channel = MemoryChannel()
        self._requests = HostRequests(self._channel.say_frame, make_id)
        # The messages for the program, each with the size of its frame; None for a message that the
        # session did not send.
        self._messages: asyncio.Queue[tuple[Message, int | None] | None] = asyncio.Queue()
        self._calls: dict[str, asyncio.Task[Json]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: asyncio.Task[int] | None = None
        self._pump: asyncio.Task[None] | None = None
        # Whether the client's context is exiting.
        self._is_leaving = False
        # The prompts without a result, and the turn that may read messages.
        self._unanswered: dict[str, None] = {}
        self._in_turn = asyncio.Lock()
        # Whether a reader waits for the next message.
        self._is_awaited = False
        self._turn_task: asyncio.Task[Any] | None = None
        self._mirror: StoreMirror | None = None
        self._mirroring: asyncio.Task[None] | None = None
        self.session_id = None
        self.info = {}

    async def __aenter__(self) -> "ClewClient":
        if self._session is not None:
            raise RuntimeError(
                "a client can be entered only once; create another one to resume its session"
            )
        self._loop = asyncio.get_running_loop()
        options = self.options
        environ, cwd = make_environ(options, os.environ), find_folder(options.cwd)
        check_folders(options, cwd)
        session_options = options.as_options()
        if options.session_store is not None:
            session_options = await self._open_store(
                options.session_store, session_options, environ, cwd
            )
        parts = HostParts(
            provider=options.provider,
            prepare=options.prepare,
            compact=options.compact,
            keeps_questions=options.can_use_tool is not None,
            has_loggers=logging.getLogger("clew").isEnabledFor(logging.DEBUG),
        )
        self._session = self._channel.start(session_options, environ, cwd, parts)
        self._pump = asyncio.create_task(self._deliver(), name="clew messages")
        try:
            self.info = await self._ask("initialize", hooks=self._hooks())
            await self._check_rules()
        except BaseException as error:
            await self._leave(in_haste=True)
            cause = self._cause()
            if isinstance(error, HostError) and cause is not None:
                raise HostError(say_in_python(str(cause) or format_error(cause))) from cause
            raise
        return self

    async def _check_rules(self) -> None:
        """Check the rules whose servers and agents are known only in the session.

        Raise an error for a deny rule that misspells a name, because the rule would deny nothing.
        For other unknown names, send a warning: they may exist in another folder.
        """
        for option in ("disallowed_tools", "allowed_tools"):
            rules = [rule for rule in getattr(self.options, option) if may_match_nothing(rule)]
            if not rules:
                continue
            servers = {
                server["name"]: [tool["name"] for tool in server["tools"]]
                for server in (await self._ask("mcp_status"))["mcpServers"]
            }
            agents = [agent["name"] for agent in self.info["agents"]]
            for words, is_misspelt in find_unmatched(rules, servers, agents):
                if is_misspelt and option == "disallowed_tools":
                    raise HostError(f"{option}: {words}")
                self._channel.warn(f"{option}: {words}")

    async def _open_store(
        self, store: "ProgramStore | str", given: Options, environ: Mapping[str, str], cwd: str
    ) -> Options:
        """Start copying to the store.

        Return the options, changed to resume a session of the store.
        """
        store = find_store(store) if isinstance(store, str) else store
        from clew.fronts.sdk.session_store import StoreMirror, bring_session

        home = find_config_home(environ, Path(cwd))
        if given.resume is not None or given.continues:
            try:
                session_id = await bring_session(store, home, cwd, given.resume)
            except (SessionError, OSError) as error:
                raise HostError(str(error)) from error
            if session_id is not None:
                given = replace(given, resume=session_id, continues=False)
        self._mirror = StoreMirror(store, home, self._report, self._channel.release)
        self._mirroring = asyncio.create_task(self._mirror.run(), name="clew store")
        return replace(given, mirrors=True)

    def _report(self, frame: Json) -> None:
        """Pass on a message about the store before the result, which waits for the store."""
        self._messages.put_nowait((read(frame), None))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._check_loop()
        await self._leave(in_haste=kind is not None)

    async def _leave(self, *, in_haste: bool) -> None:
        """End the session, at once if `in_haste`, otherwise after its turn."""
        assert self._session is not None
        assert self._pump is not None
        self._is_leaving = True
        self._channel.end()
        self._channel.leave()
        if in_haste:
            self._session.cancel()
        try:
            await self._wait_for_end(self._session)
            if self._mirror is not None:
                from clew.fronts.sdk.session_store import LEAVE_TIMEOUT_S

                await asyncio.wait([self._pump], timeout=LEAVE_TIMEOUT_S)
                self._mirror.give_up()
                await asyncio.wait([self._pump])
        finally:
            running: list[asyncio.Task[Any]] = [*self._calls.values(), self._pump]
            if self._mirroring is not None:
                running.append(self._mirroring)
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        if not in_haste and not self._session.cancelled() and self._session.exception():
            cause = self._cause()
            assert cause is not None
            raise HostError(f"the session failed: {format_error(cause)}") from cause

    async def _wait_for_end(self, session: asyncio.Task[int]) -> None:
        """Wait until the session has ended. If the wait is cancelled, end the session at once."""
        try:
            await asyncio.wait([session])
        except asyncio.CancelledError:
            session.cancel()
            await asyncio.wait([session])
            raise

    # -- sending

    async def query(self, prompt: str | Sequence[Json]) -> None:
        """Send a prompt.

        A running turn receives it at its next step; otherwise it starts a turn.
        """
        self._send(prompt)

    def turn(self, prompt: str | Sequence[Json]) -> "ClientTurn":
        """Return one prompt's turn: `async with client.turn(prompt) as turn: async for ...`.

        Turns of several tasks run one after another. If the context of a turn is left early, the
        turn is interrupted.
        """
        return ClientTurn(self, prompt)

    def _send(self, prompt: str | Sequence[Json]) -> str:
        expect("prompt", prompt, (Iterable,), "str or a list of blocks")
        content = prompt if isinstance(prompt, str) else list(prompt)
        if isinstance(content, list) and (problems := find_prompt_faults(content)):
            raise ValueError(f"invalid prompt: {'; '.join(problems)}")
        self._check()
        uuid = make_id()
        self._unanswered[uuid] = None
        self._channel.say(Said(content=decode(encode(content)), uuid=uuid))
        return uuid

    async def interrupt(self) -> None:
        """Interrupt all prompts that have been sent so far, and keep the work on them.

        Each prompt ends with its result. Later prompts are not affected.
        """
        session = self._session
        if self._is_leaving and session is not None and not session.done():
            session.cancel()  # The session reads no more requests.
        else:
            await self._ask("interrupt", message_uuids=list(self._unanswered))

    async def set_permission_mode(self, mode: str) -> None:
        """Change the permission mode at once."""
        await self._ask("set_permission_mode", mode=mode)

    async def set_model(self, model: str | None) -> None:
        """Change the model for the next request; None selects the default."""
        await self._ask("set_model", model=model)

    async def request(self, subtype: str, **fields: Any) -> Json:
        """Send a request such as `rewind_files`, and return the answer.

        docs/extending/stream-json.md lists the requests.
        """
        return await self._ask(subtype, **fields)

    async def context_usage(self) -> Json:
        """Return the context usage."""
        return await self._ask("get_context_usage")

    # -- receiving

    async def receive_messages(self) -> AsyncGenerator[Message, None]:
        """Yield all messages until the session ends."""
        while (arrived := await self._next_message()) is not None:
            message, size = arrived
            if size is not None:
                self._channel.release(size)
            if isinstance(message, Result):
                self._note_answered(message.data)
            yield message
        self._messages.put_nowait(None)  # Every later reader ends here, too.

    async def _next_message(self) -> tuple[Message, int | None] | None:
        """Return the next message, or None after the last one.

        Raise an error if another reader waits for it.
        """
        self._check_loop()
        if self._is_awaited:
            raise RuntimeError(TWO_READERS)
        self._is_awaited = True
        try:
            return await self._messages.get()
        finally:
            self._is_awaited = False

    def _note_answered(self, result: Json) -> None:
        """Remove the prompts that a result answers from the prompts without a result."""
        answered = result.get("user_message_uuids") or []
        if not answered and (result.get("origin") or {}).get("kind") != NEWS:
            answered = [*self._unanswered][:1]  # A command such as /clear, the oldest prompt.
        for uuid in answered:
            self._unanswered.pop(uuid, None)

    async def receive_response(self) -> AsyncGenerator[Message, None]:
        """Yield all messages up to and including the next result."""
        async with aclosing(self.receive_messages()) as messages:
            async for message in messages:
                yield message
                if isinstance(message, Result):
                    return

    # -- the protocol

    async def _ask(self, subtype: str, **fields: Any) -> Json:
        self._check()
        for name, value in fields.items():
            # Encoded as JSON, they would become another string without an error.
            if isinstance(value, bytes | bytearray | memoryview):
                kind = type(value).__name__
                raise HostError(f"{subtype}: {name}: expected a JSON value, got {kind}")
        return await self._requests.ask(subtype, fields)

    def _check(self) -> None:
        """Raise an error if no session is running, because nothing would answer a message."""
        if self._pump is None:
            raise RuntimeError("no session: use `async with ClewClient(...) as client`")
        self._check_loop()
        if self._is_leaving and not self._pump.done():
            raise HostError("the client is closing, so its session accepts no more requests")
        if self._pump.done():
            raise HostError("the session has ended") from self._cause()

    def _check_loop(self) -> None:
        """Raise an error in another event loop, where waiting for the session would never end."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise RuntimeError(OTHER_LOOP)

    def _check_end(self, last: Message | None) -> None:
        """Raise an error if the session ended before a result."""
        if not isinstance(last, Result):
            raise HostError("the session has ended") from self._cause()

    def _cause(self) -> BaseException | None:
        """Return the error that ended the session, if any."""
        if self._session is None or not self._session.done() or self._session.cancelled():
            return self._channel.failure
        error = self._session.exception()
        return self._channel.failure if error is None else find_first_error(error)

    async def _deliver(self) -> None:
        errors = ["the session has ended"]
        while (arrived := await self._channel.next()) is not None:
            frame, size = arrived
            if frame["type"].startswith("control_"):
                self._channel.release(size)
            match frame["type"]:
                case "control_response":
                    self._answered(frame["response"])
                case "control_request":
                    self._called(frame)
                case "control_cancel_request":
                    self._withdrawn(frame["request_id"])
                case "transcript_mirror" if self._mirror is not None:
                    self._mirror.take(frame, size)
                case _:
                    if frame["type"] == "result" and self._mirror is not None:
                        await self._mirror.flush()
                    self.session_id = frame.get("session_id") or self.session_id
                    self._messages.put_nowait((read(name_options(frame)), size))
                    errors = frame.get("errors") or errors
        if self._mirror is not None:
            await self._mirror.flush()
        self._messages.put_nowait(None)
        self._requests.leave("; ".join(errors))

    def _answered(self, response: Json) -> None:
        self._requests.answered(
            HostAnswer(
                request_id=response["request_id"],
                response=response.get("response", {}),
                error=response["error"] if response["subtype"] == "error" else None,
            )
        )

    def _called(self, frame: Json) -> None:
        request_id = frame["request_id"]
        call = asyncio.create_task(self._said_to(frame["request"]))
        self._calls[request_id] = call
        call.add_done_callback(lambda done: self._ended(frame, done))

    def _ended(self, frame: Json, call: asyncio.Task[Json]) -> None:
        """Send the result or the error of a program's function to the session.

        This includes a cancelled function. The session ignores answers to calls that it has
        withdrawn.
        """
        request_id = frame["request_id"]
        del self._calls[request_id]
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        response: Json = {}
        if error is None:
            try:
                response = decode(encode(call.result()))
            except TypeError as odd:  # A value that JSON cannot represent.
                error = odd
        words = None
        if error is not None:
            words = format_error(error)
            if not call.cancelled():
                report_failure(frame["request"], tuple(self.options.hooks), error)
        self._channel.say(HostAnswer(request_id=request_id, response=response, error=words))

    def _withdrawn(self, request_id: str) -> None:
        call = self._calls.get(request_id)
        if call is not None:
            call.cancel()

    async def _said_to(self, request: Json) -> Json:
        if request["subtype"] == "hook_callback":
            return await call_hook(self.options.hooks[int(request["callback_id"])], request)
        if request["subtype"] == "mcp_message":
            return {
                "mcp_response": await answer_message(self.options.functions, request["message"])
            }
        if self.options.can_use_tool is None or request["subtype"] != "can_use_tool":
            raise HostError(f"{request['subtype']} is not supported here")
        return await call_permission(self.options.can_use_tool, request)

    def _hooks(self) -> Json:
        events: dict[str, list[Json]] = {}
        for place, hook in enumerate(self.options.hooks):
            events.setdefault(hook.event, []).append(
                {
                    "matcher": hook.matcher,
                    "hookCallbackIds": [str(place)],
                    "timeout": hook.timeout_s,
                    "onFailure": "block" if blocks_on_failure(hook) else "continue",
                }
            )
        return events


def check_folders(options: ClewOptions, cwd: str) -> None:
    """Raise an error for a folder among the options that does not exist."""
    for option in ("add_dirs", "plugin_dirs"):
        for name in getattr(options, option):
            if not is_folder(Path(cwd, Path(name).expanduser())):
                raise HostError(f"{option}: folder not found: {name!r}; create it, or leave it out")


def name_options(frame: Json) -> Json:
    """Return a frame in whose notices and errors options have their Python names."""
    if frame["type"] == "system" and isinstance(frame.get("content"), str):
        return frame | {"content": say_in_python(frame["content"])}
    if frame["type"] == "result" and frame.get("errors"):
        return frame | {"errors": [say_in_python(words) for words in frame["errors"]]}
    return frame


def find_store(url: str) -> "ProgramStore":
    """Return a store from an installed package.

    `url`, such as `redis://host`, selects the package.
    """
    from clew.system.plug_ins import STORES, load_plug_in

    scheme = url.partition("://")[0]
    make = load_plug_in(STORES, scheme)
    if make is None:
        raise HostError(f"session_store: no installed package offers {scheme!r} stores")
    store: ProgramStore = make(url)
    check_store(store)
    return store


class ClientTurn:
    """One prompt with its own messages and result.

    Enter it with `async with`; then iterate over it for the messages, or call `finish`.
    """

    def __init__(self, client: ClewClient, prompt: str | Sequence[Json]) -> None:
        self._client = client
        self._prompt = prompt
        self._uuid = ""
        self._result: Result | None = None
        self._reader: asyncio.Task[Any] | None = None

    @property
    def result(self) -> Result:
        """The turn's result. Raise `RuntimeError` before the turn has ended."""
        if self._result is None:
            raise RuntimeError("the turn has no result yet; read its messages or call `finish`")
        return self._result

    async def finish(self) -> Result:
        """Read the rest of the turn and return its result."""
        async for _ in self:
            pass
        return self.result

    async def __aenter__(self) -> "ClientTurn":
        client, task = self._client, asyncio.current_task()
        client._check_loop()
        if task in client._calls.values() and (client._unanswered or client._in_turn.locked()):
            raise RuntimeError(INNER_TURN)
        if client._turn_task is not None and client._turn_task is task:
            raise RuntimeError(
                "exit the current turn before you start another one in the same task"
            )
        await client._in_turn.acquire()
        client._turn_task = task
        try:
            while client._unanswered:  # Prompts sent with `query`, or a turn that was left.
                await self._read_result()
            self._uuid = client._send(self._prompt)
        except BaseException:
            self._release()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        client = self._client
        try:
            is_running = client._pump is not None and not client._pump.done()
            if is_running and self._uuid in client._unanswered:
                with suppress(HostError):  # The session has ended meanwhile.
                    await client.interrupt()
        finally:
            self._release()

    def _release(self) -> None:
        self._client._turn_task = None
        self._client._in_turn.release()

    async def __aiter__(self) -> AsyncGenerator[Message, None]:
        if not self._uuid:
            raise RuntimeError("the turn has not started; use `async with client.turn(prompt)`")
        if self._reader is not None and self._reader is not asyncio.current_task():
            raise RuntimeError(TWO_READERS)
        self._reader = asyncio.current_task()
        try:
            while self._result is None:
                async for message in self._client.receive_response():
                    if isinstance(message, Result) and self._uuid not in self._client._unanswered:
                        self._result = message
                    yield message
                self._client._check_end(self._result)
        finally:
            self._reader = None

    async def _read_result(self) -> None:
        last: Message | None = None
        async for message in self._client.receive_response():
            last = message
        self._client._check_end(last)
