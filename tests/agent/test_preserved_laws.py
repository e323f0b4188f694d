"""The law of preserved thinking, for random conversations.

No request is rejected because of its thinking blocks, and each block that the model does not see is
reported once. An independent service (`clew.testing.preserved`) is the judge: it binds thinking
blocks by their signatures, and knows nothing of what clew records.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from clew.agent.compaction import boundary, micro
from clew.agent.compaction.boundary import make_summary_entry
from clew.agent.requests import Prepared, Requests
from clew.agent.services import binds_thinking
from clew.agent.story import Story
from clew.core.catalog.lookup import CATALOG
from clew.core.messages import factories
from clew.core.messages.history import History
from clew.core.normalize.for_api import for_api
from clew.core.normalize.prefix import with_bound
from clew.core.normalize.repairs import Repair
from clew.core.normalize.select import NO_EDITS, Edits, thoughts_of, widen_range
from clew.core.normalize.target import Target
from clew.providers.base import Adaptive, ModelRequest, Off
from clew.providers.request_body import build
from clew.record.transcript.paths import SessionPaths
from clew.record.transcript.policy import Writer
from clew.record.transcript.record import Recorder
from clew.testing.preserved import Preserving
from tests.requirements import requirement

Json = dict[str, Any]
SESSION = "00000000-0000-4000-8000-000000000001"
AT = "2026-11-23T10:00:00.000Z"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-opus-5")
TOOLS = ("Bash", "Read", "mcp__a__one", "mcp__b__two")
QUICK = range(300)
CHUNK = 2_500
DEEP = [range(start, start + CHUNK) for start in range(2_000_000, 2_100_000, CHUNK)]


def tool(name: str, *, is_deferred: bool = False) -> Json:
    made: Json = {"name": name, "description": name, "input_schema": {"type": "object"}}
    return made | {"defer_loading": True} if is_deferred else made


class Life:
    """A conversation to which everything happens that can happen to one in clew."""

    def __init__(self, seed: int, *, max_images: int = 4) -> None:
        self.max_images = max_images
        self.random = Random(seed)
        self.seed = seed
        self.service = Preserving(lambda _: {"text": ""}, enforces=self.random.random() < 0.8)
        self.count = 0
        self.story = self._story([], NO_EDITS)
        self.system = [{"type": "text", "text": "You are clew."}]
        self.tools = [tool("Bash")]
        self.model = self.random.choice(MODELS)
        self.has_control = self.random.random() < 0.6
        self.thinking: Adaptive | Off | None = None
        self.told: list[Repair] = []
        # Of thoughts that another program left, nothing is recorded: of them the service may have to say.
        self.is_foreign = self.was_foreign = False
        self.is_as_recorded = False
        self.requests = self._requests()
        self.sent = 0
        self.refusals = 0
        self.withheld = 0
        self.keys: set[tuple[str, str, str]] = set()

    # -- the parts

    def _story(self, entries: list[Json], edits: Edits) -> Story:
        recorder = Recorder(
            paths=SessionPaths(home=Path("/nowhere"), cwd="/", session_id=SESSION),
            log=None,
            writer=Writer(session_id=SESSION, cwd="/", version="0.1.0"),
            now=lambda: AT,
        )
        recorder.record(entries)
        return Story(recorder, History(entries), edits)

    def _template(self) -> ModelRequest:
        return ModelRequest(
            model=self.model,
            messages=[],
            system=self.system,
            tools=self.tools,
            thinking=self.thinking,
            max_tokens=500,
        )

    def _target(self) -> Target:
        target = Target.of(CATALOG.entry(self.model))
        return replace(
            target,
            max_images=self.max_images,
            binding_control=self.has_control,
            deferred_tools=self.has_control,
        )

    def _requests(self) -> Requests:
        return Requests(
            self._template(),
            self._target(),
            lambda: self.tools,
            self.told,
            binds=lambda name: binds_thinking(CATALOG, name),
            is_as_recorded=self.is_as_recorded,
        )

    def uuid(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012x}"

    # -- what happens

    def say(self) -> None:
        content: Any = self.random.choice(("go on", "and now?", "why?"))
        if self.random.random() < 0.25:
            content = [{"type": "text", "text": "look"}, *self._images()]
        self.story.add([factories.make_user(content, uuid=self.uuid(), at=AT)])
        for _ in range(self.random.randrange(1, 4)):
            if not self._round():
                break

    def _images(self) -> list[Json]:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        return [{"type": "image", "source": source}] * self.random.randrange(1, 3)

    def _round(self) -> bool:
        """Send one request and handle its answer; return whether another one follows."""
        request, betas = self._send()
        body = build(request, CATALOG.entry(request.model), betas_allowed=self.has_control).body
        judged = self.service.judge(body, betas)
        self._note(self.requests.dropped({"input_transformations": judged.dropped}))
        calls = self.wants_call()
        content = self.service.sign(body, self._answer(calls), judged.last)
        message: Json = {
            "id": f"msg_{self.uuid()}",
            "role": "assistant",
            "model": request.model,
            "content": [_block(said) for said in content],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        entries = factories.make_assistant(
            message, uuids=[self.uuid() for _ in content], at=AT, request_id="req_1"
        )
        self.story.add(with_bound(entries, None if self.is_foreign else self.requests.bound))
        for block in message["content"]:
            if block["type"] == "tool_use":
                self.story.add([self._result(block["id"])])
        return calls

    def wants_call(self) -> bool:
        return self.random.random() < 0.5

    def _answer(self, calls: bool) -> list[Any]:
        content: list[Any] = []
        while self.random.random() < 0.6 and len(content) < 4:
            content.append(
                {"thinking": self.random.choice(("", "Hm."))}
                if self.random.random() < 0.8
                else {"redacted_thinking": ""}
            )
            if self.random.random() < 0.4:
                content.append("So.")
        if not calls:
            return [*content, "Done."]
        return [
            *content,
            {"tool": "Bash", "id": f"toolu_{self.uuid()}", "input": {"n": self.count}},
        ]

    def _result(self, call: str) -> Json:
        said: Any = "word " * self.random.choice((1, 500))
        if self.random.random() < 0.2:
            said = [{"type": "text", "text": "a picture"}, *self._images()]
        block = {"type": "tool_result", "tool_use_id": call, "content": said}
        return factories.make_user([block], uuid=self.uuid(), at=AT)

    def _send(self) -> tuple[ModelRequest, str]:
        """Send until the service accepts the request.

        If a rejection is not followed by another request, fail.
        """
        for _ in range(4):
            prepared = self._prepared()
            request = prepared.request
            built = build(request, CATALOG.entry(request.model), betas_allowed=self.has_control)
            betas = ",".join(built.betas)
            self.sent += 1
            refusal = self.service.judge(built.body, betas).refusal
            if refusal is None:
                return request, betas
            self.refusals += 1
            assert self.was_foreign, (self.seed, refusal)
            assert self.requests.refused(refusal), (self.seed, refusal)
        raise AssertionError(f"a brick: {self.seed}")

    def _prepared(self) -> Prepared:
        prepared = self.requests(self.story)
        assert prepared.violations == [], self.seed
        self._note(prepared.news)
        if self.random.random() < 0.1:
            self._what_is_missing_was_told(prepared)
        return prepared

    def _what_is_missing_was_told(self, prepared: Prepared) -> None:
        """Check that each thinking block that is missing from a request was reported."""
        told = {uuid for kind, uuid, _ in self.keys}
        could = for_api(self.story.sent, self._target(), tools=prepared.request.tools).messages
        holds = {
            _signature(b) for m in prepared.request.messages for b in thoughts_of(m["content"])
        }
        missing = {_signature(b) for m in could for b in thoughts_of(m["content"])} - holds
        for entry in self.story.history:
            if entry["type"] == "assistant":
                for block in thoughts_of(entry["message"]["content"]):
                    assert _signature(block) not in missing or entry["uuid"] in told, self.seed

    def _note(self, repairs: list[Repair]) -> None:
        for repair in repairs:
            if repair.kind in ("thought_unbound", "thought_unread"):
                assert repair.uuid is not None, self.seed
                detail = repair.detail if repair.kind == "thought_unread" else ""
                key = (repair.kind, repair.uuid, detail)
                assert key not in self.keys, (self.seed, repair)
                self.keys.add(key)
                self.withheld += 1
            self.told.append(repair)

    def image_refused(self) -> None:
        entry = factories.make_api_error(
            "API Error: 413 too large",
            uuid=self.uuid(),
            at=AT,
            message_id=self.uuid(),
            error="invalid_request",
            error_details="",
            status=413,
            error_type="request_too_large",
            request_id=None,
        )
        self.story.add([entry])

    def edit(self) -> None:
        entries = [e for e in self.story.history if e["type"] in ("user", "assistant")]
        if self.story.edits.edits and self.random.random() < 0.3:
            gone = self.random.choice(self.story.edits.edits)
            self.story.edit(self.story.edits.without(gone.number))
            return
        if len(entries) < 3:
            return
        first = self.random.randrange(len(entries))
        begin, end = widen_range(entries, first, min(len(entries) - 1, first + 2))
        uuids = [entry["uuid"] for entry in entries[begin : end + 1]]
        kind = self.random.choice(("exclude", "summarise", "pin"))
        self.story.edit(self.story.edits.with_one(kind, uuids, "in short"))

    def take_out(self) -> None:
        old = micro.removable(list(self.story.history), recent=1, least_tokens=10)
        if old:
            gone = {one.tool_use_id: f"in a file: {one.text[:4]}" for one in old[:2]}
            self.story.add(
                [
                    micro.make_entry(
                        gone, uuid=self.uuid(), at=AT, trigger="auto", pre_tokens=9, saved=5
                    )
                ]
            )

    def compact(self) -> None:
        entries = list(self.story.history)
        if not any(entry["type"] == "assistant" for entry in entries):
            return
        place = self.random.randrange(len(entries))
        selection = self.random.choice(
            (
                lambda: boundary.with_tail(entries, self.random.choice((0, 50, 1_000))),
                lambda: boundary.select_up_to(entries, place),
                lambda: boundary.select_since(entries, place),
            )
        )()
        if not selection.covered:
            return
        summary = make_summary_entry(["what was said"], uuid=self.uuid(), at=AT)
        entry = boundary.make_boundary(
            selection,
            uuid=self.uuid(),
            summary_uuid=summary["uuid"],
            at=AT,
            trigger="manual",
            pre_tokens=9,
            post_tokens=5,
            dropped_before=boundary.count_dropped_tokens(self.story.history),
            duration_ms=1,
            covers={},
        )
        self.story.compact(entry, [summary], selection.kept, kept_first=selection.is_before)

    def rewind(self) -> None:
        entries = list(self.story.history)
        prompts = [n for n, e in enumerate(entries) if e["type"] == "user" and n]
        if prompts:
            self.story = self._story(entries[: self.random.choice(prompts)], self.story.edits)
            self.requests = self._requests()

    def go_on(self) -> None:
        """Leave the session and resume or copy it: only the log remains."""
        log = json.loads(json.dumps(list(self.story.history)))
        self.told = convert(json.loads(json.dumps(to_builtins(self.told))), list[Repair])
        self.story = self._story(log, self.story.edits)
        self.is_as_recorded = True
        self.requests = self._requests()

    def go_on_elsewhere(self) -> None:
        if self.random.random() < 0.6:
            self.system = [{"type": "text", "text": f"You are clew of {self.random.randrange(3)}."}]
        if self.random.random() < 0.6:
            self.tools = [tool(name) for name in TOOLS if self.random.random() < 0.6] or self.tools
        self.go_on()
        self.is_as_recorded = False
        self.requests = self._requests()

    def change_model(self) -> None:
        self.model = self.random.choice(MODELS)
        self.thinking = self.random.choice((None, None, Adaptive(), Off()))
        self.requests.change(self._template(), self._target())

    def change_service(self) -> None:
        """Switch to another gateway, with or without support for the control."""
        self.has_control = not self.has_control
        self.go_on()

    def change_tools(self) -> None:
        name = self.random.choice(TOOLS[1:])
        if any(one["name"] == name for one in self.tools):
            self.tools = [one for one in self.tools if one["name"] != name]
        else:
            self.tools = [*self.tools, tool(name, is_deferred=self.random.random() < 0.5)]

    # -- the laws

    def live(self) -> None:
        if self.random.random() < 0.2:
            self.is_foreign = self.was_foreign = True
            self.say()
            self.say()
            self.is_foreign = False
            self.go_on_elsewhere()
        acts = (
            *[self.say] * 6, self.image_refused, self.edit, self.take_out, self.compact, self.rewind,
            self.go_on, self.go_on_elsewhere, self.change_model, self.change_service, self.change_tools,
        )  # fmt: skip
        for _ in range(self.random.randrange(4, 12)):
            self.random.choice(acts)()
        self.say()
        self._all_was_told()

    def _all_was_told(self) -> None:
        """Check that each block of the log that the service or clew omitted was reported."""
        told = {repair.uuid for repair in self.told if repair.kind.startswith("thought_un")}
        signatures = self.service.left_out
        for entry in self.story.history:
            if entry["type"] != "assistant":
                continue
            for block in thoughts_of(entry["message"]["content"]):
                reason = signatures.get(_signature(block))
                if reason == "prefix_binding_mismatch":
                    assert entry["uuid"] in told, (self.seed, entry["uuid"])


def _signature(block: Json) -> str:
    return str(block.get("signature") or block.get("data"))


def _block(said: Any) -> Json:
    if "thinking" in said:
        return {"type": "thinking", "thinking": said["thinking"], "signature": said["signature"]}
    if "redacted_thinking" in said:
        return {"type": "redacted_thinking", "data": said["redacted_thinking"]}
    if "text" in said:
        return {"type": "text", "text": said["text"]}
    return {"type": "tool_use", "id": said["id"], "name": said["tool"], "input": said["input"]}


def hold(seeds: range) -> tuple[int, int]:
    sent = withheld = 0
    for seed in seeds:
        life = Life(seed)
        life.live()
        sent += life.sent
        withheld += life.withheld
    return sent, withheld


@pytest.mark.no_cover
@requirement("R040")
def test_no_request_is_refused_for_its_thinking_blocks_and_each_lost_one_is_reported_once(
    record_property: Any,
) -> None:
    sent, withheld = hold(QUICK)
    assert sent > 1_000
    assert withheld > 200
    record_property("requests that the service's rule accepts", sent)


@pytest.mark.no_cover
def test_a_conversation_that_only_grows_loses_no_thought() -> None:
    for seed in QUICK:
        life = Life(seed, max_images=100)
        for _ in range(6):
            life.random.choice((life.say, life.say, life.go_on, life.rewind))()
        assert life.withheld == life.refusals == 0, seed
        assert life.service.left_out == {}, seed


@pytest.mark.laws
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", DEEP, ids=lambda seeds: f"{seeds.start}-{seeds.stop}")
def test_at_depth_too(seeds: range, record_property: Any) -> None:
    hold(seeds)
    record_property("histories whose thoughts the service's rule accepts", len(seeds))
