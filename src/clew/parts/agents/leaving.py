"""The session's own work, put into the background: the turn that runs, or a prompt with all that was said.

It goes on as an agent: under the session's own instructions, tools and model, with the conversation so
far, in a transcript of its own. The session is told how it ended, as with any agent. A turn is left
between two of its steps, never in the midst of one, so nothing of it is lost or done twice.

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
# To the one that goes on, and to the conversation that does not.
GO_ON = (
    "This turn was put into the background: go on with it. Nobody is there to answer questions; your "
    "last message is what the conversation hears of it."
)
LEFT = (
    "(The turn so far goes on in the background as agent {id}. Do not go on with it here: you are told "
    "when it has ended. SendMessage to {id} tells it something, TaskStop ends it.)"
)


class Leaving:
    """`ask` says that the running turn is to be left; `is_time` is asked between its steps."""

    def __init__(
        self,
        begin: Callable[..., Awaitable[BackgroundTask]],
        conversation: Conversation,
        story: Story,
    ) -> None:
        """`begin` has an agent go on from messages, by a prompt, under a title."""
        self._begin = begin
        self._conversation = conversation
        self._story = story
        # The turn that is to be left, by its number.
        self._wanted: int | None = None

    def ask(self) -> bool:
        """Has the turn that runs go on in the background from its next step on; False if none runs."""
        if not (self._conversation.is_running and self._conversation.has_steps):
            return False
        self._wanted = self._conversation.turns
        return True

    async def is_time(self) -> bool:
        """Whether the turn ends here because it goes on elsewhere; if so, it does already."""
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
        """A prompt that is worked on beside the conversation, with all that was said in it."""
        return await self._begun(prompt, one_line(prompt))

    async def _begun(self, words: str, title: str) -> BackgroundTask:
        entries = [entry for entry in self._story.sent if not is_boundary(entry)]
        return await self._begin(entries, words, title)


def title_of(history: Iterable[Json]) -> str:
    """The prompt that the turn answers."""
    for entry in reversed(list(history)):
        if entry.get("type") == "user" and "promptId" in entry:
            return one_line(words_of(entry["message"]["content"]))
    return "the session's turn"


def one_line(words: str) -> str:
    return " ".join(words.split())[:TITLE_CHARACTERS]
