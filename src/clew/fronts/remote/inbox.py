"""Check viewers' messages, pass them to the session, and record which have taken effect.

The server keeps each message until its effect is in the transcript. If the worker is killed before
that, the restarted worker receives the message again; the message's ID prevents a second effect.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable

from clew.core import wire
from clew.core.json_object import Json, object_of
from clew.core.messages import factories
from clew.core.wire import ControlRequest, HostAnswer, Said
from clew.fronts.remote.end import BridgeEnd
from clew.fronts.remote.guard import UNSIGNED, check_answer, check_request, strip_request
from clew.fronts.remote.keys import read_paired
from clew.fronts.remote.outbox import Outbox
from clew.fronts.remote.sealed import open_frame
from clew.fronts.remote.signing import is_signed
from clew.fronts.waiting import REMOTE
from clew.record.stores.sealing import Sealer, SealError
from clew.system.clock import get_timestamp, make_id
from clew.system.config.settings import read_text

TOO_LATE = "A remote answer arrived too late: its question is no longer open."
# Requests that only read, and leave no line in the transcript.
SILENT = frozenset({"initialize", "mcp_status", "get_context_usage"})
NOT_THERE = "the conversation no longer contains this prompt; it was rewound or compacted"
UNNAMED = "the message has no UUID"
# How much of a viewer's error is recorded.
SHOWN_CHARACTERS = 200


class ViewerInbox:
    """The messages from the viewers of one session.

    `seen` is the number of the last message received.
    """

    def __init__(
        self,
        session_id: str,
        end: BridgeEnd,
        outbox: Outbox,
        sealer: Sealer | None,
        *,
        put: Callable[[Json], None],
        is_recorded: Callable[[str], bool],
    ) -> None:
        self._session_id = session_id
        self._end = end
        self._outbox = outbox
        self._sealer = sealer
        self._put = put
        self._is_recorded = is_recorded
        self.seen = outbox.cursor
        # What the server does not know yet about messages that arrived or took effect.
        self.deliveries: deque[Json] = deque()
        # Prompts that were recorded, but may not be on the disk yet.
        self.taken: list[str] = []
        # The numbers of messages that have not taken effect yet, by the ID of their effect.
        self._unsettled: dict[str, int] = {}
        # The prompts that viewers want to withdraw, by the ID of the request.
        self._unwanted: dict[str, str] = {}

    @property
    def cursor(self) -> int:
        """The highest message number up to which all messages have taken effect."""
        return min(self._unsettled.values(), default=self.seen + 1) - 1

    # -- effects

    def settle_prompt(self, name: str) -> bool:
        """Note that a prompt was recorded.

        Return False if the prompt did not come from a viewer.
        """
        if not self._settle(name):
            return False
        self.taken.append(name)
        return True

    def settle_request(self, response: Json) -> None:
        """Note that a viewer's request was answered."""
        request_id = str(response.get("request_id"))
        self._settle(request_id)
        prompt = self._unwanted.pop(request_id, "")
        if object_of(response.get("response")).get("cancelled") is True:
            self.settle_prompt(prompt)  # The withdrawn prompt must not be handled again, either.

    def _settle(self, name: str) -> bool:
        seq = self._unsettled.pop(name, None)
        if seq is not None:
            self._deliver(name, "processed")
        return seq is not None

    def _deliver(self, name: str, status: str) -> None:
        self.deliveries.append({"event_id": name, "status": status})

    # -- arrivals

    def take(self, seq: int, name: str, payload: Json, sender: str) -> None:
        """Pass a viewer's message to the session, if viewers may send it.

        `sender` is the name of the viewer's device, as the server knows it.
        """
        self._deliver(name, "received")
        # Once a device is paired with this machine, unsigned messages are refused.
        keys = read_paired()
        refusal = (
            UNSIGNED
            if keys and not is_signed(payload, self._session_id, keys, time.time_ns() // 1_000_000)
            else ""
        )
        try:
            payload = open_frame(self._sealer, self._session_id, payload)
        except SealError as error:
            refusal = str(error)
        said = wire.read(payload)
        match said:
            case Said() if refusal or (keys and said.uuid is None):
                self._put(
                    make_notice(
                        self._session_id, f"A remote prompt was refused: {refusal or UNNAMED}"
                    )
                )
            case Said():
                self._take_prompt(seq, name, said, sender)
            case ControlRequest():
                self._take_request(seq, said, refusal, sender)
            case HostAnswer() if said.error is not None and not refusal:
                self._note_failure(said, sender)
                self._deliver(name, "processed")
            case HostAnswer() if said.error is None:
                if refusal:
                    denial = {"behavior": "deny", "message": f"The answer was refused: {refusal}"}
                    payload = wire.make_success(said.request_id, denial)
                question = self._outbox.answered(said.request_id)
                if question is None or not self._end.awaits(said.request_id):
                    self._put(make_notice(self._session_id, TOO_LATE))
                    return
                settings = self._end.session.rules.standing.settings
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
                self._put(
                    make_notice(self._session_id, f"An invalid remote message was ignored{about}.")
                )

    def _note_failure(self, said: HostAnswer, sender: str) -> None:
        """Record that a viewer can't answer a question, which stays open.

        Another viewer or the user at this machine can still answer it.
        """
        question = self._outbox.questions.get(said.request_id)
        if question is not None and self._end.awaits(said.request_id):
            about = question.get("tool_name") or question.get("subtype")
            why = (said.error or "")[:SHOWN_CHARACTERS]
            words = f"could not answer {about} ({why}); the question is still open"
            self._note_act(sender, words, request_id=said.request_id)

    def _note_act(self, sender: str, words: str, **about: str) -> None:
        """Record a viewer's action in the transcript."""
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
        self._end.session.conversation.note(entry)

    def _take_prompt(self, seq: int, name: str, said: Said, sender: str) -> None:
        """Queue a prompt under an ID that is the same each time the prompt arrives."""
        known = said.uuid or str(uuid.uuid5(uuid.UUID(self._session_id), name))
        if self._is_recorded(known) or known in self._outbox.known:
            return
        self._unsettled[known] = seq
        self._end.take(
            Said(
                content=said.content,
                uuid=known,
                origin=make_origin(sender),
                # Slash commands and file mentions in it are plain text.
                is_verbatim=True,
            )
        )

    def _take_request(self, seq: int, said: ControlRequest, refusal: str, sender: str) -> None:
        refusal = (
            refusal
            or check_request(said.fields, self._end.session.mode)
            or self._check_rewind(said)
            or self._end.check(said)
        )
        answer = wire.make_refusal(said.request_id, refusal, code="not_allowed")
        if name_frame(self._session_id, answer) in self._outbox.known:
            return  # Answered before this worker was killed.
        if refusal:
            self._note_act(
                sender, f"sent the request {said.subtype!r}, which was refused: {refusal}"
            )
            self._put(answer)
            return
        if said.subtype not in SILENT:
            self._note_act(sender, f"requested {said.subtype}", request_id=said.request_id)
        self._unsettled[said.request_id] = seq
        if said.subtype == "rewind_conversation":
            self._rewind(said, sender)
            return
        if said.subtype == "cancel_async_message":
            self._unwanted[said.request_id] = str(said.fields.get("message_uuid"))
        fields = strip_request(said.fields)
        self._end.take(
            ControlRequest(request_id=said.request_id, subtype=said.subtype, fields=fields)
        )

    def _check_rewind(self, said: ControlRequest) -> str:
        """Return why the session can't be rewound now; empty if it can, or for other requests."""
        if said.subtype != "rewind_conversation":
            return ""
        session, prompt = self._end.session, said.fields.get("message_uuid")
        if session.conversation.is_running:
            return "a turn is running; stop it first"
        is_known = any(entry.get("uuid") == prompt for entry in session.story.history)
        return "" if is_known else NOT_THERE

    def _rewind(self, said: ControlRequest, sender: str) -> None:
        """Queue a rewind like a prompt, so that no turn runs while it is carried out."""
        line = f"/rewind {said.fields['message_uuid']} conversation"
        self._end.take(Said(content=line, origin=make_origin(sender)))
        self._put(wire.make_success(said.request_id, {}))


def make_origin(sender: str) -> Json:
    return {"kind": "human", "via": REMOTE, "device": sender}


def name_frame(session_id: str, frame: Json) -> str:
    """Return an ID for a control frame that stays the same if the frame is sent again."""
    kind = frame["type"]
    about = frame.get("request_id") or object_of(frame.get("response")).get("request_id")
    return str(uuid.uuid5(uuid.UUID(session_id), f"{kind}:{about}"))


def make_notice(session_id: str, words: str) -> Json:
    return wire.system(
        "informational",
        session_id=session_id,
        uuid=make_id(),
        content=words,
        level="notice",
    )
