"""Tool input in pieces: parsed strictly before a call runs, leniently for display."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.events import ToolUseReady
from clew.core.stream.json_pieces import InputBuffer, Preview, UnreadableInput
from tests.core.stream.streams import Json, objects
from tests.requirements import requirement


def buffer(*pieces: str) -> InputBuffer:
    made = InputBuffer()
    for piece in pieces:
        made.append(piece)
    return made


@requirement("R058", "R065", "W5")
@given(objects, st.booleans(), st.data())
def test_any_pieces_of_an_object_give_the_object(
    value: Json, ascii_only: bool, choices: st.DataObject
) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only)
    at = sorted(choices.draw(st.lists(st.integers(0, len(raw)))))
    pieces = [raw[a:b] for a, b in zip([0, *at], [*at, None], strict=True)]
    assert buffer(*pieces).finish() == value
    assert buffer(*raw).finish() == value


@requirement("W5")
@pytest.mark.parametrize("raw", ["", " ", "\n", "{}", " {} "])
def test_no_input_is_the_empty_object(raw: str) -> None:
    assert buffer(raw).finish() == {}
    assert buffer().finish() == {}


@requirement("R066", "R067", "R068", "W5", "C3")
@pytest.mark.parametrize(
    "raw",
    [
        '{"a":"b',
        '{"a":"b"',
        '{"command":"rm -rf /tmp/x/',
        '{"a":1}}',
        '{"a":1}{"b":2}',
        "{'a':1}",
        '{"a":1,}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":"\\ud83d"}',
        '{"a":"\ud83d"}',
        '{"a":"\x01"}',
        '{"a":' + "[" * 100_000,
        '{"a":' + "[" * 200 + "]" * 200 + "}",
        '{"a":' + "9" * 5000 + "}",
    ],
)
def test_what_is_not_whole_and_valid_is_never_an_input(raw: str) -> None:
    outcome = buffer(raw[:3], raw[3:]).finish()
    assert isinstance(outcome, UnreadableInput)
    assert outcome.reason == "invalid_json"
    assert outcome.message
    assert outcome.raw == raw.replace("\ud83d", "\ufffd")


@requirement("R066", "R067", "W5")
@pytest.mark.parametrize(
    ("raw", "kind"), [('"text"', "str"), ("[1]", "list"), ("12", "int"), ("null", "NoneType")]
)
def test_a_whole_value_that_is_no_object_is_never_an_input(raw: str, kind: str) -> None:
    outcome = buffer(raw).finish()
    assert isinstance(outcome, UnreadableInput)
    assert outcome.reason == "not_an_object"
    assert kind in outcome.message


@given(objects.filter(bool), st.data())
def test_no_proper_prefix_of_an_object_is_an_input(value: Json, choices: st.DataObject) -> None:
    raw = json.dumps(value)
    length = choices.draw(st.integers(1, len(raw) - 1))
    assert isinstance(buffer(raw[:length]).finish(), UnreadableInput)


def test_a_character_in_two_pieces_is_whole_again() -> None:
    assert buffer('{"a":"\ud83d', '\ude00"}').finish() == {"a": "😀"}


@requirement("R065", "R067", "C3")
def test_a_preview_shows_what_is_there_so_far() -> None:
    made = buffer('{"path":"/a/b', '.py","lines":[1,2')
    assert made.preview().value == {"path": "/a/b.py", "lines": [1, 2]}
    made.append(',3],"tail":"\ud83d')
    assert made.preview().value["lines"] == [1, 2, 3]
    assert made.preview() is made.preview()


def test_a_preview_of_what_is_no_json_is_the_one_before() -> None:
    made = buffer('{"a":1')
    assert made.preview().value == {"a": 1}
    made.append(',"b"}')
    assert made.preview().value == {"a": 1}
    assert buffer().preview() == Preview(value={}, characters=0)


def test_previews_together_read_a_bounded_multiple_of_the_input() -> None:
    made = buffer('{"content":"')
    read = 0
    before = made.preview()
    for _ in range(20_000):
        made.append("twelve chars")
        if (now := made.preview()) is not before:
            read += now.characters
            before = now
    assert read < 20 * before.characters


@requirement("C3", "R067")
def test_a_preview_and_what_may_run_are_different_types() -> None:
    assert set(Preview.__struct_fields__).isdisjoint(ToolUseReady.__struct_fields__)
    assert not issubclass(Preview, dict)


def test_whoever_shows_no_preview_does_not_load_its_parser() -> None:
    program = (
        "import sys\n"
        "from clew.core.stream.json_pieces import InputBuffer\n"
        "b = InputBuffer(); b.append('{}'); b.finish()\n"
        "assert 'jiter' not in sys.modules\n"
        "b.preview()\n"
        "assert 'jiter' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("levels", [200, 900, 5_000, 100_000])
def test_what_is_nested_too_deep_is_called_so_by_each_python(levels: int) -> None:
    said = buffer('{"a":' + "[" * levels + "]" * levels + "}").finish()
    assert isinstance(said, UnreadableInput)
    assert said.message == "nested deeper than 200 levels"
