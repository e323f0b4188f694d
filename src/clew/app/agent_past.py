"""The agents of a session's earlier runs, as tasks that have ended: the model hears of those whose end
it does not know, with the next prompt."""

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.app.agent_mail import words_of
from clew.engine.hooked import last_words
from clew.messages.history import History
from clew.process.output import Output
from clew.subagents.past import account, letters_heard, own_part, steps, told_ends
from clew.tasks.registry import Ending, Status, Task
from clew.transcript.agents import AgentMetadata, agents, letters, read_metadata, unheard
from clew.transcript.paths import Place
from clew.transcript.unsaved import with_unsaved

Json: TypeAlias = dict[str, Any]

CUT_OFF = "clew ended while it worked; SendMessage to it lets it go on"
STATUSES: tuple[Status, ...] = ("completed", "failed", "stopped")


def earlier(place: Place, home: Path, messages: Sequence[Json]) -> list[Task]:
    """The agents that the session's own conversation began, each with its end."""
    told, heard = told_ends(messages), letters_heard(messages)
    found = []
    for path in agents(place, home):
        said = read_metadata(path, home)
        if said is not None and not said.more.get("parentAgentId"):
            found.append(_ended(path, home, said, told, heard))
    return found


def _ended(
    path: Path, home: Path, said: AgentMetadata, told: dict[str, bool], heard: Container[str]
) -> Task:
    agent_id = path.stem.removeprefix("agent-")
    finished = next((s for s in STATUSES if s == said.more.get("finished")), None)
    task = Task(
        task_id=agent_id,
        kind="agent",
        title=said.description or said.agent_type,
        output=Output(keep_bytes=0),
        tool_use_id=said.tool_use_id or "",
        file=path,
    )
    # One that was waited for and stopped was stopped with its call, which says so.
    task.is_told = told.get(agent_id, finished is not None)
    if task.is_told:
        task.end(Ending(status=finished or "stopped"))
        return task
    # What it said to the session is heard with its end, if it was not before.
    for letter in letters(path, home):
        if letter.to and letter.uuid not in heard:
            task.say(words_of(letter), letter.uuid)
    history = own_part(with_unsaved(path, home).messages, said.more.get("beginsBehind"))
    words = last_words(History(history))
    if finished == "completed":
        task.end(Ending(status="completed", result=words))
    else:
        result = account(words, steps(history), [words_of(one) for one in unheard(path, home)])
        task.end(Ending(status="stopped", words=CUT_OFF, result=result))
    return task
