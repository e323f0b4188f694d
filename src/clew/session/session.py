"""An open session: what a front talks to, and what it may show about it.

`session.build` makes it and owns the life of what it holds.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from clew.agent.cache_watch import CacheWatch
from clew.agent.context.facts import attachments, find_listed_tools, planning, tool_listing_fact
from clew.agent.context.opening import Opening
from clew.agent.context.output_styles import Speech
from clew.agent.conversation import Conversation
from clew.agent.hooks.run import SessionHooks
from clew.agent.intake import Intake, Turn
from clew.agent.models import Speaking, Switching
from clew.agent.options import Options
from clew.agent.requests import Requests
from clew.agent.story import Story
from clew.agent.tasks.registry import Tasks
from clew.agent.tools.base import AskModel
from clew.agent.tools.searching import FileNames
from clew.agent.toolset import FileRecord, SessionTools
from clew.core.catalog.models import Model
from clew.core.input import SlashCommand
from clew.core.json_object import Json
from clew.core.ledger.ledger import Sums
from clew.core.ledger.state import SessionTracker as Spending
from clew.core.ledger.totals import Past
from clew.parts.goals import Goal
from clew.parts.hooks import SessionEnding, loaded
from clew.parts.mcp.part import Connected
from clew.parts.plugins.part import SessionPlugins
from clew.parts.sandbox import SessionSandbox
from clew.parts.schedules.board import Board
from clew.parts.skills.lent import Lent
from clew.parts.skills.part import SessionSkills
from clew.parts.store_copy import StoreCopy
from clew.permissions.in_session import SessionRules
from clew.permissions.request import Mode
from clew.record.transcript.load import LoadedSession
from clew.session.agents.all_agents import AllAgents
from clew.session.agents.leading import begins_with, first_words
from clew.session.agents.leaving import Leaving
from clew.session.compaction import SessionCompaction
from clew.session.hands import OwnSession
from clew.session.reloading import Reloading
from clew.system.clock import now
from clew.system.process.spawn import Launcher


class SessionParts(Struct, frozen=True, kw_only=True):
    """What extends a session, each part beside its machine in `clew.parts`."""

    mcp: Connected
    skills: SessionSkills
    plugins: SessionPlugins
    hooks: SessionHooks
    agents: AllAgents
    # The walls around commands.
    sandbox: SessionSandbox
    # What runs in the background; a front that listens can say so, and begin a turn.
    tasks: Tasks
    # Puts the session's own work into the background.
    leaving: Leaving
    # Prompts that come by themselves, and the goal that turns are held to.
    schedules: Board
    goal: Goal
    # What calls do to files, where that is recorded.
    file_history: FileRecord | None
    # How the conversation is kept within its window.
    compaction: SessionCompaction
    # The session's copy in a store, if there is one.
    store_copy: StoreCopy
    # What a conversation is told first: surroundings, instructions, memories.
    opening: Opening
    output_styles: Speech
    # Plan mode: which mode it began in, the plan's file, the list of tasks.
    planning: OwnSession
    # What skills changed until the next prompt.
    lent: Lent
    # Looks for plugins, skills, agents and styles again.
    reloading: Reloading
    # Reads the settings again, as far as hooks let a change count; what people should know of it.
    refresh: Callable[[], Awaitable[tuple[str, ...]]]
    ending: SessionEnding


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


class Costs(Struct, frozen=True, kw_only=True):
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
    costs: Costs
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
            facts = await self.parts.opening.facts(
                model=self.model.id,
                day=now()[:10],
                reads_memory=self.options.lead is None or self.options.lead.reads_memory,
            )
            facts += await begins_with(
                self.options.lead, self.parts.skills, self.rules.standing.places
            )
            loaded(self.parts.hooks, facts, "session_start")
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
        listings = [tool_listing_fact(find_listed_tools(heard), deferred), agents, skills]
        return attachments(
            [*facts, *filter(None, [*listings, planning(self.rules, heard, self.options.planning)])]
        )

    async def asked(self, prompt: str | list[Json], context: Sequence[Json] = ()) -> Turn:
        """A prompt as a turn, with what goes along with it."""
        is_first = not len(self.story.history)
        return Turn(
            prompt=first_words(self.options.lead, prompt) if is_first else prompt,
            context=[*context, *await self.context()],
        )

    def ledger(self) -> Sums:
        """What the conversation cost so far, by its record."""
        return self.costs.spending.ledger
