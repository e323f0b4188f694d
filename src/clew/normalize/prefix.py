"""The service's rule on preserved thinking: which thoughts of a request it would refuse, and the repair.

Current models bind each thought to everything before it: the system prompt, the set of tools, every
earlier message and the thought before it. `Thoughts` knows what each thought of a conversation was made
after, judges every request before it leaves, and says what is left out. The rule and the record are
described in docs/requests.md. Must never change a message: `Outgoing` leaves out what is named here.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.normalize import shapes
from clew.normalize.offered import MARK
from clew.normalize.repairs import Repair
from clew.normalize.thought import SHORT, thought_id, thoughts_of

Json: TypeAlias = dict[str, Any]
# What a request asks of the service for thoughts that do not fit: nothing, to report what it leaves out
# by itself, or to leave out what it would refuse.
Behavior: TypeAlias = Literal["", "report", "drop_block"]

CONTROLS_BETA = "thinking-binding-controls-2026-08-01"
RECORD = "boundTo"
START = ""

SYSTEM = "the system prompt changed"
TOOLS = "the tools changed"
MESSAGES = "something said before it changed"
GAP = "the thought before it is gone"
REFUSED = "the service refused it"

# How the service says that a thought does not fit, and how one says that it knows nothing of the control.
_BOUND_ELSEWHERE = "bound to a different conversation"
_CONTROLS = ("block_binding", CONTROLS_BETA)
_encode = msgspec.json.Encoder(order="deterministic").encode


def is_bound_elsewhere(words: str) -> bool:
    """Whether a request was refused for a thought that does not fit."""
    return _BOUND_ELSEWHERE in words.lower()


class Bound(Struct, frozen=True, kw_only=True):
    """What stood before a thought when it was made: the hash of each part. `after` is the last thought
    before the request's answer; two thoughts of one answer are bound to the same."""

    system: str
    tools: str
    messages: str
    after: str = ""

    def as_json(self) -> Json:
        """The member `boundTo` of the entries of an answer's thoughts."""
        said = {"system": self.system, "tools": self.tools, "messages": self.messages}
        return said | {"after": self.after} if self.after else said

    @staticmethod
    def of(entry: Json) -> "Bound | None":
        """What an entry says that its thought is bound to; None if it says nothing that can be read."""
        said = entry.get(RECORD)
        if type(said) is not dict:
            return None
        parts = [said.get("system"), said.get("tools"), said.get("messages"), said.get("after", "")]
        if any(type(part) is not str for part in parts):
            return None
        system, tools, messages, after = parts
        return Bound(system=system, tools=tools, messages=messages, after=after)


def digest(value: Any) -> str:
    return sha256(_encode(value)).hexdigest()[:SHORT]


def system_digest(system: list[Json] | str | None) -> str:
    if isinstance(system, str):
        system = [{"type": "text", "text": system}] if system else None
    return digest(system or [])


def tools_digest(tools: Sequence[Json] | None) -> str:
    """Definitions that wait for a reference are no part of what a thought is bound to."""
    return digest([tool for tool in tools or () if not tool.get(MARK)])


def with_bound(entries: Iterable[Json], bound: Bound | None) -> list[Json]:
    """The entries of an answer, those of its thoughts with what they are bound to."""
    return [
        entry
        if bound is None or not any(thoughts_of(entry["message"].get("content")))
        else entry | {RECORD: bound.as_json()}
        for entry in entries
    ]


class Place(Struct, frozen=True, kw_only=True):
    """A thought in a request. `starts` are the prefixes at which its answer may have begun: more than one
    where a paused answer goes on in the same message."""

    thought: str
    message: int
    starts: tuple[str, ...]


class _Link(Struct, frozen=True):
    message: Json
    state: str
    places: tuple[Place, ...]


class Chain:
    """The prefixes of a growing request. A message that stands where it stood is not read again."""

    def __init__(self) -> None:
        self._links: list[_Link] = []

    def follow(self, messages: Sequence[Json]) -> None:
        """Takes in the messages of the next request."""
        same = 0
        for link, message in zip(self._links, messages, strict=False):
            if link.message is not message:
                break
            same += 1
        del self._links[same:]
        for at in range(same, len(messages)):
            self._links.append(_link(self.state, messages[at], at))

    @property
    def state(self) -> str:
        """The prefix that the next answer is made after."""
        return self._links[-1].state if self._links else START

    @property
    def places(self) -> Iterator[Place]:
        for link in self._links:
            yield from link.places

    def thought_at(self, path: object) -> str | None:
        """Which thought the service means by `messages.1.content.0`; None if there is none."""
        words = path.split(".") if type(path) is str else []
        if len(words) != 4 or not (words[1].isdecimal() and words[3].isdecimal()):
            return None
        message, block = int(words[1]), int(words[3])
        if message >= len(self._links):
            return None
        blocks = self._links[message].message["content"]
        if block >= len(blocks) or blocks[block].get("type") not in shapes.THINKING:
            return None
        return thought_id(blocks[block])


