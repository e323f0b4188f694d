"""Lines to entries and back: every byte that nobody changed stays, and no line is fatal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.messages import factories
from clew.messages.errors import MisuseError
from clew.messages.kinds import KINDS
from clew.messages.messages import User
from clew.transcript.entries import (
    CLEANED,
    Entry,
    Keys,
    Rejected,
    Writer,
    cleaned,
    encode,
    is_chain_participant,
    is_ephemeral_progress,
    is_transcript_message,
    parse,
    placed,
    scan,
)
from tests.requirements import requirement

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
objects = st.dictionaries(st.text(), values)


def entry(line: bytes) -> Entry:
    found = parse(line, 1)
    assert isinstance(found, Entry), found
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


def test_a_new_member_goes_behind_the_last() -> None:
    assert entry(b'{"a":1 }').replaced("b", 2).raw == b'{"a":1,"b":2 }'
    assert entry(b"{ }").replaced("b", 2).raw == b'{"b":2 }'


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"{oops", b"[1]", b"\0" * 512, b'{"a":1}{"b":2}', b"7"]
)
def test_a_line_that_is_no_entry_is_a_value_with_its_number_and_reason(line: bytes) -> None:
    for found in (parse(line, 7), scan(line, 7)):
        assert isinstance(found, Rejected)
        assert (found.number, found.raw) == (7, line)
        assert found.reason


def test_the_keys_are_read_without_the_rest() -> None:
    keys = scan(b'{"type":"user","uuid":"u","parentUuid":null,"isSidechain":true,"x":"\xff"}')
    assert isinstance(keys, Keys)
    assert (keys.type, keys.uuid, keys.parent_uuid, keys.is_sidechain) == ("user", "u", None, True)


def test_the_view_of_an_entry_is_made_once_and_names_its_fields() -> None:
    user = entry(b'{"type":"user","uuid":"u","message":{"role":"user","content":"hello"}}')
    assert isinstance(user.view, User)
    assert user.view is user.view
    assert user.view.text == "hello"


def test_only_the_four_kinds_of_the_conversation_are_its_messages_and_parents() -> None:
    talk = {"user", "assistant", "attachment", "system"}
    for kind in (*KINDS, "hologram", None):
        assert is_transcript_message(kind) == is_chain_participant(kind) == (kind in talk)
    assert is_ephemeral_progress({"type": "progress", "uuid": "u", "data": {}})
    assert not is_ephemeral_progress({"type": "user"})


@requirement("R262")
def test_cleaning_takes_out_what_its_table_names_and_pointers_only_when_they_dangle() -> None:
    message = {"type": "user", "uuid": "u", "custom": 1, "sourceToolAssistantUUID": "a"}
    live = message | {key: 1 for key in CLEANED if key != "sourceToolAssistantUUID"}
    assert cleaned(live, {"a"}) == message
    assert "sourceToolAssistantUUID" not in cleaned(live, {"b"})


def test_a_message_takes_its_place_on_the_chain() -> None:
    message = factories.user("hi", uuid="u", at="2026-01-31T12:00:00.000Z")
    writer = Writer(session_id="s", cwd="/p", version="0.1.0", agent_id="a1", team_name="t")
    line = placed(message, parent_uuid="p", writer=writer)
    assert (line["parentUuid"], line["isSidechain"], line["agentId"]) == ("p", True, "a1")
    assert "agentName" not in line
    with pytest.raises(MisuseError):
        placed({"type": "progress"}, parent_uuid=None, writer=writer)


def test_the_entry_shows_itself_in_one_short_line() -> None:
    assert repr(entry(b'{"a":1}')) == "<Entry 1, 7 bytes>"
    assert Entry(b'{"a":1}').data == {"a": 1}


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
