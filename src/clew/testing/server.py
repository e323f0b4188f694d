"""A Messages API on loopback: real HTTP/1.1 and SSE, scripted answers, recorded requests.

Use `async with LoopbackServer(scenario) as server: server.url` in an event loop, `with
serving(scenario)` elsewhere, and `python -m clew.testing.server FILE` for other processes. The
server must never listen on any address except 127.0.0.1 or store a secret: credentials are masked
before a request is recorded.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.catalog.lookup import CATALOG
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.decode import EventDecoder
from clew.testing.http import BadRequest, HttpPeer, Listener, ServedRequest, mask_headers
from clew.testing.options import describe_error, parse_port, read_scenario
from clew.testing.playing import Playing
from clew.testing.preserved import Preserving
from clew.testing.scenario import Scenario, ScenarioError, Send, from_value
from clew.testing.scenario_answer import ScriptedResponse, error_body
from clew.testing.scenario_rules import Endpoint
from clew.testing.scenario_steps import ENDPOINTS, RuleHost, ScenarioHost
from clew.testing.strict import API_VERSIONS, find_complaint
from clew.testing.threads import Holding, Taken, ThreadRefusal, estimate_prompt_tokens

LOGGED = ("method", "target", "headers", "body", "place", "status")


class RecordedRequest(Struct, kw_only=True):
    """A recorded request and its outcome, for tests."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: Any
    # The answer's path, such as `answers[2]`; None if no answer matched.
    place: str | None = None
    status: int | None = None
    # Whether the client stayed until the answer ended or was cut as scripted.
    finished: bool = False
    sent_bytes: int = 0
    # The size of the request's body as received.
    size_bytes: int = 0

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


Rule: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def host_of(scenario: Scenario | dict[str, Any] | Rule | Holding) -> ScenarioHost | RuleHost:
    if isinstance(scenario, Holding):
        return RuleHost(_counted(scenario.rule))
    if isinstance(scenario, Scenario):
        return ScenarioHost(scenario)
    return ScenarioHost(from_value(scenario)) if isinstance(scenario, dict) else RuleHost(scenario)


