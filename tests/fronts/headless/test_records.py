"""Requirements about entries, requests and frames, checked in one session of the real program."""

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew.record.transcript.policy import CLEANED
from clew.testing.server import serving
from tests.fronts.headless.clew_process import transcripts
from tests.fronts.headless.host_process import Hosted
from tests.requirements import requirement

Json = dict[str, Any]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CHAIN = ("user", "assistant", "system", "attachment")
OF_ENTRIES = {"uuid", "timestamp", "isMeta", "costUSD", "requestId", "stop_reason", "parentUuid"}
ANSWERS = [
    {
        "content": [
            {"thinking": "I look.", "signature": "sig"},
            "I run three.",
            {"tool": "Bash", "input": {"command": "echo one; sleep 1; exit 3"}},
            {"tool": "Read", "input": {"file_path": "a.txt"}},
            {"tool": "Read", "input": {"file_path": "missing.txt"}},
        ]
    },
    {"content": [{"tool": "Agent", "input": {"description": "d", "prompt": "dig"}}]},
    {"text": "Dug.", "when": {"user": {"contains": "dig"}}},
    {"text": "All done."},
    {"status": 400, "error": {"type": "invalid_request_error", "message": "no"}},
]


@dataclass
class Told:
    """Everything that the session left: its lines, its requests and its frames."""

    path: Path
    lines: list[Json]
    bodies: list[Json]
    frames: list[Json]

    def of(self, kind: str) -> list[Json]:
        return [line for line in self.lines if line["type"] == kind]

    def blocks(self, kind: str) -> list[tuple[Json, Json]]:
        return [
            (line, block)
            for line in self.lines
            if isinstance(line.get("message"), dict)
            and isinstance(line["message"]["content"], list)
            for block in line["message"]["content"]
            if block["type"] == kind
        ]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("told")
    (home / "work").mkdir()
    (home / "work" / "a.txt").write_text("a\n", "utf-8")
    settings = json.dumps({"permissions": {"allow": ["Bash(*)", "Read", "Agent"]}})
    plan = {"scenario": 1, "answers": ANSWERS}
    with (
        serving(plan, strict=True) as server,
        Hosted(home, server.url, "--include-partial-messages", "--settings", settings) as host,
    ):
        host.say("Look around.")
        assert host.result()["result"] == "All done."
        host.say("Once more.")
        assert host.result()["is_error"] is True
        assert host.end() == 1
        (path,) = transcripts(home)
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        yield Told(path, lines, [request.body for request in server.requests], host.frames)


@requirement("R002", "R003", "R004", "R005", "R013", "R016", "R155", "R168", "C14")
def test_entries_have_a_type_an_id_a_time_and_what_their_type_has(told: Told) -> None:
    chain = [line for line in told.lines if line["type"] in CHAIN]
    assert {line["type"] for line in chain} >= {"user", "assistant", "attachment"}
    ids = [line["uuid"] for line in chain]
    assert all(UUID.fullmatch(uuid) for uuid in ids)
    assert len(set(ids)) == len(ids)
    for line in chain:
        assert TIME.fullmatch(line["timestamp"])
        assert ("message" in line) == (line["type"] in ("user", "assistant"))
        assert ("attachment" in line) == (line["type"] == "attachment")
        assert line["parentUuid"] is None or line["parentUuid"] in ids
    assert not told.of("progress")
    assert all("uuid" not in line for line in told.lines if line["type"] not in CHAIN)


@requirement("R006", "R008", "R023", "R024", "R025", "R082")
def test_answers_carry_what_the_service_said_and_errors_what_went_wrong(told: Told) -> None:
    *answers, error = told.of("assistant")
    for line in answers:
        message = line["message"]
        assert {"id", "role", "model", "content", "stop_reason", "usage"} <= set(message)
        assert line["requestId"]
        assert message["usage"]["input_tokens"] >= 0
    assert error["isApiErrorMessage"] is True
    assert [block["type"] for block in error["message"]["content"]] == ["text"]
    assert error["message"]["model"] == "<synthetic>"
    assert error["message"]["stop_reason"] == "stop_sequence"
    assert error["message"]["usage"]["output_tokens"] == 0


@requirement("R100", "R101", "R187", "W9")
def test_an_answer_has_a_line_for_each_block_in_order_with_the_final_usage(told: Told) -> None:
    first = [line for line in told.of("assistant") if not line.get("isApiErrorMessage")][:5]
    assert len({line["message"]["id"] for line in first}) == 1
    assert [[b["type"] for b in line["message"]["content"]] for line in first] == [
        ["thinking"], ["text"], ["tool_use"], ["tool_use"], ["tool_use"],
    ]  # fmt: skip
    assert [line["parentUuid"] for line in first[1:]] == [line["uuid"] for line in first[:-1]]
    (final,) = {json.dumps(line["message"]["usage"], sort_keys=True) for line in first}
    assert json.loads(final)["output_tokens"] > 1
    assert {line["message"]["stop_reason"] for line in first} == {"tool_use"}


@requirement("R028", "R253")
def test_a_turn_is_told_and_recorded_in_the_order_in_which_it_happens(told: Told) -> None:
    kinds = [
        line["message"]["content"][0]["type"] if line["type"] == "assistant" else "result"
        for line in told.lines
        if line["type"] == "assistant" or "toolUseResult" in line
    ]
    answer = ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    assert kinds[: len(answer)] == answer
    assert kinds[len(answer) :] == [*["result"] * 3, "tool_use", "result", "text", "text"]
    first = next(line for line in told.lines if line["type"] in CHAIN)
    assert first["message"]["content"] == "Look around."
    frames = [f.get("subtype") or f["type"] for f in told.frames if f["type"] != "stream_event"]
    turn = frames[: frames.index("success") + 1]
    assert turn.index("init") < turn.index("assistant") < turn.index("user") < len(turn) - 1


