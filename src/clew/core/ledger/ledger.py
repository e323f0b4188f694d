"""The cost of a session: one charge per response, and sums over the charges.

A response is identified by message ID and request ID. It is counted once, with the last usage
reported, even if several entries repeat it. All sums use the same charges, so two displays of a
cost always agree. This module reads no files and no clock.

Decision: docs/decisions/081-cost-from-the-log.md
Decision: docs/decisions/220-long-sessions.md
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from itertools import zip_longest
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.lookup import ModelCatalog
from clew.core.catalog.models import Model
from clew.core.json_object import text_of
from clew.core.ledger.spending import TokenCounts, price_tokens, tokens_of
from clew.core.messages.messages import UserMessage
from clew.core.messages.text import SYNTHETIC_MODEL

# The purpose of a response. `withdrawn` was interrupted and requested again, `web` reads a page,
# `review` judges a tool call, `hook` answers a prompt hook, `warming` keeps the prompt cache warm.
Purpose: TypeAlias = Literal[
    "turn", "withdrawn", "subagent", "compaction", "title", "web", "review", "hook", "warming",
    "aside", "other",
]  # fmt: skip
# The purposes of requests that are not part of a turn of the session itself.
NEXT_TO_TURNS: frozenset[Purpose] = frozenset({"subagent", "title", "warming", "other"})
Find: TypeAlias = Callable[[str], Model | None]
CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
ANSWER = "(answer)"  # the tool name for responses without tool calls


class Charge(Struct, frozen=True, kw_only=True):
    """The cost of one response; `usd` is None if it is unknown; `calls` names the called tools.

    Fields:
        message_id: The response's ID.
        request_id: The ID of its request.
        model: The model that answered.
        at: The time of the response.
        tokens: The billed tokens.
        purpose: What the request was for, such as a turn, a subagent or a compaction.
        turn: The number of the turn.
        agent: The subagent's ID; None in the session itself.
        call_ids: The IDs of the calls, in the order of `calls`.
        duration_ms: How long the response took, in milliseconds.
    """

    message_id: str
    request_id: str
    model: str
    at: str
    tokens: TokenCounts
    usd: Decimal | None
    purpose: Purpose = "turn"
    turn: int = 0
    agent: str | None = None
    calls: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()
    duration_ms: float = 0

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the response: message ID and request ID."""
        return self.message_id, self.request_id


class Spend(Struct, frozen=True, kw_only=True):
    """A sum of charges. `usd` covers only priced responses; `unpriced` is the number of others.

    Fields:
        requests: The number of responses.
        tokens: The sum of their tokens.
        duration_ms: How long they took together, in milliseconds.
    """

    requests: int = 0
    tokens: TokenCounts = TokenCounts()
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    duration_ms: float = 0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            usd=self.usd + other.usd,
            unpriced=self.unpriced + other.unpriced,
            duration_ms=self.duration_ms + other.duration_ms,
        )

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(
            requests=self.requests - other.requests,
            tokens=self.tokens - other.tokens,
            usd=self.usd - other.usd,
            unpriced=self.unpriced - other.unpriced,
            duration_ms=self.duration_ms - other.duration_ms,
        )

    @property
    def is_complete(self) -> bool:
        """True if every response in the sum has a price."""
        return self.unpriced == 0


def spend_of(charge: Charge) -> Spend:
    return Spend(
        requests=1,
        tokens=charge.tokens,
        usd=charge.usd or Decimal(0),
        unpriced=int(charge.usd is None),
        duration_ms=charge.duration_ms,
    )


