"""An open session: what a front talks to, and what it may show about it.

`session.build` makes it and owns the life of what it holds.
"""

from collections.abc import Callable, Sequence

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
from clew.core.ledger.ledger import Sums
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past
from clew.parts.agents.leading import collect_opening, compose_first_prompt
from clew.parts.hooks import report_loaded
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.record.transcript.load import LoadedSession
from clew.session.parts import SessionParts
from clew.system.clock import get_timestamp
from clew.system.process.spawn import Launcher


class SessionModelAccess(Struct, frozen=True, kw_only=True):
    """The model that the session speaks with, how it is asked, and how that can be changed."""

    speaking: Speaking
    switching: Switching
    requests: Requests
    # A question to a model beside the conversation.
    ask: AskModel
    # Why the service's prompt cache missed.
    cache: CacheWatch
    # Where the key comes from, in the words of hosts.
    key_source: str
    lacks_key: bool


class SessionCosts(Struct, frozen=True, kw_only=True):
    """Cost and time: of this run as they come, and of the runs before."""

    spending: Spending
    past: Past


class Workspace(Struct, frozen=True, kw_only=True):
    """Where the session works on this machine."""

    cwd: str
    # The folder the shell is in now.
    where: Callable[[], str]
    # What every child is started through.
    launcher: Launcher
    # The folder's files by a part of their name.
    file_names: FileNames
    # Where events are written down; empty without --debug.
    debug_file: str = ""


class Session(Struct, frozen=True, kw_only=True):
    """An open session: what a front talks to, and what it may show about it."""

    session_id: str
    # As they count: below them what the definition says of the agent that the session is itself.
    options: Options
    conversation: Conversation
    story: Story
    rules: SessionRules
    tools: SessionTools
    model_access: SessionModelAccess
    costs: SessionCosts
    workspace: Workspace
    parts: SessionParts
    # What lines of input go through, and the slash commands that were found for this session.
    intake: Intake
    commands: list[SlashCommand["Session"]]
    # What users should know at the start: settings with faults, rules that do not count, repairs.
    notices: tuple[str, ...]
    resumed: LoadedSession | None = None

    @property
    def model(self) -> Model:
        return self.model_access.speaking.model

    def parting(self) -> list[str]:
        """What people should know when it has ended: of its copy in a store, and what no disk took."""
        unsaved = [trouble.at_the_end for trouble in self.story.recorder.troubles]
        return [*self.parts.store_copy.news(), *unsaved]

    @property
    def mode(self) -> Mode:
        return self.rules.mode

    async def context(self) -> list[Json]:
        """What goes with the next prompt: all around a new conversation, else what has changed."""
        history = self.story.history
        facts = []
        if not len(history):
            facts = await self.parts.memory.opening.facts(
                model=self.model.id,
                day=get_timestamp()[:10],
                reads_memory=self.options.lead is None or self.options.lead.reads_memory,
            )
            facts += await collect_opening(
                self.options.lead, self.parts.skills, self.rules.standing.places
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
        """A prompt as a turn, with what goes along with it."""
        is_first = not len(self.story.history)
        return Turn(
            prompt=compose_first_prompt(self.options.lead, prompt) if is_first else prompt,
            context=[*context, *await self.context()],
        )

    def ledger(self) -> Sums:
        """What the conversation cost so far, by its record."""
        return self.costs.spending.ledger
