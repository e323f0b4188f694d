"""Token usage as the API states it: a fresh default, a view, and the form that readers rely on."""

from __future__ import annotations

from clew.messages.views import AnyField, ObjectField, TextField, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def zero_usage() -> dict[str, Any]:
    """The API's whole usage object with nothing counted; what a synthetic message carries."""
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


# Beyond it no program of another language counts exactly, and no database keeps the sums.
MOST_TOKENS = 2**53


def _count(value: Any) -> int:
    """What is no number of tokens counts as nothing."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


class Usage(View):
    """Counts of one response; what is absent counts as nothing. Cache tokens are beside
    `input_tokens`, never inside it."""

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
        """Writes for five minutes: what was not said to be for an hour."""
        return max(0, self.cache_write_tokens - self.cache_write_1h_tokens)

    @property
    def total_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


def usage_for_writing(usage: Any) -> dict[str, Any]:
    """A usage that no reader misreads: both counts are there, and a split of the cache writes
    that does not add up to their total is left out, because readers trust it over the total."""
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
