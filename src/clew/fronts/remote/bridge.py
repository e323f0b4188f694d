"""A session's connection to a server, through which viewers follow and use it.

The session's frames are queued in the outbox and sent to the server from there; viewers' messages
arrive in a stream from the server. The session never waits for the server, and only data that is on
disk is sent. A viewer's message is acknowledged only when its effect is in the transcript. If the
worker is killed before that, the restarted worker receives the message again; the message's UUID
prevents a second effect.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from clew.agent.options import Options
from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages.errors import ClewError
from clew.fronts.headless.framing import TurnFrames
from clew.fronts.remote.end import BridgeEnd
from clew.fronts.remote.gate import FrameGate
from clew.fronts.remote.inbox import ViewerInbox, make_notice, name_frame
from clew.fronts.remote.link import WorkerLink
from clew.fronts.remote.outbox import Outbox
from clew.fronts.remote.sealed import SEALED_TITLE, seal_frame, seal_state
from clew.fronts.remote.service import ServiceError, SessionService, read_event
from clew.fronts.remote.state import CHANGING, SessionReport
from clew.fronts.remote.status import LinkStatus
from clew.fronts.render.displays import add_display
from clew.record.stores.sealing import make_sealer, read_sealer
from clew.session.session import Session
from clew.system.clock import make_id
from clew.system.config.settings import read_switch

BATCH, BATCH_BYTES = 200, 1 << 20
# Streaming events wait this long, and other frames wait briefly for those that follow at once, so
# that one request carries many: each request costs about 1 ms of CPU, and a second of a turn only
# 15 ms.
DELTAS_S, GATHER_S = 0.2, 0.02
# The most streaming events that wait; older ones are dropped, since the finished block follows.
MOST_DELTAS = 500
BEAT_S = 20.0
LAST_S = 5.0
WITHDRAWN = (
    "clew restarted before a call that needed approval had a result, so its question was withdrawn."
    " Check what the call did before you repeat it."
)
TAKEN_OVER = (
    "another machine has taken over this session, so it stopped on this machine; the local"
    " transcript contains the work done here"
)


class SessionBridge:
    """The bridge of one session to a server. It outlasts failures of the server.

    `open` starts the bridge; from then on, `link` sends and receives.
    """

    def __init__(
        self, service: SessionService, folder: Path, session_id: str, title: str, end: BridgeEnd
    ) -> None:
        self._service = service
        self._end = end
        self.session_id = session_id
        settings = end.session.rules.standing.settings
        self._is_sealing = read_switch(settings, "remoteSealed") is True
        self._sealer = make_sealer(folder) if self._is_sealing else read_sealer(folder)
        if self._is_sealing:
            title = SEALED_TITLE
        config: Json = {"sealed": True} if self._is_sealing else {"cwd": end.session.workspace.cwd}
        self._link = WorkerLink(service, session_id, title, config)
        self._outbox = box = Outbox(folder / f"{session_id}.jsonl")
        self._gate = FrameGate(end)
        self._inbox = ViewerInbox(
            session_id,
            end,
            box,
            self._sealer,
            put=self.put,
            is_recorded=self._gate.is_recorded,
        )
        self._deltas: deque[Json] = deque(maxlen=MOST_DELTAS)
        self._state: Json = {"worker_status": "idle"}
        self._report = SessionReport()
        self._changed = asyncio.Event()
        # Something is waiting that streaming events must not delay.
        self._is_due = asyncio.Event()
        self._sent = asyncio.Event()
        self._has_viewers = False
        # How many times the waiting batch was sent.
        self._attempts = 0
        self.status = LinkStatus(service.url, session_id, end)

    @property
    def _session(self) -> Session:
        return self._end.session

    # -- frames of the session

    def open(self) -> None:
        """Queue every part of the session that the server may lack."""
        framing = TurnFrames(self.session_id, make_id, Options(replays=True))
        for old in framing.entries(self._session.story.history):
            self.put(old)
        for request_id in list(self._outbox.questions):
            # The process that asked has exited, so its call has ended too.
            self.put(wire.make_withdrawal(request_id))
            self.put(make_notice(self.session_id, WITHDRAWN))
        self._tell_state()

    def _tell_state(self) -> None:
        if report := self._report.changes(self._session):
            if self._is_sealing and self._sealer is not None:
                report = seal_state(self._sealer, self.session_id, report)
            self._state["external_metadata"] = report
            self._changed.set()

    def put(self, frame: Json) -> None:
        """Queue a frame of the session, in the way that its type requires."""
        if frame.get("type") == "stream_event" and not self._has_viewers:
            return
        frame = add_display(frame)
        self._report.note(frame)
        match frame.get("type"), frame.get("subtype"):
            case "keep_alive", _:
                return
            case "stream_event", _:
                self._deltas.append(frame)
            case "system", "session_state_changed":
                self._state["worker_status"] = frame["state"]
            case "user", _ if frame.get("isReplay") is True:
                # The server already has a viewer's prompt, as the viewer sent it.
                if not self._inbox.settle_prompt(str(frame["uuid"])):
                    self._gate.put({n: v for n, v in frame.items() if n != "isReplay"})
            case _:
                # Waiting streaming events are older than this frame, which replaces them.
                self._deltas.clear()
                if "uuid" not in frame:
                    frame = frame | {"uuid": name_frame(self.session_id, frame)}
                if frame["type"] == "control_response":
                    self._inbox.settle_request(object_of(frame["response"]))
                self._gate.put(frame)
        if frame.get("type") in CHANGING or frame.get("subtype") == "session_state_changed":
            self._tell_state()
        if frame.get("type") != "stream_event":
            self._is_due.set()
        self._changed.set()

    async def _save(self) -> None:
        """Save the transcript first, then its frames, then the cursor of viewers' messages."""
        box, inbox = self._outbox, self._inbox
        cursor, frames, taken, inbox.taken = inbox.cursor, self._gate.take(), inbox.taken, []
        if not (frames or taken or cursor > box.cursor):
            return
        try:
            await self._session.story.recorder.durable()
        finally:
            for frame in frames:
                box.put(frame)
            for name in taken:
                box.take(name)
        box.finish({call for frame in frames for call in list_results(frame)})
        box.settle(cursor)
        await asyncio.to_thread(box.sync)

    # -- the server's side

    async def link(self) -> None:
        """Send and receive until cancelled, or until the server rejects this machine."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._send_all, self._receive_all, self._beat_always):
                    group.create_task(self._persist(work), name=work.__name__)
        except* ServiceError as group_error:
            self._lose(group_error)

    def _lose(self, failures: "ExceptionGroup[ServiceError]") -> None:
        error = failures.exceptions[0]
        is_taken_over = isinstance(error, ServiceError) and error.status == 409
        words = TAKEN_OVER if is_taken_over else str(error)
        self.status.refuse(words)
        self._sent.set()
        self._end.lose()

    async def _persist(self, work: Callable[[], Awaitable[None]]) -> None:
        def note(error: ServiceError | None) -> None:
            words = "on" if error is None else f"connection lost: {error}"
            self.status.change(is_up=error is None, words=words)

        await self._link.persist(work, note, is_up=lambda: self.status.is_connected)

    async def _beat_always(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self._tell_state()
            await self._link.ask("POST", "/heartbeat", {})

    # -- sending

    async def _send_all(self) -> None:
        most = BATCH
        while True:
            try:
                if not await self._send_once(most):
                    self._sent.set()
                    await self._changed.wait()
                    await self._gather()
                self._changed.clear()
                most = min(BATCH, most * 2)
            except ServiceError as error:
                if error.status not in (400, 413, 422):
                    raise
                # The server will never accept this batch: find the rejected frame.
                if most == 1 or len(self._outbox.peek(most, BATCH_BYTES)) < 2:
                    self._end.tell(
                        f"the server rejected a frame, so only this machine has it: {error}"
                    )
                    self._outbox.sent(1)
                most = 1

    async def _gather(self) -> None:
        """Wait for frames, and then a moment longer for others that the same request can carry."""
        if self._outbox.is_empty:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DELTAS_S if self._deltas else 0):
                    await self._is_due.wait()
            await asyncio.sleep(GATHER_S)
        self._is_due.clear()

    async def _send_once(self, most: int) -> bool:
        """Send everything that is waiting; return False if nothing was."""
        box = self._outbox
        if not self._gate.is_empty or self._inbox.taken or self._inbox.cursor > box.cursor:
            await self._save()
        batch = box.peek(most, BATCH_BYTES)
        deltas, state = list(self._deltas), self._state
        deliveries = list(self._inbox.deliveries)
        if not (batch or deltas or state or deliveries):
            return False
        if state:
            self._state = {}
            try:
                await self._link.ask("PUT", "", state)
            except ServiceError:
                self._state = state | self._state
                raise
        if batch or deltas:
            self._deltas.clear()
            self._attempts += 1
            events = [{"payload": self._seal(frame)} for frame in batch]
            passing = [
                {"payload": self._seal(frame), "ephemeral": True} for frame in deltas if not batch
            ]
            said = await self._link.ask(
                "POST",
                "/events",
                {"events": events + passing},
                x_ccr_upload_attempt=str(self._attempts),
            )
            self._has_viewers = said.get("has_subscribers") is True
            self._attempts = 0
            if batch:
                box.sent(len(batch))
        if deliveries:
            await self._link.ask("POST", "/events/delivery", {"updates": deliveries})
            for _ in deliveries:
                self._inbox.deliveries.popleft()
        return True

    def _seal(self, frame: Json | bytes) -> Json | msgspec.Raw:
        """Return a frame in the form in which the server receives it.

        Sealing the same frame again gives the same bytes.
        """
        if not self._is_sealing or self._sealer is None:
            return msgspec.Raw(frame) if isinstance(frame, bytes) else frame
        frame = msgspec.json.decode(frame, type=dict) if isinstance(frame, bytes) else frame
        return seal_frame(self._sealer, self.session_id, frame)

    async def finish(self, within_s: float = LAST_S) -> None:
        """Send the remaining frames when the session ends or is disconnected.

        The frames of a turn that is still running are sent by the next connection.
        """
        self._gate.keep_recorded()
        try:
            async with asyncio.timeout(within_s):
                while (
                    not (self._gate.is_empty and self._outbox.is_empty)
                    and not self.status.is_refused
                ):
                    self._sent.clear()
                    self._changed.set()
                    await self._sent.wait()
                await self._link.ask("POST", "/heartbeat", {"release_lease": True})
        except (TimeoutError, ServiceError):
            self._end.tell(
                "the server has not received all of this session yet; clew sends the rest when it "
                "runs the session again"
            )

    def close(self) -> None:
        """Close the outbox. Call this only after `link` has ended."""
        self._outbox.close()

    # -- receiving

    async def _receive_all(self) -> None:
        inbox = self._inbox
        async for event in self._link.stream(inbox.seen):
            about = read_event(event)
            seq, payload = about.get("sequence_num"), about.get("payload")
            if not isinstance(seq, int) or not isinstance(payload, dict) or seq <= inbox.seen:
                continue
            inbox.seen = seq
            name, sender = str(about.get("event_id")), str(about.get("sender", ""))
            try:
                inbox.take(seq, name, payload, sender)
            except ClewError as error:
                self._end.tell(str(error))
            self._is_due.set()
            self._changed.set()
        raise ServiceError(0, "ended", f"{self._service.url}: the stream ended")


def list_results(frame: Json) -> list[str]:
    """Return the IDs of the tool calls whose results a frame contains."""
    content = object_of(frame.get("message")).get("content") if frame["type"] == "user" else None
    blocks = content if isinstance(content, list) else []
    return [str(block["tool_use_id"]) for block in blocks if block.get("type") == "tool_result"]
