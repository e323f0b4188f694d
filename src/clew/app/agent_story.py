"""What an agent does, as its task tells it: how much so far, and a line for each step."""

from collections.abc import Callable

from msgspec.structs import replace

from clew.engine.events import EngineEvent, Recorded, ToolStarted
from clew.messages.messages import Assistant
from clew.process.output import Output
from clew.session.ledger import Spend
from clew.tasks.registry import Task, Tasks, Usage

KEEP_BYTES = 60_000


class Tale:
    """`output` is what TaskOutput shows: what it says, and which tools it uses."""

    def __init__(self, tasks: Tasks, spent: Callable[[], Spend]) -> None:
        self._tasks = tasks
        self._spent = spent
        self._task: Task | None = None
        self.output = Output(keep_bytes=KEEP_BYTES)

    def again(self) -> Output:
        """The output of a new piece of work."""
        self.output = Output(keep_bytes=KEEP_BYTES)
        return self.output

    def begin(self, task: Task) -> None:
        self._task = task
        self._move("")

    def hear(self, event: EngineEvent) -> None:
        match event:
            case Recorded():
                for entry in event.entries:
                    if entry.get("type") == "assistant":
                        self._say(Assistant(entry).text)
            case ToolStarted():
                self._say(f"- {event.title}")
                self._move(event.block["name"])

    def _say(self, words: str) -> None:
        if words:
            self.output.feed(f"{words}\n".encode("utf-8", "replace"))

    @property
    def usage(self) -> Usage:
        used = Usage() if self._task is None or self._task.usage is None else self._task.usage
        return replace(used, tokens=self._spent().tokens.total)

    def _move(self, tool: str) -> None:
        if self._task is None:
            return
        used = self.usage
        self._task.usage = replace(
            used, tool_uses=used.tool_uses + bool(tool), last_tool=tool or used.last_tool
        )
        self._tasks.moved(self._task)
