"""Recover agents whose metadata file is missing, from the calls that started them.

The file may have been deleted, or may never have been written. It is written again with the
recovered metadata.

Decision: docs/decisions/325-copies-of-sessions.md
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from clew.agent.hooked import find_last_words
from clew.agent.subagents.offer import (
    Begun,
    blocks_of,
    describe_steps,
    describe_work,
    find_heard_letters,
    find_reported_ends,
    select_own_part,
)
from clew.agent.subagents.specs import GENERAL
from clew.agent.subagents.worktree import checkout_of
from clew.agent.tasks.registry import BackgroundTask, Status, TaskEnding
from clew.core.json_object import Json
from clew.core.messages.encoding import decode_object
from clew.core.messages.history import History
from clew.core.messages.messages import AssistantMessage
from clew.core.messages.text import format_count
from clew.parts.agents.agent import make_checkout_fields
from clew.parts.agents.mail import words_of
from clew.record.transcript.agents import (
    AgentMetadata,
    find_unheard,
    list_agents,
    read_letters,
    read_metadata,
    write_metadata,
)
from clew.record.transcript.belongings import LEFT_IN
from clew.record.transcript.header import read_header
from clew.record.transcript.paths import AGENT, SessionPlace, get_project_dir
from clew.record.transcript.recovery import lines_of, load_with_unsaved
from clew.system.files import is_folder
from clew.system.process.output import ProcessOutput


def move_folder(cwd: str, place: SessionPlace, home: Path, new_cwd: str) -> str:
    """Return an agent's folder, adjusted if its session was moved together with the project."""
    began = read_header(place.transcript).get("cwd")
    is_along = place.project_dir == get_project_dir(home, new_cwd)
    if type(began) is not str or not is_along or is_folder(began) or is_folder(cwd):
        return cwd
    return new_cwd + cwd[len(began) :] if f"{cwd}/".startswith(f"{began}/") else cwd


def restore(place: SessionPlace, home: Path, wanted: Container[str] | None = None) -> None:
    """Write the missing metadata of the agents in `wanted`, or of all agents if it is None.

    The metadata is recovered from the calls that started the agents and, for folder and model, from
    the agents' own transcripts.
    """
    paths = list_agents(place, home)
    lost = [
        path
        for path in paths
        if (wanted is None or id_of(path) in wanted) and read_metadata(path, home) is None
    ]
    for parent in (place.transcript, *paths) if lost else ():
        calls = Begun(entries_in(parent, home))
        for path in lost:
            own = load_with_unsaved(path, home).messages
            call = calls.call_of(id_of(path), said_first(own))
            if call is not None and parent != path:
                by = None if parent == place.transcript else read_metadata(parent, home)
                parent_id = "" if parent == place.transcript else id_of(parent)
                metadata = as_called(id_of(path), call, own, parent_id, by)
                write_metadata(path, metadata, home)


def id_of(path: Path) -> str:
    return path.stem.removeprefix(AGENT)


def entries_in(path: Path, home: Path) -> Iterator[Json]:
    """Yield the entries of a file that mention tool calls.

    Entries that were recorded in advance, in the field `owed` of another entry, are included.
    """
    for raw in lines_of(path, home):
        if b'"tool_use' in raw:
            entry = decode_object(raw)
            owed = entry.get("owed")
            yield entry
            yield from (
                (entry for entry in owed if type(entry) is dict) if type(owed) is list else ()
            )


def said_first(messages: Sequence[Json]) -> str:
    first = next((message for message in messages if message.get("type") == "user"), {})
    content = (first.get("message") or {}).get("content")
    texts = [block.get("text") for block in blocks_of(first)]
    return content if type(content) is str else str(texts[0] if texts else "")


