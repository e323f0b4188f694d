"""What the receiver of a request takes; every rule that differs between models is a field here."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.catalog.models import USUAL, Model

# The family of a receiver that takes nobody's thinking back.
NO_FAMILY = "-"

ForeignThinking: TypeAlias = Literal["drop", "text"]


class Target(Struct, frozen=True, kw_only=True):
    """One model behind one endpoint. The defaults are the Messages API's for a current model."""

    # The version of the Messages API that is spoken; some rules hold from the later one on.
    api_version: str = USUAL
    # Whose signed thinking it takes back: a family of models, as `family_of` names it.
    family: str = "claude"
    foreign_thinking: ForeignThinking = "drop"
    # Whether it may leave the words of its thinking out; such a block goes back where its entry says
    # that they were left out, since one that lost them later would be refused.
    blank_thinking: bool = False
    system_messages: bool = False
    prefill: bool = False
    server_tools: bool = True
    # Whether a result that failed may hold images and documents; the Messages API takes only text there.
    error_media: bool = False
    # Whether definitions marked `defer_loading` are kept back until a result refers to them.
    deferred_tools: bool = False
    # Whether its thoughts are bound to what stands before them (`core.normalize.prefix`), and whether a
    # request may ask the service to leave out those that do not fit.
    binds_thinking: bool = False
    binding_control: bool = False
    # Forms in which an image or document may be handed over.
    sources: frozenset[str] = frozenset({"base64", "url", "file", "text", "content"})
    images: bool = True
    documents: bool = True
    max_images: int = 100
    # The service counts the base64 text, not the bytes behind it.
    max_image_bytes: int = 5 * 1024 * 1024
    max_image_px: int = 8000
    # From this many images on, each may have only `max_crowded_px` a side.
    crowd: int = 20
    max_crowded_px: int = 2000
    max_documents: int = 100
    max_document_bytes: int = 32 * 1024 * 1024
    max_body_bytes: int = 32 * 1024 * 1024
    max_tool_name: int = 128
    max_id: int = 64

    @staticmethod
    def of(model: Model) -> "Target":
        """The Messages API with a model of the catalog; what is not known of it is not used."""
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
        """Three quarters of a body; the rest is for words."""
        return self.max_body_bytes * 3 // 4


def family_of(model: object) -> str:
    """Who can read what this model signed. Names of gateways and regions stand before the model's."""
    name = model.lower() if isinstance(model, str) else ""
    if "claude" in name:
        return "claude"
    return name.rpartition("/")[2].partition("-")[0]


# Which tools a request offers: all of them, or without those that nobody has looked for yet.


MARK = "defer_loading"


def find_references(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The tools that results refer to, in the order of the conversation."""
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
    """The `tools` of a request; `revealed` are the names that results refer to, in their order."""
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
