"""Slash commands about the setup: how hard the model thinks, folders, hooks, health, a report of a fault."""

from pathlib import Path
from typing import Any, TypeAlias, get_args

import msgspec

from clew.app.session import Session
from clew.app.slash_session import new_file
from clew.app.stamps import now
from clew.commands.outcome import Outcome, Show
from clew.commands.rows import table
from clew.config.mask import mask
from clew.config.there import is_folder
from clew.messages.errors import UserError
from clew.permissions.updates import FoldersUpdate
from clew.providers.base import Effort

Json: TypeAlias = dict[str, Any]

LEVELS: tuple[str, ...] = get_args(Effort)


async def effort(session: Session, level: str) -> Outcome:
    if not level:
        now_is = session.requests.template.effort or "the model's own"
        return Show(text=f"effort: {now_is}; there are {', '.join(LEVELS)}, and auto")
    if level == "auto":
        session.speaking.effort(None)
        return Show(text="effort: the model's own, from the next prompt on")
    if level not in LEVELS:
        return Show(text=f"no effort {level!r}; there are {', '.join(LEVELS)}, auto", is_error=True)
    session.speaking.effort(msgspec.convert(level, Effort))
    return Show(text=f"effort: {level}, from the next prompt on")


async def add_folder(session: Session, name: str) -> Outcome:
    standing = session.rules.standing
    if not name:
        rows = "\n".join([str(standing.places.cwd), *standing.context.directories])
        return Show(text=rows)
    folder = folder_of(standing.places.cwd, name)
    session.rules.update([FoldersUpdate(type="addDirectories", directories=(str(folder),))])
    session.hooks.tell("DirectoryAdded", {"directory": str(folder), "source": "slash_command"})
    return Show(text=f"{folder} is a folder of this session too")


def folder_of(cwd: Path, name: str) -> Path:
    folder = Path(cwd, Path(name).expanduser())
    if not is_folder(folder):
        raise UserError(f"{folder} is no folder")
    return folder


async def hooks(session: Session, _: str) -> Outcome:
    from clew.hooks.events import label
    from clew.hooks.handlers import read_layers

    found = read_layers(session.rules.standing.layers)
    lines = [f"off: {found.off}"] if found.off else []
    lines += [
        f"{label(one.event.name, one.matcher or None)}  {one.kind}: {one.handler.title}  [{one.where}]"
        for one in found.hooks
    ]
    return Show(text=mask("\n".join([*lines, *found.faults])) or "no hooks")


async def doctor(session: Session, arguments: str) -> Outcome:
    from clew.doctor.finding import faults_in, told
    from clew.doctor.look import look

    found = await look(
        session.rules.standing, offline=arguments.strip() == "--offline", launcher=session.launcher
    )
    return Show(text=mask(told(found)), is_error=bool(faults_in(found)))


async def bug_report(session: Session, name: str) -> Outcome:
    """A file for whoever mends clew. Nothing of the conversation is in it, and nothing is sent."""
    from clew.config.write import replace
    from clew.doctor.finding import told
    from clew.doctor.look import look, made_of

    standing = session.rules.standing
    default = f"clew-report-{now()[:19].replace(':', '')}.md"
    target = new_file(session, name or default)
    kinds: dict[str, int] = {}
    for entry in session.story.history:
        kinds[entry["type"]] = kinds.get(entry["type"], 0) + 1
    rows = [
        ("clew", made_of()),
        ("model", session.model.id),
        ("mode", session.mode),
        ("session", session.session_id),
        ("entries", ", ".join(f"{many} {kind}" for kind, many in sorted(kinds.items())) or "none"),
        ("tools", ", ".join(tool.name for tool in session.toolbox)),
        ("notices", "; ".join(session.notices) or "none"),
    ]
    found = await look(standing, offline=True, launcher=session.launcher)
    text = (
        f"# What went wrong\n\n(say here what you did, what you expected, what came)\n\n"
        f"# The session\n\n{table(rows)}\n\n# The setup\n\n{told(found)}\n"
    )
    replace(target, mask(text), mode=0o600)
    return Show(text=f"{target}: read it before you send it to anybody; clew sends it to nobody")
