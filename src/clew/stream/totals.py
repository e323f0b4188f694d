"""The usage of one answer as it comes: totals replace totals, in a dict that nobody else holds.

Owned by the accumulator and changed in place, so that ten thousand reports cost what they say and
not what was said before; `whole` hands out a copy.
"""

from typing import Any

from clew.stream.events import Json


class Totals:
    """Null, and what a report does not mention, leaves what was."""

    __slots__ = ("_said",)

    def __init__(self, usage: Any) -> None:
        self._said: Json = _own(usage) if isinstance(usage, dict) else {}

    def take(self, newer: Json) -> None:
        for name, value in newer.items():
            before = self._said.get(name)
            if isinstance(value, dict) and isinstance(before, dict):
                before.update((k, v) for k, v in value.items() if v is not None or k not in before)
            elif value is not None or name not in self._said:
                self._said[name] = dict(value) if isinstance(value, dict) else value

    def whole(self) -> Json:
        return _own(self._said)


def _own(usage: Json) -> Json:
    """A copy as deep as `take` changes it."""
    return {k: dict(v) if isinstance(v, dict) else v for k, v in usage.items()}
