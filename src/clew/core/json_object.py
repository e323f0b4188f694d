"""Accessors for decoded JSON objects.

External data is kept as plain dicts; view classes provide named access to its fields.
"""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def has_any(value: Json, *names: str) -> bool:
    """Return whether the object has one of these fields."""
    return not value.keys().isdisjoint(names)


def text_of(value: Any) -> str:
    """Return `value` if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """Return `value` if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return `value` if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []
