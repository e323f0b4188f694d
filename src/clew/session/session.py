"""An open session: the interface for front ends, and the state that they may show.

`session.build` makes sessions and owns the lifetime of their attributes.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.agent.cache_watch import CacheWatch
from clew.agent.context.facts import (
    find_listed_tools,
    make_attachments,
    make_plan_fact,
    make_tool_listing_fact,
)
from clew.agent.conversation import Conversation
from clew.agent.intake import Intake, Turn
from clew.agent.models import Speaking, Switching
from clew.agent.options import Options
from clew.agent.requests import Requests
from clew.agent.story import Story
from clew.agent.tools.base import AskModel
from clew.agent.tools.file_names import FileNames
from clew.agent.toolset import SessionTools
from clew.core.catalog.models import Model
from clew.core.input import SlashCommand
from clew.core.json_object import Json
from clew.core.ledger.ledger import Purpose, Sums
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past
from clew.parts.agents.leading import collect_opening, compose_first_prompt
from clew.parts.hooks import report_loaded
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.providers.answer_events import Ended
from clew.providers.base import ModelRequest
from clew.record.transcript.loaded import LoadedSession
from clew.session.parts import SessionParts
from clew.system.clock import get_timestamp
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.agent.offers import ServiceOffer


class SessionModelAccess(Struct, frozen=True, kw_only=True):
    """The session's model, and the means to use it and to change it."""

    speaking: Speaking
    switching: Switching
    requests: Requests
    # Asks a model a question outside the conversation.
    ask: AskModel
    # Sends a request unchanged, and charges its cost to a purpose.
    put: Callable[[ModelRequest, Purpose], Awaitable[Ended]]
    # Tracks why the service's prompt cache missed.
    cache: CacheWatch
    # The source of the API key, in the terms of the host protocol.
    key_source: str
    # The address of the service that answers a model's requests, without a password.
    find_address: Callable[[str], str]
    lacks_key: bool
    # Returns the available models.
    offers: Callable[[], Awaitable[list["ServiceOffer"]]]


class SessionCosts(Struct, frozen=True, kw_only=True):
    """The cost and time of this run and of the session's earlier runs."""

    spending: Spending
    past: Past


class Workspace(Struct, frozen=True, kw_only=True):
    """The folder, processes and files that a session uses on this machine."""

    cwd: str
    # Returns the shell's current folder.
    where: Callable[[], str]
    # Starts every child process.
    launcher: Launcher
    # Finds the folder's files by a part of their name.
    file_names: FileNames
    # The debug log; empty without --debug.
    debug_file: str = ""


class Session(Struct, frozen=True, kw_only=True):
    """An open session: the interface for front ends, and the state that they may show."""

    session_id: str
    # The effective options; the definition of a leading agent provides defaults.
    options: Options
    conversation: Conversation
    story: Story
    rules: SessionRules
    tools: SessionTools
    model_access: SessionModelAccess
    costs: SessionCosts
    workspace: Workspace
    parts: SessionParts
    # Handles lines of input, and the slash commands found for this session.
    intake: Intake
    commands: list[SlashCommand["Session"]]
    # Notices at the start about invalid settings, unused rules and repairs.
    notices: tuple[str, ...]
    resumed: LoadedSession | None = None

    @property
    def model(self) -> Model:
        return self.model_access.speaking.model

    def parting(self) -> list[str]:
        """Return the closing notices, about the session's copy in a store and unsaved entries."""
        unsaved = [trouble.at_the_end for trouble in self.story.recorder.troubles]
        return [*self.parts.store_copy.news(), *unsaved]

    def why_lines_are_lost(self) -> str:
        """Return the code of the system error that cost lines of the transcript; empty if none did.

        Lines that are in a recovery file are not lost.
        """
        troubles = self.story.recorder.troubles
        return next((trouble.code for trouble in troubles if trouble.rescued_to is None), "")

    @property
    def has_lost_entries(self) -> bool:
        """True if some entries are only in memory and will be lost when the process ends."""
        return any(trouble.rescued_to is None for trouble in self.story.recorder.troubles)

    @property
    def mode(self) -> Mode:
        return self.rules.mode

    async def context(self) -> list[Json]:
        """Return the attachments for the next prompt.

        The first prompt gets all facts; later prompts get only facts that have changed.
        """
        history = self.story.history
        facts = []
        if not len(history):
            facts = await self.parts.memory.opening.facts(
                model=self.model.id,
                day=get_timestamp()[:10],
                reads_memory=self.options.lead is None or self.options.lead.reads_memory,
            )
            facts += await collect_opening(
                self.options.lead, self.parts.skills, self.rules.standing
            )
            report_loaded(self.parts.hooks, facts, "session_start")
        deferred = [
            name for name in self.model_access.requests.deferred() if self.tools.toolbox.get(name)
        ]
        skills = (
            self.parts.skills.news(history) if self.model_access.requests.offers("Skill") else None
        )
        heard = [entry for entry in history if entry.get("type") == "attachment"]
        agents = (
            self.parts.agents.listing(heard) if self.model_access.requests.offers("Agent") else None
        )
        facts += await self.parts.ide.take_selection()
        listings = [make_tool_listing_fact(find_listed_tools(heard), deferred), agents, skills]
        return make_attachments(
            [
                *facts,
                *filter(
                    None, [*listings, make_plan_fact(self.rules, heard, self.options.planning)]
                ),
            ]
        )

    async def asked(self, prompt: str | list[Json], context: Sequence[Json] = ()) -> Turn:
        """Return a turn that consists of a prompt and its attachments."""
        is_first = not len(self.story.history)
        return Turn(
            prompt=compose_first_prompt(self.options.lead, prompt) if is_first else prompt,
            context=[*context, *await self.context()],
        )

    def ledger(self) -> Sums:
        """Return the conversation's cost so far."""
        return self.costs.spending.ledger
