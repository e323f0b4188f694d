"""The steps in which a response is sent, and the faults on the way."""

import gzip
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.testing.scenario import from_value
from clew.testing.scenario_answer import Renderer, ScriptedResponse
from clew.testing.scenario_rules import Player
from clew.testing.scenario_steps import Cut, Step, WaitStep, before_headers, steps

EVENTS = ["one\n\n", "two\n\n", "three\n\n"]
BODY = "".join(EVENTS).encode()


def reply(*faults: dict[str, Any], **send: Any) -> ScriptedResponse:
    answer = {"events": EVENTS, "faults": list(faults), "send": send}
    scenario = from_value({"scenario": 1, "answers": [answer]})
    return Renderer(scenario.defaults).reply(Player(scenario).choose({}))


def told(*faults: dict[str, Any], **send: Any) -> list[Step]:
    return list(steps(reply(*faults, **send)))


def sent(found: list[Step]) -> bytes:
    return b"".join(step for step in found if isinstance(step, bytes))


def test_without_faults_each_event_is_a_step() -> None:
    assert told() == [b"one\n\n", b"two\n\n", b"three\n\n"]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"after_events": 1, "cut": "close"}, [b"one\n\n", Cut("close")]),
        ({"after_bytes": 7, "cut": "reset"}, [b"one\n\n", b"tw", Cut("reset")]),
        ({"after_bytes": 0, "cut": "end"}, [Cut("end")]),
        ({"after_events": 99, "cut": "close"}, [b"one\n\n", b"two\n\n", b"three\n\n", Cut("close")]),
        ({"after_events": 2, "stall_s": "forever"}, [b"one\n\n", b"two\n\n", WaitStep(None), b"three\n\n"]),
        ({"after_events": 2, "stall_s": 0.5}, [b"one\n\n", b"two\n\n", WaitStep(0.5), b"three\n\n"]),
        ({"after_bytes": 1, "insert": "\0"}, [b"o", b"\0", b"ne\n\n", b"two\n\n", b"three\n\n"]),
        ({"after_bytes": 99, "insert_base64": "/w=="}, [b"one\n\n", b"two\n\n", b"three\n\n", b"\xff"]),
        (
            {"after_events": 1, "error": {"type": "overloaded_error"}},
            [b"one\n\n", b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"scripted error"}}\n\n'],
        ),
    ],
)  # fmt: skip
def test_a_fault_happens_at_its_place(fault: dict[str, Any], expected: list[Step]) -> None:
    assert told(fault) == expected


def test_several_faults_happen_in_the_order_of_their_places() -> None:
    found = told(
        {"after_bytes": 7, "cut": "close"},
        {"after_bytes": 2, "insert": "<"},
        {"after_bytes": 3, "stall_s": 0},
    )
    assert found == [b"on", b"<", b"e", WaitStep(0), b"\n\n", b"tw", Cut("close")]


def test_before_the_headers_there_may_be_silence_or_an_end() -> None:
    faults = ({"at": "headers", "stall_s": 1}, {"at": "headers", "cut": "close"})
    assert list(before_headers(reply(*faults, {"after_bytes": 0, "cut": "end"}))) == [
        WaitStep(1),
        Cut("close"),
    ]


@given(
    sizes=st.one_of(st.integers(1, 20), st.lists(st.integers(1, 6), max_size=6)),
    at=st.integers(0, 20),
)
def test_chunks_have_their_size_and_nothing_is_lost(sizes: int | list[int], at: int) -> None:
    found = told({"after_bytes": at, "stall_s": 0}, chunk_bytes=sizes)
    assert sent(found) == BODY
    assert found.count(WaitStep(0)) == 1
    before = sent(found[: found.index(WaitStep(0))])
    assert before == BODY[:at]
    if isinstance(sizes, int):
        assert all(len(s) <= sizes for s in found if isinstance(s, bytes))


def test_rates_are_waits() -> None:
    assert told(events_per_s=4)[:3] == [b"one\n\n", WaitStep(0.25), b"two\n\n"]
    assert told({"after_bytes": 0, "cut": "end"}, events_per_s=4) == [Cut("end")]
    assert told(bytes_per_s=10, chunk_bytes=5)[:3] == [b"one\n\n", WaitStep(0.5), b"two\n\n"]
    assert told(bytes_per_s=10) == [BODY, WaitStep(1.7)]


def test_gzip_is_whole_or_cut_short() -> None:
    assert gzip.decompress(sent(told(gzip=True))) == BODY
    assert told(gzip=True) == told(gzip=True), "no time stands in the header"
    found = told({"after_events": 1, "cut": "end"}, {"after_bytes": 0, "stall_s": 0}, gzip=True)
    assert found[0] == WaitStep(0)
    unpack = zlib.decompressobj(wbits=31)
    assert unpack.decompress(sent(found)) == b"one\n\n"
    assert not unpack.eof
    assert dict(reply(gzip=True).headers)["content-encoding"] == "gzip"


def test_an_empty_body_has_its_faults_too() -> None:
    scenario = from_value(
        {"scenario": 1, "answers": [{"body": "", "faults": [{"after_bytes": 3, "cut": "close"}]}]}
    )
    empty = Renderer(scenario.defaults).reply(Player(scenario).choose({}))
    assert list(steps(empty)) == [Cut("close")]
