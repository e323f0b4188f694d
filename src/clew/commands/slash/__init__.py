"""Slash commands: the table, and one module per subject that is loaded when a command is typed.

A handler is a function that takes the open session and the text after the command's name.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.input import Outcome
from clew.session.session import Session

SlashHandler: TypeAlias = Callable[[Session, str], Awaitable[Outcome]]
# Handlers by command name.
SlashHandlers: TypeAlias = dict[str, SlashHandler]
