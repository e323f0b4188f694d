"""Slash commands that only make sense where a terminal is drawn on."""

from clew.app.session import Session
from clew.commands.outcome import Outcome, Show
from clew.commands.registry import Command
from clew.messages.messages import Assistant
from clew.tui.app import Front
from clew.tui.keys import listed


def commands(front: Front) -> list[Command[Session]]:
    async def copy(session: Session, _: str) -> Outcome:
        text = last_answer(session)
        if not text:
            return Show(text="there is no answer to copy", is_error=True)
        if not front.screen.terminal.copy(text):
            return Show(text=f"{len(text):,} characters are too many to copy", is_error=True)
        return Show(text=f"copied {len(text):,} characters")

    async def keys(_: Session, __: str) -> Outcome:
        return Show(text=listed(front.bindings))

    return [
        Command(
            name="copy",
            description="copy the last answer to the clipboard",
            run=copy,
            is_interactive=True,
        ),
        Command(name="keys", description="list what keys do here", run=keys, is_interactive=True),
    ]


def last_answer(session: Session) -> str:
    history = session.story.history
    for at in range(len(history) - 1, -1, -1):
        if history[at].get("type") == "assistant" and (text := Assistant(history[at]).text.strip()):
            return text
    return ""
