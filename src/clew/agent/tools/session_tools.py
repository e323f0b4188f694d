"""Config, ToolSearch and StructuredOutput: tools that concern the session itself.

ToolSearch finds tools whose definitions were left out of the request, so that many tools cost
little. It answers with a reference to each tool found. The service expands the references if it
supports deferred definitions; otherwise the next request contains them (see `agent.requests`).

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

# Config: shows a setting, or changes one of those that grant no additional rights.


CHANGEABLE = frozenset({
    "alwaysThinkingEnabled", "effortLevel", "fallbackModel", "language", "maxThinkingTokens",
    "model", "respectGitignore", "theme",
})  # fmt: skip


class ConfigInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    setting: Annotated[str, Meta(min_length=1, description="The key, such as model")]
    value: Annotated[str | bool | int, Meta(description="Omit it to show the setting")] | (
        UnsetType
    ) = UNSET


class Config(Tool[ConfigInput]):
    name = "Config"
    description = "Show or change one of clew's settings"
    prompt = (
        "Show one of clew's settings and its source, or write it to the user's settings file. Use "
        "this only at the user's request. Permissions, hooks, servers, variables and keys can't be "
        "changed here; refer the user to `clew config`."
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
            raise ToolError(
                f"Unknown setting {arguments.setting}; `clew config keys` lists all settings."
            )
        if arguments.value is UNSET:
            present, value = find_value(in_force_now(places), split_path(arguments.setting))
            result = {"success": True, "operation": "get", "setting": arguments.setting}
            return ToolOutcome(
                content="\n".join(explain_setting(places, arguments.setting)),
                tool_use_result=result | {"value": format_value(value) if present else None},
                display=format_value(value) if present else "not set",
            )
        return change_setting(arguments.setting, arguments.value, places)


def change_setting(setting: str, value: Any, places: Any) -> ToolOutcome:
    if setting not in CHANGEABLE:
        raise ToolError(
            f"{setting} can't be changed by a model. The user can run: clew config set {setting} ..."
        )
    done = assign(places, "user", setting, value)
    when = "also in this session" if BY_NAME[setting].is_live else "from the next session on"
    return ToolOutcome(
        content=f"{setting} is now {format_value(value)} in {done.path}. The change applies {when}.",
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
        str, Meta(min_length=1, description="select:NAME,NAME for known names, or a few words")
    ]
    max_results: Annotated[int, Meta(ge=1, le=50, description="Maximum number of tools")] = (
        MAX_RESULTS
    )


class ToolSearch(Tool[ToolSearchInput]):
    name = "ToolSearch"
    description = "Find tools that are not loaded yet"
    prompt = (
        "Load tools of which you know only the name. The conversation lists them; don't call "
        "them before, as you don't know their inputs. `select:NAME,NAME` loads the named tools. "
        "Other words are searched in names and descriptions (`+word` is required), and the best "
        "matches are loaded. Loaded tools stay loaded."
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
            text = f"No tool matches {arguments.query!r}. Tools that can be loaded: {names}."
            return ToolOutcome(content=text, tool_use_result=result, display="no match")
        return ToolOutcome(
            content=[{"type": "tool_reference", "tool_name": name} for name in tool_names],
            tool_use_result=result,
            display=", ".join(tool_names),
        )


def matches(query: str, tools: Iterable[Tool[Any]], limit: int) -> list[str]:
    """Return the names of the matching tools, best first."""
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
    """Return how well a tool matches, mainly by its name; 0 if a required word is missing."""
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


# StructuredOutput: an answer that follows a schema, validated before it is accepted.


class StructuredOutputInput(Struct, frozen=True, kw_only=True):
    values: dict[str, Any]


class StructuredOutput(Tool[StructuredOutputInput]):
    """Accepts an answer that follows the schema of the run; the answer becomes the run's result."""

    name = STRUCTURED_OUTPUT
    description = "Return the answer in the requested form"
    prompt = (
        "Return your final answer in the requested form. Call it once, when the work is done: "
        "its input is the result, and nothing else is read."
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
            content="The answer is valid and was accepted as the result.",
            tool_use_result=arguments.values,
            display="valid answer",
        )