def _link(state: str, message: Json, at: int) -> _Link:
    """A message behind a prefix. Thoughts are no part of a prefix; they have a chain of their own."""
    role = message["role"]
    starts, places = [state], []
    for block in message["content"]:
        if block.get("type") in shapes.THINKING:
            places.append(Place(thought=thought_id(block), message=at, starts=tuple(starts)))
        else:
            state = sha256(_encode([state, role, block])).hexdigest()[:SHORT]
            starts.append(state)
    return _Link(message, state, tuple(places))


class Thought(Struct, frozen=True, kw_only=True):
    """A thought of the log. `is_free`: its model binds nothing; else without `bound` nobody knows."""

    uuid: str | None
    maker: str
    bound: Bound | None
    is_free: bool


class Judged(Struct, frozen=True, kw_only=True):
    """The rule's word on a request: the thoughts that do not fit, each with the reason, and the last
    thought that the model is shown."""

    broken: dict[str, str]
    last: str


def judge(
    places: Iterable[Place],
    known: Mapping[str, Thought],
    *,
    system: str,
    tools: str,
    unseen: Container[str] = frozenset(),
) -> Judged:
    """What the service finds where it leaves out each thought that does not fit; `unseen` are those that
    the model is not shown anyway."""
    broken: dict[str, str] = {}
    last, last_bound = "", None
    for place in places:
        if place.thought in unseen:
            continue
        thought = known.get(place.thought)
        bound = None if thought is None else thought.bound
        why = "" if bound is None else _misfit(bound, place, system, tools)
        # The first thought that is shown may be any: the oldest ones may go.
        if bound is not None and not why and last not in ("", bound.after) and last_bound != bound:
            why = GAP
        if why:
            broken[place.thought] = why
        else:
            last, last_bound = place.thought, bound
    return Judged(broken=broken, last=last)


def _misfit(bound: Bound, place: Place, system: str, tools: str) -> str:
    """Why a thought does not fit what stands before it; empty if it does."""
    if bound.system != system:
        return SYSTEM
    if bound.tools != tools:
        return TOOLS
    return "" if bound.messages in place.starts else MESSAGES


class Look(Struct, frozen=True, kw_only=True):
    """What becomes of a request: the thoughts to leave out of it, what the service is asked to do, and
    what is to be told."""

    leave_out: frozenset[str] = frozenset()
    behavior: Behavior = ""
    repairs: list[Repair] = []


def binds_nothing(_: str) -> bool:
    return False


