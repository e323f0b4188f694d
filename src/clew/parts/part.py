"""The protocol of everything that extends a session, and what a part may use.

A part is made from what it reads (settings, files) and from the parts it builds on; that begins
nothing. `open` gives it the assembled conversation, and from then on it may run. Nothing is set on a
part from outside. `session.session.SessionParts` lists the parts in the order in which they are
opened, asked and, backwards, closed.

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
    """One conversation and what is around it: the session's, or a subagent's.

    `speaking`, `deps` and `conversation` are always the session's: what a session may spend and touch,
    its agents may.
    """

    # Options, settings, rules, places, the environment, the launcher and the service.
    ground: Ground
    # The record, the story, and what it costs.
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
    """Does nothing: a part overrides what it takes part in."""

    name: ClassVar[str]

    async def open(self, context: PartContext, /) -> None:
        """Begin to run; called once, after every part was made."""

    async def aclose(self) -> None:
        """End what runs; called even for a part that was never opened."""

    def tools(self) -> Iterable[Tool[Any]]:
        """Return the tools that it offers from the first request on."""
        return ()

    def commands(self) -> Iterable[SlashCommand[Any]]:
        """Return the slash commands that it brings at this moment."""
        return ()

    async def facts(self, _history: History, /) -> Iterable[Fact]:
        """Return what the next request should tell and the history does not; may wait, within bounds."""
        return ()

    def after(self, _results: Sequence[Json], /) -> Iterable[Fact]:
        """Return what the model should be told with the results of a round."""
        return ()

    def notices(self) -> Iterable[str]:
        """Return what the user should know at the start: faults, limits, what was lost."""
        return ()

    async def refresh(self) -> Iterable[str]:
        """Look, before a turn, at what changed outside; return what the user should know of it."""
        return ()
