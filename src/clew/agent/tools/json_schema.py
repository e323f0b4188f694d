"""Check a value against a JSON Schema and report the first mismatch.

The check supports the vocabulary used in schemas for structured output: types, enumerations,
bounds, objects, arrays, combinations and references within the schema. Unknown keywords are
ignored. `find_schema_fault` reports what makes a schema unusable. This module does no I/O.
"""

import re
from collections.abc import Callable
from typing import Any

from clew.core.json_object import Json

MAX_DEPTH = 64

TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}
BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda value, bound: value >= bound),
    "maximum": ("number", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("number", lambda value, bound: value > bound),
    "exclusiveMaximum": ("number", lambda value, bound: value < bound),
    "minLength": ("string", lambda value, bound: len(value) >= bound),
    "maxLength": ("string", lambda value, bound: len(value) <= bound),
    "minItems": ("array", lambda value, bound: len(value) >= bound),
    "maxItems": ("array", lambda value, bound: len(value) <= bound),
    "minProperties": ("object", lambda value, bound: len(value) >= bound),
    "maxProperties": ("object", lambda value, bound: len(value) <= bound),
}


def find_mismatch(value: Any, schema: Any) -> str:
    """Return the first mismatch as `where: what`, or an empty string."""
    return _mismatch(value, schema, schema, "root", 0)


def _mismatch(value: Any, schema: Any, root: Any, where: str, depth: int) -> str:
    if schema is False:
        return f"{where}: no value is allowed"
    if not isinstance(schema, dict):
        return ""
    if depth > MAX_DEPTH:
        return f"{where}: nested too deeply"
    if "$ref" in schema:
        return _mismatch(value, referred(schema["$ref"], root), root, where, depth + 1)
    for problem in (
        _kind(value, schema),
        _bounds(value, schema),
    ):
        if problem:
            return f"{where}: {problem}"
    return (
        _inside(value, schema, root, where, depth)
        or _combined(value, schema, root, where, depth)
    )  # fmt: skip


def referred(reference: Any, root: Any) -> Any:
    """Resolve a `#/...` reference; if it is dangling, return None, which allows any value."""
    node = root
    for part in str(reference).lstrip("#").strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if key:
            node = node.get(key) if isinstance(node, dict) else None
    return node


def _kind(value: Any, schema: Json) -> str:
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds] if isinstance(kinds, str) else []
    if names and not any(TYPES.get(name, lambda _: True)(value) for name in names):
        return f"must be {' or '.join(map(str, names))}"
    if isinstance(schema.get("enum"), list) and not any(same(value, e) for e in schema["enum"]):
        return f"must be one of {', '.join(map(str, schema['enum']))}"
    if "const" in schema and not same(value, schema["const"]):
        return f"must be {schema['const']}"
    return ""


def same(value: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON, where true does not equal 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _bounds(value: Any, schema: Json) -> str:
    for name, (kind, holds) in BOUNDS.items():
        bound = schema.get(name)
        if TYPES["number"](bound) and TYPES[kind](value) and not holds(value, bound):
            return f"violates {name} {bound}"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and isinstance(value, str) and not re.search(pattern, value):
        return f"must match {pattern}"
    step = schema.get("multipleOf")
    if TYPES["number"](step) and step and TYPES["number"](value) and value % step:
        return f"must be a multiple of {step}"
    return ""


def _inside(value: Any, schema: Json, root: Any, where: str, depth: int) -> str:
    if isinstance(value, dict):
        return _members(value, schema, root, where, depth)
    if isinstance(value, list):
        first = schema.get("prefixItems")
        firsts = first if isinstance(first, list) else []
        rest = schema.get("items", True)
        for index, item in enumerate(value):
            item_schema = firsts[index] if index < len(firsts) else rest
            problem = _mismatch(item, item_schema, root, f"{where}[{index}]", depth + 1)
            if problem:
                return problem
        if schema.get("uniqueItems") is True:
            twice = any(same(a, b) for i, a in enumerate(value) for b in value[:i])
            return f"{where}: contains duplicates" if twice else ""
    return ""


def _members(value: Json, schema: Json, root: Any, where: str, depth: int) -> str:
    required = schema.get("required")
    missing = [n for n in required if n not in value] if isinstance(required, list) else []
    if missing:
        return f"{where}: must have {', '.join(map(str, missing))}"
    raw_properties = schema.get("properties")
    properties = raw_properties if isinstance(raw_properties, dict) else {}
    for name, member in value.items():
        place = f"{where}.{name}"
        member_schema = properties.get(name, schema.get("additionalProperties", True))
        if member_schema is False and name not in properties:
            return f"{where}: must not have {name}"
        problem = _mismatch(member, member_schema, root, place, depth + 1)
        if problem:
            return problem
    return ""


def _combined(value: Any, schema: Json, root: Any, where: str, depth: int) -> str:
    def fits(option: Any) -> bool:
        return not _mismatch(value, option, root, where, depth + 1)

    for option in _listed(schema, "allOf"):
        problem = _mismatch(value, option, root, where, depth + 1)
        if problem:
            return problem
    anything = _listed(schema, "anyOf")
    if anything and not any(map(fits, anything)):
        return f"{where}: matches no allowed form (of {len(anything)})"
    exactly = _listed(schema, "oneOf")
    if exactly and sum(map(fits, exactly)) != 1:
        return f"{where}: must match exactly one allowed form (of {len(exactly)})"
    if "not" in schema and fits(schema["not"]):
        return f"{where}: matches a form that is not allowed"
    return ""


def _listed(schema: Json, name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def find_schema_fault(schema: Any) -> str:
    """Return why a schema can't be used for structured output, or an empty string.

    A usable schema describes an object, and its patterns are valid.
    """
    if not isinstance(schema, dict):
        return "expected a JSON object"
    if schema.get("type", "object") != "object":
        return '"type" must be "object"'
    return _unreadable(schema, 0)


def _unreadable(node: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        return "nested too deeply"
    if isinstance(node, dict):
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except re.error as error:
                return f"invalid pattern {pattern!r} ({error})"
        children = list(node.values())
    else:
        children = node if isinstance(node, list) else []
    return next((problem for child in children if (problem := _unreadable(child, depth + 1))), "")
