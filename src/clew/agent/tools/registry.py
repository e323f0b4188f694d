"""The tools of a session, in one fixed order, because the order is part of every request's prefix.

A tool that has been offered remains in the definitions for the rest of the session, even after it
has been removed, because earlier results may name it.

`builtin_tools.json` describes the built-in tools. `make docs` generates it from the tools, so that
a session loads their code only with the first call.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from clew.agent.tools.base import Tool, ToolContext, ToolOutcome
from clew.agent.tools.schema import make_definition


def make_builtin_tools() -> tuple[Tool[Any], ...]:
    """Return the built-in tools with their code loaded."""
    from clew.agent.tools.agents import Agent, SendMessage
    from clew.agent.tools.background_tools import Monitor, TaskOutput, TaskStop
    from clew.agent.tools.bash import Bash, PowerShell
    from clew.agent.tools.edit import Edit, MultiEdit
    from clew.agent.tools.notebook_edit import NotebookEdit
    from clew.agent.tools.read import Read
    from clew.agent.tools.search_tools import LS, Glob, Grep
    from clew.agent.tools.session_tools import Config, ToolSearch
    from clew.agent.tools.tasks import ListTasks, TaskCreate, TaskGet, TaskUpdate
    from clew.agent.tools.user_tools import (
        AskUserQuestion,
        Brief,
        EnterPlanMode,
        ExitPlanMode,
        TodoWrite,
    )
    from clew.agent.tools.write import Write

    return (
        Agent(),
        AskUserQuestion(),
        Bash(),
        Brief(),
        Config(),
        Edit(),
        EnterPlanMode(),
        ExitPlanMode(),
        Glob(),
        Grep(),
        LS(),
        Monitor(),
        MultiEdit(),
        NotebookEdit(),
        PowerShell(),
        Read(),
        SendMessage(),
        TaskCreate(),
        TaskGet(),
        ListTasks(),
        TaskOutput(),
        TaskStop(),
        TaskUpdate(),
        TodoWrite(),
        ToolSearch(),
        Write(),
    )


@cache
def _builtin_by_name() -> dict[str, Tool[Any]]:
    return {tool.name: tool for tool in make_builtin_tools()}


# The attributes known before a tool's code is loaded. A call needs the code for the others.
OUTLINED = (
    "name",
    "description",
    "prompt",
    "is_deferred",
    "search_words",
    "also_called",
    "programs",
)
OUTLINES = Path(__file__).with_name("builtin_tools.json")


def outline(tool: Tool[Any]) -> dict[str, Any]:
    """Return a built-in tool's entry in `builtin_tools.json`."""
    return {name: getattr(tool, name) for name in OUTLINED} | {"stated": make_definition(tool)}


class BuiltinTool(Tool[Any]):
    """A built-in tool as described in `builtin_tools.json`.

    Its code is loaded with its first call.
    """

    def __init__(self, outlined: Mapping[str, Any]) -> None:
        self.name = outlined["name"]
        self.description = outlined["description"]
        self.prompt = outlined["prompt"]
        self.is_deferred = outlined["is_deferred"]
        self.search_words = outlined["search_words"]
        self.also_called = tuple(outlined["also_called"])
        self.programs = tuple(outlined["programs"])
        self.stated = outlined["stated"]

    def load(self) -> Tool[Any]:
        return _builtin_by_name()[self.name]

    @property
    def input_type(self) -> type[Any]:
        return self.load().input_type

    async def call(self, arguments: Any, ctx: ToolContext) -> ToolOutcome:
        return await self.load().call(arguments, ctx)


def outlined_tools() -> tuple[Tool[Any], ...]:
    """Return the built-in tools as a session offers them, without loading their code."""
    return tuple(map(BuiltinTool, msgspec.json.decode(OUTLINES.read_bytes())))


# These tools require a user, or a host that answers for the user.
NEED_A_PERSON = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})


class Toolbox:
    """The session's tools, by name. ToolSearch is included if any tool is deferred."""

    __slots__ = ("_by_name", "_definitions", "_settings", "revision")

    def __init__(
        self, tools: Iterable[Tool[Any]], settings: Mapping[str, Any] | None = None
    ) -> None:
        self._settings = settings or {}
        self._by_name: dict[str, Tool[Any]] = {}
        self._definitions: dict[str, dict[str, Any]] = {}
        # Increases whenever the offered tools change.
        self.revision = 0
        self.gain(tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Tool[Any] | None:
        """Return a tool by its name or by an alias from another program, or None."""
        tool = self._by_name.get(name)
        return tool or next((tool for tool in self if name in tool.also_called), None)

    def gain(self, tools: Iterable[Tool[Any]]) -> None:
        """Add tools at the end, or in the place of a tool with the same name."""
        new = [tool for tool in tools if tool.is_enabled(self._settings)]
        names = {*self._by_name, *(tool.name for tool in new)}
        if any(tool.is_deferred for tool in new) and "ToolSearch" not in names:
            from clew.agent.tools.session_tools import ToolSearch

            new.insert(0, ToolSearch())
        for tool in new:
            self._by_name[tool.name] = tool
            self._definitions[tool.name] = tool.stated or make_definition(tool)
        self.revision += bool(new)

    def lose(self, names: Iterable[str]) -> None:
        """Remove tools: they can't be called, and new conversations don't offer them."""
        lost = [name for name in names if self._by_name.pop(name, None) is not None]
        self.revision += bool(lost)

    def was_there(self, name: str) -> bool:
        """Return whether the name belonged to a tool that was removed during this session."""
        return name in self._definitions and name not in self._by_name

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of all tools offered in this session; deferred ones are marked."""
        return list(self._definitions.values())

    def deferred(self) -> tuple[str, ...]:
        """Return the names of the tools that ToolSearch can find."""
        return tuple(sorted(tool.name for tool in self if tool.is_deferred))
