"""A server's schema of a tool's input as the service takes it.

One schema that the service refuses would spoil every request of the session. A schema passes as it is
where it is sound; where it is not, the tool keeps an open object, and the model reads the server's
schema in the description instead.
"""

import re
from typing import Any

from clew.core.json_object import Json

OPEN: Json = {"type": "object", "additionalProperties": True}
TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_DEPTH = 40
MAX_NODES = 4000
MAX_SHOWN = 4000

_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_TEXTS = ("$ref", "$schema", "$id", "title", "description", "pattern", "format")


def make_usable(schema: Any) -> tuple[Json, str]:
    """The schema to send, and why it is not the server's; an empty text where it is."""
    why = fault(schema)
    if not why:
        assert isinstance(schema, dict)
        return (schema if "type" in schema else {"type": "object", **schema}), ""
    return OPEN, why


def fault(schema: Any) -> str:
    """What the service would refuse in it."""
    if not isinstance(schema, dict):
        return "it is no object"
    if schema.get("type", "object") != "object":
        return "its type is not object"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return f"{word} stands at the top"
    if problem := walked(schema):
        return problem
    if not all(isinstance(n, str) and PROPERTY.fullmatch(n) for n in schema.get("properties", ())):
        return "a property's name is not made of letters, digits, _ . -"
    return ""


def walked(schema: Any) -> str:
    """Looks at every schema inside, with a stack of its own: the depth is the server's choice."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    seen = 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_NODES:
            return "it is too large or too deep"
        if isinstance(node, bool):
            continue
        problem = keywords(node)
        if problem:
            return problem
        waiting += [(inner, depth + 1) for inner in inside(node)]
    return ""


def keywords(node: Any) -> str:
    if not isinstance(node, dict):
        return "a schema in it is no object"
    kinds = node.get("type", [])
    listed = kinds if isinstance(kinds, list) else [kinds]
    if not all(isinstance(kind, str) and kind in TYPES for kind in listed):
        return "a type in it does not exist"
    for names, kind, what in (
        (_NUMBERS, (int, float), "a number"),
        (_COUNTS, int, "a whole number"),
        (_TEXTS, str, "a text"),
        (_MAPS, dict, "an object"),
        (_LISTS, list, "an array"),
        (("required", "enum"), list, "an array"),
    ):
        for name in names:
            if name in node and not isinstance(node[name], kind):
                return f"{name} in it is not {what}"
    if not all(isinstance(name, str) for name in node.get("required", ())):
        return "required in it does not list names"
    return elsewhere(node.get("$ref", "#")) or unreadable(node.get("pattern"))


def elsewhere(reference: str) -> str:
    """Nobody fetches what a schema points to."""
    return "" if reference.startswith("#") else "it refers to another document"


def unreadable(pattern: str | None) -> str:
    if pattern is None:
        return ""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return "a pattern in it cannot be read"
    return ""


def inside(node: Json) -> list[Any]:
    nodes = [node[name] for name in _ONE if name in node and not isinstance(node[name], list)]
    for name in _LISTS:
        nodes += node.get(name, [])
    for name in _MAPS:
        nodes += node.get(name, {}).values()
    return nodes


TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")


def find_headers(schema: Json) -> dict[tuple[str, ...], str]:
    """The properties that the server wants said in a header of the request too: path -> header."""
    headers: dict[tuple[str, ...], str] = {}
    waiting: list[tuple[tuple[str, ...], Json]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        for name, inner in (node.get("properties") or {}).items():
            if not isinstance(inner, dict):
                continue
            place = (*path, name)
            header = inner.get("x-mcp-header")
            if isinstance(header, str) and TOKEN.fullmatch(header):
                headers[place] = header
            waiting.append((place, inner))
    return headers
