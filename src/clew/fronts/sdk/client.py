"""A session in this process: prompts in, typed messages out, permission requests to a function.

This module owns the task in which the session runs. Leaving the client ends the session: its work
is recorded and its child processes are ended. Canceling `query` has the same effect.
"""

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.kinds import find_prompt_faults
from clew.core.wire import HostAnswer, Said
from clew.fronts.headless.permission import HostError, HostRequests
from clew.fronts.sdk.functions import answer_message
from clew.fronts.sdk.memory import MemoryChannel
from clew.fronts.sdk.messages import Message, Result, read
from clew.fronts.sdk.options import Call, ClewOptions, Deny, Permit
from clew.system.clock import make_id


async def query(
    prompt: str | Sequence[Json], options: ClewOptions | None = None
) -> AsyncGenerator[Message, None]:
    """Send one prompt, and yield all messages up to its result."""
    async with ClewClient(options) as client:
        await client.query(prompt)
        async with aclosing(client.receive_response()) as messages:
            async for message in messages:
                yield message


class ClewClient:
    """A session for several prompts.

    Use it as `async with ClewClient() as client`, then call `query` and `receive_response`
    repeatedly.
    """

    def __init__(self, options: ClewOptions | None = None) -> None:
        self.options = options or ClewOptions()
        self._channel = MemoryChannel()
        self._requests = HostRequests(self._channel.say_frame, make_id)
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._calls: dict[str, asyncio.Task[Json]] = {}
        self._session: asyncio.Task[int] | None = None
        self._pump: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ClewClient":
        if self._session is not None:
            raise RuntimeError(
                "a client can be entered only once; create another one to resume its session"
            )
        self._session = self._channel.start(self.options)
        self._pump = asyncio.create_task(self._deliver(), name="clew messages")
        try:
            await self._ask("initialize", hooks=self._hooks())
        except BaseException:
            await self._leave(in_haste=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave(in_haste=kind is not None)

    async def _leave(self, *, in_haste: bool) -> None:
        """End the session, after its turn or at once."""
        assert self._session is not None
        assert self._pump is not None
        self._channel.end()
        self._channel.leave()
        if in_haste:
            self._session.cancel()
        try:
            await asyncio.wait([self._session])
        finally:
            running: list[asyncio.Task[Any]] = [*self._calls.values(), self._pump]
            for task in running:
                task.cancel()
            await asyncio.wait(running)
        if not in_haste and not self._session.cancelled():
            self._session.result()

    # -- sending

    async def query(self, prompt: str | Sequence[Json]) -> None:
        """Send a prompt. If a turn is running, the turn receives it at its next step."""
        content = prompt if isinstance(prompt, str) else list(prompt)
        if isinstance(content, list) and (problems := find_prompt_faults(content)):
            raise ValueError(f"invalid prompt: {'; '.join(problems)}")
        self._check()
        self._channel.say(Said(content=decode(encode(content)), uuid=make_id()))

    async def interrupt(self) -> None:
        """Interrupt the running turn. Its work so far is kept."""
        await self._ask("interrupt")

    async def set_permission_mode(self, mode: str) -> None:
        await self._ask("set_permission_mode", mode=mode)

    async def set_model(self, model: str | None) -> None:
        await self._ask("set_model", model=model)

    async def request(self, subtype: str, **fields: Any) -> Json:
        """Send any request in docs/extending/stream-json.md, such as `rewind_files`."""
        return await self._ask(subtype, **fields)

    async def context_usage(self) -> Json:
        """Return the context usage."""
        return await self._ask("get_context_usage")

    # -- receiving

    async def receive_messages(self) -> AsyncGenerator[Message, None]:
        """Yield all messages until the session ends."""
        while (message := await self._messages.get()) is not None:
            yield message

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
        return await self._requests.ask(subtype, fields)

    def _check(self) -> None:
        """Raise an error if no session is running, because nothing would answer a message."""
        if self._pump is None:
            raise RuntimeError("no session: use `async with ClewClient(...) as client`")
        if self._pump.done():
            raise HostError("the session has ended")

    async def _deliver(self) -> None:
        errors = ["the session has ended"]
        while (frame := await self._channel.next()) is not None:
            match frame["type"]:
                case "control_response":
                    self._answered(frame["response"])
                case "control_request":
                    self._called(frame)
                case "control_cancel_request":
                    self._withdrawn(frame["request_id"])
                case _:
                    self._messages.put_nowait(read(frame))
                    errors = frame.get("errors") or errors
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
        call.add_done_callback(lambda done: self._ended(request_id, done))

    def _ended(self, request_id: str, call: asyncio.Task[Json]) -> None:
        """Answer with the result or the error of a program's function.

        A canceled function is answered, too. The session ignores answers to calls that it withdrew.
        """
        del self._calls[request_id]
        error = asyncio.CancelledError() if call.cancelled() else call.exception()
        response: Json = {}
        if error is None:
            try:
                response = decode(encode(call.result()))
            except TypeError as odd:  # A value that JSON cannot represent.
                error = odd
        words = None if error is None else told(error)
        self._channel.say(HostAnswer(request_id=request_id, response=response, error=words))

    def _withdrawn(self, request_id: str) -> None:
        call = self._calls.get(request_id)
        if call is not None:
            call.cancel()

    async def _said_to(self, request: Json) -> Json:
        if request["subtype"] == "hook_callback":
            hook = self.options.hooks[int(request["callback_id"])]
            return await hook.call(request["input"], request["tool_use_id"])
        if request["subtype"] == "mcp_message":
            return {
                "mcp_response": await answer_message(self.options.functions, request["message"])
            }
        if self.options.can_use_tool is None or request["subtype"] != "can_use_tool":
            raise HostError(f"{request['subtype']} is not supported here")
        # The function may return anything, whatever its annotation.
        verdict: object = await self.options.can_use_tool(
            Call(
                tool=request["tool_name"],
                input=request["input"],
                title=request["title"],
                why=request["decision_reason"],
                tool_use_id=request["tool_use_id"],
            )
        )
        match verdict:
            case Permit():
                arguments = request["input"] if verdict.input is None else verdict.input
                return {"behavior": "allow", "updatedInput": arguments}
            case Deny():
                return {"behavior": "deny", "message": verdict.words, "interrupt": verdict.stop}
            case _:
                kind = type(verdict).__name__
                raise TypeError(f"can_use_tool must return Permit or Deny, got {kind}")

    def _hooks(self) -> Json:
        events: dict[str, list[Json]] = {}
        for place, hook in enumerate(self.options.hooks):
            events.setdefault(hook.event, []).append(
                {
                    "matcher": hook.matcher,
                    "hookCallbackIds": [str(place)],
                    "timeout": hook.timeout_s,
                }
            )
        return events


def told(error: BaseException) -> str:
    """Format an error in one line. If it cannot be formatted, return the name of its type."""
    (*_, line) = traceback.format_exception_only(error)
    return line.strip()
