"""Commands that an earlier run of a session left in the background and that have ended since.

The conversation considers them running until it learns that they have ended. Their output can still
be read.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from clew.agent.subagents.offer import find_retold_tasks, tells_it_runs
from clew.agent.tasks.notice import RUNS
from clew.agent.tasks.registry import TASK_KEEP_BYTES, BackgroundTask, TaskEnding, Tasks
from clew.core.json_object import Json, has_any
from clew.record.transcript.copies import read_side_lines
from clew.record.transcript.header import read_header
from clew.record.transcript.loaded import LoadedSession
from clew.system.files import read_content
from clew.system.process.output import ProcessOutput

ENDED_WITH_CLEW = "it ended when the clew process that started it exited"
COPIED = (
    "session {}, of which this session is a copy, started it; if it is still running, it"
    " belongs to that session"
)
ENDED = "task-ended"


def read_ends(loaded: LoadedSession) -> dict[tuple[str, str], TaskEnding]:
    """Return how commands ended according to the transcript, by task ID and tool call ID.

    In a copied session, this includes commands of the original session, whose task IDs may be used
    again. The entire file is read, because these records remain valid after a compaction.
    """
    endings: dict[tuple[str, str], TaskEnding] = {}
    for _, line in read_side_lines(loaded, ENDED):
        task_id, call, code = str(line.get("taskId")), line.get("toolUseId"), line.get("exitCode")
        status = line.get("status")
        if status in ("completed", "failed", "stopped"):
            endings[task_id, str(call or task_id)] = TaskEnding(
                status=status,
                words=str(line.get("words") or ""),
                exit_code=code if type(code) is int else None,
            )
    return endings


class PastCommands:
    """The background commands that a conversation mentions.

    `running` maps the task ID of each command whose end was not reported to the ID of the call that
    started the command. `told` contains the task IDs of the commands whose end was reported.
    """

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
        kept_ids: Container[str],
        goes_on: Callable[[str], str],
    ) -> list[BackgroundTask]:
        """Return the commands that no longer run, except kept ones, as finished tasks.

        `goes_on` returns a note if the command that a call started may still run elsewhere.
        """
        left = {task_id: call for task_id, call in self.running.items() if task_id not in kept_ids}
        ends = read_ends(loaded) if left else {}

        def end(task_id: str, call: str) -> TaskEnding:
            words = goes_on(call) or ENDED_WITH_CLEW
            return ends.get((task_id, call)) or TaskEnding(status="stopped", words=words)

        return [
            ended(task_id, self._calls.get(call, {}), results, end(task_id, call))
            for task_id, call in left.items()
        ]

    def _hear(self, message: Json) -> None:
        body = message.get("message")
        blocks = body.get("content") if isinstance(body, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._calls[str(block.get("id"))] = block
        if not has_any(message, "origin", "toolUseResult", "attachment"):
            return  # Like most messages, it contains nothing that the code below looks for.
        call = persons_call(message)
        if call is not None:
            self._calls[call["id"]] = call
        for task_id, call_id in heard(message, blocks):
            if call_id is None:
                self.running.pop(task_id, None)
                self.told.add(task_id)
            else:
                self.running[task_id] = call_id
                self.told.discard(task_id)
        for row in find_retold_tasks(message):
            if row["kind"] != "agent":
                self._hear_again(row)

    def _hear_again(self, row: dict[str, str]) -> None:
        """Restore a command whose call was compacted, from its entry after the summary."""
        task_id, call_id = row["taskId"], row["toolUseId"] or row["taskId"]
        name = "Monitor" if row["kind"] == "monitor" else "Bash"
        call = {"id": row["toolUseId"], "name": name, "input": {"description": row["title"]}}
        self._calls.setdefault(call_id, call)
        self.running[task_id] = call_id
        self.told.discard(task_id)


def of_original(loaded: LoadedSession) -> tuple[str, Container[str]]:
    """Return the ID of the session that was copied, and the calls whose commands ran in it."""
    of = read_header(loaded.path).get("forkedFrom")
    uuids = [message.get("uuid") for message in loaded.messages]
    if not isinstance(of, dict) or of.get("messageUuid") not in uuids:
        return "", ()
    before = PastCommands(loaded.messages[: uuids.index(of["messageUuid"]) + 1])
    return str(of.get("sessionId")), set(before.running.values())


def heard(message: Json, blocks: Any) -> Iterable[tuple[str, str | None]]:
    """Yield the tasks that a message reports as started (with the call's ID) or as ended (None)."""
    call = persons_call(message)
    if call is not None:
        yield call["task"], call["id"]
    raw, origin = message.get("toolUseResult"), message.get("origin")
    is_news = isinstance(origin, dict) and origin.get("kind") == "task-notification"
    if is_news and not tells_it_runs(message):
        yield str(message["origin"].get("runId")), None
    if not isinstance(raw, dict):
        return
    task_id, task = raw.get("backgroundTaskId"), raw.get("task")
    if isinstance(task_id, str):
        result = blocks[0] if isinstance(blocks, list) and blocks else None
        block = result if isinstance(result, dict) else {}
        is_running = RUNS.format(id=task_id) in str(block.get("content"))
        yield task_id, str(block.get("tool_use_id")) if is_running else None
    elif isinstance(task, dict) and task.get("status") != "running":
        yield str(task.get("task_id")), None
    elif isinstance(raw.get("task_id"), str) and "command" in raw:
        yield raw["task_id"], None


def persons_call(message: Json) -> Json | None:
    """Return the user's own background shell command in a message as a call, or None."""
    origin = message.get("origin")
    if not isinstance(origin, dict) or origin.get("kind") != "shell-output":
        return None
    task = origin.get("task")
    if not isinstance(task, dict):
        return None
    arguments = {"command": str(task.get("command"))}
    return {"id": str(task.get("toolUseId")), "task": str(task.get("id")), "input": arguments}


def hand_over_commands(
    agent_id: str,
    loaded: LoadedSession,
    own: Sequence[Json],
    session: Iterable[Json],
    tasks: Tasks,
    results: Path,
) -> None:
    """Give a resumed agent the news about commands that it had started.

    `own` is the agent's conversation. News about commands that the user kept goes to the session
    instead.
    """
    before, of_session = PastCommands(own), PastCommands(session)
    known_ids = {task.id for task in tasks.all() if before.running.get(task.id) == task.tool_use_id}
    others = known_ids | of_session.told | set(of_session.running)
    for task in before.left_behind(loaded, results, others, lambda _: ""):
        task.owner = agent_id
        tasks.remember(task)


def ended(task_id: str, call: Json, results: Path, ending: TaskEnding) -> BackgroundTask:
    arguments = call.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    title = str(arguments.get("description") or arguments.get("command") or "a command")
    name = "".join(c for c in task_id if c.isalnum())
    file = results / f"task-{name}.txt"
    output = ProcessOutput(keep_bytes=TASK_KEEP_BYTES)
    is_read = True
    try:
        output.feed(read_content(file, TASK_KEEP_BYTES))
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
