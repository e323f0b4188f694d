"""A file's lines: whole, in order, at their offsets, however long they are."""

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from clew.record.transcript.source import BLOCK_SIZE_BYTES, TranscriptSource

SIZES = [
    0,
    1,
    7,
    BLOCK_SIZE_BYTES - 1,
    BLOCK_SIZE_BYTES,
    BLOCK_SIZE_BYTES + 1,
    5 * BLOCK_SIZE_BYTES,
]


@given(st.lists(st.sampled_from(SIZES), max_size=4), st.booleans())
def test_blocks_are_the_file_cut_after_lines(sizes: list[int], is_ended: bool) -> None:
    data = b"\n".join(bytes([65 + n]) * size for n, size in enumerate(sizes))
    data += b"\n" if is_ended else b""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        source = TranscriptSource(file.fileno())
        blocks = list(source.blocks(0))
        lines = list(source.lines(0))
    assert b"".join(block for _, block in blocks) == data
    assert all(data[at : at + len(block)] == block for at, block in blocks)
    assert all(block.endswith(b"\n") for _, block in blocks[:-1])
    assert [raw for _, _, raw in lines] == (data.removesuffix(b"\n").split(b"\n") if data else [])
    assert [number for number, _, _ in lines] == list(range(1, len(lines) + 1))
    assert all(data[at : at + len(raw)] == raw for _, at, raw in lines)


def test_a_file_that_was_cut_while_it_is_read_ends_where_it_ends() -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"one\ntwo\n")
        source = TranscriptSource(file.fileno())
        file.truncate(6)
        assert list(source.lines(0)) == [(1, 0, b"one"), (2, 4, b"tw")]
        file.truncate(0)
        assert list(source.lines(0)) == []
