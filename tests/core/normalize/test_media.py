"""Images are recognized and measured by their first bytes."""

import base64
import struct

import pytest

from clew.core.normalize.shapes import (
    UNKNOWN_SIZE,
    detect_picture_type,
    read_picture_size,
    with_true_type,
)
from tests.core.normalize.generator import png
from tests.requirements import requirement

PNG = base64.b64decode(png(640, 480))
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
SEGMENT = b"\xff\xe0" + struct.pack(">H", 4) + b"\0\0"
FRAME = b"\xff\xc0" + struct.pack(">HBHH", 11, 8, 480, 640) + b"\0" * 4
JPEG = b"\xff\xd8" + SEGMENT + FRAME
RIFF = b"RIFF\0\0\0\0WEBP"


def webp(form: bytes, body: bytes) -> bytes:
    return RIFF + form + b"\0\0\0\0" + body.ljust(16, b"\0")


WEBP_X = webp(b"VP8X", b"\0\0\0\0" + (639).to_bytes(3, "little") + (479).to_bytes(3, "little"))
WEBP_L = webp(b"VP8L", b"\x2f" + (639 | 479 << 14).to_bytes(4, "little"))
WEBP = webp(b"VP8 ", b"\0" * 6 + struct.pack("<HH", 640, 480))


@requirement("V8")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (GIF, "image/gif"),
        (JPEG, "image/jpeg"),
        (WEBP_X, "image/webp"),
        (WEBP_L, "image/webp"),
        (WEBP, "image/webp"),
    ],
)
def test_each_kind_of_picture_has_its_size(data: bytes, kind: str) -> None:
    assert detect_picture_type(data) == kind
    assert read_picture_size(data) == (640, 480)


@pytest.mark.parametrize(
    "data", [b"", b"%PDF", PNG[:20], GIF[:8], RIFF, webp(b"ODD ", b""), JPEG[:12], b"\xff\xd8\xff"]
)
def test_what_is_cut_short_has_none(data: bytes) -> None:
    assert read_picture_size(data) == UNKNOWN_SIZE


def test_a_picture_gets_the_type_it_is() -> None:
    source = {"type": "base64", "media_type": "image/jpeg", "data": png(1, 1)}
    told = with_true_type({"type": "image", "source": source})
    assert told["source"]["media_type"] == "image/png"
    assert source["media_type"] == "image/jpeg"
