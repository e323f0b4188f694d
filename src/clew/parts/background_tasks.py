"""Commands that an earlier run of a session left in the background: they ended before it, or with it.

How one ended is written down when it does (`written_down`), for the conversation hears of it later: with the next
prompt, which may be another run's. Until then it knows of them as running; what they printed can be read.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clew.agent.subagents.offer import tells_it_runs, told_again
from clew.agent.tasks.notice import RUNS, SCHEDULE, Notice, in_words
from clew.agent.tasks.registry import (
    TASK_KEEP_BYTES,
    WIRE_KINDS,
    BackgroundTask,
    Moment,
    TaskEnding,
    Tasks,
)
from clew.agent.tools.base import ToolSession
from clew.core.json_object import Json
from clew.core.messages import factories
from clew.record.transcript.copies import beside, header_of
from clew.record.transcript.load import LoadedSession
from clew.record.transcript.record import Recorder
from clew.system.clock import new_id, now
from clew.system.config.mask import without
from clew.system.files import content
from clew.system.process.output import ProcessOutput

# What background tasks have to say, as messages of the conversation.


def running(session: ToolSession) -> list[Json]:
    """What of a conversation runs in the background, as hooks and hosts are told."""
    return [
        row(task)
        for task in session.background.tasks.running
        if task.owner == session.background.owner
    ]


def row(task: BackgroundTask) -> Json:
    return {
        "task_id": task.id,
        "task_type": task.wire_kind,
        "description": task.title,
        **({"kept": True} if task.is_kept else {}),
    }


def unended(session: ToolSession) -> list[Json]:
    """Of what a conversation has in the background that of which it was not told that it ended."""
    return [
        {
            "taskId": task.id,
            "kind": task.kind,
            "title": without(" ".join(task.title.split()), session.secrets),
            "toolUseId": task.tool_use_id,
        }
        for task in session.background.tasks.all()
        if task.kind in WIRE_KINDS
        and task.owner == session.background.owner
        and task.is_background
        and not (task.ending is not None and task.is_told)
    ]


def news(session: ToolSession) -> list[Json]:
    """What the model has not heard yet of the tasks; it has, once this was asked."""
    return [
        factories.user(
            without(words_of(notice), session.secrets),
            uuid=new_id(),
            at=now(),
            origin=origin_of(notice),
            prompt_source="system",
        )
        for notice in session.background.tasks.news(owner=session.background.owner)
    ]


def origin_of(notice: Notice) -> Json:
    letters = {"messages": list(notice.letters)} if notice.letters else {}
    return {
        "kind": "task-notification",
        "producer": notice.kind,
        "runId": notice.task_id,
        **letters,
    }


def words_of(notice: Notice) -> str:
    """A task's news; what a schedule says is a prompt as it was written. One that only ended says that."""
    is_prompt = notice.kind == SCHEDULE and notice.lines
    return "\n".join(notice.lines) if is_prompt else in_words(notice)


ENDED_WITH_CLEW = "it ended with the clew that had begun it"
COPIED = (
    "session {} had begun it, which this one is a copy of; if it still runs, it is that session's"
)
ENDED = "task-ended"
COMMANDS = ("shell", "monitor")


@contextmanager
def written_down(
    tasks: Tasks, recorder_of: Callable[[str], Recorder | None], secrets: tuple[str, ...]
) -> Iterator[None]:
    """Has the ends of commands in the file of the conversation that began them, but for those that clew's
    own end makes: they come after this. What ends elsewhere, because it was asked to, is written first."""

    def note(task: BackgroundTask, ending: TaskEnding) -> Recorder | None:
        recorder = recorder_of(task.owner) if task.kind in COMMANDS else None
        if recorder is not None:
            recorder.task_ended(
                task.id,
                task.tool_use_id,
                status=ending.status,
                words=without(ending.words, secrets),
                exit_code=ending.exit_code,
            )
        return recorder

    def watch(task: BackgroundTask, moment: Moment) -> None:
        if moment == "ended" and task.ending is not None:
            note(task, task.ending)

    async def ahead(task: BackgroundTask) -> None:
        recorder = note(task, TaskEnding(status="stopped"))
        if recorder is not None:
            await recorder.durable()

    tasks.watchers.append(watch)
    tasks.before_stop.append(ahead)
    try:
        yield
    finally:
        tasks.watchers.remove(watch)
        tasks.before_stop.remove(ahead)


def read_ends(loaded: LoadedSession) -> dict[tuple[str, str], TaskEnding]:
    """How commands ended, by their ids and those of the calls that began them: of a copy's first session
    too, whose ids may be given again. Summaries close nothing of this, so the whole file is read."""
    found: dict[tuple[str, str], TaskEnding] = {}
    for _, line in beside(loaded, ENDED):
        task_id, call, code = str(line.get("taskId")), line.get("toolUseId"), line.get("exitCode")
        status = line.get("status")
        if status in ("completed", "failed", "stopped"):
            found[task_id, str(call or task_id)] = TaskEnding(
                status=status,
                words=str(line.get("words") or ""),
                exit_code=code if type(code) is int else None,
            )
    return found