class LoopbackServer:
    """A server that plays a scenario, or calls a function with each request's body for its answers.

    `requests` contains the received requests in order.
    """

    def __init__(
        self,
        scenario: Scenario | dict[str, Any] | Rule | Holding,
        *,
        strict: bool = False,
        api_key: str | None = None,
        api_versions: tuple[str, ...] = API_VERSIONS,
        port: int = 0,
        on_request: Callable[[RecordedRequest], None] | None = None,
    ) -> None:
        self.requests: list[RecordedRequest] = []
        self._strict = strict
        # May change while a session runs, as when a key expires.
        self.api_key = api_key
        self._api_versions = api_versions
        self._on_request = on_request
        self._host = host_of(scenario)
        self._holding = scenario if isinstance(scenario, Holding) else None
        rule = scenario.rule if isinstance(scenario, Holding) else scenario
        self._preserving = rule if isinstance(rule, Preserving) else None
        self._arrived = asyncio.Condition()
        self._listener = Listener(self._one_exchange, port)

    @property
    def url(self) -> str:
        return self._listener.url

    @property
    def accepted(self) -> int:
        """The number of accepted connections."""
        return self._listener.accepted

    @property
    def open_connections(self) -> int:
        return self._listener.open_connections

    def unused(self) -> list[str]:
        """Return the answers that were never sent."""
        return self._host.unused()

    async def wait_for_requests(self, count: int) -> None:
        """Wait until `count` requests were received. Limit the wait with `asyncio.timeout`."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def wait_until_idle(self) -> None:
        """Return when every connection has ended."""
        await self._listener.wait_until_idle()

    async def __aenter__(self) -> "LoopbackServer":
        await self._listener.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._listener.close()

    async def _one_exchange(self, peer: HttpPeer) -> bool:
        """Serve one request. Return False if no other may follow on this connection."""
        request = await peer.next_request()
        if request is None:
            return False
        if isinstance(request, BadRequest):
            playing = Playing(peer, _error(400, request.what))
            await playing.send(keep_alive=False)
            return False
        record, reply, turn = await self._answer(request)
        playing = Playing(peer, reply)
        try:
            is_complete = await peer.unless_gone(playing.send(keep_alive=request.keep_alive))
        finally:
            record.sent_bytes = playing.sent_bytes
            record.finished = playing.finished
            if self._holding is not None and turn is not None:
                self._holding.settle(turn)
        return bool(is_complete) and request.keep_alive

    async def _answer(
        self, request: ServedRequest
    ) -> tuple[RecordedRequest, ScriptedResponse, Taken | None]:
        body = _json(request.body)
        record = RecordedRequest(
            method=request.method,
            target=request.target,
            headers=mask_headers(request.headers),
            body=body,
            size_bytes=len(request.body),
        )
        turn = self._taken(request, body)
        if isinstance(turn, ThreadRefusal):
            reply = _whole(turn.status, error_body(turn.status, 0, turn.error))
            turn = None
        else:
            full_body = body if turn is None else turn.body
            reply = self._refused(request, full_body) or self._scripted(request, full_body, record)
        if self._holding is not None and turn is not None and reply.status == 200:
            self._holding.keep(turn, _message_of(reply))
        record.status = reply.status
        async with self._arrived:
            self.requests.append(record)
            self._arrived.notify_all()
        if self._on_request is not None:
            self._on_request(record)
        return record, reply, turn

    def _taken(self, request: ServedRequest, body: Any) -> Taken | ThreadRefusal | None:
        """Return the complete request of a thread, or None if threads don't apply to it."""
        if self._holding is None or not isinstance(body, dict):
            return None
        if ENDPOINTS.get(request.path) != "answers":
            return None
        return self._holding.take(body, request.header("anthropic-beta") or "")

    def _scripted(
        self, request: ServedRequest, body: dict[str, Any], record: RecordedRequest
    ) -> ScriptedResponse:
        record.place, reply = self._host.respond(ENDPOINTS[request.path], body)
        return reply

    def _refused(self, request: ServedRequest, body: Any) -> ScriptedResponse | None:
        """Return the error for a request that the service would refuse before a model sees it.

        Also return the response that lists the models, and otherwise None.
        """
        endpoint = ENDPOINTS.get(request.path)
        if self.api_key is not None and not _carries(request, self.api_key):
            return _error(401, "invalid x-api-key")
        if request.method == "GET" and request.path == "/v1/models":
            return _whole(200, msgspec.json.encode(_models()))
        if endpoint is None or request.method != "POST":
            return _error(404, f"endpoint not found: {request.method} {request.target}")
        if not isinstance(body, dict):
            return _error(400, "The request body is not valid JSON")
        version = request.header("anthropic-version")
        if version is not None and version not in self._api_versions:
            return _error(400, f'anthropic-version: "{version}" is not a valid version')
        if self._strict and (strict_complaint := _strict_complaint(request, body, endpoint)):
            return _error(400, strict_complaint)
        if self._preserving is not None and endpoint == "answers":
            refusal = self._preserving.refusal(body, request.header("anthropic-beta") or "")
            return None if refusal is None else _error(400, refusal)
        return None


@contextlib.contextmanager
def serving(
    scenario: Scenario | dict[str, Any] | Rule | Holding,
    *,
    strict: bool = False,
    api_key: str | None = None,
    api_versions: tuple[str, ...] = API_VERSIONS,
    on_request: Callable[[RecordedRequest], None] | None = None,
) -> Iterator[LoopbackServer]:
    """Run a server in its own thread, for tests without a loop or with child processes.

    `on_request` is called in that thread before the request is answered.
    """
    server = LoopbackServer(
        scenario,
        strict=strict,
        api_key=api_key,
        api_versions=api_versions,
        on_request=on_request,
    )
    started = threading.Event()
    stop: list[Callable[[], object]] = []

    async def run() -> None:
        async with server:
            end, loop = asyncio.Event(), asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(end.set))
            started.set()
            await end.wait()

    def work() -> None:
        try:
            asyncio.run(run())
        finally:
            started.set()

    thread = threading.Thread(target=work, name="loopback")
    thread.start()
    started.wait()
    try:
        if not stop:
            raise RuntimeError("the loopback server did not start; see the error from its thread")
        yield server
    finally:
        for end in stop:
            end()
        thread.join()


