"""Play one response over a connection, step by step, including the scripted faults."""

import asyncio

from msgspec.structs import replace

from clew.testing.http import LAST_CHUNK, HttpPeer, encode_chunk, encode_response_head
from clew.testing.scenario import Scenario, ScriptedAnswer, Send
from clew.testing.scenario_answer import ScriptedResponse
from clew.testing.scenario_steps import Cut, WaitStep, before_headers, steps

# Change the speed of a scenario.


def pace_scenario(scenario: Scenario, speed: float | None) -> Scenario:
    """Return the scenario with every rate and stall scaled. An endless stall stays endless."""

    def send(plan: Send | None) -> Send | None:
        if plan is None:
            return None
        events, size = plan.events_per_s, plan.bytes_per_s
        return replace(
            plan,
            events_per_s=None if events is None or speed is None else events * speed,
            bytes_per_s=None if size is None or speed is None else size * speed,
        )

    def answer(scripted_answer: ScriptedAnswer) -> ScriptedAnswer:
        faults = [
            fault
            if not isinstance(fault.stall_s, float)
            else replace(fault, stall_s=0.0 if speed is None else fault.stall_s / speed)
            for fault in scripted_answer.faults
        ]
        return replace(scripted_answer, send=send(scripted_answer.send), faults=faults)

    defaults = replace(scenario.defaults, send=send(scenario.defaults.send))
    return replace(scenario, defaults=defaults, answers=[answer(a) for a in scenario.answers])


FLUSH_BYTES = 65536


class Playing:
    """A response that is being sent.

    `sent_bytes` is the number of body bytes sent, without chunk framing. `finished` means that
    everything up to its end or cut was passed to the kernel. A client that disconnects after that
    has received the answer.
    """

    def __init__(self, peer: HttpPeer, reply: ScriptedResponse) -> None:
        self.sent_bytes = 0
        self.finished = False
        self._peer = peer
        self._reply = reply
        self._pending = bytearray()
        # Bodies with several parts or faults are sent in chunks, others with their length.
        self._chunked = len(reply.parts) > 1 or bool(reply.faults) or reply.send.gzip

    async def send(self, *, keep_alive: bool) -> bool:
        """Send the response. Return False if the scenario broke the connection."""
        for step in before_headers(self._reply):
            if isinstance(step, Cut):
                self._break(step)
                return False
            await self._pause(step)
        if self._reply.http is not None:
            self._pending += self._reply.http
            self.finished = True
            await self._flush()
            return False
        self._pending += self._head(keep_alive=keep_alive)
        return await self._body()

    async def _body(self) -> bool:
        prompt = self._reply.send.chunk_bytes is not None
        for step in steps(self._reply):
            if isinstance(step, WaitStep):
                await self._pause(step)
            elif isinstance(step, Cut):
                if step.how == "end":
                    break
                await self._flush()
                self._break(step)
                return False
            else:
                self._pending += encode_chunk(step) if self._chunked else step
                self.sent_bytes += len(step)
                if prompt or len(self._pending) >= FLUSH_BYTES:
                    await self._flush()
        if self._chunked:
            self._pending += LAST_CHUNK
        self.finished = True
        await self._flush()
        return True

    async def _pause(self, step: WaitStep) -> None:
        await self._flush()
        if step.seconds is None:
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(step.seconds)

    async def _flush(self) -> None:
        if self._pending:
            data = bytes(self._pending)
            self._pending.clear()
            await self._peer.write(data)

    def _break(self, cut: Cut) -> None:
        self.finished = True
        if cut.how == "reset":
            self._peer.reset()

    def _head(self, *, keep_alive: bool) -> bytes:
        headers = [*self._reply.headers]
        if self._chunked:
            headers.append(("transfer-encoding", "chunked"))
        else:
            headers.append(("content-length", str(sum(map(len, self._reply.parts)))))
        if not keep_alive:
            headers.append(("connection", "close"))
        return encode_response_head(self._reply.status, headers)
