"""Every line of a host is a value: understood, ignored, or malformed with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.wire import (
    ControlRequest,
    HostAnswer,
    IgnoredLine,
    MalformedLine,
    Said,
    WithdrawnRequest,
    read_line,
)


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def words(*blocks: Any) -> bytes:
    return line(type="user", message={"role": "user", "content": list(blocks)})


def test_a_prompt_is_text_or_blocks_with_what_the_host_says_of_it() -> None:
    said = read_line(line(type="user", message={"role": "user", "content": "hi"}))
    assert said == Said(content="hi")
    said = read_line(
        line(
            type="user",
            message={"role": "user", "content": [{"type": "text", "text": "hi"}]},
            uuid="11111111-1111-4111-8111-111111111111",
            origin={"kind": "human"},
            isSynthetic=True,
            client_composed=True,
            shouldQuery=False,
        )
    )
    assert said == Said(
        content=[{"type": "text", "text": "hi"}],
        uuid="11111111-1111-4111-8111-111111111111",
        origin={"kind": "human"},
        is_synthetic=True,
        is_verbatim=True,
        asks=False,
    )
    assert read_line(
        line(type="user", message={"role": "user", "content": "x"}, uuid="mine", origin="me")
    ) == Said(content="x")


@pytest.mark.parametrize(
    ("given_line", "why"),
    [
        (b"{half", "invalid JSON"),
        (b"\xff\xfe", "invalid JSON"),
        (b"[1]", "JSON object"),
        (b'"text"', "JSON object"),
        (line(type="user"), "message"),
        (line(type="user", message={"content": "x"}), "role"),
        (line(type="user", message={"role": "user"}), "content"),
        (line(type="user", message={"role": "user", "content": ["x"]}), "type"),
        (words({"type": 5}), "type"),
        (words({"type": "text", "text": 5}), "text"),
        (words({"type": "tool_use", "id": "t", "name": "n", "input": {}}), "tool_use"),
        (words({"type": "thinking", "thinking": "x"}), "thinking"),
        (words({"type": "tool_result"}), "tool_result without tool_use_id"),
        (line(type="control_request"), "request_id"),
        (line(type="control_request", request_id="r"), "subtype"),
        (line(type="control_request", request_id="r", request={"subtype": 3}), "subtype"),
        (b"[" * 200_000, "invalid JSON"),
    ],
)
def test_what_cannot_be_understood_says_why(given_line: bytes, why: str) -> None:
    found = read_line(given_line)
    assert isinstance(found, MalformedLine)
    assert why in found.why
    assert len(found.why) < 1000


def test_requests_answers_and_withdrawals_carry_their_ids() -> None:
    assert read_line(
        line(type="control_request", request_id="r", request={"subtype": "interrupt"})
    ) == ControlRequest(request_id="r", subtype="interrupt", fields={"subtype": "interrupt"})
    success = {"subtype": "success", "request_id": "r", "response": {"a": 1}}
    answer = read_line(line(type="control_response", response=success))
    assert answer == HostAnswer(request_id="r", response={"a": 1})
    bare = read_line(line(type="control_response", response=success | {"response": None}))
    assert bare == HostAnswer(request_id="r", response={})
    failed = {"subtype": "error", "request_id": "r", "error": "no"}
    answer = read_line(line(type="control_response", response=failed))
    assert answer == HostAnswer(request_id="r", response={}, error="no")
    answer = read_line(line(type="control_response", response=failed | {"error": 3}))
    assert isinstance(answer, HostAnswer)
    assert answer.error
    withdrawn = read_line(line(type="control_cancel_request", request_id="r"))
    assert withdrawn == WithdrawnRequest(request_id="r")


@pytest.mark.parametrize(
    "given_line",
    [
        b"",
        b"  \t",
        line(type="keep_alive"),
        line(type="assistant", message={}),
        line(kind="of a later version"),
        line(type="control_response"),
        line(type="control_response", response={"subtype": "success"}),
        line(type="control_cancel_request"),
    ],
)
def test_what_asks_for_nothing_is_ignored(given_line: bytes) -> None:
    assert read_line(given_line) == IgnoredLine()


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    read_line(data)


def test_a_line_of_megabytes_is_read() -> None:
    said = read_line(line(type="user", message={"role": "user", "content": "x" * 5_000_000}))
    assert isinstance(said, Said)
    assert len(said.content) == 5_000_000


def test_words_in_which_a_command_may_stand_are_those_of_a_user() -> None:
    assert Said(content="/help").typed == "/help"
    assert Said(content=[{"type": "text", "text": "/help"}]).typed == "/help"
    assert Said(content="/help", is_verbatim=True).typed is None
    assert Said(content=[{"type": "image"}]).typed is None
    assert (
        Said(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).typed is None
    )
