"""Adapt the input schemas of a server's tools to the API's rules.

A single schema that the API rejects would make every request of the session fail. A valid schema is
not changed. An invalid schema is replaced by one that accepts any object, and the tool's
description contains the server's schema.
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
    """Return the schema to send, and why the server's own schema can't be used (empty if it can).

    If only "type" is missing, it is added, and no reason is returned.
    """
    why = fault(schema)
    if not why:
        assert isinstance(schema, dict)
        return (schema if "type" in schema else {"type": "object", **schema}), ""
    return OPEN, why


def fault(schema: Any) -> str:
    """Return what the API would reject in a schema, or an empty string."""
    if not isinstance(schema, dict):
        return "must be an object"
    if schema.get("type", "object") != "object":
        return 'type: must be "object"'
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return f"{word} is not allowed at the top level"
    if problem := walked(schema):
        return problem
    if not all(isinstance(n, str) and PROPERTY.fullmatch(n) for n in schema.get("properties", ())):
        return "property names can contain only letters, digits, _ . -"
    return ""


def walked(schema: Any) -> str:
    """Return the first problem in a schema or the schemas inside it, or an empty string.

    Use no recursion, because the server controls the depth.
    """
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    seen = 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_NODES:
            return "nested too deeply" if depth > MAX_DEPTH else "too large"
        if isinstance(node, bool):
            continue
        problem = keywords(node)
        if problem:
            return problem
        waiting += [(inner, depth + 1) for inner in inside(node)]
    return ""


def keywords(node: Any) -> str:
    if not isinstance(node, dict):
        return "nested schemas must be objects"
    kinds = node.get("type", [])
    listed = kinds if isinstance(kinds, list) else [kinds]
    if not all(isinstance(kind, str) and kind in TYPES for kind in listed):
        return "contains an unknown type"
    for names, kind, what in (
        (_NUMBERS, (int, float), "a number"),
        (_COUNTS, int, "an integer"),
        (_TEXTS, str, "a string"),
        (_MAPS, dict, "an object"),
        (_LISTS, list, "an array"),
        (("required", "enum"), list, "an array"),
    ):
        for name in names:
            if name in node and not isinstance(node[name], kind):
                return f"{name}: must be {what}"
    if not all(isinstance(name, str) for name in node.get("required", ())):
        return "required: must be an array of property names"
    return elsewhere(node.get("$ref", "#")) or unreadable(node.get("pattern"))


def elsewhere(reference: str) -> str:
    """Return an error if a reference points to another document. References are never fetched."""
    return "" if reference.startswith("#") else "$ref: must not refer to another document"


def unreadable(pattern: str | None) -> str:
    if pattern is None:
        return ""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return "pattern: invalid regular expression"
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
    """Return the headers that repeat properties in requests, by the path of the property."""
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
