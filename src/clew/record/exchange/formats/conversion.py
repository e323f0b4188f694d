"""Convert sessions from other programs to clew messages, and account for each item. Does no I/O.

Nothing is invented: each item of the source is kept, changed or left out, the last two with a
reason. IDs are derived from the source, so that importing a file again gives the same session.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages import factories
from clew.core.messages.views import complete_usage
from clew.core.normalize.origin import with_origins
from clew.record.exchange.formats.reasons import DUPLICATE_CALL, LONE_RESULT, SECOND_RESULT

_NO_ID = re.compile(r"[^A-Za-z0-9_-]")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)")
# The range of valid times in seconds: 2001 to 2100.
_FIRST_S, _LAST_S = 978_307_200, 4_102_444_800
ANSWERED = "answered"
_PLACE = frozenset({"parentUuid", "sessionId", "isSidechain", "agentId"})
LONG_AGO = "1970-01-01T00:00:00.000Z"
EMPTY = "no content"


class Helper(Struct, kw_only=True):
    """A subagent of the session: its messages, and the metadata for its sidecar file."""

    agent_id: str
    messages: list[Json]
    metadata: Json


class ItemTally(Struct, kw_only=True):
    """The tally of the source's items. An item with several reasons is counted under the first."""

    kept: int = 0
    changed: dict[str, int] = {}
    left_out: dict[str, int] = {}

    @property
    def items(self) -> int:
        return self.kept + sum(self.changed.values()) + sum(self.left_out.values())

    @property
    def losses(self) -> dict[str, int]:
        """Return the numbers of items that were changed or left out, by reason."""
        return _sum(self.changed, self.left_out)

    def leave_out(self, reason: str, count: int = 1) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + count

    def reject(self, reason: str, count: int) -> None:
        """Count items as left out that were previously counted as kept."""
        self.kept = max(0, self.kept - count)
        self.leave_out(reason, count)

    def add(self, other: "ItemTally") -> None:
        self.kept += other.kept
        self.changed = _sum(self.changed, other.changed)
        self.left_out = _sum(self.left_out, other.left_out)


def describe_losses(losses: dict[str, int]) -> str:
    """Format the losses as one line."""
    return ", ".join(f"{reason} ({count})" for reason, count in losses.items())


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


class Converted(Struct, kw_only=True):
    """The result of a conversion; `source_id` is the session's ID in the source.

    `parents` maps a message's UUID to its parent's, if that is not the previous message (None: the
    beginning). `end` is the message to which the source rewound at its end. A source that rewound
    to the beginning ends with its last message, because a session needs one. `seed` distinguishes
    sessions without an ID.
    """

    kind: str
    source_id: str
    seed: str = ""
    messages: list[Json] = []
    parents: dict[str, str | None] = {}
    end: str | None = None
    agents: list[Helper] = []
    title: str = ""
    cwd: str = ""
    branch: str = ""
    tally: ItemTally = msgspec.field(default_factory=ItemTally)


