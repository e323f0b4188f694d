"""Views: thin classes that name the fields of a decoded JSON object.

The object remains the source of truth: a view never changes it. A field that a writer omitted or
wrote with another type reads as the field's empty value. Nothing here raises because of the data.

Decision: docs/decisions/002-start-up-imports.md
Decision: docs/decisions/010-views-over-dicts.md
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class View:
    """A view of one decoded object; it refers to the object and does not copy it."""

    __slots__ = ("_data",)
    tag: ClassVar[str] = ""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    @property
    def data(self) -> dict[str, Any]:
        """The complete object, unknown fields included. Read-only: copy it before changing it."""
        return self._data

    @property
    def type(self) -> str:
        """The type, as a constant of the view, so that all entries of a kind share one string."""
        return self.tag

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._data)} fields>"


class Field:
    """A descriptor for one field of a view's object, or of the object in its field `inside`."""

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
    """A boolean; True only for JSON true."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> bool:
        return self.value(view) is True


class CountField(Field):
    """An integer, or None; JSON true is not 1."""

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
    """A list, or an empty one."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> list[Any]:
        value = self.value(view)
        return value if isinstance(value, list) else []


class AnyField(Field):
    """The value as it is, or None."""

    __slots__ = ()

    def __get__(self, view: View, owner: type[View]) -> Any:
        return self.value(view)


def fields(view_class: type[View]) -> dict[str, Field]:
    """Return the declared fields of a view class, inherited ones first."""
    fields_by_name: dict[str, Field] = {}
    for base in reversed(view_class.__mro__):
        fields_by_name |= {name: f for name, f in vars(base).items() if isinstance(f, Field)}
    return fields_by_name


# Token usage as the API reports it: an empty default, a view, and the form that readers need.


def make_zero_usage() -> dict[str, Any]:
    """Return the API's complete usage object with all counts zero, for synthetic messages."""
    return {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": None,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": None,
        "iterations": None,
        "speed": None,
    }


# Larger integers lose precision in languages with only doubles, and overflow the sums of databases.
MOST_TOKENS = 2**53


def _count(value: Any) -> int:
    """Return a valid token count, or 0."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


class Usage(View):
    """The token counts of one response; missing ones are zero.

    `input_tokens` excludes cached tokens.
    """

    __slots__ = ()

    service_tier = TextField("service_tier")
    server_tool_use = ObjectField("server_tool_use")
    iterations = AnyField("iterations")
    speed = TextField("speed")
    inference_geo = TextField("inference_geo")

    @property
    def input_tokens(self) -> int:
        return _count(self.data.get("input_tokens"))

    @property
    def output_tokens(self) -> int:
        return _count(self.data.get("output_tokens"))

    @property
    def cache_read_tokens(self) -> int:
        return _count(self.data.get("cache_read_input_tokens"))

    @property
    def cache_write_tokens(self) -> int:
        return _count(self.data.get("cache_creation_input_tokens"))

    @property
    def cache_write_1h_tokens(self) -> int:
        split = self.data.get("cache_creation")
        return _count(split.get("ephemeral_1h_input_tokens")) if isinstance(split, dict) else 0

    @property
    def cache_write_5m_tokens(self) -> int:
        """Cache writes for five minutes: all writes that are not for an hour."""
        return max(0, self.cache_write_tokens - self.cache_write_1h_tokens)

    @property
    def total_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


def complete_usage(usage: Any) -> dict[str, Any]:
    """Return a usage object that no reader misinterprets.

    Both token counts are always present. A breakdown of the cache writes that does not match their
    total is removed, because readers trust it over the total.
    """
    written = dict(usage) if isinstance(usage, dict) else {}
    for key in ("input_tokens", "output_tokens"):
        written[key] = _count(written.get(key))
    split = written.get("cache_creation")
    if split is not None and not _adds_up(split, Usage(written).cache_write_tokens):
        del written["cache_creation"]
    return written


def _adds_up(split: Any, total: int) -> bool:
    parts = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
    return isinstance(split, dict) and sum(_count(split.get(part)) for part in parts) == total
