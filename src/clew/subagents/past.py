"""Which agents of a session the conversation has not heard the end of. Pure: reads entries alone."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from clew.messages.counts import count_of
from clew.messages.messages import Assistant

Json: TypeAlias = dict[str, Any]

# Messages about an agent, and whether they tell how it ended.
HEARD = {"task-notification": True, "task-left": False}
# What is told behind a summary of the tasks that work in the background.
BACKGROUND_TASKS = "background_tasks"
RUNNING = "<status>running</status>"
# How the tool is called that begins agents, here and in older transcripts.
CALLED = ("Agent", "Task")
SHOWN_STEPS = 8
SHOWN_CHARACTERS = 120


def told_ends(entries: Iterable[Json]) -> dict[str, bool]:
    """Of each agent that a conversation speaks of, whether the last that was said is how it ended."""
    told: dict[str, bool] = {}
    for entry in entries:
        raw = entry.get("toolUseResult")
        # Words to one that works have no status: they tell of no end.
        if type(raw) is dict and type(raw.get("agentId")) is str and "status" in raw:
            told[raw["agentId"]] = raw["status"] != "async_launched"
        origin = entry.get("origin")
        if type(origin) is dict and origin.get("kind") in HEARD:
            told[str(origin.get("runId"))] = HEARD[origin["kind"]] and not tells_it_runs(entry)
        told.update((row["taskId"], False) for row in told_again(entry) if row["kind"] == "agent")
    return told


def told_again(entry: Json) -> list[dict[str, str]]:
    """The tasks that an entry behind a summary says to be at work: each by `taskId`, `kind`, `title` and
    the `toolUseId` of the call that began it."""
    payload = entry.get("attachment")
    if type(payload) is not dict or payload.get("type") != BACKGROUND_TASKS:
        return []
    rows = payload.get("tasks")
    if type(rows) is not list:
        return []
    names = ("taskId", "kind", "title", "toolUseId")
    return [{n: str(row.get(n, "")) for n in names} for row in rows if type(row) is dict]


def tells_it_runs(entry: Json) -> bool:
    """Whether a notification is about a task that had something to say and went on."""
    return RUNNING in str(entry.get("message"))


def letters_heard(entries: Iterable[Json]) -> set[str]:
    """The messages of agents that a conversation has heard, by their ids."""
    heard: set[str] = set()
    for entry in entries:
        origin = entry.get("origin")
        if type(origin) is dict and type(origin.get("messages")) is list:
            heard.update(str(one) for one in origin["messages"])
    return heard


class Begun:
    """The agents that a conversation began, by its calls: what each was is known from there too."""

    def __init__(self, entries: Iterable[Json]) -> None:
        self._calls: dict[str, Json] = {}
        self._agents: dict[str, str] = {}
        for entry in entries:
            raw = entry.get("toolUseResult")
            agent_id = raw.get("agentId") if type(raw) is dict else None
            for block in blocks_of(entry):
                given = block.get("input")
                if block.get("name") in CALLED and type(given) is dict and not given.get("resume"):
                    self._calls[str(block.get("id"))] = block
                elif block.get("type") == "tool_result" and type(agent_id) is str:
                    self._agents[str(block.get("tool_use_id"))] = agent_id

    def call_of(self, agent_id: str, first_words: str) -> Json | None:
        """The call that began an agent: its result names the agent, or none, and then it asked for what the
        agent heard first."""
        for call_id, begun in self._agents.items():
            if begun == agent_id and call_id in self._calls:
                return self._calls[call_id]
        asked = [
            call
            for call_id, call in self._calls.items()
            if call_id not in self._agents
            and type(prompt := call["input"].get("prompt")) is str
            and prompt
            and first_words.endswith(prompt)
        ]
        kinds = {str(call["input"].get("subagent_type")) for call in asked}
        return asked[0] if len(kinds) == 1 else None


def blocks_of(entry: Json) -> list[Json]:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    return [one for one in content if type(one) is dict] if type(content) is list else []


def own_part(entries: Sequence[Json], begins_behind: object) -> Sequence[Json]:
    """What an agent said itself, where it began with what was said elsewhere."""
    for place, entry in enumerate(entries):
        if begins_behind and entry.get("uuid") == begins_behind:
            return entries[place + 1 :]
    return entries


def steps(entries: Iterable[Json]) -> list[str]:
    """The calls that an agent made, a line each."""
    return [
        step_of(block)
        for entry in entries
        if entry.get("type") == "assistant"
        for block in Assistant(entry).message["content"]
        if block.get("type") == "tool_use"
    ]


def step_of(block: Json) -> str:
    """A call by its tool and the first text of its input."""
    given = block.get("input")
    texts = [v for v in given.values() if type(v) is str] if type(given) is dict else []
    words = " ".join(texts[0].split())[:SHOWN_CHARACTERS] if texts else ""
    return f"{block.get('name')} {words}".rstrip()


def account(said: str, done: list[str], unheard: Sequence[str] = ()) -> str:
    """What an agent had come to when it was cut off, and what it was told and had not heard."""
    lines = [f"It had used {count_of(len(done), 'tool')}" + (", last:" if done else ".")]
    lines += [f"- {step}" for step in done[-SHOWN_STEPS:]]
    lines.append(f"It said last: {said}" if said else "It had said nothing.")
    if unheard:
        lines.append("It had not heard yet, and hears first if it goes on:")
        lines += [f"- {words}" for words in unheard]
    return "\n".join(lines)
