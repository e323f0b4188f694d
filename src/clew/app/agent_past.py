"""The agents of a session's earlier runs, as tasks that have ended: the model hears of those whose end
it does not know, with the next prompt.

Decision: docs/decisions/116-background-tasks.md
"""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clew.app.agent_mail import words_of
from clew.app.agent_restored import restore
from clew.engine.hooked import last_words
from clew.messages.counts import count_of
from clew.messages.history import History
from clew.process.output import Output
from clew.subagents.past import account, letters_heard, own_part, steps, told_ends
from clew.tasks.registry import Ending, Status, Task
from clew.transcript.agents import AgentMetadata, agents, letters, read_metadata, unheard
from clew.transcript.belongings import LEFT_IN
from clew.transcript.paths import Place
from clew.transcript.unsaved import with_unsaved

Json: TypeAlias = dict[str, Any]

CUT_OFF = "clew ended while it worked; SendMessage to it lets it go on"
_LEFT = "it was at work in session "
LEFT = (
    f"{_LEFT}{{}} when this copy of that was made, and may go on there; SendMessage to "
    "it lets it go on here, from what it had done until then"
)
STATUSES: tuple[Status, ...] = ("completed", "failed", "stopped")


def earlier(place: Place, home: Path, messages: Sequence[Json]) -> list[Task]:
    """The agents that the session's own conversation began, each with its end."""
    told, heard = told_ends(messages), letters_heard(messages)
    restore(place, home, [agent_id for agent_id, has_ended in told.items() if not has_ended])
    found = []
    for path in agents(place, home):
        said = read_metadata(path, home)
        if said is not None and not said.more.get("parentAgentId"):
            found.append(_ended(path, home, said, told, heard))
    return found


def left_elsewhere(tasks: Iterable[Task]) -> tuple[str, ...]:
    """What somebody should know who goes on in a copy of a session in which agents worked."""
    left = [
        task
        for task in tasks
        if not task.is_told and task.ending is not None and task.ending.words.startswith(_LEFT)
    ]
    if not left:
        return ()
    agents = count_of(len(left), "subagent")
    return (f"{agents} worked when this copy was made, and not here any more: /tasks shows them",)


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
        left_in = said.more.get(LEFT_IN)
        words = LEFT.format(left_in) if left_in else CUT_OFF
        task.end(Ending(status="stopped", words=words, result=result))
    return task
