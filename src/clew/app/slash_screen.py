"""Slash commands about how the screen behaves: vim's keys, keys of one's own, the command behind the last line.

They write a person's settings, whatever front they are typed at; a screen that is open heeds them at once.
"""

from typing import Any

from clew.app.session import Session
from clew.commands.outcome import Outcome, Show
from clew.config.answers import assign, unset
from clew.config.there import is_there
from clew.permissions.in_session import of_own

ON, OFF = "on", "off"
LINE = "statusLine"


async def vim(session: Session, word: str) -> Outcome:
    """Without a word the other of the two."""
    if word not in ("", ON, OFF):
        return Show(text=f"no {word!r}; there are {ON} and {OFF}", is_error=True)
    is_on = session.rules.standing.settings.get("editorMode") == "vim"
    mode = "vim" if (word or (OFF if is_on else ON)) == ON else "normal"
    told = set_to(session, "editorMode", mode)
    how = "Escape leaves the insert mode, i goes back to it" if mode == "vim" else "as ever"
    return Show(text=f"the prompt has {mode} keys: {how}\n{told}")


async def status_line(session: Session, command: str) -> Outcome:
    """Whose words the last line of the screen shows: clew's, or what a command prints."""
    if not command:
        now = session.rules.standing.settings.get(LINE)
        shown = now.get("command") if isinstance(now, dict) else None
        if not shown:
            return Show(
                text="the last line is clew's own: model, mode, what is left, cost, time, branch\n"
                "/statusline COMMAND has a command of yours print it; it is told the session as JSON"
            )
        return Show(text=f"the last line is what this prints: {shown}\n/statusline {OFF} ends that")
    if command == OFF:
        path = unset(session.rules.standing.places, "user", LINE)
        session.rules.refresh()
        return Show(text=f"{path}: the last line is clew's own again")
    return Show(text=set_to(session, LINE, {"type": "command", "command": command}))


def set_to(session: Session, key: str, value: Any) -> str:
    done = assign(session.rules.standing.places, "user", key, value)
    noticed = of_own(session.rules.refresh())
    return "\n".join([f"{done.path}: {key} is set", *done.faults, *noticed])


async def key_bindings(session: Session, _: str) -> Outcome:
    """Where no keys are pressed: what says them, and where a person's own stand."""
    path = session.rules.standing.places.config_home / "keybindings.json"
    there = "yours are in" if is_there(path) else "yours would be in"
    return Show(
        text=f"clew keys lists what keys do on the screen, and checks your own; {there} {path}"
    )
