"""Requirements about the stream of an answer, checked in a run whose service sends odd ones."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json = dict[str, Any]
USAGE = {"input_tokens": 9, "output_tokens": 1}
MESSAGE = {
    "id": "msg_odd", "type": "message", "role": "assistant", "model": "claude-test", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
# Larger than what is read at once.
LONG = "wool " * 20_000
TEXT = f" Grüße\u2028\u0085 🧶 {LONG}Ω\n"


def event(kind: str, **fields: Any) -> str:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n"


def delta(index: int, kind: str, **fields: Any) -> str:
    return event("content_block_delta", index=index, delta={"type": kind, **fields})


def block(index: int, opened: Json, *deltas: str) -> list[str]:
    return [
        event("content_block_start", index=index, content_block=opened),
        *deltas,
        event("content_block_stop", index=index),
    ]


# Two lines of data, which end with CR LF.
FIRST = event("message_start", message=MESSAGE).replace(', "message"', ',\ndata: "message"')
ODD = [
    "\ufeff: a comment\n\nid: 7\nretry: 10\n",
    FIRST.replace("\n", "\r\n"),
    # An event without data is none, and leaves its name to no other.
    "event: ping\n\n",
    event("ping"),
    event("of_tomorrow", x=1),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("content_block_start", index=1, content_block={"type": "hologram", "depth": 3}),
    # Lines end with CR, nothing stands after the colon, and one blank of the text is its own.
    delta(0, "text_delta", text=TEXT[:9]).replace("\n", "\r").replace("data: ", "data:"),
    delta(0, "of_tomorrow", x=1),
    delta(0, "text_delta", text=TEXT[9:]),
    event("content_block_stop", index=1),
    event("content_block_stop", index=0),
    *block(2, {"type": "thinking", "thinking": ""}, delta(2, "thinking_delta", thinking="Hm."),
        delta(2, "signature_delta", signature="sig")),
    event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 5}),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 8}),
    event("message_stop"),
]  # fmt: skip


def bash(raw: str | list[str], **more: Any) -> Json:
    return {"tool": "Bash", "input_json": raw, **more}


BAD_INPUTS = {
    '{"command": "touch open': "truncated",
    '["touch list"]': "not an object",
    '{"command":"touch one"}{"command":"touch two"}': "trailing",
}
CALLS = [
    *map(bash, BAD_INPUTS),
    bash(""),
    bash(['{"comm', 'and": "touch who', 'le"}'], id="toolu_twice"),
    bash('{"command": "touch again"}', id="toolu_twice"),
]
CUT = {"content": [bash('{"command": "touch cut"')], "stop_reason": "max_tokens"}
ANSWERS = [
    # Of the bytes at the beginning, each comes alone.
    {"events": ODD, "send": {"chunk_bytes": [*[1] * 2000, 70_000]}},
    {"content": CALLS},
    CUT,
    {"text": "Fine."},
    {"events": [FIRST, "data: {broken\n\n"], "headers": {"retry-after": "0"}},
    {"events": [FIRST, delta(0, "text_delta", text="x")], "headers": {"retry-after": "0"}},
    {"text": "Sorted."},
]


@dataclass
class Told:
    lines: list[Json]
    bodies: list[Json]
    frames: list[Json]
    made: list[str]

    def odd(self) -> list[Json]:
        """Return the recorded parts of the first answer."""
        return [m for m in (line.get("message", {}) for line in self.lines)
            if m.get("id") == MESSAGE["id"]]  # fmt: skip

    def results(self, number: int) -> dict[str, Json]:
        """The results in the last message of a request, by the call."""
        content = self.bodies[number]["messages"][-1]["content"]
        return {b["tool_use_id"]: b for b in content if b["type"] == "tool_result"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("told")
    options = ("--include-partial-messages", "--allowedTools", "Bash")
    with (
        serving({"scenario": 1, "answers": ANSWERS}) as server,
        Hosted(home, server.url, *options) as host,
    ):
        for prompt in ("Say it.", "Call them.", "Err."):
            host.say(prompt)
            host.result()
        assert host.end() == 0
        (path,) = transcripts(home)
        lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        made = sorted(path.name for path in host.work.iterdir())
        yield Told(lines, [request.body for request in server.requests], host.frames, made)


@requirement("R049", "R050", "R051", "R052", "R232", "W2", "W16")
def test_an_answer_is_the_same_however_its_bytes_come(told: Told) -> None:
    answered = [f for f in told.frames if f["type"] == "result"]
    assert answered[0]["result"] == TEXT
    assert [message["content"][0] for message in told.odd()] == [
        {"type": "text", "text": TEXT},
        {"type": "hologram", "depth": 3},
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    ]


@requirement("R034")
def test_texts_and_calls_come_in_parts(told: Told) -> None:
    events = [f["event"] for f in told.frames if f["type"] == "stream_event"]
    opened: dict[int, str] = {}
    parts = set()
    for each in events:
        if each["type"] == "content_block_start":
            opened[each["index"]] = each["content_block"]["type"]
        if each["type"] == "content_block_delta":
            parts.add((opened[each["index"]], each["delta"]["type"]))
    assert {("text", "text_delta"), ("tool_use", "input_json_delta")} <= parts
    assert {kind for kind, _ in parts} == {"text", "thinking", "tool_use"}


@requirement("R029", "W4", "W18", "V7", "V11")
def test_what_is_unknown_in_a_stream_is_kept_and_ends_nothing(told: Told) -> None:
    odd = told.odd()
    assert {message["stop_reason"] for message in odd} == {"end_turn"}
    # The counts of a stream are running totals.
    assert {json.dumps(m["usage"]) for m in odd} == {json.dumps(USAGE | {"output_tokens": 8})}
    events = [f["event"]["type"] for f in told.frames if f["type"] == "stream_event"]
    assert {"ping", "of_tomorrow"} <= set(events)
    sent = told.bodies[1]["messages"][-2]
    assert {"type": "hologram", "depth": 3} in sent["content"]


@requirement("R058", "R065", "R066", "R067", "R068", "C3", "W5")
def test_only_whole_input_that_is_an_object_runs(told: Told) -> None:
    assert told.made == ["again", "whole"]
    results = list(told.results(2).values())
    for (raw, why), result in zip(BAD_INPUTS.items(), results, strict=False):
        assert result["is_error"] is True
        assert why in result["content"]
        assert raw in result["content"]
    # No input is the empty object, which this tool refuses.
    assert "missing: command" in results[3]["content"]
    calls = [b for b in told.bodies[2]["messages"][-2]["content"] if b["type"] == "tool_use"]
    assert [call["input"] for call in calls[:3]] == [{"INVALID_JSON": raw} for raw in BAD_INPUTS]
    (cut,) = told.results(3).values()
    assert "max_tokens" in cut["content"]


@requirement("R031")
def test_two_calls_of_one_id_have_an_id_each(told: Told) -> None:
    ids = list(told.results(2))
    assert len(ids) == len(set(ids)) == len(CALLS)
    assert "toolu_twice" in ids


@requirement("R051", "R061")
def test_disorder_in_a_stream_is_named_with_its_line_and_asked_again(told: Told) -> None:
    broken, early = (f for f in told.frames if f.get("subtype") == "api_retry")
    assert "{broken" in broken["content"]
    assert "block 0, which is not open" in early["content"]
    assert [f["result"] for f in told.frames if f["type"] == "result"][-1] == "Sorted."
    logged = [line for line in told.lines if line.get("subtype") == "api_error"]
    assert ["{broken" in json.dumps(line) for line in logged] == [True, False]
