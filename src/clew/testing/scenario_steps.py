"""The steps in which a response is sent, including faults: bytes, waits, and at most one cut.

This module must never sleep or send. The loopback server executes the steps over a socket, and the
scripted provider executes them in memory. The positions of faults count bytes of the uncompressed
body; a position beyond the end means the end.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, repeat
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.testing.scenario import Scenario, ScriptedFault, Send, from_value, unbase64
from clew.testing.scenario_answer import Renderer, ScriptedResponse, encode_event
from clew.testing.scenario_rules import ESTIMATE, Chosen, Endpoint, NoAnswer, Player, facts_of


class WaitStep(Struct, frozen=True):
    """A pause in seconds. None means endless."""

    seconds: float | None


class Cut(Struct, frozen=True):
    """The end of an answer: the connection is closed or reset, or the body ends as if complete."""

    how: Literal["close", "reset", "end"]


Step: TypeAlias = bytes | WaitStep | Cut


def before_headers(reply: ScriptedResponse) -> Iterator[WaitStep | Cut]:
    """Yield the steps before the first byte of the response."""
    for fault in reply.faults:
        if fault.at == "headers":
            yield _pause(fault)


def steps(reply: ScriptedResponse) -> Iterator[Step]:
    """Yield the steps of the body."""
    body = _broken(reply.parts, [f for f in reply.faults if f.at is None])
    if reply.send.events_per_s is not None:
        body = _paced(body, 1 / reply.send.events_per_s)
    if reply.send.gzip:
        body = _gzipped(body)
    if reply.send.chunk_bytes is not None or reply.send.bytes_per_s is not None:
        body = _chunked(body, reply.send)
    return body


def _broken(parts: list[bytes], faults: list[ScriptedFault]) -> Iterator[Step]:
    """Yield the parts with every fault in its place. Nothing follows a cut or an error event."""
    ends = [0, *accumulate(len(part) for part in parts)]
    todo = sorted(((_offset(fault, ends), fault) for fault in faults), key=lambda pair: pair[0])
    sent = 0
    for part in [*filter(None, parts), b""]:
        while todo and (todo[0][0] < sent + len(part) or part == b""):
            offset, fault = todo.pop(0)
            if offset > sent:
                yield part[: offset - sent]
                part = part[offset - sent :]
                sent = offset
            yield from _happening(fault)
            if fault.cut is not None or fault.error is not None:
                return
        if part:
            yield part
        sent += len(part)


def _offset(fault: ScriptedFault, ends: list[int]) -> int:
    if fault.after_events is not None:
        return ends[min(fault.after_events, len(ends) - 1)]
    return min(fault.after_bytes or 0, ends[-1])


def _happening(fault: ScriptedFault) -> Iterator[Step]:
    if fault.insert is not None:
        yield fault.insert.encode("utf-8")
    elif fault.insert_base64 is not None:
        yield unbase64(fault.insert_base64)
    elif fault.error is not None:
        yield encode_event(_error_event(fault.error))
    else:
        yield _pause(fault)


def _error_event(error: Json) -> Json:
    return {"type": "error", "error": {"type": "api_error", "message": "scripted error", **error}}


def _pause(fault: ScriptedFault) -> WaitStep | Cut:
    if fault.cut is not None:
        return Cut(fault.cut)
    return WaitStep(None if isinstance(fault.stall_s, str) else fault.stall_s)


def _paced(body: Iterator[Step], seconds: float) -> Iterator[Step]:
    for step in body:
        yield step
        if isinstance(step, bytes):
            yield WaitStep(seconds)


def _gzipped(body: Iterator[Step]) -> Iterator[Step]:
    """Compress the body and flush after every step. A cut leaves the compressed data incomplete."""
    pack = zlib.compressobj(wbits=31)
    for step in body:
        if isinstance(step, bytes):
            yield pack.compress(step) + pack.flush(zlib.Z_SYNC_FLUSH)
        else:
            yield step
            if isinstance(step, Cut):
                return
    yield pack.flush()


def _chunked(body: Iterator[Step], send: Send) -> Iterator[Step]:
    sizes = _sizes(send)
    size = next(sizes)
    buffer = bytearray()
    for step in chain(body, [b""]):
        if isinstance(step, bytes) and step:
            buffer += step
            done = 0
            while size is not None and len(buffer) - done >= size:
                yield from _at_a_rate(bytes(buffer[done : done + size]), send)
                done += size
                size = next(sizes)
            del buffer[:done]
            continue
        if buffer:
            yield from _at_a_rate(bytes(buffer), send)
            buffer.clear()
        if step:
            yield step


def _sizes(send: Send) -> Iterator[int | None]:
    """Yield the sizes of the chunks in order. None means everything that is left."""
    if isinstance(send.chunk_bytes, list):
        return chain(send.chunk_bytes, repeat(None))
    return repeat(send.chunk_bytes or 1024)


def _at_a_rate(chunk: bytes, send: Send) -> Iterable[Step]:
    if send.bytes_per_s is None:
        return (chunk,)
    return (chunk, WaitStep(len(chunk) / send.bytes_per_s))


# A running scenario: a request in, a response out. Shared by all hosts of scenarios.


ENDPOINTS: dict[str, Endpoint] = {
    "/v1/messages": "answers",
    "/v1/messages/count_tokens": "count_tokens",
}


class ScenarioHost:
    """A host that answers requests from a scenario, in the order in which they arrive."""

    __slots__ = ("_player", "_renderer")

    def __init__(self, scenario: Scenario) -> None:
        self._player = Player(scenario)
        self._renderer = Renderer(scenario.defaults)

    def respond(self, endpoint: Endpoint, body: Json) -> tuple[str | None, ScriptedResponse]:
        """Return the path of the answer (None if no answer matched), and the response."""
        choice = self._player.choose(body, endpoint)
        render = self._renderer.reply if endpoint == "answers" else self._renderer.count
        return None if isinstance(choice, NoAnswer) else choice.place, render(choice)

    def unused(self) -> list[str]:
        """Return the answers that were never sent."""
        return self._player.unused()


class RuleHost:
    """A host that calls a function for each answer, which can depend on the request."""

    __slots__ = ("_renderer", "_requests", "_rule")

    def __init__(self, rule: Callable[[Json], Json]) -> None:
        self._rule = rule
        self._renderer = Renderer(from_value({"scenario": 1, "answers": []}).defaults)
        self._requests = 0

    def respond(self, endpoint: Endpoint, body: Json) -> tuple[str | None, ScriptedResponse]:
        self._requests += 1
        facts = facts_of(body, self._requests)
        place = f"request {self._requests}"
        if endpoint == "count_tokens":
            return place, self._renderer.count(Chosen(answer=ESTIMATE, place=place, facts=facts))
        answer = from_value({"scenario": 1, "answers": [self._rule(body)]}).answers[0]
        return place, self._renderer.reply(Chosen(answer=answer, place=place, facts=facts))

    def unused(self) -> list[str]:
        """Return an empty list, because no answers were prepared."""
        return []
