"""The table of docs/internals/service-failures.md, made by running every fault.

Run `python -m tests.providers.faults`. It uses real sockets on loopback, the real driver, and a
clock that advances only while everything is known to wait: for a server that has announced its
silence, or for a pause between two attempts.
"""

import asyncio
import gzip
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.core.json_object import Json
from clew.core.stream.events import BlockDropped, InputDelta, MessageFinished, TextDelta
from clew.providers.answer import Answering
from clew.providers.answer_events import (
    Answered,
    Asking,
    CompactionDue,
    Ended,
    FellBack,
    GaveUp,
    HeldByRateLimit,
    Incomplete,
    Retrying,
    Shrunk,
    Waiting,
    Withdrawn,
)
from clew.providers.anthropic import AnthropicProvider, provider_from_environment
from clew.providers.base import ModelRequest
from tests.providers.fakes import VirtualClock, end, hello, start, text, tool
from tests.system.transport.servers import Handler, answer, read_request, serving

BOUND_S = 60.0
SSE = "Content-Type: text/event-stream\r\n"
JSON = "Content-Type: application/json\r\n"


class Stage:
    """What waits for what; the clock may advance only when nothing can happen without it."""

    def __init__(self) -> None:
        self.asking = False
        self.server_silent = False

    @property
    def still(self) -> bool:
        return self.server_silent or not self.asking


class StagedClock(VirtualClock):
    """A virtual clock over real sockets."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    async def settled(self) -> None:
        quiet_turns = 0
        while quiet_turns < 60:
            await asyncio.sleep(0)
            quiet_turns = quiet_turns + 1 if self._stage.still else 0


class Silence:
    """From here on, the server keeps the connection open and sends nothing."""


class Pings:
    """From here on, the server sends only pings, one every ten seconds of the clock."""


Reply = Sequence[bytes | Silence | Pings]


@dataclass
class Fault:
    """One row: the server's behavior for each request in turn; the last one repeats."""

    name: str
    replies: Sequence[Reply]
    options: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    url: str | None = None
    # Cancel once an event of this kind was emitted.
    cancel_at: type | None = None
    # Ask this many questions before, so that a connection is at rest.
    before: int = 0


def sse(*events: Json) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def stream(*events: Json, tail: bytes = b"", headers: str = "") -> list[bytes | Silence | Pings]:
    """A stream that ends with its connection."""
    return [f"HTTP/1.1 200 OK\r\n{SSE}{headers}\r\n".encode() + sse(*events) + tail]


def error(status: str, kind: str, message: str, headers: str = "") -> list[bytes | Silence | Pings]:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return [answer(body, status=status, headers=JSON + headers)]


