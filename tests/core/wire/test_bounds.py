"""Frames within the limit: the longest texts are shortened, and the frame stays valid."""

import json

import msgspec

from clew.core.wire import MAX_FRAME_BYTES, MAX_OMISSIONS, encode_frame
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


def test_a_frame_of_almost_a_megabyte_is_sent_whole() -> None:
    frame = {"type": "user", "message": {"content": "a" * 1_000_000}}
    assert encode_frame(frame) == msgspec.json.encode(frame)


def test_a_long_text_loses_its_middle_and_says_how_much() -> None:
    text = "a" * 1_400_000 + "z"
    line = encode_frame({"type": "user", "uuid": "u", "message": {"content": [{"text": text}]}})
    assert len(line) <= MAX_FRAME_BYTES
    frame = json.loads(line)
    kept = frame["message"]["content"][0]["text"]
    assert kept.startswith("aaa")
    assert kept.endswith("z")
    assert "characters omitted" in kept
    assert frame["uuid"] == "u"
    [omission] = frame["truncated"]
    assert omission["path"] == "message.content[0].text"
    assert (omission["unit"], omission["omitted"]) == (
        "characters",
        len(text) - MAX_FRAME_BYTES // 4,
    )


def test_encoded_media_is_left_out_as_a_whole() -> None:
    """Half a picture can't be decoded, and models reject it."""
    data = "iVBO" * 400_000
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    file = {"base64": data, "type": "image/png", "originalSize": 9}
    small = {"type": "image", "source": {"type": "base64", "data": "iVBO"}}
    frame = {"content": [{"type": "tool_result", "content": [block, small]}], "result": file}
    sent = json.loads(encode_frame(frame))
    words, kept = sent["content"][0]["content"]
    assert words["type"] == "text"
    assert "1600000" in words["text"]
    assert kept == small
    assert sent["result"] == file | {"base64": ""}
    assert [cut["path"] for cut in sent["truncated"]] == [
        "content[0].content[0].source.data",
        "result.base64",
    ]


def test_many_long_texts_are_shortened_further() -> None:
    line = encode_frame({"blocks": [{"text": "é" * 300_000} for _ in range(40)]})
    assert len(line) <= MAX_FRAME_BYTES
    sent = json.loads(line)
    assert len(sent["blocks"]) == 40
    assert len(sent["truncated"]) == MAX_OMISSIONS


def test_many_small_members_leave_their_beginning() -> None:
    edits = {"edits": [{"at": n} for n in range(300_000)]}
    line = encode_frame({"uuid": "u", "input": edits, "more": {str(n): n for n in range(300_000)}})
    assert len(line) <= MAX_FRAME_BYTES
    sent = json.loads(line)
    assert sent["input"]["edits"][0] == {"at": 0}
    assert {cut["unit"] for cut in sent["truncated"]} == {"items", "members"}


def test_what_cannot_be_shortened_keeps_its_flat_members() -> None:
    wide = {f"k{n}": [[n] * 60] * 60 for n in range(60)}
    line = encode_frame({"type": "user", "uuid": "u", "deep": wide}, limit=4096)
    omission = {"path": "", "omitted": 1, "unit": "members"}
    assert json.loads(line) == {"type": "user", "uuid": "u", "truncated": [omission]}