class Sums:
    """Running totals of a session's cost, overall and by model.

    Only the most recent charges are stored, so memory use does not grow with the session. They
    suffice to avoid counting a repeated response twice. A `Ledger` stores all charges.
    """

    _most: int | None = 100

    def __init__(self, charges: Iterable[Charge] = ()) -> None:
        self._charges: dict[tuple[str, str], Charge] = {}
        self._total = self._next_to_turns = Spend()
        self._models: dict[str, Spend] = {}
        for charge in charges:
            self.add(charge)

    def copy_sums(self) -> "Sums":
        """Return a copy to which other charges can be added, with only the most recent charges."""
        sums = Sums()
        sums._total, sums._next_to_turns = self._total, self._next_to_turns
        sums._models = dict(self._models)
        sums._charges = dict(list(self._charges.items())[-(Sums._most or 0) :])
        return sums

    @property
    def total(self) -> Spend:
        """The sum of all charges."""
        return self._total

    @property
    def in_turns(self) -> Spend:
        """The total of the session's own turns: without subagents, and requests such as for titles."""
        return self._total - self._next_to_turns

    def by_model(self) -> dict[str, Spend]:
        """Return sums by model."""
        return dict(self._models)

    def add(self, charge: Charge) -> None:
        """Add a charge, or merge it with an earlier report of the same response."""
        previous = self._charges.get(charge.key)
        if previous is not None:
            self._count(previous, Spend() - spend_of(previous))
            charge = _joined(previous, charge)
        self._charges[charge.key] = charge
        self._count(charge, spend_of(charge))
        if self._most is not None and len(self._charges) > 2 * self._most:
            self._charges = dict(list(self._charges.items())[-self._most :])

    def _count(self, charge: Charge, spend: Spend) -> None:
        model = charge.model
        self._total += spend
        if charge.purpose in NEXT_TO_TURNS:
            self._next_to_turns += spend
        known = self._models.get(model)
        self._models[model] = total = spend if known is None else known + spend
        if not total.requests:
            del self._models[model]


class Ledger(Sums):
    """All charges of a session, one per response."""

    _most = None

    def __len__(self) -> int:
        return len(self._charges)

    def __iter__(self) -> Iterator[Charge]:
        return iter(self._charges.values())

    def by(self, name_of: Callable[[Charge], str]) -> dict[str, Spend]:
        """Return sums grouped by `name_of(charge)`; together they equal the total."""
        totals: dict[str, Spend] = {}
        for charge in self:
            name = name_of(charge)
            totals[name] = totals.get(name, Spend()) + spend_of(charge)
        return totals

    def by_purpose(self) -> dict[str, Spend]:
        """Return sums by purpose, such as turns, subagents and compaction."""
        return self.by(lambda charge: charge.purpose)

    def by_turn(self) -> dict[str, Spend]:
        """Return sums by the number of the turn."""
        return self.by(lambda charge: str(charge.turn))

    def by_agent(self) -> dict[str, Spend]:
        """Return sums by subagent; the sum of the session itself has an empty name."""
        return self.by(lambda charge: charge.agent or "")

    def by_tool(self) -> dict[str, Spend]:
        """Return sums by tool; a response's cost is split equally among its calls, without loss."""
        return self._shared(lambda call: call)

    def by_server(self) -> dict[str, Spend]:
        """Return sums by MCP server; the cost of a response is split equally among its calls."""
        return self._shared(server_of)

    def _shared(self, name_of: Callable[[str], str]) -> dict[str, Spend]:
        totals: dict[str, Spend] = {}
        for charge in self:
            names = [name_of(call) for call in charge.calls] or [name_of(ANSWER)]
            for name, share in zip(names, shares(spend_of(charge), len(names)), strict=True):
                totals[name] = totals.get(name, Spend()) + share
        return totals


def _joined(previous: Charge, later: Charge) -> Charge:
    """Merge two reports of one response: the later values win, and the calls are combined."""
    # The parts of a response are in several lines, and a copy of a session repeats them.
    new = [
        (name, call_id)
        for name, call_id in zip_longest(later.calls, later.call_ids, fillvalue="")
        if (call_id not in previous.call_ids if call_id else name not in previous.calls)
    ]
    return replace(
        later,
        usd=previous.usd if later.usd is None else later.usd,
        calls=(*previous.calls, *(name for name, _ in new)),
        call_ids=(*previous.call_ids, *(call_id for _, call_id in new)),
        turn=previous.turn,
        purpose=previous.purpose if later.purpose == "turn" else later.purpose,
        agent=later.agent or previous.agent,
        duration_ms=max(previous.duration_ms, later.duration_ms),
    )


def server_of(call: str) -> str:
    """Return the MCP server in a tool's name, or an empty string for clew's own tools."""
    kind, _, rest = call.partition("__")
    return rest.partition("__")[0] if kind == "mcp" else ""


def shares(spend: Spend, parts: int) -> list[Spend]:
    """Split `spend` into equal parts that add up to it; the first parts get the remainder."""

    def whole(amount: int, part: int) -> int:
        return amount // parts + (part < amount % parts)

    tokens = spend.tokens
    even = (spend.usd / parts).quantize(spend.usd) if spend.usd else spend.usd
    return [
        Spend(
            requests=whole(spend.requests, part),
            tokens=TokenCounts(
                **{f: whole(getattr(tokens, f), part) for f in TokenCounts.__struct_fields__}
            ),
            usd=even if part else spend.usd - even * (parts - 1),
            unpriced=whole(spend.unpriced, part),
            duration_ms=spend.duration_ms if part == 0 else 0,
        )
        for part in range(parts)
    ]


