"""JSON of any writer can be read, and every reader can read what clew writes."""

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.messages.encoding import decode, decode_lines, decode_object, encode, strip_marks

any_text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates included
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=8,
)


def deep(depth: int) -> bytes:
    return b'{"a":[' * depth + b'1 , "\\u00e9" ,{}, [ ] ' + b"]}" * depth


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        depth += 1
    return depth


@given(values)
def test_what_any_json_writer_wrote_is_read_and_can_be_written_again(value: Any) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        read = decode(written.encode("utf-8", "surrogatepass"))
        assert decode(encode(read)) == read or "Infinity" in written


@given(st.lists(values, max_size=4))
@example([{}, {}])
@example(["\ud800", 1])
def test_lines_that_are_read_together_say_what_each_says(several: list[Any]) -> None:
    lines = [json.dumps(value).encode() for value in several]
    found = decode_lines(b"\n".join(lines), len(lines))
    assert found is None or found == [decode(line) for line in lines]
    assert decode_lines(b"1 2", 1) is None


@given(values)
@example({"a\udc80": ["\ud83d\ude00", "\u2028\u2029\x85\x0b"], "b": {}, "c": [], "d": (1,)})
def test_what_is_written_is_one_line_of_valid_utf8_for_every_reader(value: Any) -> None:
    line = encode(value).decode("utf-8")
    assert len(line.splitlines()) == 1
    json.loads(line)
    assert ": " not in encode({"a": {"b": 1, "c": [1, 2]}}).decode()


def test_lone_surrogates_read_as_the_replacement_character_and_pairs_as_their_character() -> None:
    line = rb'{"a":"\ud800 \\ud800 \ud83d\ude00 \udc00\" \u00e9","\ud800":1}'
    assert decode(line) == {"a": '\ufffd \\ud800 \U0001f600 \ufffd" é', "\ufffd": 1}


def test_a_pair_of_surrogates_in_a_string_is_written_as_its_character() -> None:
    assert encode(["\ud83d\ude00", "\ud800"]) == '["\U0001f600","\ufffd"]'.encode()


def test_bad_utf8_reads_as_the_replacement_character() -> None:
    assert decode(b'{"a":"x\xffy"}') == {"a": "x\ufffdy"}


def test_control_characters_in_a_string_are_read() -> None:
    assert decode(b'{"a":"x\0\x01\ty"}') == {"a": "x\0\x01\ty"}


@pytest.mark.parametrize("around", [b"\0", b"\xef\xbb\xbf", b" \r", b"\0\0 \xef\xbb\xbf \0"])
def test_marks_around_a_value_are_passed_over(around: bytes) -> None:
    assert decode(around + b'{"a":1}' + around.replace(b"\xef\xbb\xbf", b"")) == {"a": 1}
    assert strip_marks(around) == b""


def test_integers_of_any_length_are_read() -> None:
    assert decode(b'{"a":-123456789012345678901234567890}') == {
        "a": -(123456789012345678901234567890)
    }
    assert decode(b"[" + b"1" * 4300 + b"]") == [int("1" * 4300)]
    for written in (b"1" * 5000, b"-" + b"2" * 5000, b"1E+400", b"-1.5E+999"):
        assert encode(decode(b'{"n":[%b]}' % written)) == b'{"n":[%b]}' % written
    assert encode(decode(b"[1e400]"), beyond_double="string") == b'["1E+400"]'
    assert decode(b"[1e99999999999999999999]") == [None]  # beyond everybody's idea of a number
    assert encode(math.inf) == encode(math.nan) == b"null"


@pytest.mark.no_cover
@pytest.mark.parametrize("depth", [600, 2000, 20_000])
def test_depth_is_read_and_written(depth: int) -> None:
    assert 2 * depth > sys.getrecursionlimit()
    value = decode(deep(depth))
    assert depth_of(value) == 2 * depth
    assert encode(value) == deep(depth).replace(b" ", b"").replace(b"\\u00e9", "é".encode())


@pytest.mark.parametrize(
    "line",
    [b"", b" ", b"{", b"nul", b'{"a":1,}', b'{"a":1} 2', b'"\\q"', deep(2000)[:-1], deep(2000) + b"1",
     deep(2000)[:-2] + b"}", b"[" * 2000 + b'{"a" 1}', b"[" * 2000 + b"{7:1}", b"[" * 2000,
     b"[" * 2000 + b'{"a":1,"b"}'],
    ids=lambda line: repr(line[:12]),
)  # fmt: skip
def test_what_is_not_json_is_refused_as_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


def test_what_is_no_json_says_where_in_one_at() -> None:
    with pytest.raises(ValueError, match=r"^Unterminated string starting at character 5$"):
        decode(b'{"a":"b')


def test_several_members_at_any_depth_are_read() -> None:
    line = b'{"x":' + b"[" * 2000 + b'{"a":1,"b":{"c":[]}},2' + b"]" * 2000 + b',"y":7}'
    assert decode(line)["y"] == 7
    assert encode(decode(line)) == line


def test_a_line_that_holds_no_object_is_read_as_an_empty_one() -> None:
    assert decode_object(b'{"a": 1}') == {"a": 1}
    assert [decode_object(line) for line in (b'{"a"', b"[1]", b"")] == [{}, {}, {}]
