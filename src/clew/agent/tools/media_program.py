"""A program that scales images down and extracts pages from PDF files.

It runs in a bare interpreter, because decoding an untrusted file can take forever or exhaust
memory. It takes one argument (a marshalled dict, in hex) and the file on standard input. It answers
with a four-byte length, a marshalled dict and the resulting bytes. If it can't read the file, it
fails with a traceback on stderr. Its libraries come with the extra `docs`.
"""

import io
import marshal
import resource
import sys
from typing import Any

MEMORY_BYTES = 4 << 30
QUALITIES = (85, 70, 50)
LEAST_PX = 64


def main(argument: str) -> int:
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    job: dict[str, Any] = marshal.loads(bytes.fromhex(argument))
    file = io.BytesIO(sys.stdin.buffer.read())
    info, data = (scale_picture if job["kind"] == "picture" else extract_pages)(job, file)
    header = marshal.dumps(info)
    sys.stdout.buffer.write(len(header).to_bytes(4, "little") + header + data)
    return 0


def scale_picture(job: dict[str, Any], file: io.BytesIO) -> tuple[dict[str, Any], bytes]:
    """Return the file's first image, upright, scaled to the limits for pixels and bytes."""
    from PIL import Image, ImageOps

    image: Any = Image.open(file)
    width, height = image.size
    if image.format == "JPEG":
        image.draft("RGB", (job["max_px"], job["max_px"]))
    image = ImageOps.exif_transpose(image)
    side = min(job["max_px"], max(image.size))
    while True:
        small = image.copy()
        small.thumbnail((side, side))
        media_type, data = encode_picture(small, job["max_bytes"])
        if len(data) <= job["max_bytes"] or side <= LEAST_PX:
            break
        side = side * 3 // 4
    size = {
        "width": width,
        "height": height,
        "shown_width": small.width,
        "shown_height": small.height,
    }
    return size | {"media_type": media_type}, data


def encode_picture(image: Any, max_bytes: int) -> tuple[str, bytes]:
    """Encode as PNG if the result is small enough, else as JPEG.

    PNG keeps text and drawings sharp.
    """
    has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    picture = image if image.mode in ("RGB", "L") else image.convert("RGBA" if has_alpha else "RGB")
    data = save_picture(picture, "PNG", optimize=False)
    if len(data) <= max_bytes // 4:
        return "image/png", data
    if has_alpha:
        from PIL import Image

        under = Image.new("RGB", picture.size, "white")
        under.paste(picture, mask=picture.getchannel("A"))
        picture = under
    for quality in QUALITIES:
        data = save_picture(picture, "JPEG", quality=quality)
        if len(data) <= max_bytes:
            break
    return "image/jpeg", data


def save_picture(image: Any, form: str, **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def extract_pages(job: dict[str, Any], file: io.BytesIO) -> tuple[dict[str, Any], bytes]:
    """Return pages of a PDF file as a new file or as text; empty bytes for the unchanged file."""
    from pypdf import PdfReader, PdfWriter

    reader = PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is encrypted and requires a password")
    total = len(reader.pages)
    first, last = job["first"], min(job["last"], total)
    info = {"total": total, "first": first, "last": last}
    chosen = reader.pages[first - 1 : last]
    if job["as_text"]:
        texts = [page.extract_text() for page in chosen]
        return info, "\0".join(texts).encode("utf-8", "replace")
    if len(chosen) == total and not reader.is_encrypted:
        return info, b""
    writer = PdfWriter()
    for page in chosen:
        writer.add_page(page)
    out = io.BytesIO()
    writer.write(out)
    return info, out.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
