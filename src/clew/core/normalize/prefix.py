"""The rule on preserved thinking: which thinking blocks the service would reject, and the repair.

Current models bind each thinking block to everything before it: the system prompt, the tools, all
earlier messages and the previous thinking block. `Thoughts` knows the prefix of each thinking block
in a conversation, checks every request before it is sent, and names the blocks to omit.
docs/internals/requests.md describes the rule and the record. Must never change a message:
`Outgoing` omits the blocks that are named here.

Decision: docs/decisions/329-preserved-thinking.md
"""

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from operator import is_
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_object import Json
from clew.core.normalize import shapes
from clew.core.normalize.block_rules import kind_of, says_something
from clew.core.normalize.repairs import Repair
from clew.core.normalize.select import SHORT, identify_thought, thoughts_of
from clew.core.normalize.target import MARK
from clew.core.regex import lazy_pattern

# How a request asks the service to treat thinking blocks that do not fit: unspecified, report the
# ones it omits anyway, or omit those it would reject.
Behavior: TypeAlias = Literal["", "report", "drop_block"]

CONTROLS_BETA = "thinking-binding-controls-2026-08-01"
RECORD = "boundTo"
START = ""

SYSTEM = "the system prompt changed"
TOOLS = "the tools changed"
MESSAGES = "earlier messages changed"
GAP = "the previous thinking block was removed"
REFUSED = "the service rejected the thinking"

# Parts of the service's errors: a thinking block has a different prefix, it is not accepted at all,
# or the control field is unknown.
_BOUND_ELSEWHERE = "bound to a different conversation"
_NOT_TAKEN = lazy_pattern(
    r"invalid `?(?:signature|data)`? in `?(?:redacted_)?thinking`?"
    r"|thinking`? blocks? .{0,200}cannot be modified",
    re.I | re.S,
)
_CONTROLS = ("block_binding", CONTROLS_BETA)
_encode = msgspec.json.Encoder(order="deterministic").encode


def is_bound_elsewhere(words: str) -> bool:
    """Return whether a request was rejected because a thinking block does not fit its prefix."""
    return _BOUND_ELSEWHERE in words.lower()


def is_not_taken(words: str) -> bool:
    """Return whether the service rejected a thinking block as modified or as not its own.

    This happens with blocks from a gateway or another account, or after a transcript was edited.
    """
    return _NOT_TAKEN.search(words) is not None


class Bound(Struct, frozen=True, kw_only=True):
    """The prefix that a thinking block is bound to, as a hash of each part.

    `after` is the last thinking block before the response; all thinking blocks of a response have
    the same prefix.
    """

    system: str
    tools: str
    messages: str
    after: str = ""

    def as_json(self) -> Json:
        """Return the `boundTo` field of an entry with thinking."""
        fields = {"system": self.system, "tools": self.tools, "messages": self.messages}
        return fields | {"after": self.after} if self.after else fields

    @staticmethod
    def of(entry: Json) -> "Bound | None":
        """Return the prefix recorded in an entry, or None if it is missing or invalid."""
        record = entry.get(RECORD)
        if type(record) is not dict:
            return None
        parts = [
            record.get("system"),
            record.get("tools"),
            record.get("messages"),
            record.get("after", ""),
        ]
        if any(type(part) is not str for part in parts):
            return None
        system, tools, messages, after = parts
        return Bound(system=system, tools=tools, messages=messages, after=after)


def digest(value: Any) -> str:
    return sha256(_encode(value)).hexdigest()[:SHORT]


def digest_system(system: list[Json] | str | None) -> str:
    if isinstance(system, str):
        system = [{"type": "text", "text": system}] if system else None
    return digest(system or [])


def digest_tools(tools: Sequence[Json] | None) -> str:
    """Return a hash of the tools; deferred definitions are not part of the prefix."""
    return digest([tool for tool in tools or () if not tool.get(MARK)])


def with_bound(entries: Iterable[Json], bound: Bound | None) -> list[Json]:
    """Return the entries of a response, recording the prefix in those that contain thinking."""
    return [
        entry
        if bound is None or not any(thoughts_of(entry["message"].get("content")))
        else entry | {RECORD: bound.as_json()}
        for entry in entries
    ]


class ThoughtPlace(Struct, frozen=True, kw_only=True):
    """The position of a thinking block in a request.

    `starts` lists the prefixes after which the block's response may have started. There are several
    for a paused response that continues in the same message.
    """

    thought: str
    message: int
    starts: tuple[str, ...]


class _Link(Struct, frozen=True):
    """The end of a message: the hash of the prefix and the number of thinking blocks up to it."""

    state: str
    thoughts: int


