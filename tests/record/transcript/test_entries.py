"""Lines to entries and back: every byte that nobody changed stays, and no line is fatal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages.messages import UserMessage
from clew.record.transcript.entries import Keys, RejectedLine, TranscriptLine, encode, parse, scan

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=8), values, max_size=5)


def entry(line: bytes) -> TranscriptLine:
    found = parse(line, 1)
    assert isinstance(found, TranscriptLine), found
    return found


@given(objects)
def test_an_entry_is_written_back_as_it_came_however_it_was_spelled(data: dict[str, Any]) -> None:
    for line in (
        json.dumps(data).encode(),
        json.dumps(data, indent=1).replace("\n", "\r").encode(),
        json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    ):
        assert entry(line).raw == line


@given(objects)
def test_encoding_and_decoding_agree(data: dict[str, Any]) -> None:
    assert entry(encode(data)).data == entry(json.dumps(data).encode()).data


def test_a_changed_member_leaves_every_other_byte_alone() -> None:
    line = b' { "a" : {"key":1} ,"key" : [ "x", {"key":2} ]\t, "\\u006bey":3 , "z": "key\\":" } '
    changed = entry(line).replaced("key", {"new": "é"})
    assert changed.raw == line.replace(b":3 ", b':{"new":"\xc3\xa9"} ')
    assert changed.data["key"] == {"new": "é"}


def test_a_new_member_goes_after_the_last() -> None:
    assert entry(b'{"a":1 } ').replaced("b", 2).raw == b'{"a":1 ,"b":2} '
    assert entry(b"{ }").replaced("b", 2).raw == b'{ "b":2}'


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"{oops", b"[1]", b"\0" * 512, b'{"a":1}{"b":2}', b"7"]
)
def test_a_line_that_is_no_entry_is_a_value_with_its_number_and_reason(line: bytes) -> None:
    for found in (parse(line, 7), scan(line, 7)):
        assert isinstance(found, RejectedLine)
        assert (found.number, found.raw) == (7, line)
        assert found.reason


def test_the_keys_are_read_without_the_rest() -> None:
    keys = scan(b'{"type":"user","uuid":"u","parentUuid":null,"isSidechain":true,"x":"\xff"}')
    assert isinstance(keys, Keys)
    assert (keys.type, keys.uuid, keys.parent_uuid, keys.is_sidechain) == ("user", "u", None, True)


def test_the_view_of_an_entry_is_made_once_and_names_its_fields() -> None:
    user = entry(b'{"type":"user","uuid":"u","message":{"role":"user","content":"hello"}}')
    assert isinstance(user.view, UserMessage)
    assert user.view is user.view
    assert user.view.text == "hello"


def test_the_entry_shows_itself_in_one_short_line() -> None:
    assert repr(entry(b'{"a":1}')) == "<Entry 1, 7 bytes>"
    assert TranscriptLine(b'{"a":1}').data == {"a": 1}


@pytest.mark.parametrize("strange", [b"5", b"[]", b'"x\\ud800"', b"{}", b"1e999"])
def test_a_key_of_an_unexpected_type_reads_as_absent_and_the_others_stay(strange: bytes) -> None:
    keys = scan(b'{"type":"user","uuid":' + strange + b',"isMeta":true,"isSidechain":"yes"}')
    assert isinstance(keys, Keys)
    assert keys.uuid == ("x\ufffd" if b"x" in strange else None)
    assert (keys.type, keys.is_meta, keys.is_sidechain) == ("user", True, False)
    assert scan(b'{"uuid":"x"}') == Keys(uuid="x")


def test_a_change_finds_its_member_in_deep_and_broken_lines() -> None:
    deep = b'[{"b":' * 2000 + b"[]" + b"}]" * 2000
    line = b'\0{"a":' + deep + b',"b":"\xff\\"}","c":3}\0'
    changed = entry(line).replaced("c", 4)
    assert changed.raw == line.replace(b'"c":3', b'"c":4')
    assert changed.data["c"] == 4


# Spellings of one key and values of all kinds, so that duplicates, nesting and escapes meet.
KEY_SPELLINGS = ['"k"', '"\\u006b"', '"\\u006B"']
JSON_VALUES = [
    "1", "12", "-0.5e3", "null", "true", '"k"', '"\\"k\\":1"', '"\\\\"', "[]", "{}", '["k",{"k":1}]',
    '{"k":{"\\u006b":[1,"]"]}}', '"}"', '"say \\"k"', "1234567890123456789012345", '"\u2028"',
]  # fmt: skip
spaces = st.sampled_from(["", " ", "\t", " \r "])
spelled_members = st.tuples(
    st.sampled_from([*KEY_SPELLINGS, '"other"', '"a/b"', '"a\\/b"', '""']),
    st.sampled_from(JSON_VALUES),
    spaces,
    spaces,
)


@given(
    spelled=st.lists(spelled_members, max_size=6),
    key=st.sampled_from(["k", "a/b", "new", ""]),
    value=values,
    around=st.sampled_from([("", ""), ("\0 \ufeff", "\0"), (" ", " \r")]),
)
def test_splicing_sets_the_member_that_counts_and_keeps_every_other_byte(
    spelled: list[tuple[str, str, str, str]], key: str, value: Any, around: tuple[str, str]
) -> None:
    parts = [(f"{a}{name}{b}:{a}", text, b) for name, text, a, b in spelled]
    line = f"{around[0]}{{" + ",".join("".join(part) for part in parts) + "}" + around[1]
    before = entry(line.encode())
    after = before.replaced(key, value)
    written = encode(value).decode()
    counting = [n for n, part in enumerate(spelled) if json.loads(part[0]) == key]
    if counting:
        name, _, space = parts[counting[-1]]
        parts[counting[-1]] = (name, written, space)
        expected = f"{around[0]}{{" + ",".join("".join(part) for part in parts) + "}" + around[1]
    else:
        member = f"{',' if parts else ''}{encode(key).decode()}:{written}}}"
        expected = line[: line.rindex("}")] + member + line[line.rindex("}") + 1 :]
    assert after.raw == expected.encode()
    assert after.data == before.data | {key: entry(encode({"v": value})).data["v"]}
