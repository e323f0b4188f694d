"""How a session takes in what was typed: the tools and rules that lines of input go through."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from clew.app.stamps import new_id, now
from clew.context.facts import Fact
from clew.engine.intake import Intake
from clew.engine.toolset import SessionTools
from clew.permissions.decision import Decision
from clew.permissions.in_session import SessionRules
from clew.tools.base import ToolSession

Json: TypeAlias = dict[str, Any]
MEMORY_FILE = "CLAUDE.md"


def intake(
    tools: SessionTools,
    judge: Callable[[Json], Decision],
    tool_session: ToolSession,
    rules: SessionRules,
    resource: Callable[[str], Awaitable[Fact | None]],
) -> Intake:
    return Intake(
        tools=tools,
        judge=judge,
        path_of=tool_session.path,
        may_read=rules.may_read,
        memory_file=rules.standing.places.root / MEMORY_FILE,
        now=now,
        new_id=new_id,
        resource=resource,
    )
