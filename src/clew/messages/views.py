"""Views: thin named windows on a decoded JSON object, which stays the truth.

A view never changes its object and its fields are total: what an older, newer or broken writer left
out, or wrote with another type, reads as the field's empty value. Nothing here raises on data.

Decision: docs/decisions/002-start-up-imports.md
Decision: docs/decisions/010-views-over-dicts.md
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class View:
    """One decoded object under a kind's names; it holds the object itself, not a copy."""

    __slots__ = ("_data",)
    tag: ClassVar[str] = ""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    @property
    def data(self) -> dict[str, Any]:
        """The whole object, unknown fields included. To be read; whoever changes it, copies it."""
        return self._data

    @property
    def type(self) -> str:
        """The discriminator as the view's own constant, so that equal kinds share one string."""
        return self.tag

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._data)} fields>"


class Field:
    """Reads one member of a view's object, or of the object it holds under `inside`."""

    __slots__ = ("inside", "key")

    def __init__(self, key: str, *, inside: str | None = None) -> None:
        self.key = key
        self.inside = inside

    def value(self, view: View) -> Any:
        data = view.data
        if self.inside is not None:
            inner = data.get(self.inside)
            return inner.get(self.key) if isinstance(inner, dict) else None
        return data.get(self.key)


class TextField(Field):
    """A string, or None."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> str | None:
        value = self.value(view)
        return value if isinstance(value, str) else None


class FlagField(Field):
    """True only where the object says true."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> bool:
        return self.value(view) is True


class CountField(Field):
    """A whole number, or None; JSON's true is not 1."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> int | None:
        value = self.value(view)
        return value if type(value) is int else None


class NumberField(Field):
    """A number, or None."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> float | None:
        value = self.value(view)
        return value if type(value) in (int, float) else None


class ObjectField(Field):
    """An object, or None."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> dict[str, Any] | None:
        value = self.value(view)
        return value if isinstance(value, dict) else None


class ListField(Field):
    """A list; empty where there is none."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> list[Any]:
        value = self.value(view)
        return value if isinstance(value, list) else []


class AnyField(Field):
    """Whatever is there, or None."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> Any:
        return self.value(view)


def fields(view_class: type[View]) -> dict[str, Field]:
    """The declared fields of a view class, inherited ones first."""
    found: dict[str, Field] = {}
    for base in reversed(view_class.__mro__):
        found |= {name: f for name, f in vars(base).items() if isinstance(f, Field)}
    return found
