"""Input types of tools: the JSON Schema that the model sees, and the validation of its input.

Both are derived from the same msgspec type on first use. Numbers, booleans and null may arrive as
strings: models send them that way, and accepting them is harmless.
"""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from clew.agent.tools.base import Input, Tool, ToolOutcome, make_failure
from clew.core.regex import lazy_pattern

WHERE = lazy_pattern(r" - at `\$\.?([^`]*)`")
NAMES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false"}
NAMES |= {"array": "a list", "object": "an object", "null": "null"}


# Schema keywords that the model doesn't need. `parse_input` enforces the bounds all the same, and
# models seldom exceed them.
OMITTED = frozenset({"title", "default", "minLength", "maxLength", "minItems", "maxItems"})
OMITTED_VALUES: tuple[tuple[str, Any], ...] = (("minimum", 0), ("minimum", 1), ("required", []))


@cache
def schema_of(input_type: type[Struct]) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([input_type], ref_template="{name}")
    return lean(schema, components)


def lean(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without references, nulls and keywords that a model doesn't need."""
    if "$ref" in schema:
        return lean(components[schema["$ref"]], components)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in OMITTED or (key, value) in OMITTED_VALUES:
            continue
        if key == "anyOf":
            kinds = [lean(kind, components) for kind in value if kind != {"type": "null"}]
            result |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        elif key == "properties":
            result[key] = {name: lean(item, components) for name, item in value.items()}
        elif key == "items":
            result[key] = lean(value, components)
            result[key].pop("additionalProperties", None)
        else:
            result[key] = value
    return result


def make_definition(tool: Tool[Input]) -> dict[str, Any]:
    """Return the tool definition for the API."""
    fields: dict[str, Any] = {
        "name": tool.name,
        "description": tool.prompt or tool.description,
        "input_schema": make_shown_schema(tool),
    }
    return fields | {"defer_loading": True} if tool.is_deferred else fields


def make_shown_schema(tool: Tool[Input]) -> dict[str, Any]:
    """Return the input schema without the fields that clew fills in itself."""
    schema = schema_for(tool)
    if not tool.hidden_fields:
        return schema
    fields = schema["properties"].items()
    return schema | {"properties": {k: v for k, v in fields if k not in tool.hidden_fields}}


def schema_for(tool: Tool[Input]) -> dict[str, Any]:
    return schema_of(tool.input_type) if tool.foreign_schema is None else tool.foreign_schema


def parse_input(tool: Tool[Input], raw: Any) -> Input | ToolOutcome:
    """Convert the input to the tool's type, or return a result that names the invalid field."""
    if tool.renamed and isinstance(raw, dict):
        other = dict(tool.renamed)
        raw = {other.get(name, name): value for name, value in raw.items()}
    values = raw if tool.foreign_schema is None else {"values": raw}
    try:
        return msgspec.convert(values, tool.input_type, strict=False)
    except msgspec.ValidationError as error:
        return invalid(tool, raw, str(error))


def invalid(tool: Tool[Input], raw: Any, why: str) -> ToolOutcome:
    schema = schema_for(tool)
    fields = schema.get("properties", {})
    names = raw if isinstance(raw, dict) else schema.get("required", ())
    missing = [name for name in schema.get("required", ()) if name not in names]
    unknown = [name for name in names if name not in fields]
    if missing:
        problem = "missing: " + ", ".join(missing)
    elif unknown:
        problem = "unknown: " + ", ".join(map(str, unknown))
    else:
        problem = rephrase_complaint(why)
    text = f"{tool.name}: invalid input: {problem}. Expected {signature(schema)}."
    return make_failure(f"<tool_use_error>{text}</tool_use_error>")


def rephrase_complaint(why: str) -> str:
    """Rewrite msgspec's message: put the field first, and name types in plain English."""
    where = WHERE.search(why)
    what = WHERE.sub("", why)
    what = re.sub(r"`(\w+)`", lambda kind: NAMES.get(kind[1], kind[0]), what)
    what = re.sub(r"`(\w+) \| null`", lambda kind: NAMES.get(kind[1], kind[0]), what)
    return f"{where[1]}: {what}" if where and where[1] else what


def signature(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name} ({kind_of(member)}{', required' if name in required else ''})"
        for name, member in schema.get("properties", {}).items()
    )


def kind_of(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return str(schema.get("type", "any"))
