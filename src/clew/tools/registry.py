"""The tools of a session, in one fixed order: the order is part of every request's prefix."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clew.tools.base import Tool
from clew.tools.bash import Bash
from clew.tools.edit import Edit
from clew.tools.glob import Glob
from clew.tools.grep import Grep
from clew.tools.read import Read
from clew.tools.schema import definition
from clew.tools.todo import TodoWrite
from clew.tools.write import Write


def builtin_tools() -> tuple[Tool[Any], ...]:
    return (Bash(), Edit(), Glob(), Grep(), Read(), TodoWrite(), Write())


class Toolbox:
    """Tools by name; `definitions` is made once and the same from then on."""

    __slots__ = ("_by_name", "_definitions")

    def __init__(
        self, tools: Iterable[Tool[Any]], settings: Mapping[str, Any] | None = None
    ) -> None:
        self._by_name = {tool.name: tool for tool in tools if tool.is_enabled(settings or {})}
        self._definitions: list[dict[str, Any]] | None = None

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Tool[Any] | None:
        return self._by_name.get(name)

    def definitions(self) -> list[dict[str, Any]]:
        if self._definitions is None:
            self._definitions = [definition(tool) for tool in self]
        return self._definitions
