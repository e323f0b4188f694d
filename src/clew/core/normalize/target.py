"""The capabilities of the model and endpoint that receive a request: one field for each rule."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.catalog.models import USUAL, Model

# The family of a receiver that accepts no thinking at all.
NO_FAMILY = "-"

ForeignThinking: TypeAlias = Literal["drop", "text"]


class Reader(Struct, frozen=True, kw_only=True):
    """The receiver of a request in a wire format other than the Messages API's.

    A response is returned as its own items (`origin`) only if its record has the same three values
    as this reader.
    """

    service: str
    wire: str
    family: str

    def wrote(self, origin: Any) -> bool:
        """Return whether the items of a record are this reader's own."""
        return (
            type(origin) is dict
            and origin.get("service") == self.service
            and origin.get("wire") == self.wire
            and family_of(origin.get("model")) == self.family
            and type(origin.get("items")) is list
        )


class Target(Struct, frozen=True, kw_only=True):
    """One model at one endpoint. The defaults are those of a current model on the Messages API.

    Fields:
        foreign_thinking: How thinking blocks from other models are handled: dropped, or kept as
            text.
        system_messages: Whether messages may have the role system.
        prefill: Whether a request may end with the beginning of the answer.
        server_tools: Whether the service has tools of its own.
        binding_control: Whether a request may ask the service to omit thinking that does
            not fit.
        images: Whether the model accepts images.
        documents: Whether the model accepts documents.
        max_images: The maximum number of images in a request.
        max_image_px: The maximum length of an image's longer side, in pixels.
        max_crowded_px: The same limit for a request with more than `crowd` images.
        max_documents: The maximum number of documents in a request.
        max_document_bytes: The maximum size of a document, in bytes.
        max_body_bytes: The maximum size of a request, in bytes.
        max_tool_name: The maximum length of a tool's name, in characters.
        max_id: The maximum length of a call's ID, in characters.
        api_version: The Messages API version in use; some rules apply only to the later
            version.
        family: The model family whose signed thinking is accepted, as named by `family_of`.
        blank_thinking: Whether the model may omit the text of its thinking. Such a block is
            sent back only if its entry says that the text was omitted; a block that lost
            its text later would be rejected.
        error_media: Whether an error result may contain images and documents. The Messages
            API allows only text.
        deferred_tools: Whether definitions marked `defer_loading` are hidden until a result
            refers to them.
        binds_thinking: Whether thinking is bound to its prefix (`core.normalize.prefix`),
            and whether a request may ask the service to omit blocks that do not fit.
        sources: The source types accepted for images and documents.
        max_image_bytes: The maximum size of an image's base64 text, in bytes.
        reader: The receiver whose own items are sent back unchanged. None for the Messages API.
    """

    api_version: str = USUAL
    family: str = "claude"
    foreign_thinking: ForeignThinking = "drop"
    blank_thinking: bool = False
    system_messages: bool = False
    prefill: bool = False
    server_tools: bool = True
    error_media: bool = False
    deferred_tools: bool = False
    binds_thinking: bool = False
    binding_control: bool = False
    sources: frozenset[str] = frozenset({"base64", "url", "file", "text", "content"})
    images: bool = True
    documents: bool = True
    max_images: int = 100
    max_image_bytes: int = 5 * 1024 * 1024
    max_image_px: int = 8000
    # With more images than this, each is limited to `max_crowded_px` per side.
    crowd: int = 20
    max_crowded_px: int = 2000
    max_documents: int = 100
    max_document_bytes: int = 32 * 1024 * 1024
    max_body_bytes: int = 32 * 1024 * 1024
    max_tool_name: int = 128
    max_id: int = 64
    reader: Reader | None = None

    @staticmethod
    def of(model: Model) -> "Target":
        """Return the Messages API target for a catalog model.

        Images and documents are used unless the model is known not to support them. Any other
        feature is used only if the model is known to support it.
        """
        return Target(
            family=family_of(model.id),
            blank_thinking="adaptive" in (model.thinking or ()),
            system_messages=model.system_in_messages is True,
            prefill=model.prefill is True,
            images=model.images is not False,
            documents=model.pdfs is not False,
            deferred_tools=model.deferred_tools is True,
            binds_thinking=model.binds_thinking is True,
            binding_control=bool(model.thinking),
        )

    @property
    def max_media_bytes(self) -> int:
        """The maximum size of all media: three quarters of the maximum body.

        The rest is for text.
        """
        return self.max_body_bytes * 3 // 4


def family_of(model: object) -> str:
    """Return the model family, ignoring gateway and region prefixes.

    Models of one family can read each other's thinking.
    """
    name = model.lower() if isinstance(model, str) else ""
    if "claude" in name:
        return "claude"
    return name.rpartition("/")[2].partition("-")[0]


# Selects the tools that a request offers: all, or without deferred ones that are not loaded.


MARK = "defer_loading"


def find_references(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the names of the tools that tool results refer to, in order."""
    for entry in entries:
        message = entry.get("message") if entry.get("type") == "user" else None
        content = message.get("content") if type(message) is dict else None
        for block in content if type(content) is list else ():
            inside = block.get("content") if type(block) is dict else None
            for part in inside if type(inside) is list else ():
                if type(part) is dict and part.get("type") == "tool_reference":
                    yield str(part.get("tool_name"))


def select_definitions(
    definitions: Iterable[dict[str, Any]], revealed: Iterable[str], *, takes_deferred: bool
) -> list[dict[str, Any]]:
    """Return the `tools` of a request.

    `revealed` lists the tools that tool results refer to, in order. If `takes_deferred` is false,
    the deferred tools among them become ordinary ones, and all other deferred tools are omitted.
    """
    if takes_deferred:
        return list(definitions)
    definitions_by_name = {definition["name"]: definition for definition in definitions}
    visible_tools = [
        definition for definition in definitions_by_name.values() if not definition.get(MARK)
    ]
    revealed_tools = [
        definitions_by_name[name]
        for name in dict.fromkeys(revealed)
        if definitions_by_name.get(name, {}).get(MARK)
    ]
    plain = [
        {key: value for key, value in definition.items() if key != MARK}
        for definition in revealed_tools
    ]
    return [*visible_tools, *plain]
