"""Calls that a model writes as text become calls, in any pieces, and nothing else does."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.stream.accumulate import Accumulator
from clew.core.stream.text_tools import TextTools, to_text_messages, with_instructions

CALL = '```tool_call\n{"name": "Read", "input": {"file_path": "a`b"}}\n```'
OTHER = '```tool_call\n{"name": "Nobody", "input": {}}\n```'
READ = {"name": "Read", "input_schema": {"type": "object"}, "description": "Reads."}


def events(pieces: list[str], stopped: str = "end_turn") -> list[Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: Any = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    delta = {"type": "thinking_delta", "thinking": "hm"}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": thought},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": stopped, "stop_sequence": None},
         "usage": usage},
        {"type": "message_stop"},
    ]  # fmt: skip


def heard(*pieces: str, stopped: str = "end_turn") -> Any:
    tools, accumulator = (
        TextTools(frozenset({"Read"}), "call_"),
        Accumulator(new_tool_id=lambda: "x"),
    )
    for event in events(list(pieces), stopped):
        for made in tools.take(event):
            accumulator.feed(made)
    assert accumulator.state == "finished"
    assert accumulator.message is not None
    return accumulator.message


def blocks(message: Any) -> list[Any]:
    return [
        block.get("text") if block["type"] == "text" else (block["name"], block["input"])
        for block in message["content"]
        if block["type"] != "thinking"
    ]


READS = ("Read", {"file_path": "a`b"})


@pytest.mark.parametrize(
    ("text", "expected", "stopped"),
    [
        ("Hello `world`.", ["Hello `world`."], "end_turn"),
        (f"I look.\n{CALL}", ["I look.", READS], "tool_use"),
        (CALL, [READS], "tool_use"),
        (f"{CALL}\n{CALL}", [READS, READS], "tool_use"),
        (f"{CALL}\nDone?", [READS, "\nDone?"], "tool_use"),
        (CALL.removesuffix("\n```"), [READS], "tool_use"),
        (OTHER, [OTHER], "end_turn"),
        ("```tool_call\nnot json\n```", ["```tool_call\nnot json\n```"], "end_turn"),
        ("```tool_call\n[1]\n```", ["```tool_call\n[1]\n```"], "end_turn"),
        ("```tool", ["```tool"], "end_turn"),
        ("", [], "end_turn"),
    ],
)
def test_text_with_calls(text: str, expected: list[Any], stopped: str) -> None:
    message = heard(text)
    assert blocks(message) == expected
    assert message["stop_reason"] == stopped


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=8))
def test_every_cut_gives_the_same_blocks(cuts: list[int]) -> None:
    text = f"Ä look at `x`:\n{CALL}\n{OTHER}\nand {CALL}"
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert blocks(heard(*pieces)) == blocks(heard(text))


def test_an_answer_that_was_cut_says_so() -> None:
    assert heard(CALL, stopped="max_tokens")["stop_reason"] == "max_tokens"


def test_a_history_is_written_as_text() -> None:
    messages: list[Any] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "alpha"},
            {"type": "tool_result", "tool_use_id": "c2", "is_error": True,
             "content": [{"type": "text", "text": "no"}]},
            {"type": "tool_result", "tool_use_id": "c3"},
        ]},
    ]  # fmt: skip
    told = to_text_messages(messages)
    assert told[0] == messages[0]
    assert '{"name":"Read","input":{"file_path":"a"}}' in told[1]["content"][1]["text"]
    texts = [block["text"] for block in told[2]["content"]]
    assert texts == ["Result of Read:", "alpha", "Result of the tool (failed):", "no",
                     "Result of the tool:", "(empty)"]  # fmt: skip
    assert "- Read: Reads." in str(with_instructions(None, [READ]))
    assert str(with_instructions("Be kind.", [READ])).startswith("Be kind.")
    assert len(with_instructions([{"type": "text", "text": "a"}], [READ])) == 2
