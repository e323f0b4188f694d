"""A decoded JSON object. What comes from outside stays one; views name its fields."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
