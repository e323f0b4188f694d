"""The tools of a session, in one fixed order: the order is part of every request's prefix.

What has been offered once stays in the definitions while the session lasts, also when the tool is
gone, because results that were sent before may name it.

What the model is told of the built-in tools is written down in `make_builtin_tools.json`, made by `make docs`
from the tools themselves: a session loads their code with the first call.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from clew.agent.tools.base import Tool, ToolContext, ToolOutcome
from clew.agent.tools.schema import make_definition


def make_builtin_tools() -> tuple[Tool[Any], ...]:
    """The built-in tools themselves."""
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


# What of a tool is known before its code is: everything else is asked of a call.
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
    """What is written down of a built-in tool."""
    return {name: getattr(tool, name) for name in OUTLINED} | {"stated": make_definition(tool)}


class BuiltinTool(Tool[Any]):
    """A built-in tool by its outline. Its code is loaded with its first call."""

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
    """The built-in tools as a session offers them."""
    return tuple(map(BuiltinTool, msgspec.json.decode(OUTLINES.read_bytes())))


# A person, or a host that speaks for one, must be there to answer.
NEED_A_PERSON = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})


class Toolbox:
    """Tools by name. ToolSearch is among them as soon as one is deferred, whoever left it out."""

    __slots__ = ("_by_name", "_definitions", "_settings", "revision")

    def __init__(
        self, tools: Iterable[Tool[Any]], settings: Mapping[str, Any] | None = None
    ) -> None:
        self._settings = settings or {}
        self._by_name: dict[str, Tool[Any]] = {}
        self._definitions: dict[str, dict[str, Any]] = {}
        # Rises with every change of what is offered.
        self.revision = 0
        self.gain(tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Tool[Any] | None:
        """The tool of a name, be it one that only other programs give it."""
        tool = self._by_name.get(name)
        return tool or next((tool for tool in self if name in tool.also_called), None)

    def gain(self, tools: Iterable[Tool[Any]]) -> None:
        """Adds tools behind those that are there, or in the place of one of the same name."""
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
        """Takes tools away: they are called no more, and no longer offered to a new conversation."""
        lost = [name for name in names if self._by_name.pop(name, None) is not None]
        self.revision += bool(lost)

    def was_there(self, name: str) -> bool:
        """Whether the name was a tool's, earlier in this session."""
        return name in self._definitions and name not in self._by_name

    def definitions(self) -> list[dict[str, Any]]:
        """Every tool that was offered in this session; those to be found first are marked so."""
        return list(self._definitions.values())

    def deferred(self) -> tuple[str, ...]:
        """The tools that ToolSearch can find, by name."""
        return tuple(sorted(tool.name for tool in self if tool.is_deferred))
