"""What was pasted into a prompt: images become blocks, long text is set apart so that it reads as one.

Pure. The kind of what was pasted is told by its first bytes, whatever name it came with.
"""

import base64
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Pasted(Struct, frozen=True, kw_only=True):
    """Something pasted; `number` is what its placeholder in the prompt says."""

    number: int
    data: bytes

    @property
    def media_type(self) -> str | None:
        """Of an image the service takes; None for everything else."""
        if self.data[:4] == b"RIFF" and self.data[8:12] == b"WEBP":
            return "image/webp"
        return next((kind for head, kind in SIGNATURES if self.data.startswith(head)), None)


def placeholder(pasted: Pasted) -> str:
    """What stands for it in the line that a person edits."""
    if pasted.media_type is not None:
        return f"[Image #{pasted.number}]"
    lines = pasted.data.count(b"\n")
    return f"[Pasted text #{pasted.number}{f' +{lines} lines' if lines else ''}]"


def content(text: str, pasted: Sequence[Pasted]) -> str | list[dict[str, Any]]:
    """The content of the message: the text with what was pasted in its place, then the images."""
    images: list[dict[str, Any]] = []
    for one in pasted:
        media_type = one.media_type
        if media_type is not None:
            data = base64.b64encode(one.data).decode()
            source = {"type": "base64", "media_type": media_type, "data": data}
            images.append({"type": "image", "source": source})
            continue
        words = one.data.decode("utf-8", "replace").strip("\n")
        whole = f'<pasted_content id="{one.number}">\n{words}\n</pasted_content>'
        mark = placeholder(one)
        text = text.replace(mark, whole, 1) if mark in text else f"{text}\n{whole}".lstrip("\n")
    if not images:
        return text
    return [*([{"type": "text", "text": text}] if text.strip() else []), *images]
