"""AWS event-stream frames.

The same result as botocore, for any split; an invalid frame is a value.
"""

import struct
from binascii import crc32
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from clew.core.stream.aws_frames import Frame, FrameDecoder
from clew.core.stream.events import StreamFault
from tests.core.stream.frames import event_frame, frame, header, header_sets
from tests.core.stream.streams import cut, faults
from tests.requirements import requirement


def decode(*chunks: bytes, limit: int | None = None) -> list[Frame | StreamFault]:
    decoder = FrameDecoder(max_frame_bytes=limit)
    return [out for chunk in chunks for out in decoder.feed(chunk)] + decoder.close()


def by_botocore(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


@requirement("W3")
@given(st.lists(st.tuples(header_sets, st.binary(max_size=50)), max_size=4), st.data())
def test_frames_of_all_header_types_read_as_botocore_reads_them(
    frames: list[tuple[dict[str, tuple[int, Any]], bytes]], choices: st.DataObject
) -> None:
    data = b"".join(
        frame(b"".join(header(name, *typed) for name, typed in headers.items()), payload)
        for headers, payload in frames
    )
    at = choices.draw(st.lists(st.integers(0, len(data))))
    found = decode(*cut(data, at))
    assert [(f.headers, f.payload) for f in found if isinstance(f, Frame)] == by_botocore(data)
    assert decode(*(data[i : i + 1] for i in range(len(data)))) == found == decode(data)


@given(st.integers(0, 200), st.integers(0, 7))
def test_one_wrong_bit_anywhere_is_found(position: int, bit: int) -> None:
    first, second = event_frame(b"{}" * 30), event_frame(b"later")
    position %= len(first)
    damaged = bytearray(first)
    damaged[position] ^= 1 << bit
    found = decode(bytes(damaged) + second)
    assert faults(found) == ["bad_frame"]
    assert len(found) == 1


def test_what_came_before_a_bad_frame_is_kept_and_nothing_after_it_is_believed() -> None:
    good = event_frame(b"1")
    found = decode(good + good[:-1] + bytes([good[-1] ^ 1]) + good)
    assert [type(f) for f in found] == [Frame, StreamFault]


@pytest.mark.parametrize(("size", "headers_size"), [(15, 0), (0, 0), (16, 1), (40, 2**32 - 1)])
def test_lengths_that_contradict_each_other_are_a_fault(size: int, headers_size: int) -> None:
    prelude = struct.pack(">II", size, headers_size)
    assert faults(decode(prelude + struct.pack(">I", crc32(prelude)))) == ["bad_frame"]


def test_a_length_beyond_the_end_is_an_unfinished_frame() -> None:
    prelude = struct.pack(">II", 2**32 - 1, 0)
    data = prelude + struct.pack(">I", crc32(prelude)) + b"abc"
    assert faults(decode(data)) == ["unfinished_event"]
    assert faults(decode(data, limit=10**6)) == ["event_too_large"]


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05ab",
        b"\x01a",
        b"\x01a\x0a",
        b"\x01a\x04\x00",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x05abc",
        b"\x01a\x09short",
        b"\x01\xff\x00",
        b"\x01a\x07\x00\x01\xff",
        b"\x01a\x00\x01a\x01",
    ],
)
def test_headers_that_cannot_be_read_are_a_fault(headers: bytes) -> None:
    assert faults(decode(frame(headers, b"{}"))) == ["bad_frame"]


def test_a_closed_decoder_stays_closed() -> None:
    decoder = FrameDecoder()
    assert faults(decoder.feed(b"\0" * 12)) == ["bad_frame"]
    assert decoder.feed(event_frame(b"{}")) == []
    assert decoder.close() == []
