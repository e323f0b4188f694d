"""Control requests that the open session alone answers: functions of it and of the request's fields."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.commands.slash.table import known
from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.session.session import Session

SessionControl: TypeAlias = Callable[[Session, Json], Json | Awaitable[Json]]
# By the request's name.
SessionControls: TypeAlias = dict[str, SessionControl]


class ControlRefusedError(ClewError):
    """A control request that is not done, and why; `code` is for programs that look for it."""

    code: str | None = None


def commands(session: Session) -> list[Json]:
    """What can be typed behind a slash."""
    found = {skill.name: skill.origin for skill in session.parts.skills.all()}
    return [
        {
            "name": command.name,
            "description": command.description,
            "argumentHint": command.hint,
            "aliases": list(command.aliases),
            "builtin": command.name not in found or found[command.name] == "bundled",
        }
        for command in known(session)
    ]


def agents(session: Session) -> list[Json]:
    return [
        {"name": spec.name, "description": spec.description, "model": spec.model}
        for spec in session.parts.agents.catalog
    ]