def as_called(
    agent_id: str, call: Json, own: Sequence[Json], parent_id: str, by: AgentMetadata | None
) -> AgentMetadata:
    arguments = call["input"]
    cwd = next((entry["cwd"] for entry in reversed(own) if type(entry.get("cwd")) is str), "")
    answers = [AssistantMessage(entry) for entry in own if entry.get("type") == "assistant"]
    depth = by.more.get("spawnDepth", 1) if by is not None else 0
    is_done = bool(answers) and own[-1].get("type") == "assistant"
    fields = {
        "finished": "completed" if is_done and answers[-1].stop_reason == "end_turn" else None,
        "name": arguments.get("name"),
        "cwd": cwd,
        "model": next(
            (answer.model for answer in reversed(answers) if not answer.is_synthetic), None
        ),
        "parentAgentId": parent_id,
    }
    tree = checkout_of(cwd, f"{AGENT}{agent_id}")
    return AgentMetadata(
        agent_type=str(arguments.get("subagent_type") or GENERAL.name),
        worktree_path=None if tree is None else tree.path,
        description=str(arguments.get("description") or ""),
        tool_use_id=str(call.get("id")),
        more={
            "spawnDepth": depth + 1,
            **{key: value for key, value in fields.items() if value},
            **make_checkout_fields(tree),
        },
    )


# Agents from a session's earlier runs, as finished tasks. With the next prompt, the model is
# notified of those whose end was not reported.


CUT_OFF = "clew exited while it was working"
_LEFT = "it was working in session "
LEFT = f"{_LEFT}{{}} when this copy was made, and may continue there"
# For the model only, so it is not part of the text that the user sees.
RESUME = "SendMessage resumes it from here."
STATUSES: tuple[Status, ...] = ("completed", "failed", "stopped")


def list_earlier_agents(
    place: SessionPlace, home: Path, messages: Sequence[Json]
) -> list[BackgroundTask]:
    """Return the agents that the main conversation started, each with its outcome."""
    ends, heard = find_reported_ends(messages), find_heard_letters(messages)
    restore(place, home, [agent_id for agent_id, has_ended in ends.items() if not has_ended])
    tasks = []
    for path in list_agents(place, home):
        metadata = read_metadata(path, home)
        if metadata is not None and not metadata.more.get("parentAgentId"):
            tasks.append(_ended(path, home, metadata, ends, heard))
    return tasks


def describe_left_agents(tasks: Iterable[BackgroundTask]) -> tuple[str, ...]:
    """Return a notice about agents that were running when this session was copied."""
    left = [
        task
        for task in tasks
        if not task.is_told and task.ending is not None and task.ending.words.startswith(_LEFT)
    ]
    if not left:
        return ()
    agents = format_count(len(left), "subagent was", "subagents were")
    return (f"{agents} running when this copy was made, but not in the copy (see /tasks)",)


def _ended(
    path: Path, home: Path, metadata: AgentMetadata, ends: dict[str, bool], heard: Container[str]
) -> BackgroundTask:
    agent_id = path.stem.removeprefix("agent-")
    finished = next((s for s in STATUSES if s == metadata.more.get("finished")), None)
    task = BackgroundTask(
        task_id=agent_id,
        kind="agent",
        title=metadata.description or metadata.agent_type,
        output=ProcessOutput(keep_bytes=0),
        tool_use_id=metadata.tool_use_id or "",
        file=path,
    )
    # A foreground agent that was stopped ended with its call, whose result reports it.
    task.is_told = ends.get(agent_id, finished is not None)
    if task.is_told:
        task.end(TaskEnding(status=finished or "stopped"))
        return task
    # Undelivered messages to the main conversation are delivered together with the end.
    for letter in read_letters(path, home):
        if letter.to and letter.uuid not in heard:
            task.say(words_of(letter), letter.uuid)
    history = select_own_part(
        load_with_unsaved(path, home).messages, metadata.more.get("beginsBehind")
    )
    words = find_last_words(History(history))
    if finished == "completed":
        task.end(TaskEnding(status="completed", result=words))
    else:
        result = describe_work(
            words,
            describe_steps(history),
            [words_of(letter) for letter in find_unheard(path, home)],
        )
        left_in = metadata.more.get(LEFT_IN)
        words = LEFT.format(left_in) if left_in else CUT_OFF
        task.end(TaskEnding(status="stopped", words=words, result=f"{result}\n{RESUME}"))
    return task
