"""The laws of a switch between services, over seeded conversations that several of them wrote.

What a service said goes back to it as it was (L2), also after another service has had its turn (L3).
No service gets the secret state of another (L7), calls stay paired (L4), and what users, tools and
files said is in every service's request, once (L5).
"""

import base64
import json
from collections.abc import Callable
from functools import partial
from itertools import permutations
from random import Random
from typing import Any, cast

import pytest

from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.normalize.dialects import MAX_DOCUMENTS
from clew.core.normalize.for_api import for_api
from clew.core.normalize.origin import with_origins
from clew.core.normalize.target import Target
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.events import BlockFinished, MessageFinished
from clew.providers.base import ModelRequest
from clew.providers.endpoint import Endpoint
from clew.providers.foreign import ForeignProvider
from clew.providers.wires import find_provider, narrow_target
from clew.testing.wires import RENDERERS, gemini_chunks, response_items, secret_of
from tests.core.normalize.generator import png
from tests.core.normalize.test_wire_laws import JUDGES, calls_and_results
from tests.requirements import requirement

AT = "2026-01-31T12:00:00.000Z"
TOOLS = [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}]
# Each wire with a service and a model; the service's quirks send reasoning back.
SERVICES = {
    "messages": ("", "claude-opus-4-5"),
    "responses": ("openai", "gpt-6-sol"),
    "chat": ("openrouter", "deepseek/deepseek-v4"),
    "gemini": ("gemini", "gemini-3-pro"),
    "converse": ("bedrock", "anthropic.claude-opus-4-5"),
}
PAIRS = list(permutations(SERVICES, 2))
ITEMS = {"responses": "input", "gemini": "contents"}
QUICK = range(100)
CHUNK = 2_500
DEEP = [range(start, start + CHUNK) for start in range(3_000_000, 3_020_000, CHUNK)]


