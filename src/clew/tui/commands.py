"""Slash commands that only make sense where a terminal is drawn on."""

from clew.app.session import Session
from clew.commands.outcome import Outcome, Show
from clew.commands.registry import Command
from clew.config.there import is_there
from clew.messages.counts import count_of
from clew.messages.messages import Assistant
from clew.tui.app import Front
from clew.tui.keys import listed


def commands(front: Front) -> list[Command[Session]]:
    async def copy(session: Session, _: str) -> Outcome:
        text = last_answer(session)
        if not text:
            return Show(text="there is no answer to copy", is_error=True)
        if not front.screen.terminal.copy(text):
            return Show(
                text=f"{count_of(len(text), 'character')} are too many to copy", is_error=True
            )
        return Show(text=f"copied {count_of(len(text), 'character')}")

    async def keys(session: Session, _: str) -> Outcome:
        own = session.rules.standing.places.config_home / "keybindings.json"
        where = f"your own: {own}{'' if is_there(own) else ' (not there yet)'}"
        return Show(text=f"{listed(front.bindings)}\n{where}")

    return [
        Command(
            name="copy",
            description="copy the last answer to the clipboard",
            run=copy,
            is_interactive=True,
        ),
        Command(
            name="keybindings",
            description="list what keys do here, and where your own stand",
            run=keys,
            is_interactive=True,
            aliases=("keys",),
        ),
    ]


def last_answer(session: Session) -> str:
    history = session.story.history
    for at in range(len(history) - 1, -1, -1):
        if history[at].get("type") == "assistant" and (text := Assistant(history[at]).text.strip()):
            return text
    return ""
