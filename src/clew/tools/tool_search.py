"""ToolSearch: finds tools whose definitions were left out of the request, so that many cost little.

The answer is a reference to each tool found. Where the service can load deferred definitions itself,
it puts them there; where it cannot, the next request offers them (see `engine.requests`).

Decision: docs/decisions/120-deferred-tools.md
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, Struct

from clew.tools.base import Tool, ToolContext, ToolResult

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

    def is_read_only(self, given: ToolSearchInput) -> bool:
        return True

    def title(self, given: ToolSearchInput) -> str:
        return given.query

    async def call(self, given: ToolSearchInput, ctx: ToolContext) -> ToolResult:
        tools = [tool for tool in ctx.surroundings().tools if tool.is_deferred]
        found = matches(given.query, tools, given.max_results)
        result = {
            "matches": found,
            "query": given.query,
            "total_deferred_tools": len(tools),
        }
        if not found:
            names = ", ".join(sorted(tool.name for tool in tools)) or "none"
            text = f"No tool fits {given.query!r}. Tools that can be loaded: {names}."
            return ToolResult(content=text, tool_use_result=result, display="nothing found")
        return ToolResult(
            content=[{"type": "tool_reference", "tool_name": name} for name in found],
            tool_use_result=result,
            display=", ".join(found),
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
    told = set(WORD.findall(f"{tool.description} {tool.search_words} {tool.prompt}".lower()))
    total = 0
    for word, must in words:
        value = (
            10 * (word in name) or 4 * any(word in piece for piece in name) or 2 * (word in told)
        )
        if must and not value:
            return 0
        total += value
    return total
