"""The pieces of a program's own provider become a complete message."""

from typing import Any

import pytest

from clew.core.json_object import Json
from clew.core.stream.accumulate import Accumulator
from clew.core.stream.pieces import PieceError, PieceWriter


def write(*pieces: Any) -> list[Json]:
    writer = PieceWriter(message_id="msg_1", model="own")
    return [event for piece in pieces for event in writer.feed(piece)] + writer.close()


def message_of(events: list[Json]) -> Json:
    accumulator = Accumulator(new_tool_id=lambda: "toolu_1")
    for event in events:
        accumulator.feed(event)
    accumulator.close()
    assert accumulator.message is not None
    return accumulator.message


def test_text_and_blocks_become_a_message_in_their_order() -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    thought = {"type": "thinking", "thinking": "So.", "signature": "x"}
    other = {"type": "of_tomorrow", "a": 1}
    message = message_of(
        write(thought, "Hel", "lo", other, call, "Done", {"type": "usage", "output_tokens": 7})
    )
    assert message["id"] == "msg_1"
    assert message["model"] == "own"
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["output_tokens"] == 7
    kinds = [block["type"] for block in message["content"]]
    assert kinds == ["thinking", "text", "of_tomorrow", "tool_use", "text"]
    assert message["content"][0] == thought
    assert message["content"][1]["text"] == "Hello"
    assert message["content"][2] == other
    assert message["content"][3] == call | {"id": "toolu_1"}


def test_no_piece_at_all_is_an_empty_message() -> None:
    message = message_of(write())
    assert message["content"] == []
    assert message["stop_reason"] == "end_turn"


def test_own_events_pass_and_get_the_id_and_model_that_they_lack() -> None:
    own = write("words")
    start = {"type": "message_start", "message": own[0]["message"] | {"id": "", "model": None}}
    assert write(start, *own[1:]) == own
    kept = {"type": "message_start", "message": own[0]["message"] | {"id": "msg_2", "model": "m"}}
    assert write(kept, *own[1:])[0] == kept


@pytest.mark.parametrize("piece", [3, None, {}, {"type": 3}, b"words"])
def test_anything_else_is_refused(piece: object) -> None:
    with pytest.raises(PieceError, match="must yield text"):
        write(piece)


def test_an_empty_thought_has_no_deltas() -> None:
    message = message_of(write({"type": "text"}))
    assert message["content"] in ([], [{"type": "text", "text": ""}])