class Builder:
    """Builds clew's entries from the source's items, taken in order.

    Call `item` before each item. `new_uuid` supplies the IDs.
    """

    def __init__(self, kind: str, source_id: str, new_uuid: Callable[[], str]) -> None:
        self.out = Converted(kind=kind, source_id=source_id)
        self.new_uuid = new_uuid
        self._at = LONG_AGO
        self._open: dict[str, str] = {}
        # The calls with each ID of the source.
        self._made: dict[str, list[Json]] = {}
        self._calls = 0
        self._thoughts: list[Json] = []
        self._origins: list[Any] = []
        self._is_item = self._is_kept = False
        self._reason = self._item_id = ""
        self._follows: str | None = None
        self._is_elsewhere = False

    # -- the account

    def item(self, source_id: Any = None) -> None:
        """Begin the next item of the source; its messages record its ID in the source."""
        self._end_item()
        self._is_item, self._is_kept, self._reason = True, False, ""
        self._item_id = text_of(source_id)

    def _end_item(self) -> None:
        if not self._is_item:
            return
        self._is_item = False
        tally = self.out.tally
        if not self._is_kept:
            tally.leave_out(self._reason or EMPTY)
        elif self._reason:
            tally.changed[self._reason] = tally.changed.get(self._reason, 0) + 1
        else:
            tally.kept += 1

    def lose(self, reason: str) -> None:
        """Record why the item is changed or left out."""
        self._reason = self._reason or reason

    def keep(self) -> None:
        """Count the item as kept, because the session contains it in another form."""
        self._is_kept = True

    def add_agent(self, agent_id: str, own: "Builder", metadata: Json) -> None:
        """Add a subagent with the items of its own builder."""
        done = own.finished()
        self.out.tally.add(done.tally)
        self.out.agents.append(Helper(agent_id=agent_id, messages=done.messages, metadata=metadata))

    # -- the place

    @property
    def last(self) -> str | None:
        """The UUID of the newest message, or None without messages."""
        return self.out.messages[-1]["uuid"] if self.out.messages else None

    @property
    def leaf(self) -> str | None:
        """The UUID of the next message's parent; None means the beginning."""
        return self._follows if self._is_elsewhere else self.last

    def follow(self, uuid: str | None) -> None:
        """Set the parent of the next message, which begins a branch; None means the beginning."""
        self._end_thoughts()
        self._follows, self._is_elsewhere = uuid, uuid != self.last

    def rewind(self, uuid: str | None) -> None:
        """Continue from an earlier message, also if no message follows."""
        self.follow(uuid)
        self.out.end = uuid

    def _add(self, entries: list[Json]) -> None:
        self.out.end = None
        if self._is_elsewhere:
            self.out.parents[entries[0]["uuid"]] = self._follows
            self._is_elsewhere = False
        origin = {"sourceId": self._item_id} if self._item_id else {}
        self.out.messages += [entry | origin for entry in entries]
        self._is_kept = True

    # -- the content

    def time(self, value: Any) -> str:
        """Convert a time to clew's format: ISO text, or seconds or smaller units since 1970.

        An invalid time is replaced with the time of the previous message.
        """
        match = _TIME.fullmatch(value) if type(value) is str else None
        if match is not None:
            self._at = f"{match[1]}.{(match[2] or '.').removeprefix('.')[:3]:0<3}Z"
        elif (seconds := read_seconds(value)) is not None:
            at = datetime.fromtimestamp(seconds, UTC)
            self._at = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
        return self._at

    def take(self, entry: Json) -> None:
        """Add an entry that is already in clew's format; the recorder sets its position."""
        self._add([{k: v for k, v in entry.items() if k not in _PLACE}])
        for block in list_of(object_of(entry.get("message")).get("content")):
            if type(block) is dict and block.get("type") == "tool_use":
                self._made[text_of(block.get("id"))] = [block]
                self._open[text_of(block.get("id"))] = entry["uuid"]
            elif type(block) is dict and block.get("type") == "tool_result":
                self._open[text_of(block.get("tool_use_id"))] = ANSWERED

    def finished(self) -> Converted:
        self._end_thoughts()
        self._end_item()
        return self.out

    def _end_thoughts(self) -> None:
        """Add thinking as a separate response if no response follows it."""
        if self._thoughts:
            is_kept = self._is_kept
            self._respond([], [], self._at, "", None, {})
            self._is_kept = is_kept

    def user(self, blocks: list[Json], at: str, *, is_meta: bool = False) -> None:
        self._end_thoughts()
        blocks = [b for b in blocks if b.get("type") != "text" or b.get("text", "").strip()]
        if not blocks:
            return
        plain = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
        self._add(
            [
                factories.make_user(
                    plain,
                    uuid=self.new_uuid(),
                    at=at,
                    is_meta=is_meta,
                    prompt_source=None if is_meta else "typed",
                )
            ]
        )

    def say(self, text: str, at: str, *, is_meta: bool = False) -> None:
        """Add a user message."""
        self.user([make_text(text)], at, is_meta=is_meta)

    def compact(self, summary: str, at: str, *, kept_from: str | None = None) -> None:
        """Add a compaction: the next request begins with this summary.

        The messages from `kept_from` on are kept after it.
        """
        self._end_thoughts()
        if not self.out.messages:
            self.say(summary, at, is_meta=True)
            return
        anchor, last = self.new_uuid(), text_of(self.last)
        segment = {"headUuid": text_of(kept_from), "anchorUuid": anchor, "tailUuid": last}
        boundary = factories.compact_boundary(
            uuid=self.new_uuid(),
            at=at,
            trigger="auto",
            pre_tokens=0,
            preserved_segment=segment if kept_from else None,
        )
        self._add([boundary, factories.compact_summary(summary, uuid=anchor, at=at)])

    def answer(
        self,
        blocks: list[Json],
        at: str,
        *,
        model: str = "",
        usage: Json | None = None,
        origins: list[Any] | None = None,
        cost_usd: Any = None,
    ) -> None:
        """Add a response; `origins` has the record of origin of each block."""
        fields = {"costUSD": float(cost_usd)} if type(cost_usd) in (int, float) else {}
        content, records = [], []
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                if (own := self._with_own_id(block)) is None:
                    self.lose(DUPLICATE_CALL)
                    continue
                block = own
            record = origins[index] if origins else None
            is_sealed = block["type"] == "thinking" and record is not None
            has_words = block.get("text") or block.get("thinking") or block.get("signature")
            if block["type"] != "tool_use" and not has_words and not is_sealed:
                continue
            content.append(block)
            records.append(record)
        if content and all(block["type"] == "thinking" for block in content) and usage is None:
            self._thoughts += content  # The next response begins with them.
            self._origins += records
            self._is_kept = True
        elif content:
            self._respond(content, records, at, model, usage, fields)

    def _with_own_id(self, block: Json) -> Json | None:
        """Return a call with a unique ID, or None if it repeats the previous call with its ID.

        Some programs reuse an ID for a different call.
        """
        identifier = block["id"]
        made = self._made.setdefault(identifier, [])
        if made and all(made[-1].get(key) == block[key] for key in ("name", "input")):
            return None
        own, number = identifier, 1
        while own in self._open:
            own, number = f"{identifier}_{number + 1}", number + 1
        self._open[own] = ""
        made.append(block | {"id": own})
        return made[-1]

    def _respond(
        self, said: list[Json], records: list[Any], at: str, model: str, usage: Any, fields: Json
    ) -> None:
        blocks, origins = [*self._thoughts, *said], [*self._origins, *records]
        self._thoughts, self._origins = [], []
        uuids = [self.new_uuid() for _ in blocks]
        for block, uuid in zip(blocks, uuids, strict=True):
            if block["type"] == "tool_use":
                self._open[block["id"]] = uuid
        message = {
            "id": f"msg_{uuids[0].replace('-', '')}",
            "type": "message",
            "model": model,
            "content": blocks,
            "stop_reason": "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": usage or {"input_tokens": 0, "output_tokens": 0},
        }
        entries = factories.make_assistant(message, uuids=uuids, at=at, request_id="")
        self._add([entry | fields for entry in with_origins(entries, origins)])

    def result(self, call: str, content: Any, at: str, *, is_error: bool = False) -> None:
        call = self._find_id(call)
        source = self._open.get(call)
        if source is None:
            self.lose(LONE_RESULT)
            return
        if source == ANSWERED:
            self.lose(SECOND_RESULT)
            return
        self._open[call] = ANSWERED
        self._add(
            [
                factories.make_tool_answer(
                    call, content, uuid=self.new_uuid(), at=at, source_uuid=source,
                    is_error=is_error,
                )
            ]
        )  # fmt: skip

    def charge(self, usage: Json) -> bool:
        """Set the usage of the newest response; return False if there is none or it has usage."""
        charged = ""
        for index, entry in reversed(list(enumerate(self.out.messages))):
            if entry["type"] != "assistant":
                if charged:
                    break
                continue
            body = entry["message"]
            used = [body["usage"].get(key) for key in ("input_tokens", "output_tokens")]
            if any(used) or charged not in ("", body["id"]):
                break
            charged = body["id"]
            body = body | {"usage": complete_usage(usage)}
            self.out.messages[index] = entry | {"message": body}
        if charged:
            self.keep()
        return bool(charged)

    def make_call(self, name: str, arguments: Any) -> Json:
        """Return a call with a generated ID, for sources without IDs."""
        self._calls += 1
        return call(f"call_{self._calls}", name, arguments)

    @property
    def has_own_calls(self) -> bool:
        """True if the source has calls without IDs."""
        return self._calls > 0

    def answer_oldest(self, content: Any, at: str, *, is_error: bool = False) -> None:
        """Add the result of the oldest open call, for sources whose results have no IDs."""
        oldest = next((key for key, uuid in self._open.items() if uuid != ANSWERED), "")
        self.result(oldest, content, at, is_error=is_error)

    def is_known(self, call: str) -> bool:
        """Return whether the conversation so far contains this call."""
        return self._find_id(call) in self._open

    def is_open(self, call: str) -> bool:
        """Return whether the conversation so far contains this call, but no result for it."""
        return self._open.get(self._find_id(call), ANSWERED) != ANSWERED

    def _find_id(self, call: str) -> str:
        """Return the ID of the call that has this ID in the source.

        If several calls have it, the oldest open one is used or, if none is open, the last one.
        """
        identifier = tool_id(call)
        own = [text_of(made.get("id")) for made in self._made.get(identifier, [])]
        still_open = (name for name in own if self._open.get(name) != ANSWERED)
        return next(still_open, own[-1] if own else identifier)


def read_seconds(value: Any) -> float | None:
    """Return a time of another program in seconds since 1970; None if it is not plausible."""
    if type(value) is str:
        try:
            at = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        value = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if type(value) not in (int, float):
        return None
    for unit in (1, 1e3, 1e6, 1e9):
        if _FIRST_S <= value / unit <= _LAST_S:
            return float(value / unit)
    return None


def tool_id(value: str) -> str:
    return _NO_ID.sub("_", value) or "_"


def call(call_id: str, name: str, arguments: Any) -> Json:
    value = arguments if type(arguments) is dict else {"input": arguments}
    return {"type": "tool_use", "id": tool_id(call_id), "name": name or "unknown", "input": value}


def make_text(words: str) -> Json:
    return {"type": "text", "text": words}


def make_picture(media: str, data: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def make_thinking(words: str, signature: str = "") -> Json:
    return {"type": "thinking", "thinking": words, "signature": signature}
