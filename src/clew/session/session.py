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
from clew.agent.requests import Requests
from clew.agent.story import Story
from clew.agent.subagents.specs import AgentSpec
from clew.agent.tasks.registry import Tasks
from clew.agent.tools.base import AskModel
from clew.agent.tools.registry import Toolbox
from clew.agent.tools.searching import FileNames
from clew.agent.toolset import FileRecord, SessionTools
from clew.core.catalog.models import Model
from clew.core.input.outcome import SlashCommand
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


class Session(Struct, frozen=True, kw_only=True):
    """A session that is open: what a front talks to, and what it may show about it."""

    conversation: Conversation
    story: Story
    opening: Opening
    session_id: str
    # The kind of agent that the session is itself, if it is one.
    lead: AgentSpec | None
    speaking: Speaking
    switching: Switching
    rules: SessionRules
    toolbox: Toolbox
    mcp: Connected
    # What people should know at the start: settings with faults, rules that do not count, repairs.
    notices: tuple[str, ...]
    resumed: LoadedSession | None = None
    # Cost and time: of this run as they come, and of the runs before.
    spending: Spending
    past: Past
    # What lines of input go through, and the slash commands that were found for this session.
    intake: Intake
    commands: list[SlashCommand["Session"]]
    own: OwnSession
    agents: AllAgents
    # The walls around commands.
    sandbox: SessionSandbox
    # Puts the session's own work into the background.
    leaving: Leaving
    skills: SessionSkills
    plugins: SessionPlugins
    speech: Speech
    # Looks for plugins, skills, agents and styles again.
    reloading: Reloading
    # What comes by itself, and the goal that turns are held to.
    board: Board
    goal: Goal
    # What skills changed until the next prompt.
    lent: Lent
    # How the conversation is kept within its window.
    keeping: SessionCompaction
    # Why the service's prompt cache missed.
    cache: CacheWatch
    # Its copy in a store, if there is one.
    copies: StoreCopy
    requests: Requests
    # A question to a model beside the conversation.
    ask_model: AskModel
    # What runs in the background; a front that listens can say so, and begin a turn.
    tasks: Tasks
    tools: SessionTools
    # What calls do to files, where that is recorded.
    files: FileRecord | None
    hooks: SessionHooks
    ending: SessionEnding
    # The folder's files by a part of their name.
    names: FileNames
    # Reads the settings again, as far as hooks let a change count; what people should know of it.
    refresh: Callable[[], Awaitable[tuple[str, ...]]]
    cwd: str
    # The folder the shell is in now.
    where: Callable[[], str]
    # What every child is started through.
    launcher: Launcher
    # Where the key comes from, in the words of hosts.
    key_source: str
    lacks_key: bool
    # Whether a line that begins with a slash is a command.
    has_commands: bool = True
    # How to plan, where the program that began the session says it.
    how_to_plan: str | None = None
    # Where what happens is written down; empty where nobody asked for it.
    debug_file: str = ""

    @property
    def model(self) -> Model:
        return self.speaking.model

    def parting(self) -> list[str]:
        """What people should know when it has ended: of its copy in a store, and what no disk took."""
        unsaved = [trouble.at_the_end for trouble in self.story.recorder.troubles]
        return [*self.copies.news(), *unsaved]

    @property
    def mode(self) -> Mode:
        return self.rules.mode

    async def context(self) -> list[Json]:
        """What goes with the next prompt: all around a new conversation, else what has changed."""
        history = self.story.history
        facts = []
        if not len(history):
            facts = await self.opening.facts(
                model=self.model.id,
                day=now()[:10],
                reads_memory=self.lead is None or self.lead.reads_memory,
            )
            facts += await begins_with(self.lead, self.skills, self.rules.standing.places)
            loaded(self.hooks, facts, "session_start")
        deferred = [name for name in self.requests.deferred() if self.toolbox.get(name)]
        skills = self.skills.news(history) if self.requests.offers("Skill") else None
        heard = [entry for entry in history if entry.get("type") == "attachment"]
        agents = self.agents.listing(heard) if self.requests.offers("Agent") else None
        listings = [tool_listing_fact(find_listed_tools(heard), deferred), agents, skills]
        return attachments(
            [*facts, *filter(None, [*listings, planning(self.rules, heard, self.how_to_plan)])]
        )

    async def asked(self, prompt: str | list[Json], context: Sequence[Json] = ()) -> Turn:
        """A prompt as a turn, with what goes along with it."""
        is_first = not len(self.story.history)
        return Turn(
            prompt=first_words(self.lead, prompt) if is_first else prompt,
            context=[*context, *await self.context()],
        )

    def ledger(self) -> Sums:
        """What the conversation cost so far, by its record."""
        return self.spending.ledger
