"""Accessors for decoded JSON objects.

Data from outside stays a plain object; views name its fields.
"""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def text_of(value: Any) -> str:
    """Return a value that should be a string, or an empty string if it is not."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """Return a value that should be an object, or an empty one if it is not."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a value that should be a list, or an empty one if it is not."""
    return value if isinstance(value, list) else []
