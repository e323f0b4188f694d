"""What a slash command does: a function of the open session and of what was typed behind the name."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.input import Outcome
from clew.session.session import Session

SlashHandler: TypeAlias = Callable[[Session, str], Awaitable[Outcome]]
# By the command's name.
SlashHandlers: TypeAlias = dict[str, SlashHandler]
