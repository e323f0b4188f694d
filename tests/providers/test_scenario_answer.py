"""From an answer to a response: message, events, errors, bodies as they stand."""

import json
from typing import Any

import pytest

from clew.testing.scenario import from_value
from clew.testing.scenario_answer import Renderer, ScriptedResponse
from clew.testing.scenario_rules import Player

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def reply(answer: dict[str, Any], *, stream: bool = True, **more: Any) -> ScriptedResponse:
    scenario = from_value({"scenario": 1, "answers": [answer], **more})
    return Renderer(scenario.defaults).reply(Player(scenario).choose({**ASK, "stream": stream}))


def events(reply: ScriptedResponse) -> list[dict[str, Any]]:
    return [json.loads(part.split(b"data: ", 1)[1]) for part in reply.parts]


def message(answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(reply(answer, stream=False, **more).parts[0])
    return value


def test_a_text_comes_in_deltas_between_start_and_stop() -> None:
    told = events(reply({"text": "Hello, wörld", "delta_chars": 8}))
    assert [e["type"] for e in told] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert told[0]["message"]["content"] == []
    assert told[0]["message"]["stop_reason"] is None
    assert told[0]["message"]["usage"]["output_tokens"] == 1
    assert told[3]["delta"] == {"type": "text_delta", "text": "Hello, w"}
    assert told[4]["delta"]["text"] == "örld"
    assert told[6]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_every_kind_of_block_opens_empty_and_is_filled() -> None:
    content = [
        {"text": ["ab", "c"], "citations": [{"type": "x"}]},
        {"thinking": "hm", "signature": "sig"},
        {"redacted_thinking": "data"},
        {"server_tool": "web_search", "input": {"query": "q"}},
        {"block": {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}},
        {"tool": "Bash", "input_json": ['{"a":', " 1}"]},
    ]
    told = events(reply({"content": content}))
    opened = [e["content_block"] for e in told if e["type"] == "content_block_start"]
    assert opened[0] == {"type": "text", "text": "", "citations": []}
    assert opened[1] == {"type": "thinking", "thinking": "", "signature": ""}
    assert opened[2] == {"type": "redacted_thinking", "data": "data"}
    assert opened[3]["type"] == "server_tool_use"
    assert opened[3]["id"] == "srvtoolu_001_0001_03"
    assert opened[4] == content[4]["block"]
    assert opened[5] == {
        "type": "tool_use",
        "id": "toolu_001_0001_05",
        "name": "Bash",
        "input": {},
    }
    deltas = [(e["index"], e["delta"]["type"]) for e in told if e["type"] == "content_block_delta"]
    assert deltas == [
        (0, "text_delta"),
        (0, "text_delta"),
        (0, "citations_delta"),
        (1, "thinking_delta"),
        (1, "signature_delta"),
        (3, "input_json_delta"),
        (3, "input_json_delta"),
        (5, "input_json_delta"),
        (5, "input_json_delta"),
    ]
    at_once = message({"content": content})
    assert at_once["stop_reason"] == "tool_use"
    assert at_once["content"][0]["text"] == "abc"
    assert at_once["content"][5]["input"] == {"a": 1}


@pytest.mark.parametrize(
    ("block", "value", "sent"),
    [
        ({}, {}, [""]),
        ({"input": {}}, {}, [""]),
        ({"input": [1, 2]}, [1, 2], ["[1,2]"]),
        ({"input": None}, None, ["null"]),
        ({"input_json": ""}, {}, [""]),
        ({"input_json": '{"cut": '}, '{"cut": ', ['{"cut": ']),
    ],
)
def test_tool_input_may_be_anything_and_nothing(block: Any, value: Any, sent: list[str]) -> None:
    answer = {"content": [{"tool": "T", **block}]}
    assert message(answer)["content"][0]["input"] == value
    told = [
        e["delta"]["partial_json"] for e in events(reply(answer)) if "delta" in e and "index" in e
    ]
    assert told == sent


def test_what_an_answer_says_wins_over_defaults_and_those_over_the_usual() -> None:
    defaults = {"model": "d", "usage": {"input_tokens": 7, "output_tokens": 8}, "delta_chars": 1}
    plain = message({"text": "ab"}, defaults=defaults)
    assert (plain["model"], plain["usage"]["input_tokens"]) == ("d", 7)
    said = {"text": "ab", "model": "e", "usage": {"output_tokens": 9}, "id": "msg_own"}
    said |= {"stop_reason": "stop_sequence", "stop_sequence": "b", "message": {"container": None}}
    own = message(said, defaults=defaults)
    assert (own["model"], own["id"], own["container"]) == ("e", "msg_own", None)
    assert own["usage"]["input_tokens"] == 7
    assert own["usage"]["output_tokens"] == 9
    assert (own["stop_reason"], own["stop_sequence"]) == ("stop_sequence", "b")
    assert message({"text": "ab"})["model"] == "m"
    assert len(events(reply({"text": "ab"}, defaults=defaults))) == 8


def test_an_empty_answer_has_no_blocks_and_no_output() -> None:
    told = events(reply({"content": []}))
    assert [e["type"] for e in told] == ["message_start", "message_delta", "message_stop"]
    assert told[1]["usage"]["output_tokens"] == 0


def test_the_same_answer_twice_has_the_same_deltas_and_other_ids() -> None:
    answer = {"content": [{"tool": "T", "input": {"a": 1}}], "times": "always"}
    scenario = from_value({"scenario": 1, "answers": [answer]})
    player, renderer = Player(scenario), Renderer(scenario.defaults)
    first, second = (events(renderer.reply(player.choose({**ASK, "stream": True}))) for _ in "ab")
    assert first[0]["message"]["id"] == "msg_001_0001"
    assert second[0]["message"]["id"] == "msg_001_0002"
    assert first[1]["content_block"]["id"] != second[1]["content_block"]["id"]
    assert first[2:] == second[2:]


@pytest.mark.parametrize(
    ("answer", "kind", "body"),
    [
        ({"body": "<html>"}, "text/plain", b"<html>"),
        ({"body": "<html>", "headers": {"Content-Type": "text/html"}}, "text/html", b"<html>"),
        ({"body_base64": "/w\n=="}, "application/octet-stream", b"\xff"),
        ({"body_json": None}, "application/json", b"null"),
        ({"events": ["data: {\n\n", {"type": "ping"}, {"x": 1}]}, "text/event-stream; charset=utf-8",
         b'data: {\n\nevent: ping\ndata: {"type":"ping"}\n\nevent: message\ndata: {"x":1}\n\n'),
    ],
)  # fmt: skip
def test_a_body_stands_as_it_is_written(answer: dict[str, Any], kind: str, body: bytes) -> None:
    got = reply(answer)
    assert dict(got.headers)["content-type"] == kind
    assert b"".join(got.parts) == body
    assert got.status == 200


def test_a_header_that_is_null_is_not_sent() -> None:
    got = reply({"text": "x", "headers": {"Content-Type": None, "request-id": None, "a": None}})
    assert got.headers == []


def test_a_whole_response_stands_as_it_is_written() -> None:
    assert reply({"http": "HTP/1.1 200\r\n\r\n"}).http == b"HTP/1.1 200\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 529}, {"type": "overloaded_error", "message": "Overloaded"}),
        ({"status": 418}, {"type": "api_error", "message": "scripted status 418"}),
        (
            {"status": 500, "error": {"type": "x"}},
            {"type": "x", "message": "Internal server error"},
        ),
    ],
)
def test_a_status_brings_the_usual_error(answer: dict[str, Any], error: dict[str, str]) -> None:
    got = reply({**answer, "headers": {"retry-after": 2}})
    value = {"type": "error", "error": error, "request_id": "req_0001"}
    assert json.loads(got.parts[0]) == value
    assert got.status == answer["status"]
    assert dict(got.headers)["retry-after"] == "2"


def test_no_answer_is_a_400_that_nobody_retries() -> None:
    got = reply({"when": {"user": "never"}, "text": "x"})
    assert got.status == 400
    assert json.loads(got.parts[0])["error"]["type"] == "invalid_request_error"


def test_tokens_are_said_or_estimated_or_refused() -> None:
    def count(*answers: dict[str, Any]) -> ScriptedResponse:
        groups = {"count_tokens": list(answers)} if answers else {}
        scenario = from_value({"scenario": 1, **groups})
        return Renderer(scenario.defaults).count(Player(scenario).choose(ASK, "count_tokens"))

    assert json.loads(count({"input_tokens": 12}).parts[0]) == {"input_tokens": 12}
    assert json.loads(count().parts[0])["input_tokens"] > 5
    assert count({"status": 529}).status == 529
    assert count({"body": "seven"}).parts == [b"seven"]
    assert count({"when": {"user": "z"}, "input_tokens": 1}).status == 400