class Peer:
    """One service: how its answers are read, and its requests built."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        service, self.model = SERVICES[wire]
        self.endpoint = Endpoint(service=service, dialect=wire, base_url=f"https://{wire}.test")
        self.provider = find_provider(self.endpoint)(self.endpoint, cast(Any, None))

    def read(
        self, data: bytes, taken: set[str], new_id: Callable[[], str]
    ) -> tuple[Json, list[Any]]:
        if isinstance(self.provider, ForeignProvider):
            asked = ModelRequest(model=self.model, messages=[], tools=TOOLS)
            decoder: Any = self.provider.new_decoder(self.provider.stamp(asked))
        else:
            decoder = self.provider.decoder()
        reader = Accumulator(new_tool_id=new_id, taken_tool_ids=taken)
        events = [
            out for event in [*decoder.feed(data), *decoder.close()] for out in reader.feed(event)
        ]
        events += reader.close()
        (finished,) = [event for event in events if isinstance(event, MessageFinished)]
        assert finished.complete
        return finished.message, [e.origin for e in events if isinstance(e, BlockFinished)]

    def body(self, entries: list[Json]) -> tuple[Json, list[Any]]:
        entry = self.provider.catalog.entry(self.model)
        target = Target.of(entry)
        if self.wire != "messages":
            target = narrow_target(target, entry, self.endpoint)
        made = for_api(entries, target, tools=TOOLS)
        assert made.violations == []
        if not isinstance(self.provider, ForeignProvider):
            return {"messages": made.messages}, made.repairs
        asked = ModelRequest(
            model=self.model,
            messages=made.messages,
            tools=TOOLS,
            system="s",
            stream=True,
            cache=None,
        )
        return self.provider.build(asked).body, made.repairs

    def items(self, body: Json) -> list[Any]:
        return list(body[ITEMS.get(self.wire, "messages")])


class Talk:
    """A conversation: entries, what was said by others than models, and each answer's blocks."""

    def __init__(self, random: Random, peers: dict[str, Peer]) -> None:
        self.random, self.peers = random, peers
        self.entries: list[Json] = []
        self.words: list[str] = []
        self.media: list[str] = []
        self.documents = 0
        self.answers: list[tuple[str, list[Json], int]] = []
        self.count = 0
        self.taken: set[str] = set()
        # Some services number the calls of each response from zero; only the first keeps its ID.
        self.is_counting = random.random() < 0.3

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _add(self, *entries: Json) -> None:
        for entry in entries:
            parent = self.entries[-1]["uuid"] if self.entries else None
            self.entries.append(entry | {"parentUuid": parent})

    def uuid(self) -> str:
        return f"00000000-0000-4000-8000-{self._number():012x}"

    def _says(self) -> Json:
        self.words.append(f"<w{self._number()}>")
        return {"type": "text", "text": f"words {self.words[-1]}"}

    def _picture(self) -> Json:
        data = base64.b64encode(base64.b64decode(png(4, 4)) + self.uuid().encode()).decode()
        self.media.append(data)
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": source}

    def _document(self) -> Json:
        data = base64.b64encode(b"%PDF-1.7 " + self.uuid().encode()).decode()
        self.media.append(data)
        self.documents += 1
        source = {"type": "base64", "media_type": "application/pdf", "data": data}
        return {"type": "document", "source": source, "title": "a.pdf"}

    def _content(self) -> list[Json]:
        blocks = [self._says() for _ in range(self.random.randrange(1, 3))]
        if self.random.random() < 0.2:
            blocks.append(self._picture())
        # Converse takes five documents; of more, the first are left out of requests.
        if self.random.random() < 0.1 and self.documents < MAX_DOCUMENTS:
            blocks.append(self._document())
        return blocks

    def turn(self, wire: str) -> None:
        """A prompt, and the answers of one service until it calls nothing more."""
        self._add(factories.make_user(self._content(), uuid=self.uuid(), at=AT))
        for _ in range(self.random.randrange(3)):
            self._answer(wire, self.random.randrange(1, 4))
        self._answer(wire, 0)

    def _answer(self, wire: str, calls: int) -> None:
        number = self._number()
        blocks: list[Json] = []
        if self.random.random() < 0.6:
            blocks.append({"type": "thinking", "thinking": f"thought {number}"})
        if not calls or self.random.random() < 0.5:
            blocks.append({"type": "text", "text": f"answer {number}"})
        for place in range(calls):
            name = f"call_{place}" if self.is_counting else f"call_{number}_{place}"
            given = {"command": f"run {number}", "text": "é\n"}
            blocks.append({"type": "tool_use", "id": name, "name": "Bash", "input": given})
        data = b"".join(RENDERERS[wire][0](blocks, number))
        message, origins = self.peers[wire].read(data, self.taken, lambda: f"made_{self._number()}")
        made = factories.make_assistant(
            message, uuids=[self.uuid() for _ in blocks], at=AT, request_id=f"r{number}"
        )
        self._add(*with_origins(made, origins))
        self.answers.append((wire, blocks, number))
        uses = [b for b in message["content"] if b["type"] == "tool_use"]
        assert len(uses) == calls
        for use, entry in zip(uses, made[-calls:] if calls else [], strict=True):
            self.taken.add(use["id"])
            self._add(
                factories.make_tool_answer(
                    use["id"], self._content(), uuid=self.uuid(), at=AT,
                    source_uuid=entry["uuid"], is_error=self.random.random() < 0.2,
                )
            )  # fmt: skip


def said_by(wire: str, blocks: list[Json], number: int) -> list[Any]:
    """Return what a service must get back of its own answer, as parts of its request."""
    match wire:
        case "responses":
            return list(response_items(blocks, number))
        case "gemini":
            chunks = gemini_chunks(blocks, number)
            return [part for c in chunks for part in c["candidates"][0]["content"]["parts"]]
        case "chat":
            return [
                {
                    "id": block["id"], "type": "function",
                    "extra_content": {
                        "google": {"thought_signature": secret_of("chat", number, place)}
                    },
                    "function": {"name": "Bash", "arguments": json.dumps(block["input"])},
                }
                for place, block in enumerate(blocks) if block["type"] == "tool_use"
            ]  # fmt: skip
        case "converse":
            return [
                {"reasoningContent": {"reasoningText": {
                    "text": block["thinking"], "signature": secret_of(wire, number, place)}}}
                for place, block in enumerate(blocks) if block["type"] == "thinking"
            ]  # fmt: skip
        case _:
            return [
                block | {"signature": secret_of(wire, number, place)}
                for place, block in enumerate(blocks)
                if block["type"] == "thinking"
            ]


