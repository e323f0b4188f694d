"""What a host has looked for anew: commands and skills, plugins, output styles."""

from pathlib import Path
from typing import Any, TypeAlias

from clew.app.session import Session
from clew.headless.controls import RefusedError, agents, commands
from clew.headless.mcp import status

Json: TypeAlias = dict[str, Any]


class BusyError(RefusedError):
    """The session works; the host wanted to be told rather than to disturb it."""

    code = "reload_plugins_busy"


def reload_skills(session: Session, _: Json) -> Json:
    """Commands and skills, looked for anew; the model hears of what is new with the next prompt."""
    session.skills.reload()
    return {"skills": [one.name for one in session.skills.all()]}


async def reload_plugins(session: Session, fields: Json) -> Json:
    """Plugins with all their parts; what requests begin with stays, so there is nothing to hold back for."""
    is_busy = session.conversation.is_running or session.agents.are_working
    if fields.get("refuse_if_busy") is True and is_busy:
        raise BusyError("the session works; ask again when it is idle")
    found = await session.reloading.all(folders_of(fields.get("add_plugins")))
    return {
        "commands": commands(session),
        "agents": agents(session),
        "plugins": list(found.plugins),
        "mcpServers": status(session.mcp),
        "error_count": len(found.faults),
        "errors": list(found.faults),
        **({"held": False} if fields.get("hold_on_cache_impact") is True else {}),
    }


def folders_of(given: Any) -> tuple[str, ...]:
    """The folders of plugins that a host adds, which is its word for what they run."""
    found: list[str] = []
    for one in given if isinstance(given, list) else [] if given is None else [given]:
        path = one.get("path") if isinstance(one, dict) else None
        if not isinstance(path, str) or not Path(path).is_absolute():
            raise RefusedError("add_plugins: expected objects with the absolute path of a folder")
        found.append(path)
    return tuple(found)


def reload_output_styles(session: Session, _: Json) -> Json:
    """The styles there could be; the session goes on in the one it began with."""
    return {"available_output_styles": list(session.reloading.styles())}
