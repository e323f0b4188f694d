"""A session's connection to a server, through which viewers follow and use it.

The session's frames go to the outbox and from there to the server; viewers' messages come from the
server's stream. The session never waits for the server, and only data that is on disk is sent. A
viewer's message is acknowledged when its effect is in the transcript. So a restarted worker receives
it again, and its UUID prevents a second effect.
"""

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import msgspec

from clew.agent.options import Options
from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages import factories
from clew.core.messages.errors import ClewError
from clew.core.wire import ControlRequest, HostAnswer, Incoming, Said
from clew.fronts.headless.framing import TurnFrames
from clew.fronts.remote.guard import UNSIGNED, check_answer, check_request, strip_request
from clew.fronts.remote.keys import read_paired
from clew.fronts.remote.link import WorkerLink
from clew.fronts.remote.outbox import Outbox
from clew.fronts.remote.sealed import SEALED_TITLE, open_frame, seal_frame, seal_state
from clew.fronts.remote.service import ServiceError, SessionService, read_event, session_path
from clew.fronts.remote.signing import is_signed
from clew.fronts.remote.state import CHANGING, SessionReport
from clew.fronts.render.displays import add_display
from clew.record.stores.sealing import SealError, make_sealer, read_sealer
from clew.session.session import Session
from clew.system.clock import get_timestamp, make_id
from clew.system.config.settings import read_switch, read_text

BATCH, BATCH_BYTES = 200, 1 << 20
# Streaming events wait this long, so that one request carries many of them.
DELTAS_S = 0.1
# The most streaming events that wait; older ones are dropped, since the finished block follows.
MOST_DELTAS = 500
BEAT_S = 20.0
LAST_S = 5.0
WITHDRAWN = (
    "clew was restarted while a call that needed approval had no result yet. The question is"
    " withdrawn; check what the call did before you repeat it."
)
TOO_LATE = "A remote answer arrived too late: its question is no longer open."
# Requests that only read, and leave no line in the transcript.
SILENT = frozenset({"initialize", "mcp_status", "get_context_usage"})
UNNAMED = "it has no UUID"
TAKEN_OVER = (
    "another machine has taken over this session, so it stopped here; its work here is in the local"
    " transcript"
)


class BridgeEnd(Protocol):
    """The session's end of a bridge."""

    @property
    def session(self) -> Session: ...

    def take(self, incoming: Incoming) -> None:
        """Pass a viewer's message to the session."""
        ...

    def awaits(self, _request_id: str) -> bool:
        """Return whether a question is still open here."""
        return True

    def check(self, _: ControlRequest) -> str:
        """Return why this session refuses a request that viewers may make; empty if it does not."""
        return ""

    def tell(self, words: str) -> None:
        """Tell the user at this machine about the connection."""
        ...

    def show_act(self, _words: str) -> None:
        """Show what a viewer did."""
        return

    def lose(self) -> None:
        """Handle the server's refusal to let this machine continue the session."""
        ...