class PastCommands:
    """What the conversation knows of its commands: `running` are those whose end it was not told, each
    with the call that began it; of the others in `told` it was."""

    def __init__(self, messages: Iterable[Json]) -> None:
        self.running: dict[str, str] = {}
        self.told: set[str] = set()
        self._calls: dict[str, Json] = {}
        for message in messages:
            self._hear(message)

    def left_behind(
        self,
        loaded: LoadedSession,
        results: Path,
        kept: Container[str],
        goes_on: Callable[[str], str],
    ) -> list[BackgroundTask]:
        """Those that run no more, but for what a person kept, as tasks that have ended; `goes_on` says
        of a call where what it began runs on all the same."""
        left = {task_id: call for task_id, call in self.running.items() if task_id not in kept}
        ends = read_ends(loaded) if left else {}

        def end(task_id: str, call: str) -> TaskEnding:
            words = goes_on(call) or ENDED_WITH_CLEW
            return ends.get((task_id, call)) or TaskEnding(status="stopped", words=words)

        return [
            ended(task_id, self._calls.get(call, {}), results, end(task_id, call))
            for task_id, call in left.items()
        ]

    def _hear(self, message: Json) -> None:
        call = persons_call(message)
        if call is not None:
            self._calls[call["id"]] = call
        said = message.get("message")
        blocks = said.get("content") if isinstance(said, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._calls[str(block.get("id"))] = block
        for task_id, call_id in heard(message, blocks):
            if call_id is None:
                self.running.pop(task_id, None)
                self.told.add(task_id)
            else:
                self.running[task_id] = call_id
                self.told.discard(task_id)
        for row in told_again(message):
            if row["kind"] != "agent":
                self._hear_again(row)

    def _hear_again(self, row: dict[str, str]) -> None:
        """A summary may stand for the call that began it."""
        task_id, call_id = row["taskId"], row["toolUseId"] or row["taskId"]
        name = "Monitor" if row["kind"] == "monitor" else "Bash"
        call = {"id": row["toolUseId"], "name": name, "input": {"description": row["title"]}}
        self._calls.setdefault(call_id, call)
        self.running[task_id] = call_id
        self.told.discard(task_id)


def of_original(loaded: LoadedSession) -> tuple[str, Container[str]]:
    """The session that one is a copy of, and the calls of commands that ran there by its messages."""
    of = header_of(loaded.path).get("forkedFrom")
    uuids = [message.get("uuid") for message in loaded.messages]
    if not isinstance(of, dict) or of.get("messageUuid") not in uuids:
        return "", ()
    before = PastCommands(loaded.messages[: uuids.index(of["messageUuid"]) + 1])
    return str(of.get("sessionId")), set(before.running.values())


def heard(message: Json, blocks: Any) -> Iterable[tuple[str, str | None]]:
    """The tasks that a message tells of: begun by a call, or ended."""
    call = persons_call(message)
    if call is not None:
        yield call["task"], call["id"]
    raw, origin = message.get("toolUseResult"), message.get("origin")
    is_news = isinstance(origin, dict) and origin.get("kind") == "task-notification"
    if is_news and not tells_it_runs(message):
        yield str(message["origin"].get("runId")), None
    if not isinstance(raw, dict):
        return
    begun, told = raw.get("backgroundTaskId"), raw.get("task")
    if isinstance(begun, str):
        result = blocks[0] if isinstance(blocks, list) and blocks else None
        block = result if isinstance(result, dict) else {}
        is_running = RUNS.format(id=begun) in str(block.get("content"))
        yield begun, str(block.get("tool_use_id")) if is_running else None
    elif isinstance(told, dict) and told.get("status") != "running":
        yield str(told.get("task_id")), None
    elif isinstance(raw.get("task_id"), str) and "command" in raw:
        yield raw["task_id"], None


def persons_call(message: Json) -> Json | None:
    """The command that a person began with a line of their own, where they left it to the background."""
    origin = message.get("origin")
    if not isinstance(origin, dict) or origin.get("kind") != "shell-output":
        return None
    told = origin.get("task")
    if not isinstance(told, dict):
        return None
    given = {"command": str(told.get("command"))}
    return {"id": str(told.get("toolUseId")), "task": str(told.get("id")), "input": given}


def left_by_agent(
    agent_id: str,
    loaded: LoadedSession,
    own: Sequence[Json],
    session: Iterable[Json],
    tasks: Tasks,
    results: Path,
) -> None:
    """Has an agent that goes on hear of the commands that it had begun: `own` is its conversation. Of those
    that a person kept the session hears."""
    before, of_session = PastCommands(own), PastCommands(session)
    known = {task.id for task in tasks.all() if before.running.get(task.id) == task.tool_use_id}
    others = known | of_session.told | set(of_session.running)
    for task in before.left_behind(loaded, results, others, lambda _: ""):
        task.owner = agent_id
        tasks.remember(task)


def ended(task_id: str, call: Json, results: Path, ending: TaskEnding) -> BackgroundTask:
    given = call.get("input")
    given = given if isinstance(given, dict) else {}
    title = str(given.get("description") or given.get("command") or "a command")
    name = "".join(c for c in task_id if c.isalnum())
    file = results / f"task-{name}.txt"
    output = ProcessOutput(keep_bytes=TASK_KEEP_BYTES)
    is_read = True
    try:
        output.feed(content(file, TASK_KEEP_BYTES))
    except OSError:
        is_read = False
    task = BackgroundTask(
        task_id=task_id,
        kind="monitor" if call.get("name") == "Monitor" else "shell",
        title=title.strip().split("\n", 1)[0],
        output=output,
        tool_use_id=str(call.get("id", "")),
        file=file if is_read else None,
    )
    task.end(ending)
    return task
