"""Laws over lines of any origin: read or named, kept, never fatal."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.messages.kinds import view_entry
from clew.core.messages.views import fields
from clew.record.transcript.entries import (
    Keys,
    RejectedLine,
    TranscriptLine,
    encode,
    parse,
    scan,
    scan_block,
)

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.jsonl"))
LINES = [line for path in GOLDEN for line in path.read_bytes().split(b"\n") if line]
NASTY = [
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", rb"\ud800", rb"\udc00", rb"\u0000", b'"', b"\\",
    b"{", b"}", b"[", b"]", b",", b":", b"9" * 30, b"9" * 5000, b"-", b"1e999", b"NaN", b"null", b"\x85",
    b"\x01", b'"uuid":"again",', b'"type":7,', b"\r", b" ",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A golden line with a few bytes changed, dropped, doubled or put in."""
    line = bytearray(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        to = min(len(line), at + draw(st.integers(0, 5)))
        line[at:to] = draw(
            st.sampled_from(NASTY) | st.binary(max_size=4) | st.just(line[at:to] * 2)
        )
    return bytes(line)


def hold(line: bytes) -> None:
    """What is true of every line."""
    entry, keys = parse(line, 3), scan(line, 3)
    if isinstance(entry, RejectedLine):
        # A scan passes over what it does not need; it may find keys where a full reading fails.
        assert (entry.number, entry.raw) == (3, line)
        assert entry.reason
        assert isinstance(keys, Keys | RejectedLine)
        return
    assert isinstance(keys, Keys)
    assert entry.raw == line
    expected = entry.data.get("uuid")
    assert keys.uuid == (expected if isinstance(expected, str) else None)
    shown = view_entry(entry.data)
    for name in fields(type(shown)):
        getattr(shown, name)
    assert repr(shown).isprintable()
    encode(entry.data).decode("utf-8")
    changed = entry.replaced("sessionId", "other")
    assert changed.data["sessionId"] == "other"
    assert changed.replaced("sessionId", "other").raw == changed.raw


@given(damaged())
def test_damaged_lines_are_read_or_named_and_kept(line: bytes) -> None:
    hold(line)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_named_and_kept(line: bytes) -> None:
    hold(line)


# What could be taken for a line where it is a part of one, or several.
PARTS = [
    b"", b"{}", b" {}", b"{} ", b"{}{}", b'{"a":', b'{"a":{"b":1}', b'{"b":1}}', b',{"b":1}', b'{"a":[{}', b"{}]}",
    b'{"uuid":"}', b'{"}', b'"}', b"[{}]", b"\r", b"{}\r", b"\0", b'{"message":"\xff"}', b'{"type":7}',
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS) | st.sampled_from(LINES) | damaged(), max_size=6))
@example([b'{"a":', b"{}}", b"{}{}"])
@example([b'{"a":{}', b"}", b"{}{}"])
def test_the_lines_of_a_block_are_what_each_is_by_itself(lines: list[bytes]) -> None:
    block = b"\n".join(lines)
    each = block.removesuffix(b"\n").split(b"\n") if block else []
    found = list(scan_block(block, 4))
    assert [block[start:end] for start, end, _ in found] == each
    assert [keys for _, _, keys in found] == [scan(line, 4 + n) for n, line in enumerate(each)]


@pytest.mark.laws
def test_every_golden_line_cut_or_struck_at_every_byte_is_read_or_named() -> None:
    chosen = random.Random(3).sample(LINES, 25)
    for line in chosen:
        for at in range(len(line)):
            hold(line[:at])
            hold(line[:at] + b"\xff" + line[at + 1 :])


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "broken", [b"", rb"\ud800", b"\xff"], ids=["whole", "surrogate", "bad-utf8"]
)
def test_a_line_of_fifty_megabytes_is_read_scanned_and_changed(broken: bytes) -> None:
    body = b"0123456789abcde\\n" * (50_000_000 // 17) + broken
    line = b'{"type":"user","uuid":"u","message":{"role":"user","content":"' + body + b'"},"z":1}'
    entry = parse(line)
    assert isinstance(entry, TranscriptLine)
    assert len(entry.data["message"]["content"]) > 45_000_000
    changed = entry.replaced("z", 2)
    assert len(changed.raw) == len(line)
    assert changed.raw.endswith(b',"z":2}')
    keys = scan(line)
    assert isinstance(keys, Keys)
    assert keys.uuid == "u"
    assert len(encode(entry.data)) > 45_000_000


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["k", "uuid", "a"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["k", "uuid", "type", "z"]), nested), nested, st.data())
def test_a_change_to_one_member_is_the_change_of_one_member(
    data: dict[str, Any], value: Any, draw: st.DataObject
) -> None:
    key = draw.draw(st.sampled_from(["k", "uuid", "new"]))
    for line in (json.dumps(data), json.dumps(data, ensure_ascii=False, indent=2)):
        entry = parse(line.encode())
        assert isinstance(entry, TranscriptLine)
        changed = parse(entry.replaced(key, value).raw)
        assert isinstance(changed, TranscriptLine)
        assert changed.data == data | {key: value}
        assert list(changed.data) == list(data | {key: value})
