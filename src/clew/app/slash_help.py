"""`/help`: what can be typed, and what one command takes and does."""

from clew.app.session import Session
from clew.app.slash import DONE_ELSEWHERE, known
from clew.commands.outcome import Outcome, Show
from clew.commands.rows import table


async def show(session: Session, name: str) -> Outcome:
    if name:
        return about(session, name.removeprefix("/"))
    rows = [
        (f"/{command.name} {command.hint}".rstrip(), command.description)
        for command in known(session)
    ]
    rows += [
        ("!COMMAND", "run a command in the shell; the model sees it and what it printed"),
        ("# NOTE", "add a line to the project's memory file"),
        ("@FILE", "anywhere in a prompt: bring a file, a folder or FILE#L10-20 along"),
    ]
    return Show(text=table(rows))


def about(session: Session, name: str) -> Outcome:
    """One command: what it takes and does, and its other names."""
    commands = known(session)
    command = commands.find(name)
    if command is None:
        near = commands.nearest(name)
        hint = f"did you mean /help {near}?" if near else "/help lists those there are."
        hint = DONE_ELSEWHERE.get(name, hint)
        return Show(text=f"there is no command /{name}; {hint}", is_error=True)
    lines = [f"/{command.name} {command.hint}".rstrip(), command.description]
    if command.aliases:
        lines.append(f"also: {', '.join(f'/{alias}' for alias in command.aliases)}")
    return Show(text="\n".join(lines))