@requirement("R169", "R171", "R179", "R262", "C11")
def test_nothing_that_is_only_shown_is_recorded(told: Told) -> None:
    assert any(event["type"] == "tool_progress" for event in told.frames)
    agents = [
        json.loads(line)
        for path in (told.path.with_suffix("") / "subagents").glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    assert agents
    for line in [*told.lines, *agents]:
        assert line["type"] != "progress"
        assert not (CLEANED.keys() - {"sourceToolAssistantUUID"}) & line.keys()


@requirement("R126", "R127", "R133", "W33")
def test_tools_have_a_name_a_description_and_a_schema_in_one_order(told: Told) -> None:
    for body in told.bodies[:2]:
        tools = body["tools"]
        assert all(set(tool) >= {"name", "description", "input_schema"} for tool in tools)
        assert all(tool["input_schema"]["type"] == "object" for tool in tools)
        sizes = [len(json.dumps(tool)) for tool in tools]
        assert sum(sizes) / len(sizes) < 2048
    assert told.bodies[0]["tools"] == told.bodies[1]["tools"]


@requirement("R021", "R036", "R130", "R040", "R047", "R087", "R092", "R137", "V3", "W20")
def test_each_call_has_a_result_that_names_it_raw_and_as_sent(told: Told) -> None:
    uses = {block["id"]: line for line, block in told.blocks("tool_use")}
    results = told.blocks("tool_result")
    assert sorted(block["tool_use_id"] for _, block in results) == sorted(uses)
    by_subject: dict[str, Json] = {}
    for line, block in results:
        call = uses[block["tool_use_id"]]
        assert line["type"] == "user"
        assert line["sourceToolAssistantUUID"] == call["uuid"]
        assert "toolUseResult" in line
        assert line.get("isMeta") is not True
        (subject,) = list(call["message"]["content"][0]["input"].values())[:1]
        by_subject[subject] = block
    assert by_subject["a.txt"]["content"].startswith("1\ta")
    assert by_subject["missing.txt"]["is_error"] is True
    assert by_subject["echo one; sleep 1; exit 3"]["is_error"] is True
    # The turn went on after the failures.
    assert len(told.bodies) == 5


@requirement("R037", "R038", "R039", "R041", "R042", "R043", "R044", "R046", "V1", "V2", "V4", "V6")
def test_requests_alternate_carry_no_field_of_an_entry_and_join_parallel_results(
    told: Told,
) -> None:
    for body in told.bodies:
        assert body["stream"] is True
        assert {"model", "system", "messages", "tools", "max_tokens"} <= set(body)
        roles = [m["role"] for m in body["messages"] if m["role"] != "system"]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        for message in body["messages"]:
            assert set(message) == {"role", "content"}
            assert message["content"]
            blocks = message["content"] if isinstance(message["content"], list) else []
            for block in blocks:
                assert not OF_ENTRIES & set(block)
                assert block.get("text") != ""
                assert isinstance(block.get("input", {}), dict)
    results = [
        [block["type"] for block in message["content"]].count("tool_result")
        for message in told.bodies[1]["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
    ]
    assert max(results) == 3


@requirement("R018", "R055", "R056", "R057", "R060", "R062", "V7")
def test_frames_follow_the_stream_of_the_service(told: Told) -> None:
    events = [f["event"] for f in told.frames if f["type"] == "stream_event"]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start"
    assert {"id", "role", "model", "usage"} <= set(events[0]["message"])
    started = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    assert started[:5] == ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    deltas = {e["delta"]["type"] for e in events if e["type"] == "content_block_delta"}
    assert {"text_delta", "input_json_delta", "thinking_delta"} <= deltas
    reasons = [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"]
    assert reasons[0] == "tool_use"
    assert reasons[-1] == "end_turn"
    assert kinds.count("message_start") == kinds.count("message_stop")


@requirement("R156", "R158", "R159", "R164", "R202", "R242")
def test_files_lie_where_they_should_and_only_their_owner_reads_them(told: Told) -> None:
    path = told.path
    assert UUID.fullmatch(path.stem)
    assert path.parent.parent.name == "projects"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (agent,) = (path.with_suffix("") / "subagents").glob("agent-*.jsonl")
    lines = [json.loads(line) for line in agent.read_text("utf-8").splitlines()]
    assert all(line["sessionId"] == path.stem for line in lines)
    assert all(line["isSidechain"] for line in lines if line["type"] in CHAIN)
    about = json.loads(agent.with_suffix(".meta.json").read_text("utf-8"))
    assert about["agentType"] == "general-purpose"


@requirement("V5", "W12", "V9")
def test_a_thought_returns_as_it_came_and_each_request_begins_as_the_one_before(told: Told) -> None:
    first, second, *_ = told.bodies
    thoughts = [
        block
        for message in second["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "thinking"
    ]
    assert thoughts == [{"type": "thinking", "thinking": "I look.", "signature": "sig"}]
    assert second["tools"] == first["tools"]
    assert second["system"] == first["system"]
    assert json.dumps(second["messages"][: len(first["messages"]) - 1]) == json.dumps(
        first["messages"][:-1]
    )
