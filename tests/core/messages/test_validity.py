"""Faults of messages are found, and messages from factories have none."""

import itertools
from typing import Any

import pytest

from clew.core.messages import factories as make
from clew.core.messages.blocks import BLOCKS
from clew.core.messages.kinds import find_faults
from tests.requirements import requirement

AT = "2026-01-31T12:00:00.000Z"
UUID = "12345678-1234-4234-8234-123456789abc"
at: dict[str, Any] = {"uuid": UUID, "at": AT}
ANSWER = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [make.make_text("x")],
}


def answer(*content: dict[str, Any]) -> dict[str, Any]:
    message = ANSWER | {"content": list(content)}
    [first, *_] = make.make_assistant(message, uuids=itertools.repeat(UUID), at=AT, request_id="r")
    return first


@requirement("R079")
def test_what_the_factories_make_has_no_faults() -> None:
    for message in (
        make.make_user("", **at),
        make.make_tool_answer("t", "", source_uuid=None, **at),
        make.make_interruption(for_tool_use=False, **at),
        make.warning("x", **at),
        make.compact_summary("x", **at),
        make.compact_boundary(trigger="manual", pre_tokens=1, **at),
        answer(make.make_text("x")),
        answer(),
        make.synthetic_assistant("", message_id="m", **at),
        make.make_api_error("x", message_id="m", error="unknown", **at),
        make.make_system("turn_duration", **at),
        make.make_attachment({"type": "date"}, **at),
        make.progress("t", None, **at),
        make.stream_event({}),
    ):
        assert find_faults(message) == [], message


@requirement("R004", "R005")
@pytest.mark.parametrize(
    ("message", "change", "fault"),
    [
        (make.make_user("x", **at), {"uuid": "e1"}, "uuid"),
        (make.make_user("x", **at), {"timestamp": 5}, "timestamp"),
        (make.make_user("x", **at), {"timestamp": "yesterday"}, "timestamp"),
        (make.make_user("x", **at), {"attachment": {}}, '"attachment"'),
        (make.make_user("x", **at), {"data": {}}, '"data"'),
        (make.make_system("x", **at), {"message": {}}, '"message"'),
        (make.make_attachment({}, **at), {"message": {}}, '"message"'),
        (make.progress("t", {}, **at), {"attachment": {}}, '"attachment"'),
        ({"type": "attachment", "uuid": UUID, "timestamp": AT}, {}, '"attachment"'),
        ({"type": "progress", "uuid": UUID, "timestamp": AT}, {}, '"data"'),
        ({"type": "user", "uuid": UUID, "timestamp": AT}, {}, '"message"'),
        (make.make_user("x", **at), {"message": {"role": "assistant", "content": "x"}}, 'role "assistant"'),
        (make.make_user("x", **at), {"message": {"role": "user", "content": []}}, "content"),
        (make.make_user("x", **at), {"message": {"role": "user", "content": 5}}, "content"),
        (answer(make.make_text("x")), {"requestId": ""}, "requestId"),
        (answer(make.make_text("x")), {"message": ANSWER | {"id": ""}}, "message ID"),
        (answer(make.make_text("x")), {"message": ANSWER | {"usage": {}}}, "usage"),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_named(
    message: dict[str, Any], change: dict[str, Any], fault: str
) -> None:
    assert any(fault in found for found in find_faults(message | change))


@requirement("R030", "R031", "R032", "R033")
def test_each_side_says_only_its_blocks() -> None:
    blocks: dict[str, dict[str, Any]] = {
        "text": make.make_text("x"),
        "tool_use": {"type": "tool_use", "id": "t", "name": "Read", "input": {}},
        "tool_result": make.make_tool_result("t", [make.make_text("out")], is_error=True),
        "image": {
            "type": "image",
            "source": {"type": "base64", "data": "", "media_type": "image/png"},
        },
    }
    users = {tag for tag, b in blocks.items() if not find_faults(make.make_user([b], **at))}
    models = {tag for tag, b in blocks.items() if not find_faults(answer(b))}
    assert users == {"text", "tool_result", "image"}
    assert models == {"text", "tool_use"}
    inside = make.make_tool_result("t", [blocks["image"]])
    assert not find_faults(make.make_user([inside], **at))


@pytest.mark.parametrize(
    "block",
    [{"type": "tool_use", "id": "t", "name": "n"}, {"type": "tool_use", "name": "n", "input": {}},
     {"type": "tool_use", "id": "t", "input": {}}, {"type": "tool_use", "id": "t", "name": "n", "input": "{"}],
)  # fmt: skip
def test_a_call_without_id_name_or_input_is_named(block: dict[str, Any]) -> None:
    (fault,) = find_faults(answer(block))
    assert fault.startswith('"tool_use" block without ')


def test_a_result_without_call_or_content_is_named() -> None:
    for block in ({"tool_use_id": "t"}, {"content": "x"}):
        found = find_faults(make.make_user([{"type": "tool_result"} | block], **at))
        assert len(found) == 1
        assert found[0].startswith("tool_result without ")


@requirement("R034")
def test_text_and_calls_stream_and_images_do_not() -> None:
    streams = {tag for tag, block in BLOCKS.items() if block.streams}
    assert {"text", "tool_use", "thinking"} <= streams
    assert not streams & {"image", "document", "tool_result", "redacted_thinking", "video"}


def test_kinds_that_are_not_messages_have_no_faults() -> None:
    assert (
        find_faults({"type": "last-prompt"})
        == find_faults({"type": "hologram"})
        == find_faults({})
        == []
    )