def find_charges(entries: Iterable[dict[str, Any]], catalog: ModelCatalog) -> Iterator[Charge]:
    """Yield the charges recorded in a transcript, in order; a response may appear repeatedly.

    Responses are on the chain. The costs of other requests, such as those for a compaction or a
    title, are in separate records.
    """
    turn = 0
    find = cache(catalog.find)  # thousands of responses share one model
    for entry in entries:
        kind = entry.get("type")
        if kind == "user":
            turn += begins_turn(entry)
        elif kind == "assistant":
            charge = _of_answer(entry, turn, find)
            if charge is not None:
                yield charge
        elif kind == "request-cost":
            charge = _of_record(entry, turn, find)
            if charge is not None:
                yield charge


def begins_turn(entry: dict[str, Any]) -> bool:
    """Return whether an entry begins a turn: a typed prompt, or a notice about a background task.

    Entries in a subagent's conversation never begin a turn.
    """
    # Most user entries are tool results, recognized by a field; the others must be parsed.
    is_user = (
        entry.get("type") == "user"
        and "toolUseResult" not in entry
        and entry.get("isSidechain") is not True
    )
    return is_user and ((message := UserMessage(entry)).face == "typed" or message.is_news)


def _of_answer(entry: dict[str, Any], turn: int, find: Find) -> Charge | None:
    message = entry.get("message")
    usage = message.get("usage") if type(message) is dict else None
    if type(message) is not dict or type(usage) is not dict:
        return None
    model = text_of(message.get("model"))
    if model == SYNTHETIC_MODEL:
        return None
    content = message.get("content")
    called = [
        block
        for block in (content if type(content) is list else ())
        if type(block) is dict and block.get("type") in CALLS
    ]
    message_id, request_id = text_of(message.get("id")), text_of(entry.get("requestId"))
    at, tokens = text_of(entry.get("timestamp")), tokens_of(usage)
    return Charge(
        message_id=message_id or text_of(entry.get("uuid")),
        request_id=request_id,
        model=model,
        at=at,
        tokens=tokens,
        usd=_priced(usage, tokens, find(model), at, entry),
        purpose="subagent" if entry.get("isSidechain") is True else "turn",
        turn=turn,
        agent=text_of(entry.get("agentId")) or None,
        calls=tuple(text_of(block.get("name")) for block in called),
        call_ids=tuple(text_of(block.get("id")) for block in called),
        duration_ms=_number(entry.get("durationMs")),
    )


_PURPOSES: dict[str, Purpose] = {p: p for p in get_args(Purpose)}


def _of_record(entry: dict[str, Any], turn: int, find: Find) -> Charge | None:
    usage = entry.get("usage")
    if type(usage) is not dict:
        return None
    model, at = text_of(entry.get("model")), text_of(entry.get("timestamp"))
    tokens = tokens_of(usage)
    return Charge(
        # `messageId` in transcripts of earlier versions.
        message_id=text_of(entry.get("message_id", entry.get("messageId"))),
        request_id=text_of(entry.get("requestId")),
        model=model,
        at=at,
        tokens=tokens,
        usd=_priced(usage, tokens, find(model), at, entry),
        purpose=_PURPOSES.get(text_of(entry.get("purpose", "turn")), "other"),
        turn=turn,
        agent=text_of(entry.get("agentId")) or None,
        duration_ms=_number(entry.get("durationMs")),
    )


def _priced(
    usage: dict[str, Any], tokens: TokenCounts, model: Model | None, at: str, entry: dict[str, Any]
) -> Decimal | None:
    """Return the cost at catalog prices, or else the recorded cost; None if neither is known."""
    amount = price_tokens(usage, tokens, model, at)
    cost_usd = entry.get("costUSD")
    if amount is None and type(cost_usd) in (int, float):
        return Decimal(str(cost_usd))
    return amount


def _number(value: Any) -> float:
    return value if type(value) in (int, float) else 0


def is_spent(total: Spend, budget_usd: Decimal | None) -> bool:
    """Return whether the budget is used up; responses without a price are ignored."""
    return budget_usd is not None and total.usd >= budget_usd