class PrefixChain:
    """The prefixes of a growing request. An unchanged message is not hashed again."""

    def __init__(self) -> None:
        self._messages: list[Json] = []
        self._links: list[_Link] = []
        # The thinking blocks of all messages, in order.
        self.places: list[ThoughtPlace] = []

    def follow(self, messages: Sequence[Json]) -> int:
        """Set the messages of the next request; return how many thinking blocks are unchanged."""
        same = _same(self._messages, messages)
        del self._messages[same:], self._links[same:]
        count = self._links[-1].thoughts if self._links else 0
        del self.places[count:]
        for message in messages[same:]:
            state = self._add(self.state, message, len(self._messages))
            self._messages.append(message)
            self._links.append(_Link(state, len(self.places)))
        return count

    def _add(self, state: str, message: Json, at: int) -> str:
        """Return the hash of the prefix that ends with a message.

        Thinking blocks are not part of the hash; they are added to `places`.
        """
        starts = [state]
        for block in message["content"]:
            if block.get("type") in shapes.THINKING:
                place = ThoughtPlace(
                    thought=identify_thought(block), message=at, starts=tuple(starts)
                )
                self.places.append(place)
            else:
                parts = [starts[-1], message["role"], block]
                starts.append(sha256(_encode(parts)).hexdigest()[:SHORT])
        return starts[-1]

    @property
    def state(self) -> str:
        """The hash of the prefix for the next response."""
        return self._links[-1].state if self._links else START

    def thought_at(self, path: object) -> str | None:
        """Return the ID of the thinking block at a path such as `messages.1.content.0`, or None."""
        words = path.split(".") if type(path) is str else []
        if len(words) != 4 or not (words[1].isdecimal() and words[3].isdecimal()):
            return None
        message, block = int(words[1]), int(words[3])
        if message >= len(self._messages):
            return None
        blocks = self._messages[message]["content"]
        if block >= len(blocks) or blocks[block].get("type") not in shapes.THINKING:
            return None
        return identify_thought(blocks[block])


def _same(before: Sequence[Json], now: Sequence[Json]) -> int:
    """Return how many leading messages are identical objects."""
    most = min(len(before), len(now))
    # Usually all but the last few messages are identical.
    sure = max(0, most - 4)
    at = sure if all(map(is_, before[:sure], now[:sure])) else 0
    while at < most and before[at] is now[at]:
        at += 1
    return at


class Thought(Struct, frozen=True, kw_only=True):
    """A thinking block in the transcript.

    `is_free` is set if the model that wrote the block binds nothing. Otherwise, a missing `bound`
    means that the prefix is unknown.
    """

    uuid: str | None
    maker: str
    bound: Bound | None
    is_free: bool


class _Mark(Struct, frozen=True):
    """The state after one thinking block of a request.

    `last` is the last block that the model sees, and `bound` is its prefix. The flags tell whether
    a block of another model, or a block with a guessed prefix, has occurred so far.
    """

    last: str = ""
    bound: Bound | None = None
    has_other: bool = False
    has_guessed: bool = False


class RequestVerdict(Struct, frozen=True, kw_only=True):
    """The blocks to omit from a request, the behavior to ask for, and the repairs to report."""

    leave_out: frozenset[str] = frozenset()
    behavior: Behavior = ""
    repairs: list[Repair] = []


def has_blank_text(content: object) -> bool:
    """Return whether any text block contains nothing but whitespace."""
    return type(content) is list and any(
        kind_of(block) == "text" and type(block.get("text")) is str and not says_something(block)
        for block in content
    )


def binds_nothing(_: str) -> bool:
    return False