class SessionBridge:
    """The bridge of one session. Survives failures of the server.

    `open` starts it; `link` sends and receives from then on.
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
        # Frames whose entries may not be in the transcript yet, and the IDs of those that are.
        self._held: deque[Json] = deque()
        # Prompts of viewers that were recorded, but may not be on the disk yet.
        self._taken: list[str] = []
        self._recorded: set[str] = set()
        self._looked_at = 0
        self._deltas: deque[Json] = deque(maxlen=MOST_DELTAS)
        self._state: Json = {"worker_status": "idle"}
        self._report = SessionReport()
        self._deliveries: deque[Json] = deque()
        self._changed = asyncio.Event()
        self._sent = asyncio.Event()
        # The numbers of viewers' events that have not taken effect yet, by the ID of their effect.
        self._unsettled: dict[str, int] = {}
        # The prompts that viewers want to withdraw, by the ID of the request.
        self._unwanted: dict[str, str] = {}
        self._seen = box.cursor
        self._has_viewers = False
        # How many times the waiting batch was sent.
        self._attempts = 0
        self.is_connected = False
        self._had_link = self._is_told = False
        self.is_refused = False

    @property
    def url(self) -> str:
        return self._service.url

    @property
    def address(self) -> str:
        """The command that follows the session from another machine."""
        return f"clew attach --server {self.url} {self.session_id}"

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
            self.put(self._notice(WITHDRAWN))
        self._tell_state()

    def _tell_state(self) -> None:
        if report := self._report.changes(self._session):
            if self._is_sealing and self._sealer is not None:
                report = seal_state(self._sealer, self.session_id, report)
            self._state["external_metadata"] = report
            self._changed.set()

    def put(self, frame: Json) -> None:
        """Queue a frame of the session by its kind."""
        frame = add_display(frame)
        self._report.note(frame)
        match frame.get("type"), frame.get("subtype"):
            case "keep_alive", _:
                return
            case "stream_event", _:
                if self._has_viewers:
                    self._deltas.append(frame)
            case "system", "session_state_changed":
                self._state["worker_status"] = frame["state"]
            case "user", _ if frame.get("isReplay") is True:
                # The server already has a viewer's prompt, as the viewer sent it.
                if self._settled(str(frame["uuid"])):
                    self._taken.append(str(frame["uuid"]))
                else:
                    self._held.append({n: v for n, v in frame.items() if n != "isReplay"})
            case _:
                # Waiting streaming events are older than this frame, which replaces them.
                self._deltas.clear()
                if "uuid" not in frame:
                    frame = frame | {"uuid": self._name(frame)}
                if frame["type"] == "control_response":
                    self._settle_request(object_of(frame["response"]))
                self._held.append(frame)
        if frame.get("type") in CHANGING or frame.get("subtype") == "session_state_changed":
            self._tell_state()
        self._changed.set()

    def _take_recorded(self) -> list[Json]:
        """Return the frames, in order, that precede the first frame without a recorded entry.

        A frame is created as soon as a block is complete, before its entry.
        """
        session = self._session
        story = session.story
        self._recorded |= {str(entry.get("uuid")) for entry in story.since(self._looked_at)}
        self._looked_at = story.said
        frames: list[Json] = []
        while self._held:
            frame = self._held[0]
            is_entry = frame["type"] in ("assistant", "user") and "agent_id" not in frame
            if is_entry and frame["uuid"] not in self._recorded and session.conversation.is_running:
                break
            frames.append(self._held.popleft())
        return frames

    async def _save(self) -> None:
        """Make the transcript durable first, then its frames, then the state of viewers' events."""
        box, cursor = self._outbox, self._find_cursor()
        frames, taken, self._taken = self._take_recorded(), self._taken, []
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

    def _find_cursor(self) -> int:
        """Return the number up to which all viewers' events have taken effect."""
        return min(self._unsettled.values(), default=self._seen + 1) - 1

    def _name(self, frame: Json) -> str:
        """Return an ID for a control frame that stays the same if the frame is sent again."""
        kind = frame["type"]
        about = frame.get("request_id") or object_of(frame.get("response")).get("request_id")
        return str(uuid.uuid5(uuid.UUID(self.session_id), f"{kind}:{about}"))

    def _settled(self, name: str) -> bool:
        """Record that an event has taken effect; return False if it was not a viewer's."""
        seq = self._unsettled.pop(name, None)
        if seq is not None:
            self._deliver(name, "processed")
        return seq is not None

    def _settle_request(self, response: Json) -> None:
        """Note that a viewer's request was answered."""
        request_id = str(response.get("request_id"))
        self._settled(request_id)
        prompt = self._unwanted.pop(request_id, "")
        if object_of(response.get("response")).get("cancelled") is True and self._settled(prompt):
            self._taken.append(prompt)  # It must not be handled a second time either.

    def _deliver(self, name: str, status: str) -> None:
        self._deliveries.append({"event_id": name, "status": status})
        self._changed.set()

    # -- the server's side

    async def link(self) -> None:
        """Send and receive until cancelled, or until the server refuses this machine."""
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
        self.note("refused", words)
        self._end.tell(words)
        self._sent.set()
        self.is_connected, self.is_refused = False, True
        self._end.lose()

    async def _persist(self, work: Callable[[], Awaitable[None]]) -> None:
        def note(error: ServiceError | None) -> None:
            words = "on" if error is None else f"connection lost: {error}"
            self._note_link(is_up=error is None, words=words)

        await self._link.persist(work, note, is_up=lambda: self.is_connected)

    def _note_link(self, *, is_up: bool, words: str) -> None:
        if not is_up and not self._is_told:
            self._end.tell(f"{words}; reconnecting")
        self._is_told = not is_up
        if is_up == self.is_connected:
            return
        self.is_connected = is_up
        if not is_up:
            self.note("lost", words)
            return
        self.note("resumed" if self._had_link else "made", words)
        if self._had_link:
            self._end.tell("connected again")
        else:
            # Viewers can find the session only from now on.
            self._end.tell(f"session {self.session_id} at {self._service.url}; follow it with:")
            self._end.tell(f"  {self.address}")
        self._had_link = True

    def note(self, status: str, words: str) -> None:
        """Record the connection's state in the transcript."""
        url = f"{self._service.url}{session_path(self.session_id)}"
        entry = factories.make_system(
            "bridge_status",
            f"Remote session: {words}",
            uuid=make_id(),
            at=get_timestamp(),
            url=url,
            status=status,
        )
        self._session.conversation.note(entry)

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
                    if self._deltas and self._outbox.is_empty:
                        await asyncio.sleep(DELTAS_S)
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

    async def _send_once(self, most: int) -> bool:
        """Send everything that is waiting; return False if nothing was."""
        box = self._outbox
        if self._held or self._taken or self._find_cursor() > box.cursor:
            await self._save()
        batch = box.peek(most, BATCH_BYTES)
        deltas, state = list(self._deltas), self._state
        deliveries = list(self._deliveries)
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
            box.sent(len(batch))
        if deliveries:
            await self._link.ask("POST", "/events/delivery", {"updates": deliveries})
            for _ in deliveries:
                self._deliveries.popleft()
        return True

    def _seal(self, frame: Json | bytes) -> Json | msgspec.Raw:
        """Return a frame as the server receives it. Sealing it again gives the same bytes."""
        if not self._is_sealing or self._sealer is None:
            return msgspec.Raw(frame) if isinstance(frame, bytes) else frame
        frame = msgspec.json.decode(frame, type=dict) if isinstance(frame, bytes) else frame
        return seal_frame(self._sealer, self.session_id, frame)

    async def finish(self, within_s: float = LAST_S) -> None:
        """Send the rest when the session ends, or is no longer connected.

        The next connection sends the rest of a running turn.
        """
        self._held = deque(self._take_recorded())
        try:
            async with asyncio.timeout(within_s):
                while (self._held or not self._outbox.is_empty) and not self.is_refused:
                    self._sent.clear()
                    self._changed.set()
                    await self._sent.wait()
                await self._link.ask("POST", "/heartbeat", {"release_lease": True})
        except (TimeoutError, ServiceError):
            self._end.tell(
                "the server does not have all of this session yet; the next run sends the rest"
            )

    def close(self) -> None:
        """Close the outbox, after `link` has ended."""
        self._outbox.close()

    # -- receiving

    async def _receive_all(self) -> None:
        async for event in self._link.stream(self._seen):
            about = read_event(event)
            seq, payload = about.get("sequence_num"), about.get("payload")
            if not isinstance(seq, int) or not isinstance(payload, dict) or seq <= self._seen:
                continue
            self._seen = seq
            try:
                self._take(seq, str(about.get("event_id")), payload, str(about.get("sender", "")))
            except ClewError as error:
                self._end.tell(str(error))
            self._changed.set()
        raise ServiceError(0, "ended", f"{self._service.url}: the stream ended")

    def _take(self, seq: int, name: str, payload: Json, sender: str) -> None:
        """Pass a viewer's message to the session, if viewers may send it.

        `sender` is the name of the viewer's device, as the server knows it.
        """
        self._deliver(name, "received")
        # Once a device is paired with this machine, unsigned messages are refused.
        keys = read_paired()
        refusal = (
            UNSIGNED
            if keys and not is_signed(payload, self.session_id, keys, time.time_ns() // 1_000_000)
            else ""
        )
        try:
            payload = open_frame(self._sealer, self.session_id, payload)
        except SealError as error:
            refusal = str(error)
        said = wire.read(payload)
        match said:
            case Said() if refusal or (keys and said.uuid is None):
                self.put(self._notice(f"A remote prompt was refused: {refusal or UNNAMED}"))
            case Said():
                self._take_prompt(seq, name, said, sender)
            case ControlRequest():
                self._take_request(seq, said, refusal, sender)
            case HostAnswer():
                if refusal:
                    denial = {"behavior": "deny", "message": f"The answer was refused: {refusal}"}
                    payload = wire.make_success(said.request_id, denial)
                question = self._outbox.answered(said.request_id)
                if question is None or not self._end.awaits(said.request_id):
                    self.put(self._notice(TOO_LATE))
                    return
                settings = self._session.rules.standing.settings
                may_last = read_text(settings, "remoteAnswers") == "session"
                payload = check_answer(payload, question, may_last=may_last)
                verdict = object_of(object_of(payload.get("response")).get("response"))
                about = question.get("tool_name") or question.get("subtype")
                words = f"answered {about}: {verdict.get('behavior', 'answered')}"
                self._note_act(sender, words, request_id=said.request_id)
                self._end.take(wire.read(payload))
                self._deliver(name, "processed")
            case _:
                about = f": {refusal}" if refusal else ""
                self.put(self._notice(f"An invalid remote message was ignored{about}."))

    def _note_act(self, sender: str, words: str, **about: str) -> None:
        """Record in the transcript what a viewer did."""
        words = f"Remote: {sender or 'a viewer'} {words}"
        self._end.show_act(words)
        entry = factories.make_system(
            "informational",
            words,
            uuid=make_id(),
            at=get_timestamp(),
            device=sender,
            **about,
        )
        self._session.conversation.note(entry)

    def _take_prompt(self, seq: int, name: str, said: Said, sender: str) -> None:
        """Queue a prompt under an ID that stays the same if it arrives again."""
        known = said.uuid or str(uuid.uuid5(uuid.UUID(self.session_id), name))
        if known in self._recorded or known in self._outbox.known:
            return
        self._unsettled[known] = seq
        self._end.take(
            Said(
                content=said.content,
                uuid=known,
                origin={"kind": "human", "via": "remote", "device": sender},
                # Slash commands and file mentions in it are plain text.
                is_verbatim=True,
            )
        )

    def _take_request(self, seq: int, said: ControlRequest, refusal: str, sender: str) -> None:
        refusal = refusal or check_request(said.fields, self._session.mode) or self._end.check(said)
        answer = wire.make_refusal(said.request_id, refusal, code="not_allowed")
        if self._name(answer) in self._outbox.known:
            return  # Answered before this worker was killed.
        if refusal:
            self._note_act(
                sender, f"sent the request {said.subtype!r}, which was refused: {refusal}"
            )
            self.put(answer)
            return
        if said.subtype not in SILENT:
            self._note_act(sender, f"requested {said.subtype}", request_id=said.request_id)
        self._unsettled[said.request_id] = seq
        if said.subtype == "cancel_async_message":
            self._unwanted[said.request_id] = str(said.fields.get("message_uuid"))
        fields = strip_request(said.fields)
        self._end.take(
            ControlRequest(request_id=said.request_id, subtype=said.subtype, fields=fields)
        )

    def _notice(self, words: str) -> Json:
        return wire.system(
            "informational",
            session_id=self.session_id,
            uuid=make_id(),
            content=words,
            level="notice",
        )


def list_results(frame: Json) -> list[str]:
    """Return the IDs of the tool calls whose results a frame contains."""
    content = object_of(frame.get("message")).get("content") if frame["type"] == "user" else None
    blocks = content if isinstance(content, list) else []
    return [str(block["tool_use_id"]) for block in blocks if block.get("type") == "tool_result"]
