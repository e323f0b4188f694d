"""How a session takes in what was typed: the tools and rules that lines of input go through."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from clew.app.stamps import new_id, now
from clew.config.paths import Places
from clew.context.facts import Fact
from clew.engine.intake import Intake
from clew.engine.toolset import SessionTools
from clew.permissions.decision import Decision
from clew.permissions.in_session import SessionRules
from clew.tools.base import ToolSession
from clew.transcript.paths import project_dir

Json: TypeAlias = dict[str, Any]
MEMORY_FILE = "CLAUDE.md"
# Where a person's notes go: words of the setting `notesFile`, so that no project names a file elsewhere.
NOTES = ("project", "local", "user")


def memory_folder(places: Places) -> Path:
    """What earlier sessions of the project left for later ones."""
    return project_dir(places.config_home, str(places.root)) / "memory"


def notes_file(rules: SessionRules) -> Path:
    """The memory file that notes are added to."""
    standing = rules.standing
    match standing.settings.get("notesFile"):
        case "local":
            return standing.places.root / "CLAUDE.local.md"
        case "user":
            return standing.places.config_home / MEMORY_FILE
        case _:
            return standing.places.root / MEMORY_FILE


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
        memory_file=lambda: notes_file(rules),
        now=now,
        new_id=new_id,
        resource=resource,
    )