class Thoughts:
    """The thinking blocks of one conversation, with the state that the rule needs.

    A block reported as not fitting remains omitted, even after a resume: later blocks were created
    without it.
    """

    def __init__(
        self,
        *,
        binds: Callable[[str], bool] = binds_nothing,
        repairs: Iterable[Repair] = (),
        is_as_recorded: bool = False,
    ) -> None:
        """Start without entries.

        `binds` takes a model's name and returns whether the model binds its thinking. `repairs` are
        the repairs recorded in the transcript. `is_as_recorded` is set if the system prompt and the
        tools are those that the session started with.
        """
        repairs = list(repairs)
        self._binds = binds
        self._is_as_recorded = is_as_recorded
        self._chain = PrefixChain()
        self._known: dict[str, Thought] = {}
        self._told = {repair.uuid for repair in repairs if repair.kind == "thought_unbound"}
        self._told_refused = {
            repair.uuid
            for repair in repairs
            if repair.kind == "thought_unbound" and repair.detail == REFUSED
        }
        self._told_unread: dict[str | None, set[str]] = {}
        for repair in repairs:
            if repair.kind == "thought_unread":
                self._told_unread.setdefault(repair.uuid, set()).add(repair.detail)
        # Blocks that no longer fit, and pairs of a block and a model that cannot read it.
        self._gone: set[str] = set()
        self._unread: set[tuple[str, str]] = set()
        # Blocks of a rejected request, omitted whatever the service can do.
        self._refused: set[str] = set()
        # Blocks whose prefix was not recorded.
        self._guessed: set[str] = set()
        self._has_broken = bool(self._told)
        self._is_denied = self._was_refused = False
        self._asked: Behavior = ""
        self._reader = self._system = self._tools = ""
        # The state after each block of the last request, cleared when its inputs change.
        self._marks: list[_Mark] = []
        self._regime: tuple[str, str, str, int] = ("", "", "", 0)
        # `_lost` counts omitted blocks. `_torn_at` is its value when neighbors were last checked.
        self._lost = 0
        self._torn_at = -1
        self._news: list[Repair] = []
        # The last response with a text block of whitespace alone. The service does not accept such
        # a block, so the thinking after it in the same response no longer has its original prefix.
        self._blank_answer: object = None
        self._after_blank: set[str] = set()

    def learn(self, entries: Iterable[Json]) -> None:
        """Add entries from the transcript."""
        for entry in entries:
            message = entry.get("message") if entry.get("type") == "assistant" else None
            if type(message) is dict:
                for block in thoughts_of(message.get("content")):
                    thought = identify_thought(block)
                    self._learn(thought, entry, message)
                    if message.get("id") == self._blank_answer is not None:
                        self._after_blank.add(thought)
                if has_blank_text(message.get("content")):
                    self._blank_answer = message.get("id")

    def _learn(self, thought: str, entry: Json, message: Json) -> None:
        if thought in self._known:
            return
        uuid, bound = entry.get("uuid"), Bound.of(entry)
        maker = str(entry.get("requestedModel") or message.get("model"))
        self._known[thought] = Thought(
            uuid=uuid if type(uuid) is str else None,
            maker=maker,
            bound=bound,
            is_free=bound is None and not self._binds(maker),
        )
        if uuid in self._told:
            self._gone.add(thought)
        if uuid in self._told_refused:
            self._refused.add(thought)
        self._unread |= {(thought, reader) for reader in self._told_unread.get(uuid, ())}

    def look(
        self,
        messages: Sequence[Json],
        *,
        system: str,
        tools: str,
        reader: str,
        may_control: bool,
    ) -> RequestVerdict:
        """Check a request to the model `reader` before it is sent.

        If the result names blocks of the request in `leave_out`, build the request without them and
        check again.
        """
        count = self._chain.follow(messages)
        del self._marks[count:]
        self._reader, self._system, self._tools = reader, system, tools
        can_control = may_control and not self._is_denied
        broken = self._judge()
        self._asked = "report" if self._mark.has_other and can_control else ""
        if self._binds(reader):
            if not can_control and self._mark.has_other and self._skip_others():
                broken = self._judge()
            for thought, why in broken.items():
                self._lose(thought, why)
            has_gap = bool(self._after_blank) and self._find_after_blank(lose=not can_control)
            if not can_control:
                self._lose_neighbours()
            self._judge()
            has_guessed = self._mark.has_guessed and not self._is_as_recorded
            if can_control and (self._mark.has_other or self._has_broken or has_guessed or has_gap):
                self._asked = "drop_block"
        repairs, self._news = self._news, []
        return RequestVerdict(
            leave_out=frozenset(self._refused if can_control else self._refused | self._unseen()),
            behavior=self._asked,
            repairs=repairs,
        )

    @property
    def bound(self) -> Bound | None:
        """The prefix of the next response's thinking, or None if the model binds nothing."""
        if not self._binds(self._reader):
            return None
        return Bound(
            system=self._system,
            tools=self._tools,
            messages=self._chain.state,
            after=self._mark.last,
        )

    @property
    def _mark(self) -> _Mark:
        return self._marks[-1] if self._marks else _Mark()

    def _judge(self) -> dict[str, str]:
        """Check the blocks that are still unchecked; return those that do not fit, and why."""
        regime = (self._system, self._tools, self._reader, self._lost)
        if regime != self._regime:
            self._regime = regime
            self._marks.clear()
        broken: dict[str, str] = {}
        binds = self._binds(self._reader)
        for place in self._chain.places[len(self._marks) :]:
            mark = self._mark
            thought = self._known.get(place.thought)
            if binds and thought is not None and thought.bound is None and not thought.is_free:
                thought = self._guess(thought, place, mark.last)
            is_other = thought is not None and thought.maker != self._reader
            bound = thought.bound if thought is not None and binds else None
            binding = (mark.last, mark.bound)
            if not self._is_unseen(place.thought):
                why = "" if bound is None else self._misfit(bound, place, mark)
                if why:
                    broken[place.thought] = why
                else:
                    binding = (place.thought, bound)
            self._marks.append(
                _Mark(
                    *binding,
                    mark.has_other or is_other,
                    mark.has_guessed or place.thought in self._guessed,
                )
            )
        return broken

    def _misfit(self, bound: Bound, place: ThoughtPlace, before: _Mark) -> str:
        """Return why a block does not fit its prefix, or an empty string if it does."""
        if bound.system != self._system:
            return SYSTEM
        if bound.tools != self._tools:
            return TOOLS
        if bound.messages not in place.starts:
            return MESSAGES
        # The oldest blocks may be missing, so the first one shown needs no predecessor.
        is_next = before.last in ("", bound.after) or before.bound == bound
        return "" if is_next else GAP

    def _guess(self, thought: Thought, place: ThoughtPlace, last: str) -> Thought:
        """Assume that a block without a recorded prefix is bound to its prefix in this request."""
        bound = Bound(system=self._system, tools=self._tools, messages=place.starts[0], after=last)
        self._guessed.add(place.thought)
        self._known[place.thought] = replace(thought, bound=bound)
        return self._known[place.thought]

    def _is_unseen(self, thought: str) -> bool:
        """Return whether a block is already known to be hidden from the model."""
        return thought in self._gone or (thought, self._reader) in self._unread

    def _unseen(self) -> set[str]:
        return self._gone | {thought for thought, model in self._unread if model == self._reader}

    def _skip_others(self) -> bool:
        """Omit all blocks of other models, since this model may be unable to read them.

        Return whether any block was newly omitted.
        """
        before = self._lost
        for place in self._chain.places:
            thought = self._known.get(place.thought)
            if thought is not None and thought.maker != self._reader:
                self._skip(place.thought)
        return self._lost > before

    def _lose(self, thought: str, why: str) -> None:
        self._gone.add(thought)
        self._lost += 1
        self._has_broken = True
        record = self._known.get(thought)
        uuid = None if record is None else record.uuid
        self._news.append(Repair(kind="thought_unbound", uuid=uuid, detail=why))

    def _find_after_blank(self, *, lose: bool) -> bool:
        """Return whether thinking follows blank text in a response; with `lose`, omit it."""
        standing = self._after_blank - self._gone
        places = [p for p in self._chain.places if p.thought in standing]
        for place in places if lose else ():
            self._lose(place.thought, MESSAGES)
        return bool(places)

    def _lose_neighbours(self) -> None:
        """Omit the remaining thinking of every message that lost some of it."""
        if self._torn_at == self._lost:
            return
        unseen = self._unseen()
        torn = {place.message for place in self._chain.places if place.thought in unseen}
        for place in self._chain.places:
            if place.message in torn and place.thought not in unseen:
                self._lose(place.thought, GAP)
        self._torn_at = self._lost

    def refused(self, words: str, *, may_control: bool) -> bool:
        """Handle the rejection of the last request; return whether the next one will differ."""
        text = words.lower()
        if is_bound_elsewhere(text):
            can_control = may_control and not self._is_denied and self._binds(self._reader)
            if can_control and self._asked != "drop_block":
                self._has_broken = self._was_refused = True
                return True
            return self._leave_out_all()
        if is_not_taken(text):
            return self._leave_out_all()
        if self._asked and any(name in text for name in _CONTROLS):
            self._is_denied = True
            if self._was_refused:
                self._leave_out_all()
            return True
        return False

    def _leave_out_all(self) -> bool:
        """Omit every thinking block of the last request; return False if it had none."""
        standing = [p.thought for p in self._chain.places if p.thought not in self._refused]
        self._refused.update(standing)
        for thought in standing:
            if thought not in self._gone:
                self._lose(thought, REFUSED)
        return bool(standing)

    def dropped(self, report: Any) -> list[Repair]:
        """Handle the `input_transformations` of a response; return the repairs not reported yet."""
        before, self._news = self._news, []
        for item in report if type(report) is list else ():
            if type(item) is dict and item.get("type") == "thinking_dropped":
                thought = self._chain.thought_at(item.get("path"))
                if thought is not None:
                    self._drop(thought, item.get("reason"))
        self._judge()
        repairs, self._news = self._news, before
        return repairs

    def _drop(self, thought: str, reason: object) -> None:
        if (thought, self._reader) in self._unread:
            return
        if reason != "prefix_binding_mismatch":
            self._skip(thought)
        elif thought not in self._gone:
            self._lose(thought, MESSAGES)

    def _skip(self, thought: str) -> None:
        """Record that the current model does not read this block; another model may."""
        if (thought, self._reader) not in self._unread:
            self._unread.add((thought, self._reader))
            self._lost += 1
            record = self._known.get(thought)
            uuid = None if record is None else record.uuid
            self._news.append(Repair(kind="thought_unread", uuid=uuid, detail=self._reader))
