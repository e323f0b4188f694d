"""Tools that rules name and nobody has. Such a rule stands and holds nothing, and whoever wrote it is told.

Owns the names that other programs of the ecosystem give their tools: settings are shared with those, so
they are named with good reason. Never doubts what may come later: tools of servers, names with a star.
A misspelled deny rule denies nothing, so silence would be worst; an error would be too much, because
hosts pass lists of tools that other versions have.
"""

from collections.abc import Collection
from difflib import get_close_matches

from clew.permissions.request import MCP_PREFIX, TOOLS
from clew.permissions.rules import RULE

ELSEWHERE = frozenset(
    {
        "AgentOutputTool",
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterWorktree",
        "ExitWorktree",
        "KillBash",
        "MCPSearch",
        "PushNotification",
        "REPL",
        "ReadMcpResource",
        "ListMcpResources",
        "RemoteTrigger",
        "Sleep",
        "TeamCreate",
        "TeamDelete",
        "Workflow",
    }
)


def names_tool(word: str) -> bool:
    """Whether a word is a rule, and of a tool that somebody has."""
    read = RULE.fullmatch(word)
    return read is not None and (
        read[1] in TOOLS or read[1] in ELSEWHERE or read[1].startswith(MCP_PREFIX)
    )


def unknown_tool(rule: str, offered: Collection[str] = ()) -> str | None:
    """What to say of the tool of a rule, if nobody has it; `offered` are those of a session.

    A rule that cannot be read is complained of where rules are read."""
    read = RULE.fullmatch(rule)
    if read is None or read[1].startswith(MCP_PREFIX) or "*" in read[1]:
        return None
    known = {*TOOLS, *offered}
    if read[1] in known or read[1] in ELSEWHERE:
        return None
    by_letters = {name.lower(): name for name in sorted(known)}
    near = get_close_matches(read[1].lower(), by_letters, n=1)
    hint = f"; did you mean {by_letters[near[0]]}?" if near else ""
    return f"there is no tool {read[1]}{hint}"