def _counted(rule: Rule) -> Rule:
    """Return a rule that adds the prompt's length to answers that report no usage."""

    def counted(body: dict[str, Any]) -> dict[str, Any]:
        answer = rule(body)
        if "text" not in answer and "content" not in answer:
            return answer
        return {"usage": {"input_tokens": estimate_prompt_tokens(body)}} | answer

    return counted


def _message_of(reply: ScriptedResponse) -> dict[str, Any]:
    """Return the message in a response, whether or not the client receives it."""
    body = b"".join(reply.parts)
    if not body.startswith(b"event:"):
        return dict(msgspec.json.decode(body))
    decoder, accumulator = EventDecoder(), Accumulator(new_tool_id=lambda: "")
    for event in (*decoder.feed(body), *decoder.close()):
        accumulator.feed(event)
    return accumulator.message or {}


def _json(body: bytes) -> Any:
    """Parse the body as strictly as the service does: lone surrogates and NaN are errors."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def _carries(request: ServedRequest, key: str) -> bool:
    return key == request.header("x-api-key") or f"Bearer {key}" == request.header("authorization")


def _strict_complaint(request: ServedRequest, body: Any, endpoint: Endpoint) -> str | None:
    version = request.header("anthropic-version")
    if version is None:
        return "anthropic-version: header is required"
    if not (request.header("content-type") or "").startswith("application/json"):
        return "content-type: must be application/json"
    return find_complaint(body, counting=endpoint == "count_tokens", api_version=version)


def _error(status: int, message: str) -> ScriptedResponse:
    return _whole(status, error_body(status, 0, {"message": message}))


def _whole(status: int, body: bytes) -> ScriptedResponse:
    headers = [("content-type", "application/json")]
    return ScriptedResponse(status=status, headers=headers, parts=[body], send=Send(), faults=[])


def _models() -> dict[str, Any]:
    """Return the models in the catalog."""
    data = [
        {"type": "model", "id": model.id, "display_name": model.name} for model in CATALOG.models
    ]
    return {"data": data, "has_more": False}


def _line(record: RecordedRequest) -> str:
    return json.dumps({name: getattr(record, name) for name in LOGGED}) + "\n"


async def _serve_file(options: argparse.Namespace, log: TextIO | None) -> None:
    def note(record: RecordedRequest) -> None:
        server.requests.clear()  # not read here, and a server may run for days
        if log is not None:
            log.write(_line(record))
            log.flush()

    scenario = read_scenario(options.scenario)
    server = LoopbackServer(scenario, strict=options.strict, port=options.port, on_request=note)
    async with server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m clew.testing.server",
        description="Serve a scenario as the Messages API on 127.0.0.1 and print the URL; "
        "stop with Ctrl-C.",
    )
    parser.add_argument("scenario", help="Scenario file, JSON or YAML")
    parser.add_argument("--port", type=parse_port, default=0, help="Port (default: any free port)")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="Reject requests that the real API would reject (HTTP 400)",
    )
    parser.add_argument(
        "--requests", metavar="FILE", help="Append each request to FILE as a JSON line"
    )
    options = parser.parse_args(argv)
    try:
        with contextlib.ExitStack() as stack:
            log = None
            if options.requests:
                log = stack.enter_context(Path(options.requests).open("a", encoding="utf-8"))
            asyncio.run(_serve_file(options, log))
    except KeyboardInterrupt:
        return 0
    except (ScenarioError, OSError) as error:
        sys.stderr.write(f"{describe_error(error)}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
