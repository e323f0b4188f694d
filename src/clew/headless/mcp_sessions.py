"""The sessions of a folder for another agent: a search in what was said, as a tool of `clew mcp serve`.

What was said in other folders is theirs: it is looked through only where a rule allows the tool.
"""

import asyncio
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.library.search import Scope, folders_of, search, told
from clew.library.words import query_of
from clew.library.worktrees import worktrees
from clew.mcp.protocol import a_text
from clew.permissions.decision import Allow, reason

Json: TypeAlias = dict[str, Any]

NAME = "SessionsSearch"
MOST = 50
USUAL = 10
DEFINITION: Json = {
    "name": NAME,
    "description": (
        "Finds words in the conversations that were held with clew in this folder and its git worktrees: "
        'all words must be there; "a phrase"; beg* for a beginning. The newest first.'
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words"},
            "limit": {"type": "integer", "description": f"At most so many, {USUAL} if not said"},
            "everywhere": {
                "type": "boolean",
                "description": "In the sessions of all folders; only where a rule allows this tool",
            },
        },
        "required": ["query"],
    },
}


def is_offered(session: Session) -> bool:
    return session.rules.standing.rules.for_tool("deny", NAME, untrusted=False) is None


async def found(session: Session, given: Json) -> tuple[str, bool]:
    """What is found, in words, and whether that is a failure."""
    everywhere = given.get("everywhere") is True
    if everywhere:
        decision = session.rules.judge(NAME, given, cwd=session.cwd)
        if not isinstance(decision, Allow):
            return f"The sessions of other folders were not searched: {reason(decision)}.", True
    query = query_of(a_text(given.get("query")))
    if query.is_empty:
        return "There is no word to look for in that query.", True
    limit = given.get("limit")
    most = min(limit, MOST) if type(limit) is int and limit > 0 else USUAL
    home = session.rules.standing.places.config_home
    folders = None if everywhere else folders_of(home, worktrees(session.cwd))
    said = await asyncio.to_thread(search, home, query, Scope(folders=folders), limit=most)
    return "\n".join(told(said)), False