def parts_in(wire: str, items: list[Any]) -> list[Any]:
    """Return the parts of a request in their order, as `said_by` has them."""
    match wire:
        case "responses":
            return items
        case "gemini":
            return [part for item in items for part in item["parts"]]
        case "chat":
            return [call for item in items for call in item.get("tool_calls", ())]
        case _:
            return [part for item in items for part in item["content"]]


def comparable(value: Any, *, has_ids: bool) -> Any:
    """Return parts of a request without what may differ: names of documents, which are numbered."""
    if isinstance(value, list):
        return [comparable(inner, has_ids=has_ids) for inner in value]
    if not isinstance(value, dict):
        return value
    left_out = {"name"} if "format" in value else set()
    left_out |= set() if has_ids else {"id", "call_id", "tool_call_id", "toolUseId"}
    return {k: comparable(v, has_ids=has_ids) for k, v in value.items() if k not in left_out}


def stand_in_order(said: list[Any], parts: list[Any]) -> bool:
    """Return whether all of `said` is in `parts`, in this order."""
    left = iter(parts)
    return all(each in left for each in said)


def hold_the_laws(seed: int) -> None:
    random = Random(seed)
    first, second = PAIRS[seed % len(PAIRS)]
    peers = {wire: Peer(wire) for wire in SERVICES}
    talk = Talk(random, peers)
    talk.turn(first)
    cut = len(talk.entries)
    talk.turn(second)
    back = len(talk.entries)
    talk.turn(first)
    mine = peers[first]
    own = [
        part for wire, *answer in talk.answers if wire == first for part in said_by(wire, *answer)
    ]

    seen = partial(comparable, has_ids=not talk.is_counting)

    def ask(entries: list[Json]) -> list[Any]:
        items: list[Any] = seen(mine.items(mine.body(entries)[0]))
        return items

    whole = ask(talk.entries)
    without = ask([*talk.entries[:cut], *talk.entries[back:]])
    assert stand_in_order(seen(own), parts_in(first, without)), (seed, "L2")
    assert stand_in_order(seen(own), parts_in(first, whole)), (seed, "L3")
    begun = ask([*talk.entries[:cut], factories.make_user("on", uuid=talk.uuid(), at=AT)])
    shared = len(begun) - 1
    assert whole[:shared] == without[:shared] == begun[:shared], (seed, "L3")
    after = without[shared:]
    assert whole[-len(after) :] == after, (seed, "L3")

    for wire, peer in peers.items():
        body, repairs = peer.body(talk.entries)
        text = json.dumps(body)
        for word in talk.words:
            assert text.count(word) == 1, (seed, wire, word, "L5")
        missing = [data for data in talk.media if text.count(data) != 1]
        assert len(missing) <= len(repairs), (seed, wire, "L5")
        for other, blocks, number in talk.answers:
            # Claude's signatures are valid wherever Claude is served.
            if {other, wire} <= {"messages", "converse"} or other == wire:
                continue
            for place in range(len(blocks)):
                assert secret_of(other, number, place) not in text, (seed, wire, "L7")
        if wire != "messages":
            # The judge knows OpenAI's members only, and the service is another.
            faults = [
                fault for fault in JUDGES[wire](body) if not str(fault).endswith(".reasoning")
            ]
            assert faults == [], (seed, wire)
            calls, results = calls_and_results(wire, body)
            assert sorted(calls) == sorted(results), (seed, wire, "L4")
            assert len(set(calls)) == len(calls), (seed, wire, "L4")


@requirement("R038")
@pytest.mark.parametrize("seed", QUICK)
def test_the_laws_of_a_switch_hold(seed: int) -> None:
    hold_the_laws(seed)


@pytest.mark.laws
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", DEEP, ids=str)
def test_the_laws_hold_for_twenty_thousand_conversations(seeds: range) -> None:
    for seed in seeds:
        hold_the_laws(seed)
