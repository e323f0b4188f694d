"""The interface of session parts, and the context that they may use.

A part is created from its inputs (settings, files) and other parts, without starting anything.
`open` passes it the assembled conversation, and from then on it may run. A part's attributes are
never set from outside. `session.parts.SessionParts` lists the parts in the order in which they are
opened and queried; they are closed in reverse.

Decision: docs/decisions/330-parts.md
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from clew.agent.context.facts import Fact
from clew.agent.conversation import Conversation
from clew.agent.deps import Deps
from clew.agent.hooks.run import SessionHooks
from clew.agent.judging import Judging
from clew.agent.models import AskPerson, Speaking
from clew.agent.requests import Measure, Requests
from clew.agent.tools.base import Tool, ToolSession
from clew.agent.tools.registry import Toolbox
from clew.agent.toolset import SessionTools
from clew.core.input import SlashCommand
from clew.core.json_object import Json
from clew.core.messages.history import History
from clew.parts.context import Ground, Thread


class PartContext(Struct, frozen=True, kw_only=True):
    """A conversation, of the session or of a subagent, and everything that its parts may use.

    `speaking`, `deps` and `conversation` are always the session's, because subagents share its
    budget and permissions.
    """

    # Options, settings, rules, paths, the environment, the launcher and the service.
    ground: Ground
    # The record, the history, the model and the cost.
    thread: Thread
    tool_session: ToolSession
    toolbox: Toolbox
    tools: SessionTools
    requests: Requests
    measure: Measure
    judge: Judging
    ask: AskPerson
    hooks: SessionHooks
    speaking: Speaking
    deps: Deps
    conversation: Conversation


class Part:
    """Base class of session parts. It does nothing; subclasses override what they need."""

    name: ClassVar[str]

    async def open(self, context: PartContext, /) -> None:
        """Start the part. Called once, after all parts have been created."""

    async def aclose(self) -> None:
        """Stop the part. Also called if the part was never opened."""

    def tools(self) -> Iterable[Tool[Any]]:
        """Return the tools that are offered from the first request on."""
        return ()

    def commands(self) -> Iterable[SlashCommand[Any]]:
        """Return the current slash commands of this part."""
        return ()

    async def facts(self, _history: History, /) -> Iterable[Fact]:
        """Return the facts to add to the next request: those that the history lacks.

        This may wait for a limited time.
        """
        return ()

    def after(self, _results: Sequence[Json], /) -> Iterable[Fact]:
        """Return facts to send together with the results of a round."""
        return ()

    def notices(self) -> Iterable[str]:
        """Return notices for the user at the start, such as errors, limits and lost data."""
        return ()

    async def refresh(self) -> Iterable[str]:
        """Pick up external changes before a turn, and return notices about them."""
        return ()
