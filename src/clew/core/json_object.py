"""A decoded JSON object. What comes from outside stays one; views name its fields."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def text_of(value: Any) -> str:
    """Return a value that should be a text; an empty one if it is something else."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Json:
    """Return a value that should be an object; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a value that should be a list; an empty one if it is something else."""
    return value if isinstance(value, list) else []
