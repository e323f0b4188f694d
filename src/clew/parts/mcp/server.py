"""The life cycle of one MCP server: started, negotiated, lost and restarted, closed.

Owns the server's state (`protocol.State`) and the task that changes it. Whatever the server does,
this task ends only when it is cancelled or when retrying cannot help. Other code sees only the
state, the problem and what the server offers.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

from clew.core.json_object import Json
from clew.core.messages.errors import OutsideError
from clew.parts.mcp import protocol
from clew.parts.mcp.catalogue import (
    MAX_INSTRUCTIONS,
    Offers,
    ResourceOffer,
    prompts_of,
    resources_of,
    shorten,
    tools_of,
)
from clew.parts.mcp.client import Helpers, McpClient, ServerHost, negotiate
from clew.parts.mcp.config import ServerConfig
from clew.parts.mcp.line import CannotReachError, ServerConnection, UnauthorizedError
from clew.parts.mcp.protocol import PATIENCE_S, Agreement, Event, State, as_object, capabilities
from clew.system.jsonrpc.connection import OnProgress
from clew.system.jsonrpc.peer import Outcome, PeerAnswer, PeerFailure

MakeLine: TypeAlias = Callable[[ServerConfig, ServerHost, asyncio.TaskGroup], ServerConnection]

# The minimum pause between lists, for a server that announces changes continuously.
RELIST_PAUSE_S = 1.0
MOST_WATCHED = 100
# The time limit of auxiliary requests, shorter than that of a call.
ASIDE_PATIENCE_S = 5.0
GIVEN_UP = ("failed", "needs-auth", "disabled")
LISTS = ("tools", "prompts", "resources")


class McpServer:
    """One MCP server. `on_change` is called whenever its state or what it offers changes."""

    def __init__(
        self,
        config: ServerConfig,
        make_line: MakeLine,
        helpers: Helpers,
        *,
        on_change: Callable[[], None],
        startup_s: float | None = None,
    ) -> None:
        self.config = config
        self.state: State = "disconnected"
        self.problem = ""
        self.challenge = ""
        self.offers = Offers()
        self.agreement: Agreement | None = None
        self._make_line = make_line
        self._offered = capabilities(
            elicits=helpers.elicit is not None, samples=helpers.sample is not None
        )
        self._on_change = on_change
        self._startup_s = startup_s
        self.host = ServerHost(
            config.name,
            helpers,
            changed=self._stale,
            updated=self._updated,
            headers_of=self._headers_of,
        )
        self._client: McpClient | None = None
        self._stale_lists: set[str] = set()
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._attempt = 0
        # Resources that are watched, and those that changed since they were read.
        self.watched: set[str] = set()
        self.changed_resources: set[str] = set()

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def instructions(self) -> str:
        """The instructions that the server provides for using it; they are untrusted text."""
        agreement = self.agreement
        return "" if agreement is None else shorten(agreement.instructions, MAX_INSTRUCTIONS)

    @property
    def hindrance(self) -> str:
        """Why the server can't be used now. Meaningless while it is ready."""
        match self.state:
            case "needs-auth":
                return f"needs login: clew mcp login {self.name}"
            case "disabled":
                return "disabled"
        return f"failed: {self.problem}" if self.problem else "still starting"

    @property
    def is_settled(self) -> bool:
        """True if the state will not change soon by itself."""
        return self.state not in ("disconnected", "connecting", "initializing", "waiting")

    def _to(self, event: Event, problem: str = "") -> None:
        state = protocol.next_state(self.state, event)
        self.problem = problem
        if state == self.state and event != "changed":
            return
        self.state = state
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
        self._on_change()

    @property
    def is_connected(self) -> bool:
        return self.state == "ready" and self._client is not None and not self._client.is_lost

    async def moved(self) -> None:
        """Wait for the next change of the state."""
        await self._moved.wait()

    async def settled(self) -> None:
        while not self.is_settled:
            await self.moved()

    # -- the task

    async def live(self) -> None:
        """Connect, stay connected, and reconnect with increasing delays after a loss.

        Return if retrying would not help. To close the connection, cancel the task.
        """
        try:
            while self.state in ("disconnected", "waiting"):
                self._to("connect")
                await self._stand()
                if self.state == "waiting":
                    await self._pause()
        except asyncio.CancelledError:
            self._to("close")
            self._to("closed")
            raise

    async def _pause(self) -> None:
        self._attempt += 1
        delay_s = protocol.compute_delay_s(self._attempt, random=random.random())
        if delay_s is None:
            self._to("exhausted", self.problem)
        else:
            await asyncio.sleep(delay_s)

    async def _stand(self) -> None:
        """Run one connection from start to end. Afterward, the state shows how it ended."""
        async with asyncio.TaskGroup() as group:
            line = self._make_line(self.config, self.host, group)
            try:
                await self._connected(line)
            except TimeoutError:
                self._to("lost", f"startup took longer than {self._patience('connecting'):g} s")
            except UnauthorizedError as error:
                self.challenge = error.challenge
                self._to("unauthorized", str(error))
            except CannotReachError as error:
                self._to("refused" if error.is_final else "lost", str(error))
            except OutsideError as error:
                self._to("lost", str(error))
            except asyncio.CancelledError:
                self._to("close")
                raise
            finally:
                self._client = None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S["closing"]):
                        await line.aclose()

    def _patience(self, state: State) -> float | None:
        return self._startup_s or PATIENCE_S[state]

    async def _connected(self, line: ServerConnection) -> None:
        async with asyncio.timeout(self._patience("connecting")):
            await line.open()
        self._to("opened")
        ending = asyncio.ensure_future(line.ended())
        try:
            async with asyncio.timeout(self._patience("initializing")):
                failure = await self._agreed(line)
            if failure is not None:
                await self._failed(failure, ending)
                return
            began_at = asyncio.get_running_loop().time()
            self._to("agreed")
            listening = asyncio.ensure_future(self._listen())
            try:
                await self._ready(ending)
            finally:
                listening.cancel()
                await asyncio.wait([listening])
            if asyncio.get_running_loop().time() - began_at > protocol.PROVEN_S:
                self._attempt = 0
        finally:
            ending.cancel()
            await asyncio.wait([ending])
            if not ending.cancelled():
                ending.exception()

    async def _failed(self, failure: PeerFailure, ending: "asyncio.Future[str]") -> None:
        """Handle a failed handshake: reconnect after a loss or timeout, but not after a refusal."""
        if failure.kind == "lost":
            self._to("lost", await ending)
        elif failure.kind == "timeout":
            self._to("lost", failure.message)
        else:
            self._to("refused", failure.message)

    async def _agreed(self, line: ServerConnection) -> PeerFailure | None:
        result = await negotiate(line.connection, self._offered, stateless=self.config.stateless)
        if isinstance(result, PeerFailure):
            return result
        line.settled(result)
        self.agreement = result
        self._client = McpClient(line.connection, result, self._offered, self.host.asked)
        self.watched.clear()
        if result.offers("logging") and result.era == "handshake":
            await self._client.call(
                "logging/setLevel", {"level": "info"}, patience_s=ASIDE_PATIENCE_S
            )
        return await self._list(set(LISTS))

    async def _ready(self, ending: "asyncio.Future[str]") -> None:
        """Stay connected until the connection ends. Reload lists that change."""
        while not ending.done():
            waking = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait((ending, waking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waking.cancel()
            self._wake.clear()
            stale, self._stale_lists = self._stale_lists, set()
            if stale and not ending.done():
                if await self._list(stale) is None:
                    self._to("changed")
                await asyncio.wait((ending,), timeout=RELIST_PAUSE_S)
        self._to("lost", ending.result())

    async def _listen(self) -> None:
        """Subscribe to changes at a stateless server, which otherwise sends no notifications."""
        client = self._client
        if client is None or not client.is_stateless:
            return
        while not client.is_lost:
            wanted = {
                **{f"{kind}ListChanged": True for kind in LISTS if client.agreement.offers(kind)},
                **({"resourceSubscriptions": sorted(self.watched)} if self.watched else {}),
            }
            outcome = await client.call("subscriptions/listen", {"notifications": wanted})
            if isinstance(outcome, PeerFailure):
                return
            await asyncio.sleep(RELIST_PAUSE_S)

    async def _list(self, kinds: set[str]) -> PeerFailure | None:
        """Reload lists.

        If the server can't list its tools, return the failure and keep the previous lists. Return
        None if it can.
        """
        client = self._client
        assert client is not None
        tools, prompts, resources = self.offers.tools, self.offers.prompts, self.offers.resources
        faults = self.offers.faults
        if "tools" in kinds:
            listed = await client.listed("tools", "tools/list", "tools")
            if isinstance(listed, PeerFailure):
                return listed
            tools, faults = tools_of(self.name, listed)
        if "prompts" in kinds:
            listed = await client.listed("prompts", "prompts/list", "prompts")
            if isinstance(listed, list):
                prompts = prompts_of(self.name, listed)
        if "resources" in kinds:
            resources = await self._resources(client)
        self.offers = Offers(tools=tools, prompts=prompts, resources=resources, faults=faults)
        return None

    async def _resources(self, client: McpClient) -> tuple[ResourceOffer, ...]:
        offers: list[ResourceOffer] = []
        for method, key in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            listed = await client.listed("resources", method, key)
            if isinstance(listed, list):
                offers += resources_of(self.name, listed, templates=key != "resources")
        return tuple(offers)

    # -- requests from outside

    async def relist_tools(self) -> PeerFailure | None:
        """Ask the server for its tools again.

        If this fails, return the failure and keep the previous tools. Return None if it succeeds.
        """
        failure = await self._list({"tools"})
        self._on_change()
        return failure

    def reset(self) -> None:
        """Reset the number of attempts, so that `live` may be called again."""
        self._attempt = 0
        self._to("reset")

    def disable(self) -> None:
        self._to("reset")
        self._to("disable")
        self.offers = Offers()

    def enable(self) -> None:
        self._to("enable")

    def _stale(self, kind: str) -> None:
        self._stale_lists.add(kind)
        self._wake.set()

    def _headers_of(self, tool: str) -> Mapping[tuple[str, ...], str]:
        return next((offer.headers for offer in self.offers.tools if offer.tool == tool), {})

    def _updated(self, uri: str) -> None:
        if uri in self.watched:
            self.changed_resources.add(uri)

    async def _back_within(self, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while not self.is_connected and self.state not in GIVEN_UP:
                    await self.moved()

    async def watch(self, uri: str) -> None:
        """Subscribe to changes of a resource that was just read, if the server supports that."""
        self.changed_resources.discard(uri)
        client = self._client
        if client is None or uri in self.watched or len(self.watched) >= MOST_WATCHED:
            return
        self.watched.add(uri)
        if client.agreement.feature("resources", "subscribe") and not client.is_stateless:
            await client.call("resources/subscribe", {"uri": uri}, patience_s=ASIDE_PATIENCE_S)

    async def completed(
        self, prompt: str, argument: str, value: str, context: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the server's suggestions for completing `value`, an argument of a prompt.

        `context` contains the arguments before it.
        """
        return await self._completed(
            {"type": "ref/prompt", "name": prompt}, argument, value, context
        )

    async def completed_uri(self, template: str, argument: str, value: str) -> list[str]:
        """Return the server's suggestions for completing `value`, a variable of a URI template."""
        return await self._completed({"type": "ref/resource", "uri": template}, argument, value, {})

    async def _completed(
        self, ref: Json, argument: str, value: str, context: Mapping[str, str] | None
    ) -> list[str]:
        client = self._client
        if client is None or not client.agreement.offers("completions"):
            return []
        params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        outcome = await client.call("completion/complete", params, patience_s=ASIDE_PATIENCE_S)
        completion = (
            as_object(outcome.result).get("completion") if isinstance(outcome, PeerAnswer) else None
        )
        values = as_object(completion).get("values")
        return (
            [value for value in values if isinstance(value, str)][:10]
            if isinstance(values, list)
            else []
        )

    def hear(self, message: Json) -> None:
        """Handle a message from the server that did not arrive over its connection."""
        if self._client is not None:
            self._client.hear(message)

    async def call(
        self,
        method: str,
        params: Json | None = None,
        *,
        patience_s: float | None = None,
        on_progress: OnProgress | None = None,
        wait_s: float = 0.0,
    ) -> Outcome:
        """Send one request. If the server is still connecting, wait for it for a limited time."""
        if not self.is_connected:
            await self._back_within(wait_s)
        client = self._client
        if client is None or not self.is_connected:
            why = f": {self.problem}" if self.problem else ""
            return PeerFailure(
                kind="unsent", message=f"the server {self.name} is {self.state}{why}"
            )
        return await client.call(method, params, patience_s=patience_s, on_progress=on_progress)
