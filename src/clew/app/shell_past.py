"""Commands that an earlier run of a session left in the background: they ended with it.

The conversation knows of them as running; it hears with the next prompt that they are not, and can read
what they printed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from clew.config.regular import content
from clew.process.output import Output
from clew.tasks.registry import Ending, Task
from clew.tools.background import KEEP_BYTES, RUNS

Json: TypeAlias = dict[str, Any]

ENDED_WITH_CLEW = "it ended with the clew that had begun it"
RUNNING = "<status>running</status>"


def left_behind(messages: Iterable[Json], results: Path) -> list[Task]:
    """The commands whose end the conversation was not told, as tasks that have ended."""
    calls: dict[str, Json] = {}
    running: dict[str, str] = {}
    for message in messages:
        said = message.get("message")
        blocks = said.get("content") if isinstance(said, dict) else None
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                calls[str(block.get("id"))] = block
        for task_id, call_id in heard(message, blocks):
            if call_id is None:
                running.pop(task_id, None)
            else:
                running[task_id] = call_id
    return [ended(task_id, calls.get(call, {}), results) for task_id, call in running.items()]


def heard(message: Json, blocks: Any) -> Iterable[tuple[str, str | None]]:
    """The tasks that a message tells of: begun by a call, or ended."""
    raw, origin = message.get("toolUseResult"), message.get("origin")
    is_news = isinstance(origin, dict) and origin.get("kind") == "task-notification"
    if is_news and RUNNING not in str(blocks):
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


def ended(task_id: str, call: Json, results: Path) -> Task:
    given = call.get("input")
    given = given if isinstance(given, dict) else {}
    words = str(given.get("description") or given.get("command") or "a command")
    name = "".join(c for c in task_id if c.isalnum())
    file = results / f"task-{name}.txt"
    output = Output(keep_bytes=KEEP_BYTES)
    is_there = True
    try:
        output.feed(content(file, KEEP_BYTES))
    except OSError:
        is_there = False
    task = Task(
        task_id=task_id,
        kind="monitor" if call.get("name") == "Monitor" else "shell",
        title=words.strip().split("\n", 1)[0],
        output=output,
        tool_use_id=str(call.get("id", "")),
        file=file if is_there else None,
    )
    task.end(Ending(status="stopped", words=ENDED_WITH_CLEW))
    return task
