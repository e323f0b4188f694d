"""Messages to running agents, recorded before delivery so that a crash loses none.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Callable

from msgspec.structs import replace

from clew.agent.conversation import Inbox, RecordedInbox
from clew.agent.events import EngineEvent, Recorded, ToolStarted
from clew.agent.tasks.registry import TASK_KEEP_BYTES, BackgroundTask, Tasks, TaskUsage
from clew.core.json_object import Json
from clew.core.ledger.ledger import Spend
from clew.core.messages import factories
from clew.core.messages.messages import AssistantMessage
from clew.record.transcript.agent_record import AgentRecorder
from clew.record.transcript.agents import Letter, find_unheard
from clew.system.process.output import ProcessOutput

# The name by which agents address the main conversation.
MAIN = "main"


class Mailbox(RecordedInbox):
    """An agent's inbox, starting with the undelivered messages from an earlier run."""

    def __init__(self, recorder: AgentRecorder, *, goes_on: bool) -> None:
        super().__init__(recorder)
        if goes_on:
            for letter in find_unheard(recorder.transcript, recorder.paths.home):
                Inbox.put(self, message_of(letter))


def message_of(letter: Letter) -> Json:
    origin = letter.about.get("origin")
    return factories.make_user(
        letter.content,
        uuid=letter.uuid,
        at=str(letter.about.get("timestamp")),
        prompt_source=str(letter.about.get("promptSource", "system")),
        origin=origin if isinstance(origin, dict) else None,
        permission_mode=letter.about.get("permissionMode"),
    )


def words_of(letter: Letter) -> str:
    return letter.content if isinstance(letter.content, str) else str(letter.content)


def to_session(recorder: AgentRecorder, words: str, uuid: str) -> None:
    """Record an agent's message to the main conversation, in case clew exits before delivery."""
    recorder.enqueue(uuid, words, to=MAIN)


# An agent's progress, for its task: the usage so far, and one line per step.


class Tale:
    """The progress of an agent.

    `output`, which TaskOutput shows, contains the agent's messages and the tools it uses.
    """

    def __init__(self, tasks: Tasks, spent: Callable[[], Spend]) -> None:
        self._tasks = tasks
        self._spent = spent
        self._task: BackgroundTask | None = None
        self.output = ProcessOutput(keep_bytes=TASK_KEEP_BYTES)

    def again(self) -> ProcessOutput:
        """Start a new output for the next piece of work, and return it."""
        self.output = ProcessOutput(keep_bytes=TASK_KEEP_BYTES)
        return self.output

    def begin(self, task: BackgroundTask) -> None:
        self._task = task
        self._move("")

    def hear(self, event: EngineEvent) -> None:
        match event:
            case Recorded():
                for entry in event.entries:
                    if entry.get("type") == "assistant":
                        self._say(AssistantMessage(entry).text)
            case ToolStarted():
                self._say(f"- {event.title}")
                self._move(event.block["name"])

    def _say(self, words: str) -> None:
        if words:
            self.output.feed(f"{words}\n".encode("utf-8", "replace"))

    @property
    def usage(self) -> TaskUsage:
        used = TaskUsage() if self._task is None or self._task.usage is None else self._task.usage
        return replace(used, tokens=self._spent().tokens.total)

    def _move(self, tool: str) -> None:
        if self._task is None:
            return
        used = self.usage
        self._task.usage = replace(
            used, tool_uses=used.tool_uses + bool(tool), last_tool=tool or used.last_tool
        )
        self._tasks.moved(self._task)
