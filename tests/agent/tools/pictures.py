"""Images and documents for tests, made by hand where a test must not depend on a library."""

import io
import struct
import zlib
from typing import Any


def png(width: int, height: int, *, noise: bool = False) -> bytes:
    """Return a PNG of one color, or with noise, which does not compress."""
    row = b"\0" + b"\x30\x60\x90" * width
    rows = row * height
    if noise:
        state, parts = 1, []
        for _ in range(height):
            line = bytearray()
            for _ in range(width * 3):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                line.append(state >> 16 & 0xFF)
            parts.append(b"\0" + bytes(line))
        rows = b"".join(parts)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def picture(form: str, size: tuple[int, int], mode: str = "RGB", **how: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new(mode, size, 0).save(out, form, **how)
    return out.getvalue()


def pdf(pages: int, *, password: str = "") -> bytes:
    """Return a PDF document whose pages each contain their number."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for number in range(1, pages + 1):
        page = writer.add_blank_page(200, 200)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td (This is page {number}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password:
        writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def pages_of(path_or_data: bytes) -> int:
    from pypdf import PdfReader

    return len(PdfReader(io.BytesIO(path_or_data)).pages)
