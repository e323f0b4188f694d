"""Slash commands: the table, and a module for each subject; loaded when one is typed.

A handler is a function of the open session and of what was typed after the name.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.input import Outcome
from clew.session.session import Session

SlashHandler: TypeAlias = Callable[[Session, str], Awaitable[Outcome]]
# By the command's name.
SlashHandlers: TypeAlias = dict[str, SlashHandler]
