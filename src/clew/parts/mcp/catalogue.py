"""The catalog of a server: its tools, prompts and resources, after validation.

All text comes from the server; it is marked as such for the model and limited in length.
Annotations are untrusted hints: they may make a call wait for others to finish, but they never
allow a call.
"""

from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.text import format_count
from clew.parts.mcp import config, schemas
from clew.parts.mcp.content import as_json
from clew.parts.mcp.protocol import as_object, as_text

# A description is part of every request, so its length is limited.
MAX_DESCRIPTION = 2048
MAX_INSTRUCTIONS = 2048
CUT = "… [cut]"


class ToolOffer(Struct, frozen=True, kw_only=True):
    """A tool that a server offers.

    `name` is the name that the model sees, `tool` is the server's own name for it, and
    `schema_fault` describes what is wrong with its schema, if anything.
    """

    name: str
    server: str
    tool: str
    title: str
    description: str
    input_schema: Json
    schema_fault: str = ""
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = True
    always_load: bool = False
    max_result_chars: int | None = None
    # Arguments that are repeated in headers, by their path.
    headers: dict[tuple[str, ...], str] = {}


class PromptOffer(Struct, frozen=True, kw_only=True):
    """A prompt that a server offers. `name` is the command that calls it: `mcp__server__prompt`."""

    name: str
    server: str
    prompt: str
    description: str
    arguments: tuple[tuple[str, bool], ...] = ()

    @property
    def hint(self) -> str:
        words = (f"<{name}>" if needed else f"[{name}]" for name, needed in self.arguments)
        return " ".join(words)


class ResourceOffer(Struct, frozen=True, kw_only=True):
    """A resource that a server offers. If `is_template`, its URI contains variables."""

    server: str
    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    is_template: bool = False


class Offers(Struct, frozen=True, kw_only=True):
    """Everything that a server offers, and the errors found in its lists."""

    tools: tuple[ToolOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    faults: tuple[str, ...] = ()


def shorten(value: Any, most: int = MAX_DESCRIPTION) -> str:
    text = as_text(value).strip()
    return text if len(text) <= most else text[:most] + CUT


def tools_of(server: str, listed: list[Json]) -> tuple[tuple[ToolOffer, ...], tuple[str, ...]]:
    """Return the usable tools, ordered by name, and the errors found in the other tools."""
    by_name = {t["name"]: t for t in reversed(listed) if as_text(t.get("name"))}
    faults = [
        f"{format_count(len(listed) - len(by_name), 'tool has', 'tools have')} a missing or duplicate name"
    ]
    names = config.make_distinct_names(server, sorted(by_name))
    offers = [tool_of(server, name, tool, by_name[tool]) for name, tool in sorted(names.items())]
    faults = faults if len(listed) != len(by_name) else []
    faults += [
        f"{offer.tool}: schema: {offer.schema_fault}" for offer in offers if offer.schema_fault
    ]
    return tuple(offers), tuple(faults)


def tool_of(server: str, name: str, tool: str, listed: Json) -> ToolOffer:
    schema, fault = schemas.make_usable(listed.get("inputSchema"))
    hints, meta = as_object(listed.get("annotations")), as_object(listed.get("_meta"))
    description = shorten(listed.get("description"))
    if fault and isinstance(listed.get("inputSchema"), dict):
        excerpt = shorten(as_json(listed["inputSchema"]), schemas.MAX_SHOWN)
        description = f"{description}\n\nThe server's input schema: {excerpt}".strip()
    most = meta.get("anthropic/maxResultSizeChars")
    return ToolOffer(
        name=name,
        server=server,
        tool=tool,
        title=shorten(listed.get("title") or hints.get("title") or tool, 80),
        description=description,
        input_schema=schema,
        schema_fault=fault,
        read_only=hints.get("readOnlyHint") is True,
        destructive=hints.get("destructiveHint") is not False,
        idempotent=hints.get("idempotentHint") is True,
        open_world=hints.get("openWorldHint") is not False,
        always_load=meta.get("anthropic/alwaysLoad") is True,
        max_result_chars=most if type(most) is int and most > 0 else None,
        headers=schemas.find_headers(schema),
    )


def prompts_of(server: str, listed: list[Json]) -> tuple[PromptOffer, ...]:
    by_name = {p["name"]: p for p in reversed(listed) if as_text(p.get("name"))}
    names = config.make_distinct_names(server, sorted(by_name))
    return tuple(
        PromptOffer(
            name=name,
            server=server,
            prompt=prompt,
            description=shorten(by_name[prompt].get("description"), 300),
            arguments=arguments_of(by_name[prompt].get("arguments")),
        )
        for name, prompt in sorted(names.items())
    )


def arguments_of(value: Any) -> tuple[tuple[str, bool], ...]:
    listed = value if isinstance(value, list) else []
    return tuple(
        (item["name"], item.get("required") is True)
        for item in listed
        if isinstance(item, dict) and as_text(item.get("name"))
    )


def resources_of(server: str, listed: list[Json], *, templates: bool) -> list[ResourceOffer]:
    key = "uriTemplate" if templates else "uri"
    return [
        ResourceOffer(
            server=server,
            uri=item[key],
            name=shorten(item.get("title") or item.get("name"), 120),
            description=shorten(item.get("description"), 300),
            mime_type=shorten(item.get("mimeType"), 80),
            is_template=templates,
        )
        for item in listed
        if as_text(item.get(key))
    ]
