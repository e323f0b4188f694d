"""Control requests that need only the open session.

Each is a function that takes the session and the fields of the request.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.commands.slash.table import collect_commands
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.session.session import Session

SessionControl: TypeAlias = Callable[[Session, Json], Json | Awaitable[Json]]
# Functions by the name of the request.
SessionControls: TypeAlias = dict[str, SessionControl]


class ControlRefusedError(ClewError):
    """A rejected control request. The message says why; `code` is for programs."""

    code: str | None = None


def list_commands(session: Session) -> list[Json]:
    """Return the slash commands."""
    origins = {skill.name: skill.origin for skill in session.parts.skills.all()}
    return [
        {
            "name": command.name,
            "description": command.description,
            "argumentHint": command.hint,
            "aliases": list(command.aliases),
            "builtin": command.name not in origins or origins[command.name] == "bundled",
        }
        for command in collect_commands(session)
    ]


def list_agents(session: Session) -> list[Json]:
    return [
        {"name": spec.name, "description": spec.description, "model": spec.model}
        for spec in session.parts.agents.catalog
    ]