def error_event(kind: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": "Overloaded"}}


FINE = stream(*hello("Hello."))
KEPT_ALIVE = [answer(sse(*hello("Hello.")), headers=SSE)]
BUSY = error("529 Overloaded", "overloaded_error", "Overloaded")
HALF_TEXT = [start(), *text(0, "Half a", stop=False)]
A_BLOCK = [start(), *text(0, "I look.")]
WHOLE = {
    **start()["message"],
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
}
PAGE = b"<html><head><title>Please log in</title></head></html>"
OVERFLOW = "input length and `max_tokens` exceed context limit: 195000 + 128000 > 200000"

FAULTS: tuple[Fault, ...] = (
    Fault("no fault", [FINE]),
    Fault("no credentials", [FINE], url="https://api.anthropic.com", environment={"ANTHROPIC_API_KEY": ""}),
    Fault("unsupported kind of proxy", [FINE], environment={"ALL_PROXY": "socks4://me:secret@proxy:1080"}),
    Fault("connection refused by this machine", [], url="http://127.0.0.1:1"),
    Fault("connection closed before an answer, once", [[b""], FINE]),
    Fault("connection closed before an answer, always", [[b""]]),
    Fault("idle connection closed by the server", [[*KEPT_ALIVE], FINE], before=1),
    Fault("not HTTP", [[b"SSH-2.0-OpenSSH_9.2\r\n\r\n"]]),
    Fault("200 KB of headers", [[b"HTTP/1.1 200 OK\r\nX-Pad: " + b"p" * 200_000]]),
    Fault("HTTP 200 with a web page", [[answer(PAGE, headers="Content-Type: text/html\r\n")]]),
    Fault("complete response instead of a stream", [[answer(json.dumps(WHOLE).encode(), headers=JSON)]]),
    Fault("HTTP 308 to another address", [[answer(b"", status="308 Permanent Redirect", headers="Location: https://gate.example/v1/messages\r\n")]]),
    Fault("HTTP 400", [error("400 Bad Request", "invalid_request_error", "messages: empty")]),
    Fault("HTTP 401", [error("401 Unauthorized", "authentication_error", "invalid x-api-key")]),
    Fault("HTTP 404 for the model, with a fallback model", [error("404 Not Found", "not_found_error", "model: opus"), FINE], {"fallbacks": ("sonnet",)}),
    Fault("HTTP 429, retry-after 30, once", [error("429 Too Many Requests", "rate_limit_error", "Slow down", "retry-after: 30\r\n"), FINE]),
    Fault("HTTP 429, retry-after two hours", [error("429 Too Many Requests", "rate_limit_error", "Slow down", "retry-after: 7200\r\n")]),
    Fault("HTTP 429, spending limit", [error("429 Too Many Requests", "rate_limit_error", "This would exceed your monthly spend limit")]),
    Fault("HTTP 500 three times", [error("500 Oops", "api_error", "Internal server error")] * 3 + [FINE]),
    Fault("HTTP 529 eight times", [BUSY] * 8 + [FINE]),
    Fault("HTTP 529 always", [BUSY]),
    Fault("HTTP 529 always, with a fallback model", [BUSY] * 3 + [FINE], {"fallbacks": ("sonnet",)}),
    Fault("HTTP 529 with `x-should-retry: false`", [error("529 Overloaded", "overloaded_error", "Overloaded", "x-should-retry: false\r\n")]),
    Fault("silence before the response headers, once", [[Silence()], FINE]),
    Fault("silence before the response headers, always", [[Silence()]]),
    Fault("silence in a text, once", [[*stream(*HALF_TEXT), Silence()], FINE]),
    Fault("silence after a complete block", [[*stream(*A_BLOCK), Silence()]]),
    Fault("only pings, once", [[*stream(start()), Pings()], FINE]),
    Fault("cut off in a text, once", [stream(*HALF_TEXT), FINE]),
    Fault("cut off in a text, always", [stream(*HALF_TEXT)]),
    Fault("cut off three times; works without streaming", [stream(*HALF_TEXT)] * 3 + [[answer(json.dumps(WHOLE).encode(), headers=JSON)]]),
    Fault("cut off after a complete block", [stream(*A_BLOCK)]),
    Fault("cut off in a tool call, after a complete one", [stream(start(), *tool(0, '{"file":"a"}'), *tool(1, '{"fi', stop=False))]),
    Fault("cut off in an event", [stream(start(), tail=b'event: content_block_start\ndata: {"ty'), FINE]),
    Fault("an event that is not JSON", [stream(start(), tail=b"data: {oops\n\n"), FINE]),
    Fault("events out of order", [stream(start(), *text(3, "x")[1:]), FINE]),
    Fault("an `error` event before a block is complete", [stream(*HALF_TEXT, error_event("overloaded_error")), FINE]),
    Fault("an `error` event after a complete block", [stream(*A_BLOCK, error_event("overloaded_error"))]),
    Fault("no `message_stop` after the stop reason", [stream(*A_BLOCK, end()[0])]),
    Fault("truncated gzip", [[f"HTTP/1.1 200 OK\r\n{SSE}Content-Encoding: gzip\r\n\r\n".encode() + gzip.compress(sse(*hello()), mtime=0)[:120]], FINE]),
    Fault("gzip that expands without limit, once", [[f"HTTP/1.1 200 OK\r\n{SSE}Content-Encoding: gzip\r\n\r\n".encode() + gzip.compress(sse(*hello()[:2]) + sse({"type": "ping"}) * 400_000, mtime=0)], FINE]),
    Fault("the answer would not fit; a shorter one does", [error("400 Bad Request", "invalid_request_error", OVERFLOW), FINE]),
    Fault("the prompt does not fit", [error("400 Bad Request", "invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum")]),
    Fault("cancelled before the response headers", [[Silence()]], cancel_at=Waiting),
    Fault("cancelled in a text", [[*stream(*HALF_TEXT), Silence()]], cancel_at=TextDelta),
    Fault("cancelled in a tool call, after a text", [[*stream(*A_BLOCK, *tool(1, '{"fi', stop=False)), Silence()]], cancel_at=InputDelta),
)  # fmt: skip


class Row:
    """One fault, run."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.stage = Stage()
        self.clock = StagedClock(self.stage)
        self.events: list[Any] = []
        self.requests = 0
        self.began_s = 0.0

    def handler(self) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            replies = self.fault.replies
            reply = replies[min(self.requests, len(replies) - 1)]
            self.requests += 1
            for part in reply:
                if isinstance(part, bytes):
                    writer.write(part)
                    await writer.drain()
                else:
                    self.stage.server_silent = True
                    while isinstance(part, Pings):
                        await self.clock.sleep(10)
                        writer.write(sse({"type": "ping"}))
                    await reader.read()

        return handle

    async def emit(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, Asking):
            self.stage.asking, self.stage.server_silent = True, False
        elif isinstance(event, Retrying):
            self.stage.asking = False
        if self.fault.cancel_at is not None and isinstance(event, self.fault.cancel_at):
            self.task.cancel()

    async def run(self) -> list[str]:
        async with serving(self.handler()) as server, asyncio.timeout(BOUND_S):
            environment = {
                "ANTHROPIC_BASE_URL": self.fault.url or server.url,
                "ANTHROPIC_API_KEY": "secret-key",
                **self.fault.environment,
            }
            provider = provider_from_environment(environment)
            for _ in range(self.fault.before):
                await self.ask(provider)
                self.events.clear()
                await server.until_open_now(0)
                self.requests = 1
            self.began_s = self.clock.now
            cells = await self.ask(provider)
            assert provider.transport.connections[0] == 0
            await provider.aclose()
            return [re.sub(r"127\.0\.0\.1:\d+", "the server", cell) for cell in cells]

    async def ask(self, provider: AnthropicProvider) -> list[str]:
        answering = Answering(
            provider,
            new_tool_id=lambda: "own",
            clock=self.clock,
            random=lambda: 0.5,
            **self.fault.options,
        )
        request = ModelRequest(model="opus", messages=[{"role": "user", "content": "Hi"}])
        self.task = asyncio.create_task(answering.run(request, self.emit))
        await asyncio.wait([self.task])
        self.stage.asking = False
        said = self.events
        if self.task.cancelled():
            said = [*self.events, *answering.last_words]
            outcome = "cancelled"
        else:
            outcome = in_words(self.task.result())
        elapsed = self.clock.now - self.began_s
        return [
            self.fault.name,
            "; ".join([*hints(self.events), outcome]),
            kept(said),
            str(sum(isinstance(e, Asking) for e in self.events)),
            f"{elapsed:.0f} s",
        ]


def in_words(ended: Ended) -> str:
    match ended:
        case Answered():
            return "answered"
        case Incomplete(failure=failure):
            return f"marked incomplete: {failure.message}"
        case GaveUp(failure=failure, why=why):
            return f"given up, {why}: {failure.message}"
        case CompactionDue():
            return "compaction is due"


def hints(events: Sequence[Any]) -> Iterator[str]:
    """What was shown before the end."""

    def count(kind: type) -> int:
        return sum(isinstance(event, kind) for event in events)

    if count(Waiting):
        first = next(e for e in events if isinstance(e, Waiting))
        yield f"hint after {first.silent_s:.0f} s of silence"
    if count(HeldByRateLimit):
        yield "held until the service accepts requests again"
    retried = [e for e in events if isinstance(e, Retrying)]
    if retried:
        times = "" if len(retried) == 1 else f", {len(retried)} times"
        yield f"retrying{times} ({retried[0].failure.message})"
    if any(e.whole for e in retried):
        yield "one request without streaming"
    if count(Withdrawn):
        yield f"{count(Withdrawn)} withdrawn"
    for event in events:
        if isinstance(event, FellBack):
            yield f"{event.model} used instead ({event.failure.message})"
        if isinstance(event, Shrunk):
            yield f"{event.max_tokens} tokens requested instead"


def kept(events: Sequence[Any]) -> str:
    """Return the conversation at the end, and what was dropped from it."""
    parts: list[str] = []
    finished = [e for e in events if isinstance(e, MessageFinished)]
    for block in finished[-1].message["content"] if finished else ():
        said = json.dumps(block["text"]) if block["type"] == "text" else block["name"]
        parts.append(f"{block['type']} {said}")
    dropped = [e for e in events if isinstance(e, BlockDropped)]
    if finished and dropped:
        parts.append(f"dropped: {dropped[-1].block['type']}")
    return ", ".join(parts) or "nothing"


def table() -> list[list[str]]:
    return [asyncio.run(Row(fault).run()) for fault in FAULTS]


def main() -> None:
    head = ["fault", "what you see", "what is kept", "requests", "time"]
    lines = [head, ["---"] * len(head), *table()]
    for line in lines:
        sys.stdout.write("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n")


if __name__ == "__main__":
    main()
