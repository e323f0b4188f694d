"""Slash commands: the table, and one module per subject that is loaded when a command is typed.

A handler is a function that takes the open session and the text after the command's name.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from clew.core.input import Outcome, Show
from clew.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from clew.core.page import ReportPage

SlashHandler: TypeAlias = Callable[[Session, str], Awaitable[Outcome]]
# Handlers by command name.
SlashHandlers: TypeAlias = dict[str, SlashHandler]


def show_page(page: "ReportPage") -> Show:
    """Return a page to show; front ends that cannot paint it show its plain text."""
    from clew.core.page import format_page

    return Show(text=format_page(page), page=page)
