"""ToolSearch: finds tools whose definitions were left out of the request, so that many cost little.

The answer is a reference to each tool found. Where the service can load deferred definitions itself,
it puts them there; where it cannot, the next request offers them (see `agent.requests`).

Decision: docs/decisions/120-deferred-tools.md
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from clew.agent.tools.base import (
    STRUCTURED_OUTPUT,
    Tool,
    ToolContext,
    ToolError,
    ToolOutcome,
    ToolSession,
)
from clew.agent.tools.json_schema import find_mismatch
from clew.system.config.json_text import split_path
from clew.system.config.layers import find_value
from clew.system.config.load import assign, explain_setting, format_value, in_force_now
from clew.system.config.settings import BY_NAME

# Config: the model looks at a setting, or changes one of those that widen nobody's rights.


CHANGEABLE = frozenset({
    "alwaysThinkingEnabled", "effortLevel", "fallbackModel", "language", "maxThinkingTokens",
    "model", "respectGitignore", "theme",
})  # fmt: skip


class ConfigInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    setting: Annotated[str, Meta(min_length=1, description="The key, as model")]
    value: Annotated[str | bool | int, Meta(description="Left out, the setting is shown")] | (
        UnsetType
    ) = UNSET


class Config(Tool[ConfigInput]):
    name = "Config"
    description = "Show or change a setting of clew"
    prompt = (
        "Shows a setting of clew and where it comes from, or writes it into the person's settings "
        "file. Only when the person asks for it. Permissions, hooks, servers, variables and keys "
        "cannot be changed here; tell the person to use `clew config`."
    )
    input_type = ConfigInput
    is_deferred = True
    search_words = "settings preferences model theme option"

    def is_read_only(self, arguments: ConfigInput) -> bool:
        return arguments.value is UNSET

    def title(self, arguments: ConfigInput) -> str:
        return (
            arguments.setting
            if arguments.value is UNSET
            else f"{arguments.setting} = {arguments.value}"
        )

    async def call(self, arguments: ConfigInput, ctx: ToolContext) -> ToolOutcome:
        if ctx.session.own is None:
            raise ToolError("This session has no settings.")
        places = ctx.session.own.places
        if arguments.setting not in BY_NAME:
            raise ToolError(f"{arguments.setting} is no setting; `clew config keys` lists them.")
        if arguments.value is UNSET:
            present, value = find_value(in_force_now(places), split_path(arguments.setting))
            result = {"success": True, "operation": "get", "setting": arguments.setting}
            return ToolOutcome(
                content="\n".join(explain_setting(places, arguments.setting)),
                tool_use_result=result | {"value": format_value(value) if present else None},
                display=format_value(value) if present else "not set",
            )
        return changed(arguments.setting, arguments.value, places)


def changed(setting: str, value: Any, places: Any) -> ToolOutcome:
    if setting not in CHANGEABLE:
        raise ToolError(
            f"{setting} is not changed by a model; a person does it: clew config set {setting} ..."
        )
    done = assign(places, "user", setting, value)
    return ToolOutcome(
        content=f"{setting} is now {format_value(value)} in {done.path}; it holds from the next session "
        "on where this one has begun with another.",
        tool_use_result={
            "success": True,
            "operation": "set",
            "setting": setting,
            "previousValue": done.before,
            "newValue": value,
        },
        display=f"{setting} = {format_value(value)}",
    )


SELECT = "select:"
WORD = re.compile(r"[a-z0-9]+")
PIECE = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
MAX_RESULTS = 5


class ToolSearchInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[
        str, Meta(min_length=1, description="select:NAME,NAME for known names, else a few words")
    ]
    max_results: Annotated[int, Meta(ge=1, le=50, description="How many at most")] = MAX_RESULTS


class ToolSearch(Tool[ToolSearchInput]):
    name = "ToolSearch"
    description = "Find tools that are not loaded yet"
    prompt = (
        "Loads tools that are known by name only. They are listed in the conversation; until they "
        "are loaded, their inputs are unknown and they cannot be called well. "
        "`select:NAME,NAME` loads these; other words are looked for in names and descriptions, "
        "`+word` must be there, and the best matches are loaded. What was loaded stays loaded."
    )
    input_type = ToolSearchInput

    def is_read_only(self, arguments: ToolSearchInput) -> bool:
        return True

    def title(self, arguments: ToolSearchInput) -> str:
        return arguments.query

    async def call(self, arguments: ToolSearchInput, ctx: ToolContext) -> ToolOutcome:
        tools = [tool for tool in ctx.surroundings().tools if tool.is_deferred]
        tool_names = matches(arguments.query, tools, arguments.max_results)
        result = {
            "matches": tool_names,
            "query": arguments.query,
            "total_deferred_tools": len(tools),
        }
        if not tool_names:
            names = ", ".join(sorted(tool.name for tool in tools)) or "none"
            text = f"No tool fits {arguments.query!r}. Tools that can be loaded: {names}."
            return ToolOutcome(content=text, tool_use_result=result, display="nothing found")
        return ToolOutcome(
            content=[{"type": "tool_reference", "tool_name": name} for name in tool_names],
            tool_use_result=result,
            display=", ".join(tool_names),
        )


def matches(query: str, tools: Iterable[Tool[Any]], limit: int) -> list[str]:
    """Names of the tools that fit, the best first."""
    tools = sorted(tools, key=lambda tool: tool.name)
    if query.strip().lower().startswith(SELECT):
        wanted = [name.strip().lower() for name in query.strip()[len(SELECT) :].split(",")]
        by_name = {tool.name.lower(): tool.name for tool in tools}
        return list(dict.fromkeys(by_name[name] for name in wanted if name in by_name))
    words = [(word, must) for part, must in parts(query) for word in WORD.findall(part.lower())]
    scored = [(score(words, tool), tool.name) for tool in tools]
    best = sorted((item for item in scored if item[0]), key=lambda item: (-item[0], item[1]))
    return [name for _, name in best[:limit]]


def parts(query: str) -> list[tuple[str, bool]]:
    return [(part.removeprefix("+"), part.startswith("+")) for part in query.split()]


def score(words: list[tuple[str, bool]], tool: Tool[Any]) -> int:
    """How well a tool fits: words of its name weigh most; 0 without one that must be there."""
    name = {piece.lower() for piece in PIECE.findall(tool.name)}
    tool_words = set(WORD.findall(f"{tool.description} {tool.search_words} {tool.prompt}".lower()))
    total = 0
    for word, must in words:
        value = (
            10 * (word in name)
            or 4 * any(word in piece for piece in name)
            or 2 * (word in tool_words)
        )
        if must and not value:
            return 0
        total += value
    return total


# StructuredOutput: the answer as data of a given shape, checked before it counts.


class StructuredOutputInput(Struct, frozen=True, kw_only=True):
    values: dict[str, Any]


class StructuredOutput(Tool[StructuredOutputInput]):
    """Its schema is that of the run; what fits is the run's result."""

    name = STRUCTURED_OUTPUT
    description = "Give the answer in the shape that was asked for"
    prompt = (
        "Gives your final answer in the shape that was asked for. Call it once, at the end, when the work "
        "is done; what stands in it is the result, and nothing else is read."
    )
    input_type = StructuredOutputInput

    def __init__(self, schema: dict[str, Any]) -> None:
        self.foreign_schema = {"type": "object", **schema}

    def is_read_only(self, arguments: StructuredOutputInput) -> bool:
        return True

    def title(self, arguments: StructuredOutputInput) -> str:
        return "the answer"

    def objection(self, arguments: StructuredOutputInput, session: ToolSession) -> str:
        problem = find_mismatch(arguments.values, self.foreign_schema)
        return f"Output does not match required schema: {problem}" if problem else ""

    async def call(self, arguments: StructuredOutputInput, ctx: ToolContext) -> ToolOutcome:
        return ToolOutcome(
            content="The answer fits and is the result.",
            tool_use_result=arguments.values,
            display="the answer fits",
        )