class Thoughts:
    """The thoughts of one conversation as the rule sees them.

    A thought that was once told of as not fitting stays so, also when the session goes on elsewhere:
    those made since were made without it.
    """

    def __init__(
        self,
        *,
        binds: Callable[[str], bool] = binds_nothing,
        told: Iterable[Repair] = (),
        is_as_recorded: bool = False,
    ) -> None:
        """`binds` says of a model's name whether it binds its thoughts; `told` are the repairs that the
        log names; `is_as_recorded`: system prompt and tools are those that the log began with."""
        told = list(told)
        self._binds = binds
        self._is_as_recorded = is_as_recorded
        self._chain = Chain()
        self._known: dict[str, Thought] = {}
        self._told = {repair.uuid for repair in told if repair.kind == "thought_unbound"}
        self._told_unread = [(r.uuid, r.detail) for r in told if r.kind == "thought_unread"]
        # Those that do not fit any more, and for each model those that it cannot read.
        self._gone: set[str] = set()
        self._unread: set[tuple[str, str]] = set()
        # Sent in a request that was refused: they are left out whatever the service can do.
        self._refused: set[str] = set()
        # Bound to something that nobody recorded.
        self._guessed: set[str] = set()
        self._has_broken = bool(self._told)
        self._is_denied = self._was_refused = False
        self._asked: Behavior = ""
        self._reader = self._system = self._tools = ""
        self._news: list[Repair] = []
        # What the thoughts of the next answer are bound to; None for a model that binds nothing.
        self.bound: Bound | None = None

    def learn(self, entries: Iterable[Json]) -> None:
        """Takes in entries of the log."""
        for entry in entries:
            message = entry.get("message") if entry.get("type") == "assistant" else None
            if type(message) is dict:
                for block in thoughts_of(message.get("content")):
                    self._learn(thought_id(block), entry, message)

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
        self._unread |= {(thought, reader) for of, reader in self._told_unread if of == uuid}

    def look(
        self,
        messages: Sequence[Json],
        *,
        system: str,
        tools: str,
        reader: str,
        may_control: bool,
    ) -> Look:
        """Judges a request for `reader` before it leaves. Where `leave_out` names thoughts that stand in
        it, it is made without them and looked at again."""
        self._chain.follow(messages)
        self._reader, self._system, self._tools = reader, system, tools
        can_control = may_control and not self._is_denied
        others = [p.thought for p in self._chain.places if self._is_of_another(p.thought)]
        is_mixed = bool(others)
        self._asked = "report" if is_mixed and can_control else ""
        self.bound = None
        if self._binds(reader):
            self._guess()
            if not can_control:
                # What another model can read nobody says here, and what follows hangs on it.
                for thought in others:
                    self._skip(thought)
            for thought, why in self._judge().items():
                self._lose(thought, why)
            if not can_control:
                self._lose_neighbours()
            if can_control and (is_mixed or self._has_broken or self._has_guessed()):
                self._asked = "drop_block"
            self._judge()
        repairs, self._news = self._news, []
        return Look(
            leave_out=frozenset(self._refused if can_control else self._refused | self._unseen()),
            behavior=self._asked,
            repairs=repairs,
        )

    def _judge(self) -> dict[str, str]:
        """The thoughts that no longer fit; sets what the next answer is bound to."""
        judged = judge(
            self._chain.places,
            self._known,
            system=self._system,
            tools=self._tools,
            unseen=self._unseen(),
        )
        self.bound = Bound(
            system=self._system,
            tools=self._tools,
            messages=self._chain.state,
            after=judged.last,
        )
        return judged.broken

    def _unseen(self) -> set[str]:
        """The thoughts that the model is not shown."""
        return self._gone | {thought for thought, model in self._unread if model == self._reader}

    def _is_of_another(self, thought: str) -> bool:
        """Whether another model made it than the one that is asked now."""
        known = self._known.get(thought)
        return known is not None and known.maker != self._reader

    def _guess(self) -> None:
        """Takes a thought of which nobody recorded anything as bound to what stands before it now."""
        last = ""
        for place in self._chain.places:
            thought = self._known.get(place.thought)
            if thought is not None and thought.bound is None and not thought.is_free:
                bound = Bound(
                    system=self._system, tools=self._tools, messages=place.starts[0], after=last
                )
                self._known[place.thought] = replace(thought, bound=bound)
                self._guessed.add(place.thought)
            if place.thought not in self._gone:
                last = place.thought

    def _has_guessed(self) -> bool:
        return not self._is_as_recorded and any(
            place.thought in self._guessed for place in self._chain.places
        )

    def _lose(self, thought: str, why: str) -> None:
        self._gone.add(thought)
        self._has_broken = True
        known = self._known.get(thought)
        uuid = None if known is None else known.uuid
        self._news.append(Repair(kind="thought_unbound", uuid=uuid, detail=why))

    def _lose_neighbours(self) -> None:
        """Of one message all thoughts are left out, or none."""
        unseen = self._unseen()
        torn = {place.message for place in self._chain.places if place.thought in unseen}
        for place in self._chain.places:
            if place.message in torn and place.thought not in unseen:
                self._lose(place.thought, GAP)

    def refused(self, words: str, *, may_control: bool) -> bool:
        """Takes in that the service refused the last request with these words; whether the next one will
        be another for it."""
        said = words.lower()
        if is_bound_elsewhere(said):
            if may_control and not self._is_denied and self._asked != "drop_block":
                self._has_broken = self._was_refused = True
                return True
            return self._leave_out_all()
        if self._asked and any(name in said for name in _CONTROLS):
            self._is_denied = True
            if self._was_refused:
                self._leave_out_all()
            return True
        return False

    def _leave_out_all(self) -> bool:
        """Nothing that the last request held goes out again; False if it held no thought."""
        standing = [p.thought for p in self._chain.places if p.thought not in self._refused]
        self._refused.update(standing)
        for thought in standing:
            if thought not in self._gone:
                self._lose(thought, REFUSED)
        return bool(standing)

    def dropped(self, report: Any) -> list[Repair]:
        """Takes in the `input_transformations` of an answer; the repairs nobody was told of yet."""
        before, self._news = self._news, []
        for each in report if type(report) is list else ():
            if type(each) is dict and each.get("type") == "thinking_dropped":
                thought = self._chain.thought_at(each.get("path"))
                if thought is not None:
                    self._drop(thought, each.get("reason"))
        if self._news and self.bound is not None:
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
        """The model that is asked does not read this one; another may."""
        if (thought, self._reader) not in self._unread:
            self._unread.add((thought, self._reader))
            known = self._known.get(thought)
            uuid = None if known is None else known.uuid
            self._news.append(Repair(kind="thought_unread", uuid=uuid, detail=self._reader))
