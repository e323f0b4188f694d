"""Builds AWS event-stream frames, by the published layout and independently of the decoder."""

import struct
from binascii import crc32
from typing import Any

from hypothesis import strategies as st


def header(name: str, kind: int, value: Any) -> bytes:
    written = {
        0: lambda: b"",
        1: lambda: b"",
        2: lambda: struct.pack(">b", value),
        3: lambda: struct.pack(">h", value),
        4: lambda: struct.pack(">i", value),
        5: lambda: struct.pack(">q", value),
        6: lambda: struct.pack(">H", len(value)) + value,
        7: lambda: struct.pack(">H", len(value.encode())) + value.encode(),
        8: lambda: struct.pack(">q", value),
        9: lambda: value,
    }[kind]()
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + written


def frame(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    data = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return data + struct.pack(">I", crc32(data))


def event_frame(payload: bytes, **headers: str) -> bytes:
    fields = {":message-type": "event", ":event-type": "chunk"} | {
        ":" + name.replace("_", "-"): value for name, value in headers.items()
    }
    return frame(b"".join(header(n, 7, v) for n, v in fields.items()), payload)


typed_values: st.SearchStrategy[tuple[int, Any]] = st.one_of(
    st.just((0, True)),
    st.just((1, False)),
    st.tuples(st.just(2), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just(3), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(4), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(5), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(6), st.binary(max_size=20)),
    st.tuples(st.just(7), st.text(max_size=20)),
    st.tuples(st.just(8), st.integers(0, 2**62)),
    st.tuples(st.just(9), st.binary(min_size=16, max_size=16)),
)
header_sets = st.dictionaries(st.text(min_size=1, max_size=8), typed_values, max_size=5)
