"""Frames fit: what is too long is shortened where it is longest, and a frame stays readable."""

import json

import msgspec

from clew.core.wire import MAX_FRAME_BYTES, encode_frame
from clew.fronts.render.rows import escape_controls


def test_a_frame_that_fits_is_written_as_it_is() -> None:
    frame = {"type": "user", "text": "äöü\n" * 1000, "deep": [{"a": None}]}
    assert encode_frame(frame) == msgspec.json.encode(frame)


def test_what_rules_a_terminal_or_ends_a_line_is_spelled_and_means_the_same() -> None:
    every = [chr(n) for n in range(0x20, 0x110000) if not 0xD800 <= n < 0xE000]
    line = encode_frame({"text": "".join(every)}, limit=1 << 24)
    assert json.loads(line)["text"] == "".join(every)
    assert escape_controls(line.decode()) == line.decode()
    assert len(encode_frame({"text": "\u200f" * 90_000})) <= MAX_FRAME_BYTES


def test_a_long_text_loses_its_middle_and_says_how_much() -> None:
    line = encode_frame({"type": "user", "uuid": "u", "message": {"content": "a" * 700_000 + "z"}})
    assert len(line) <= MAX_FRAME_BYTES
    frame = json.loads(line)
    text = frame["message"]["content"]
    assert text.startswith("aaa")
    assert text.endswith("z")
    assert "characters omitted" in text
    assert frame["uuid"] == "u"


def test_many_long_texts_are_shortened_further() -> None:
    line = encode_frame({"blocks": [{"text": "é" * 300_000} for _ in range(40)]})
    assert len(line) <= MAX_FRAME_BYTES
    assert len(json.loads(line)["blocks"]) == 40


def test_many_small_members_leave_their_beginning() -> None:
    line = encode_frame({"uuid": "u", "input": {"edits": [{"at": n} for n in range(300_000)]}})
    assert len(line) <= MAX_FRAME_BYTES
    assert json.loads(line)["input"]["edits"][0] == {"at": 0}


def test_what_cannot_be_shortened_keeps_its_flat_members() -> None:
    wide = {f"k{n}": [[n] * 60] * 60 for n in range(60)}
    line = encode_frame({"type": "user", "uuid": "u", "deep": wide}, limit=4096)
    assert json.loads(line) == {"type": "user", "uuid": "u", "truncated": True}


def test_a_copy_of_a_transcript_has_more_room() -> None:
    frame = {"type": "transcript_mirror", "entries": [{"text": "a" * 900_000}]}
    assert encode_frame(frame) == msgspec.json.encode(frame)
    assert len(encode_frame({"type": "transcript_mirror", "text": "a" * 1_100_000})) < 1_000_000
