"""Content on its way in and out: a client's blocks as a prompt, the service's blocks as a client's.

Pure. A file that is named is mentioned, so that it comes along under the rules as if a person had
written `@file`; what a client embeds comes along as it is and is never read for commands or names.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from clew.commands.pasted import Pasted
from clew.jsonrpc.uris import path_of
from clew.jsonrpc.wire import a_list, a_text, an_object

Json: TypeAlias = dict[str, Any]

# A larger picture fits into no line that every client reads.
MAX_IMAGE_CHARS = 700_000


class Prompt(Struct, frozen=True, kw_only=True):
    """What a client's prompt says. `left_out`: parts that no model here can be shown."""

    text: str
    embedded: str = ""
    images: tuple[Pasted, ...] = ()
    left_out: tuple[str, ...] = ()


class _Reading:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.embedded: list[str] = []
        self.images: list[Pasted] = []
        self.left_out: list[str] = []

    def take(self, block: Json) -> None:
        match block.get("type"):
            case "text":
                self.text.append(a_text(block.get("text")))
            case "image":
                self._image(block.get("data"), a_text(block.get("mimeType")))
            case "resource_link":
                self.text.append(link(a_text(block.get("uri")), a_text(block.get("name"))))
            case "resource":
                self._resource(an_object(block.get("resource")))
            case kind:
                self.left_out.append(f"{kind or 'a block without a type'}")

    def _image(self, data: Any, media_type: str) -> None:
        try:
            decoded = base64.b64decode(a_text(data), validate=True)
        except binascii.Error:
            decoded = b""
        image = Pasted(number=len(self.images) + 1, data=decoded)
        if image.media_type is None:
            self.left_out.append(
                f"an image ({media_type or 'of no kind'}) that is none we can show"
            )
        else:
            self.images.append(image)

    def _resource(self, resource: Json) -> None:
        uri, media_type = a_text(resource.get("uri")), a_text(resource.get("mimeType"))
        if isinstance(resource.get("text"), str):
            self.text.append(named(uri))
            self.embedded.append(f'<context ref="{uri}">\n{resource["text"]}\n</context>')
        elif media_type.startswith("image/"):
            self._image(resource.get("blob"), media_type)
        else:
            self.left_out.append(f"{named(uri)} ({media_type or 'of no kind'})")


def prompt_of(blocks: Any) -> Prompt:
    """The blocks of a prompt, in their order."""
    reading = _Reading()
    for block in a_list(blocks):
        reading.take(an_object(block))
    return Prompt(
        text="".join(reading.text),
        embedded="\n".join(reading.embedded),
        images=tuple(reading.images),
        left_out=tuple(reading.left_out),
    )


def link(uri: str, name: str) -> str:
    """A link as a mention, where it is a file; lines that it points at are kept."""
    path = path_of(uri)
    if not path or '"' in path or "\n" in path:
        return f"[{name or uri}]({uri})"
    fragment = uri.partition("#")[2]
    lines = f"#{fragment}" if fragment[:1] == "L" else ""
    return f'@"{path}{lines}"'


def named(uri: str) -> str:
    """How the text speaks of something that stands below it."""
    return f"[{path_of(uri).rpartition('/')[2] or uri}]({uri})"


# -- out


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def shown(blocks: Any) -> list[Json]:
    """The blocks of a message or a result, as far as a client can show them."""
    if isinstance(blocks, str):
        return [text(blocks)] if blocks else []
    return [made for block in a_list(blocks) if (made := one(an_object(block))) is not None]


def one(block: Json) -> Json | None:
    source = an_object(block.get("source"))
    match block.get("type"):
        case "text":
            return text(a_text(block.get("text"))) if block.get("text") else None
        case "image" if len(data := a_text(source.get("data"))) in range(1, MAX_IMAGE_CHARS):
            return {"type": "image", "data": data, "mimeType": a_text(source.get("media_type"))}
        case "image" | "document":
            return text(f"[{block['type']}]")
    return None


def as_content(blocks: Iterable[Json]) -> list[Json]:
    """Blocks as the content of a tool call."""
    return [{"type": "content", "content": block} for block in blocks]
