"""Move the session's own work to the background: the running turn, or a prompt with its context.

The work continues in an agent with the session's instructions, tools and model, the conversation so
far, and its own transcript. The session is notified when that agent ends, as with any agent. A turn
is moved only between two steps, so nothing is lost or done twice.

Decision: docs/decisions/170-agents.md
"""

from collections.abc import Awaitable, Callable, Iterable

from clew.agent.conversation import Conversation, words_of
from clew.agent.story import Story
from clew.agent.tasks.registry import BackgroundTask
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.core.normalize.select import is_boundary
from clew.system.clock import get_timestamp, make_id

TITLE_CHARACTERS = 60
# Sent to the agent that continues, and to the conversation that stops.
GO_ON = (
    "This turn was moved to the background: continue it. No one can answer questions; your last message is "
    "what the conversation receives."
)
LEFT = (
    "(This turn continues in the background as agent {id}. Do not continue it here: you will be notified "
    "when it ends. Use SendMessage to send it a message, or TaskStop to stop it.)"
)


class Leaving:
    """Moves work to the background.

    `ask` requests that the running turn be moved. `is_time` moves it between two of its steps.
    """

    def __init__(
        self,
        begin: Callable[..., Awaitable[BackgroundTask]],
        conversation: Conversation,
        story: Story,
    ) -> None:
        """Prepare for one conversation.

        `begin` starts an agent, given entries, a prompt and a title.
        """
        self._begin = begin
        self._conversation = conversation
        self._story = story
        # The number of the turn to be moved.
        self._wanted: int | None = None

    def ask(self) -> bool:
        """Request that the running turn be moved to the background.

        Return False if no turn is running, or the running turn can't be moved.
        """
        if not (self._conversation.is_running and self._conversation.has_steps):
            return False
        self._wanted = self._conversation.turns
        return True

    async def is_time(self) -> bool:
        """Move the turn to an agent if this was requested; return whether it was moved."""
        if self._wanted is None or self._wanted != self._conversation.turns:
            return False
        self._wanted = None
        task = await self._begun(GO_ON, title_of(self._story.history))
        self._story.add(
            [
                factories.make_user(
                    LEFT.format(id=task.id),
                    uuid=make_id(),
                    at=get_timestamp(),
                    is_meta=True,
                    origin={"kind": "task-left", "producer": task.kind, "runId": task.id},
                )
            ]
        )
        return True

    async def beside(self, prompt: str) -> BackgroundTask:
        """Start a background agent that works on a prompt with the conversation so far."""
        return await self._begun(prompt, one_line(prompt))

    async def _begun(self, words: str, title: str) -> BackgroundTask:
        entries = [entry for entry in self._story.sent if not is_boundary(entry)]
        return await self._begin(entries, words, title)


def title_of(history: Iterable[Json]) -> str:
    """Return the prompt of the latest turn, as a title."""
    for entry in reversed(list(history)):
        if entry.get("type") == "user" and "promptId" in entry:
            return one_line(words_of(entry["message"]["content"]))
    return "the session's turn"


def one_line(words: str) -> str:
    return " ".join(words.split())[:TITLE_CHARACTERS]
