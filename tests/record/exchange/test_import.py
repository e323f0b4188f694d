"""Files of other programs as sessions: what comes in goes on, and what is lost is said."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.kinds import find_faults
from clew.core.normalize.origin import find_own_items
from clew.core.normalize.target import Reader, family_of
from clew.record.exchange.bring import BAD_LINE, EMPTY, PROMPTS, UNKNOWN
from clew.record.exchange.formats import codex, one_file, pi
from clew.record.exchange.formats.conversion import Builder, Converted, ItemTally, make_picture
from clew.record.exchange.formats.one_file import AGENT
from clew.record.exchange.formats.reasons import (
    DUPLICATE_CALL,
    INSTRUCTIONS,
    LONE_COUNT,
    LONE_RESULT,
    NO_TEXT,
    REPEATED,
    SEALED_SUMMARY,
    SECOND_HEADER,
    SECOND_RESULT,
    SETTINGS,
    SIGNATURE,
    STATE,
    UNNAMED_CALL,
)
from clew.record.exchange.source import DAMAGED
from clew.record.transcript.load import load
from clew.testing.server import serving
from tests.commands.sessions.place import Place
from tests.fronts.headless.clew_process import clew
from tests.record.exchange.sources import convert_as, convert_one, of_lines, of_value, outline
from tests.record.transcript.build import (
    SESSION,
    call,
    encoded,
    names,
    result,
    said,
    talk,
    uid,
    user,
)
from tests.requirements import requirement

AT = "2026-03-04T05:06:07.890Z"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def lines(*entries: dict[str, Any]) -> bytes:
    return encoded(entries)


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "response_item", "payload": {"type": kind, **payload}}


def spoken(role: str, text: str, part: str = "input_text") -> dict[str, Any]:
    return item("message", role=role, content=[{"type": part, "text": text}])


def rollout(cwd: str = "/gone") -> list[dict[str, Any]]:
    head = {"id": "0199f0aa-1111-7000-8000-000000000001", "cwd": cwd, "git": {"branch": "topic"}}
    return [
        {"timestamp": AT, "type": "session_meta", "payload": head},
        {"timestamp": AT, "type": "turn_context", "payload": {"model": "gpt-5", "cwd": cwd}},
        spoken("developer", "be good"),
        spoken("user", "<environment_context>x</environment_context>"),
        spoken("user", "List the files."),
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "user_message", "message": "List"}},
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "token_count"}},
        item("reasoning", summary=[{"text": "I look."}], encrypted_content="gAAA"),
        item(
            "function_call", name="shell", call_id="call_1",
            arguments='{"command":["bash","-lc","ls -l"],"timeout_ms":5}',
        ),
        item(
            "function_call_output", call_id="call_1",
            output='{"output":"a.txt","metadata":{"exit_code":1}}',
        ),
        spoken("assistant", "One file.", "output_text"),
    ]  # fmt: skip


def tree() -> list[dict[str, Any]]:
    def message(
        id_: str, parent: str | None, role: str, content: Any, **more: Any
    ) -> dict[str, Any]:
        body = {"role": role, "content": content, **more}
        return {"type": "message", "id": id_, "parentId": parent, "timestamp": AT, "message": body}

    answer = [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "text", "text": "I edit."},
        {"type": "toolCall", "id": "t|1", "name": "edit",
         "arguments": {"path": "x", "oldText": "a", "newText": "b"}},
    ]  # fmt: skip
    usage = {"input": 5, "output": 6, "cacheRead": 7, "cacheWrite": 8, "cost": {"total": 0.25}}
    return [
        {"type": "session", "version": 3, "id": "abc", "timestamp": AT, "cwd": "/gone"},
        message("1", None, "user", "Change x."),
        message("x", "1", "assistant", [{"type": "text", "text": "left"}]),
        message(
            "2",
            "1",
            "assistant",
            answer,
            provider="anthropic",
            model="claude-opus-4-5",
            usage=usage,
        ),
        message("3", "2", "toolResult", [{"type": "text", "text": "done"}], toolCallId="t|1"),
        {"type": "session_info", "id": "4", "parentId": "3", "timestamp": AT, "name": "My change"},
        message("5", "4", "assistant", [{"type": "text", "text": "Changed."}], provider="openai"),
    ]


def bring(place: Place, name: str, data: bytes, *words: str, code: int = 0) -> dict[str, Any]:
    file = place.cwd / name
    file.write_bytes(data)
    found: dict[str, Any] = place.json("import", str(file), *words, code=code)
    return found


def texts(path: Path) -> list[str]:
    """What was said, block by block."""
    found = []
    for message in load(path).messages:
        content = message["message"]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            words = (
                block.get("text")
                or block.get("thinking")
                or block.get("input")
                or block.get("content")
            )
            found.append(f"{message['type']} {block['type']}: {json.dumps(words)}")
    return found


def test_a_rollout_of_codex_comes_in_as_a_session(place: Place) -> None:
    (brought,) = bring(place, "rollout.jsonl", lines(*rollout()))["imported"]
    path = Path(brought["path"])
    assert brought["kind"] == "codex"
    assert brought["title"] == "List the files."
    assert texts(path) == [
        'user text: "<environment_context>x</environment_context>"',
        'user text: "List the files."',
        'assistant thinking: "I look."',
        'assistant tool_use: {"command": "ls -l", "timeout_ms": 5}',
        'user tool_result: "a.txt"',
        'assistant text: "One file."',
    ]
    assert brought["changed"] == {}
    assert brought["leftOut"] == {
        INSTRUCTIONS: 1,
        "settings of a turn": 1,
        REPEATED: 1,
        LONE_COUNT: 1,
    }
    assert (brought["items"], brought["kept"]) == (11, 7)
    messages = load(path).messages
    assert messages[4]["message"]["content"][0]["is_error"] is True
    assert {m["gitBranch"] for m in messages} == {"topic"}
    assert {m["cwd"] for m in messages} == {str(place.cwd)}
    place.clew("check", brought["sessionId"])
    refused = bring(place, "again.jsonl", lines(*rollout()), code=2)["refused"]
    assert "already exists" in refused[0]["reason"]
    assert bring(place, "again.jsonl", lines(*rollout()), "--new-id")["imported"]


def test_a_session_of_pi_comes_in_with_its_branches(place: Place) -> None:
    (brought,) = bring(place, "s.jsonl", lines(*tree()) + b"torn{")["imported"]
    path = Path(brought["path"])
    assert (brought["kind"], brought["title"]) == ("pi", "My change")
    assert texts(path) == [
        'user text: "Change x."',
        'assistant thinking: "hm"',
        'assistant text: "I edit."',
        'assistant tool_use: {"file_path": "x", "old_string": "a", "new_string": "b"}',
        'user tool_result: [{"type": "text", "text": "done"}]',
        'assistant text: "Changed."',
    ]
    assert brought["lost"] == {BAD_LINE: 1}
    assert (brought["items"], brought["kept"]) == (8, 7)
    assert "left" in {
        m["message"]["content"][0]["text"]
        for line in path.read_text("utf-8").split("\n")
        if line and (m := json.loads(line)).get("type") == "assistant"
        and "text" in m["message"]["content"][0]
    }  # fmt: skip
    cost = json.loads(place.clew("list", "--cost-over", "0.00001", "--json"))
    assert [o["sessionId"] for o in cost] == [brought["sessionId"]]
    shown = place.clew("import", str(place.cwd / "s.jsonl"), "--new-id")
    assert "8 items: 7 kept, 0 changed, 1 left out" in shown
    assert f"left out: {BAD_LINE}: 1" in shown


def test_what_came_in_continues(place: Place, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    place.home = tmp_path / "config"
    for data in (lines(*rollout(str(place.cwd))), lines(*tree())):
        (brought,) = bring(place, "in.jsonl", data)["imported"]
        plan = {"scenario": 1, "answers": [{"text": "Going on."}]}
        with serving(plan, strict=True) as server:
            done = clew(tmp_path, server.url, "-p", "go on", "--resume", brought["sessionId"])
            assert done.stdout == "Going on.\n", done.stderr
            assert len(server.requests) == 1


@requirement("C10", "R153")
def test_the_one_file_form_goes_out_and_comes_back(place: Place, tmp_path: Path) -> None:
    place.write([*talk(2), said("t", "a2", call("x")), result("r", "t", "x"), said("e", "r")])
    data = place.clew("export", SESSION, "--format", "json").encode()
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    (brought,) = bring(other, "s.json", data)["imported"]
    assert brought["sessionId"] == SESSION
    assert brought["lost"] == {}
    assert names(load(Path(brought["path"])).messages) == "u1 a1 u2 a2 t r e"
    other.clew("check", SESSION)


@requirement("R153")
def test_the_one_file_form_of_old_comes_in(place: Place) -> None:
    old = of_old(str(place.cwd))
    (brought,) = bring(place, "old.json", json.dumps(old).encode())["imported"]
    assert texts(Path(brought["path"])) == [
        'user text: "hello"',
        'assistant text: "hi"',
        'assistant tool_use: {"command": "ls"}',
        'user tool_result: "out"',
        'user text: "and"',
        'assistant text: "bye"',
        'user text: "last"',
    ]
    assert brought["lost"] == {
        AGENT: 2, "subagent: invalid agent ID: '../x'": 1,
        "message of type progress": 1, "message of type none": 1, UNNAMED_CALL: 1,
    }  # fmt: skip
    place.clew("check", brought["sessionId"])


def of_old(cwd: str) -> dict[str, Any]:
    return {
        "version": "2.0",
        "state": {},
        "metadata": {"gitBranch": "main", "projectPath": cwd, "created": AT},
        "agents": [
            {},
            {"agentId": "a7", "messages": []},
            {"agentId": "../x", "messages": [{"role": "user", "content": "dig"}]},
        ],
        "messages": [
            {"role": "user", "content": "hello"},
            {"type": "assistant", "message": {"role": "assistant", "content": [
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": 5},
            ], "usage": {"input_tokens": 1, "output_tokens": 2}, "model": "m"}},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "out", "is_error": True},
                {"type": "text", "text": "and"},
            ]},
            {"role": "assistant", "content": "bye"},
            {"type": "progress"},
            {"type": "user", "uuid": uid("u9"), "message": {"role": "user", "content": "last"}},
            "nothing",
        ],
    }  # fmt: skip


@requirement("R153")
def test_subagents_of_an_export_come_in_as_what_they_were(place: Place, tmp_path: Path) -> None:
    path = place.write(talk(1))
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    side = [
        user("s1", None, "dig", isSidechain=True, agentId="a7"),
        said("s2", "s1", isSidechain=True, agentId="a7"),
    ]
    (agents / "agent-a7.jsonl").write_bytes(encoded(side))
    what = {"agentType": "digger", "description": "Dig deep", "name": "mole", "spawnDepth": 1}
    (agents / "agent-a7.meta.json").write_text(json.dumps(what), "utf-8")
    flat = json.loads(place.clew("export", SESSION, "--format", "json"))
    older = json.loads(json.dumps(flat))
    del older["agents"][0]["metadata"]
    in_lines = place.clew("export", SESSION, "--format", "jsonl").encode()
    for name, whole, then in (
        ("new", json.dumps(flat).encode(), what),
        ("old", json.dumps(older).encode(), {k: what[k] for k in ("agentType", "description")}),
        ("lines", in_lines, what),
    ):
        (tmp_path / name).mkdir()
        (brought,) = bring(Place(tmp_path / name), "a.json", whole)["imported"]
        assert (brought["agents"], brought["lost"]) == (1, {})
        own = Path(brought["path"]).with_suffix("") / "subagents" / "agent-a7.jsonl"
        assert names(load(own).messages) == "s1 s2"
        assert all(m["isSidechain"] and m["agentId"] == "a7" for m in load(own).messages)
        assert json.loads(own.with_suffix(".meta.json").read_bytes()) == then


def test_a_transcript_comes_in_byte_for_byte_with_its_subagents(
    place: Place, tmp_path: Path
) -> None:
    path = place.write([*talk(2), b"{torn\n"])
    agents = path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    side = user("s1", None, "dig", isSidechain=True, agentId="a7")
    (agents / "agent-a7.jsonl").write_bytes(encoded([side]))
    (agents / "agent-a7.meta.json").write_text('{"agentType":"digger"}', "utf-8")
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    (brought,) = other.json("import", str(path))["imported"]
    assert brought["lost"] == {BAD_LINE: 1}
    copied = Path(brought["path"])
    assert copied.read_bytes() == path.read_bytes().removesuffix(b"{torn\n")
    assert (copied.with_suffix("") / "subagents" / "agent-a7.meta.json").exists()
    assert brought["agents"] == 1
    flat = place.clew("export", SESSION, "--format", "jsonl").encode()
    (again,) = bring(other, "flat.jsonl", flat, "--new-id")["imported"]
    assert again["agents"] == 1
    assert again["sessionId"] != SESSION
    assert {m["sessionId"] for m in load(Path(again["path"])).messages} == {again["sessionId"]}
    assert names(load(Path(again["path"])).messages) == "u1 a1 u2 a2"
    assert "already exists" in other.json("import", str(path), code=2)["refused"][0]["reason"]


def test_a_subagents_own_file_is_another_session_than_the_one_it_belongs_to(
    place: Place, tmp_path: Path
) -> None:
    path = place.write(talk(1))
    side = user("s1", None, "dig", isSidechain=True, agentId="a7", sessionId=SESSION)
    agent = place.cwd / "agent-a7.jsonl"
    agent.write_bytes(encoded([side]))
    (tmp_path / "b").mkdir()
    other = Place(tmp_path / "b")
    (brought,) = other.json("import", str(agent))["imported"]
    assert brought["sessionId"] != SESSION
    assert other.json("import", str(path))["imported"][0]["sessionId"] == SESSION
    assert "already exists" in other.json("import", str(agent), code=2)["refused"][0]["reason"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON object"),
        (b"hello\n", "no JSON object"),
        (b'{"a":1}\n{"b":2}\n', "not a session"),
        (b'{"messages":[]}', "no message"),
        (lines({"type": "session", "id": "x"}), "no message"),
        (
            lines(*(user(f"s{i}", None, isSidechain=True, agentId=f"a{i}") for i in range(2))),
            "only subagent transcripts",
        ),
        # Other programs use the same types of lines.
        (lines({"type": "user", "content": "hello"}, {"type": "tool_result"}), "not a session"),
        (
            lines({"sessionId": SESSION, "kind": "main"}, {"type": "user", "id": "1"}),
            "not a session",
        ),
    ],
)
def test_what_is_no_session_is_refused_and_leaves_nothing(
    place: Place, data: bytes, reason: str
) -> None:
    assert reason in bring(place, "x.jsonl", data, code=2)["refused"][0]["reason"]
    left = [p for p in place.home.rglob("*") if p.is_file()] if place.home.exists() else []
    assert left == []
    assert "No such file" in place.clew("import", "missing", code=2)


def test_a_page_for_people_cannot_come_in_and_its_name_is_said_once(place: Place) -> None:
    Path(place.home).parent.joinpath("story.md").write_text("# A story\n", "utf-8")
    said = place.clew("import", str(Path(place.home).parent / "story.md"), code=2)
    assert said.count("story.md") == 1
    assert "import JSON or JSONL instead" in said


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"display":"a","timestamp":1,"project":"/w","sessionId":"s"}', PROMPTS),
        (b'{"session_id":"s","ts":1,"text":"a"}', PROMPTS),
        (b'{"type":"last-prompt","lastPrompt":"a","sessionId":"s"}', EMPTY),
        (b"\x28\xb5\x2f\xfd\x24\x00", DAMAGED),
        (b'{"type":"odd"}', UNKNOWN),
        (b'[{"id":1}]', UNKNOWN),
    ],
)
def test_a_refusal_says_what_the_file_is(place: Place, data: bytes, reason: str) -> None:
    file = place.cwd / "history.jsonl"
    file.write_bytes(data)
    assert reason in place.clew("import", str(file), code=2)


def of_codex(*found: dict[str, Any]) -> Converted:
    return convert_as(codex.FORMAT, of_lines(*found))[0]


def of_pi(*found: dict[str, Any]) -> Converted:
    return convert_as(pi.FORMAT, of_lines(*found))[0]


def shown(converted: Converted) -> list[Any]:
    return [m["message"]["content"] for m in converted.messages if "message" in m]


def test_every_item_of_codex_has_a_place_or_a_loss() -> None:
    found = of_codex(
        {"id": "old", "timestamp": AT, "instructions": None, "git": {"branch": "b"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
            {"type": "input_image", "image_url": "https://example.org/x.png"},
            {"type": "input_sound"},
        ]},
        item("local_shell_call", call_id="c1", action={"type": "exec", "command": ["ls", "-l"]}),
        item("function_call_output", call_id="c1", output=[{"type": "input_text", "text": "o"}]),
        item("custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin"),
        item("custom_tool_call_output", call_id="c2", output="plain"),
        item("function_call", name="other", call_id="c3", arguments="not json"),
        item("function_call_output", call_id="c3", output={"content": "no", "success": False}),
        item("function_call_output", call_id="c3", output={"content": 5}),
        item("function_call_output", call_id="gone", output="x"),
        item("function_call", name="other", call_id="c3", arguments="not json"),
        item("function_call", name="exec_command", call_id="c4", arguments='{"cmd":"pwd"}'),
        item("web_search_call"),
        item("unheard_of"),
        spoken("assistant", "", "output_text"),
        {"type": "session_meta", "payload": {"id": "second"}},
        {"type": "compacted", "payload": {"message": "so far"}},
    )  # fmt: skip
    assert (found.source_id, found.branch) == ("old", "b")
    assert not any(find_faults(m) for m in found.messages)
    assert [type(content) is str or content[0]["type"] for content in shown(found)] == [
        "text", "tool_use", "tool_result", "tool_use", "tool_result", "tool_use", "tool_result",
        "tool_use", True,
    ]  # fmt: skip
    assert shown(found)[7][0]["input"] == {"command": "pwd"}
    assert shown(found)[5][0]["input"] == {"input": "not json"}
    assert found.messages[-2]["subtype"] == "compact_boundary"
    assert found.messages[-1]["isCompactSummary"]
    assert set(found.tally.losses) == {
        NO_TEXT,
        SECOND_RESULT,
        LONE_RESULT,
        DUPLICATE_CALL,
        "web_search_call (sent back only to the same service)",
        "item of type unheard_of",
        SECOND_HEADER,
        STATE,
        "no content",
    }
    assert codex.recognizes(of_lines({"id": "x", "instructions": None}))
    assert not codex.recognizes(of_lines({"type": "session_meta", "payload": 5}))


def test_every_entry_of_pi_has_a_place_or_a_loss() -> None:
    def message(role: str, content: Any = None, **more: Any) -> dict[str, Any]:
        return {"type": "message", "message": {"role": role, "content": content, **more}}

    found = of_pi(
        *[
            {"type": "session", "id": "x"},
            message(
                "user", [{"type": "image", "data": "aGk=", "mimeType": "image/png"}, {"type": "x"}]
            ),
            message(
                "assistant",
                [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "x"},
                    {"type": "text", "text": "t"},
                ],
                errorMessage="e",
            ),
            message("bashExecution", command="ls", output="o"),
            message("custom", "context"),
            message("user", " "),
            message("stranger"),
            {"type": "custom_message", "content": "more"},
            {"type": "compaction", "summary": "so far"},
            {"type": "model_change"},
            {"type": "unheard of"},
        ],
    )
    assert not any(find_faults(m) for m in found.messages)
    assert [m["type"] for m in found.messages] == [
        "user", "assistant", "assistant", "user", "user", "user", "system", "user",
    ]  # fmt: skip
    assert set(found.tally.losses) == {
        NO_TEXT,
        SIGNATURE,
        "message with role stranger",
        "no content",
        SETTINGS,
        "entry of type unheard of",
    }


def test_a_tree_that_goes_in_circles_comes_to_an_end() -> None:
    entries = [
        {
            "type": "message",
            "id": "a",
            "parentId": "b",
            "message": {"role": "user", "content": "x"},
        },
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "message": {"role": "user", "content": "y"},
        },
    ]
    found = of_pi({"type": "session", "id": "s"}, *entries)
    assert shown(found) == ["x", "y"]


def of_one_file(value: Any) -> Converted:
    return convert_as(one_file.FORMAT, of_value(value))[0]


def test_what_is_converted_is_sound() -> None:
    chain = [
        said("t", None, call("x")),
        result("r", "t", "x"),
        user("e", "r", [{"type": "text", "text": "x"}]),
    ]
    for found in (
        of_codex(*rollout()),
        of_pi(*tree()),
        of_one_file(of_old("/w")),
        of_one_file({"messages": chain}),
    ):
        assert found.messages
        assert_sound(found.messages)
    last = of_codex(rollout()[0], item("reasoning", summary=[{"text": "hm"}]))
    assert shown(last) == [[{"type": "thinking", "thinking": "hm", "signature": ""}]]


def test_encrypted_reasoning_is_kept_for_the_service_that_wrote_it() -> None:
    found = of_codex(*rollout())
    thought, called = found.messages[2:4]
    reasoning, function = thought["origin"]["items"], called["origin"]["items"]
    assert reasoning[0]["encrypted_content"] == "gAAA"
    assert function[0]["call_id"] == "call_1"
    reader = Reader(service="openai", wire="responses", family=family_of("gpt-5"))
    assert find_own_items([thought, called], reader) == [*reasoning, *function]


def test_encrypted_reasoning_without_a_summary_is_kept_too() -> None:
    sealed = item("reasoning", summary=[], content=None, encrypted_content="gAAB")
    found = of_codex(*rollout()[:5], sealed, *rollout()[8:])
    thought, called = found.messages[2:4]
    assert thought["origin"]["items"] == [sealed["payload"]]
    reader = Reader(service="openai", wire="responses", family=family_of("gpt-5"))
    assert (find_own_items([thought, called], reader) or [{}])[0]["encrypted_content"] == "gAAB"


def test_token_counts_of_codex_belong_to_the_response_before_them() -> None:
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 3}
    count = {"type": "token_count", "info": {"last_token_usage": used, "total_token_usage": used}}
    event = {"timestamp": AT, "type": "event_msg", "payload": count}
    hello = spoken("user", "hello")
    said = [spoken("assistant", words, "output_text") for words in ("oh", "hi")]
    found = of_codex(hello, event, *said, event, event)
    before, answer = [m for m in found.messages if m["type"] == "assistant"]
    assert before["message"]["usage"]["output_tokens"] == 0
    usage = answer["message"]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (5, 4)
    assert found.tally.left_out == {LONE_COUNT: 2}
    alone = of_codex(hello, spoken("assistant", "hi", "output_text"), event)
    assert alone.messages[-1]["message"]["usage"]["output_tokens"] == 3


def test_a_rollout_with_the_conversation_only_in_events_comes_in() -> None:
    def event(kind: str, **words: str) -> dict[str, Any]:
        return {"timestamp": AT, "type": "event_msg", "payload": {"type": kind, **words}}

    found = of_codex(
        rollout()[0],
        event("user_message", message="Look."),
        event("agent_reasoning", text="hm"),
        event("agent_message", message="I look."),
        event("task_complete"),
    )
    assert outline(found) == [
        "user text: Look.", "assistant thinking: hm", "assistant text: I look.",
    ]  # fmt: skip
    old = {"session": {"id": "x"}, "items": [{"role": "user", "content": "hello"}]}
    assert outline(convert_one(of_value(old), "codex")) == ["user text: hello"]


def test_items_of_codex_that_are_not_messages_have_a_place() -> None:
    found = of_codex(
        rollout()[0],
        item("reasoning", summary=[]),
        item("tool_search_call", call_id="s1", arguments={"query": "x"}),
        item("tool_search_output", call_id="s1", tools=[{"name": "found"}]),
        item("agent_message", content=[{"type": "input_text", "text": "from another"}]),
        item("message", role="assistant", content=[
            {"type": "input_text", "text": "I read."},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
        ]),
        item("message", role="assistant", content=[
            {"type": "output_text", "text": "two"}, {"type": "output_text", "text": "parts"}]),
        item("message", role="assistant", content="one string"),
        {"type": "compacted", "payload": {"message": "", "replacement_history": [
            {"content": [{"text": "first"}]}, {"content": [{"text": "so far"}]}]}},
        {"type": "compacted", "payload": {"message": ""}},
    )  # fmt: skip
    told = outline(found)
    assert told[:4] == [
        'assistant tool_use: {"query": "x"}', 'user tool_result: [{"name":"found"}]',
        "user (meta) text: from another", "assistant text: I read.",
    ]  # fmt: skip
    assert told[-3:-1] == ["assistant text: one string", "compact_boundary"]
    assert told[-1].endswith("so far")
    assert found.tally.left_out == {
        "no content": 1, SEALED_SUMMARY: 1,
    }  # fmt: skip


def test_messages_of_both_apis_have_a_place_part_by_part() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    inline = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    usage = {"prompt_tokens": 9, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 4}}  # fmt: skip
    found = of_one_file(
        {
            "system": "be good",
            "messages": [
                {"role": "user", "content": [url, inline, {"type": "file", "data": "x"}]},
                {"role": "user", "content": [
                    make_picture("image/png", "aGk="), {"type": "text", "text": "see"}]},
                {"role": "assistant", "usage": usage, "content": [
                    {"type": "redacted_thinking", "data": "x"}, inline,
                    {"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "t"},
                    {"type": "odd"}]},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"function": {}}, {"function": {"name": "x", "arguments": "not json"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone"}]},
            ],
        }
    )  # fmt: skip
    assert outline(found) == [
        "user image: image/png", "user image: image/png", "user image: image/png",
        "user text: see", "assistant thinking: hm", "assistant text: t",
        'assistant tool_use: {"input": "not json"}',
    ]  # fmt: skip
    assert found.messages[-2]["message"]["usage"]["input_tokens"] == 5
    assert found.tally.losses == {
        INSTRUCTIONS: 1,
        NO_TEXT: 1,
        "encrypted thinking": 1,
        LONE_RESULT: 1,
    }


def test_a_session_that_begins_with_a_compaction_begins_with_its_summary() -> None:
    head = {"type": "session", "id": "s"}
    told = of_pi(
        head,
        {"type": "compaction", "summary": "so far"},
        {"type": "branch_summary", "summary": "left"},
    )
    assert outline(told) == ["user (meta) text: so far", "user (meta) text: left"]
    assert not pi.recognizes(of_lines({"type": "session"}))
    assert not pi.recognizes(of_lines(head, {"type": "turn/start"}))


def test_a_rejected_item_is_left_out_after_all() -> None:
    tally = ItemTally(kept=2)
    tally.reject("invalid", 1)
    assert (tally.kept, tally.left_out, tally.items) == (1, {"invalid": 1}, 2)


def test_branches_of_pi_hang_on_their_own_message() -> None:
    found = of_pi(*tree())
    first, left, thought = (message["uuid"] for message in found.messages[:3])
    assert found.parents == {thought: first}
    assert left not in found.parents


def test_what_a_compaction_of_pi_kept_stays_after_its_summary() -> None:
    def entry(id_: str, parent: str | None, kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "id": id_, "parentId": parent, "timestamp": AT, **more}

    found = of_pi(
        {"type": "session", "id": "s"},
        entry("1", None, "message", message={"role": "user", "content": "one"}),
        entry("2", "1", "message", message={"role": "user", "content": "two"}),
        entry("3", "2", "compaction", summary="so far", firstKeptEntryId="2"),
    )
    boundary, summary = found.messages[-2:]
    segment = boundary["compactMetadata"]["preservedSegment"]
    assert segment["headUuid"] == segment["tailUuid"] == found.messages[1]["uuid"]
    assert segment["anchorUuid"] == summary["uuid"]


def test_what_a_subagents_talk_loses_is_counted_with_the_sessions_own() -> None:
    talk = [{"role": "user", "content": "dig"}, {"role": "narrator", "content": "x"}]
    given = {"messages": talk, "agents": [{"agentId": "a7", "messages": talk}]}
    found = of_one_file(given)
    assert [helper.agent_id for helper in found.agents] == ["a7"]
    assert found.tally.left_out == {"message with role narrator": 2}


def test_times_are_written_our_way() -> None:
    build = Builder("x", "", lambda: "")
    assert build.time(None) == "1970-01-01T00:00:00.000Z"
    assert build.time("2026-01-02T03:04:05Z") == "2026-01-02T03:04:05.000Z"
    assert build.time("2026-01-02T03:04:05.1234567+00:00") == "2026-01-02T03:04:05.123Z"
    assert build.time("yesterday") == "2026-01-02T03:04:05.123Z"
    assert build.time("2026-01-02T03:04:05+02:00") == "2026-01-02T01:04:05.000Z"
    assert build.time("2026-01-02 03:04:05") == "2026-01-02T03:04:05.000Z"
    for unit in (1, 1_000, 1_000_000, 1_000_000_000):
        assert build.time(1_767_323_045 * unit) == "2026-01-02T03:04:05.000Z"
    assert build.time(5) == "2026-01-02T03:04:05.000Z"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["text", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "message", "payload", "text", "id", "call_id", "name",
                 "input", "uuid", "timestamp", "output", "arguments", "usage", "cost", "git"]
            ),
            inner | st.sampled_from(
                ["user", "assistant", "toolResult", "message", "response_item", "function_call",
                 "tool_use", "tool_result", "thinking", "toolCall", "session_meta", "compaction"]
            ),
            max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.no_cover
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["type", "message", "payload", "id"]), ANY), max_size=5
    )
)
def test_no_line_of_any_shape_breaks_an_import(found: list[dict[str, Any]]) -> None:
    for converted in (
        of_codex(rollout()[0], *found),
        of_pi({"type": "session", "id": "x"}, *found),
        of_one_file({"messages": found}),
    ):
        assert_sound(converted.messages)


def assert_sound(messages: Iterable[dict[str, Any]]) -> None:
    for message in messages:
        assert not [f for f in find_faults(message) if "said by" not in f], message


def test_an_imported_session_is_as_old_as_its_last_message(tmp_path: Path) -> None:
    """Otherwise `--continue` would continue what another program did months ago."""
    plan = {"scenario": 1, "answers": [{"text": "Fine.", "times": "always"}]}
    with serving(plan) as server:
        assert clew(tmp_path, server.url, "-p", "my own work").stdout == "Fine.\n"
        other = tmp_path / "rollout.jsonl"
        other.write_bytes(lines(*rollout(str(tmp_path / "work"))))
        done = clew(tmp_path, server.url, "sessions", "import", str(other))
        assert done.returncode == 0, done.stderr
        listed = clew(tmp_path, server.url, "sessions", "list").stdout.splitlines()
        assert [line.split()[1] for line in listed][1:] == [AT[:10]]
        assert listed[0].endswith("my own work")
        done = clew(tmp_path, server.url, "-p", "--continue", "more")
        assert done.stdout == "Fine.\n"
        assert "my own work" in json.dumps(server.requests[-1].body["messages"])
