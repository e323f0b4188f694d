"""Blocks that a model must not send become text; the complete block is kept next to it."""

from typing import Any

import pytest

from clew.core.messages import factories
from clew.core.messages.kinds import find_faults as faults_of
from clew.core.stream.events import BlockFinished, BlockStarted, StreamFault, TextDelta
from tests.core.stream.streams import (
    Json,
    answer,
    faults,
    finished,
    message_start,
    run,
    start,
    stop,
)
from tests.requirements import requirement

AT = "2026-01-31T12:00:00.000Z"
UUIDS = [f"12345678-1234-4234-8234-{n:012x}" for n in range(9)]

IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
}
RESULT: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}


def entries(message: Json) -> list[Json]:
    return factories.make_assistant(message, uuids=UUIDS, at=AT, request_id="r")


@requirement("R029", "R032", "R033")
@pytest.mark.parametrize("block", [IMAGE, RESULT, {"type": "document"}, {"type": "video"}])
def test_a_block_that_only_a_user_may_say_becomes_a_text_that_holds_it(block: Json) -> None:
    opening: Json = {"type": "content_block_start", "index": 0, "content_block": block}
    events = run(answer(opening, stop(0)))
    (kept,) = finished(events).message["content"]
    assert kept["type"] == "text"
    assert block["type"] in kept["text"]
    assert kept["unexpected"] == block
    assert [type(e) for e in events[1:5]] == [StreamFault, BlockStarted, TextDelta, BlockFinished]
    assert [faults_of(entry) for entry in entries(finished(events).message)] == [[]]


@pytest.mark.parametrize("block", [{"type": "hologram", "x": 1}, {"type": 5}, {}])
def test_a_kind_nobody_knows_yet_stays_as_it_came(block: Json) -> None:
    opening: Json = {"type": "content_block_start", "index": 0, "content_block": block}
    events = run(answer(opening, stop(0)))
    assert faults(events) == []
    assert finished(events).message["content"] == [block]


def test_an_image_whose_start_says_no_more_takes_no_delta_of_a_text() -> None:
    events = run(answer(start(0, "image"), stop(0)))
    assert faults(events) == ["foreign_block"]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ([5, "words", IMAGE, {"type": "tool_use", "id": "t", "name": "n", "input": {}}], 4),
        ([{"type": "text", "text": "words"}, {"type": "hologram"}], 2),
        ({"type": "text", "text": "words"}, 1),
        (5, 1),
    ],
)
def test_what_a_message_start_brought_along_can_be_recorded_and_calls_nothing(
    content: Any, kinds: int
) -> None:
    message = finished(run([message_start(content=content), *answer()[1:]])).message
    assert len(message["content"]) == kinds
    assert "tool_use" not in [block["type"] for block in message["content"]]
    assert [faults_of(entry) for entry in entries(message)] == [[]] * kinds
