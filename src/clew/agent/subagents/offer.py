"""The tools and permission mode of an agent, derived from its definition and its session.

This module does no I/O.
"""

from collections.abc import Iterable, Sequence

from clew.agent.subagents.specs import TRUSTED, AgentSpec
from clew.core.json_object import Json, has_any
from clew.core.messages.messages import AssistantMessage
from clew.core.messages.text import format_count

WAITING = "Messages it will receive first if it is resumed:"

# Tools about the user or the session itself, which agents never get.
NEVER = frozenset({
    "AskUserQuestion", "Brief", "Config", "EnterPlanMode", "ExitPlanMode", "StructuredOutput",
})  # fmt: skip
SAME = {"Task": "Agent"}
# An agent without the second tool doesn't get the first either, which does the same.
DOES_THE_SAME = {"Monitor": "Bash", "MultiEdit": "Edit"}
# From the most restrictive to the least.
WIDTH = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")


def select_tools(spec: AgentSpec, names: Iterable[str], *, may_delegate: bool) -> list[str]:
    """Return the tools in `names` that an agent may call, in the order of `names`."""
    return [
        name
        for name in names
        if name not in NEVER and (may_delegate or name != "Agent") and has(spec, name)
    ]


def has(spec: AgentSpec, name: str) -> bool:
    """Return whether an agent's definition grants it a tool."""
    is_listed = spec.tools is None or is_named(name, spec.tools)
    return is_listed and not any(
        is_named(one, spec.disallowed, is_whole_tool=True)
        for one in (name, DOES_THE_SAME.get(name, name))
    )


def is_named(name: str, patterns: Iterable[str], *, is_whole_tool: bool = False) -> bool:
    """Return whether one of the patterns names a tool or the tool's MCP server.

    With `is_whole_tool`, patterns with arguments in parentheses are ignored.
    """
    for pattern in patterns:
        base, parenthesis, _ = pattern.partition("(")
        if is_whole_tool and parenthesis:
            continue
        base = SAME.get(base.strip(), base.strip())
        if name == base or (base.startswith("mcp__") and of_server(name, base)):
            return True
    return False


def of_server(name: str, pattern: str) -> bool:
    """Return whether a pattern, `mcp__server` or `mcp__server__*`, covers a tool of that server."""
    server = pattern.removesuffix("*").removesuffix("__")
    return "__" not in server.removeprefix("mcp__") and name.startswith(f"{server}__")


def mode_of(
    spec: AgentSpec,
    session_mode: str,
    *,
    is_trusted: bool,
    may_bypass: bool,
    is_chosen: bool = True,
) -> str:
    """Return the permission mode in which an agent works.

    The definition's own mode applies if it is narrower than the session's, or if it comes from the
    user and `is_chosen` is set. It is not set for an agent that only a transcript names, because
    the transcript may come from someone else.
    While the session is in plan mode, no agent changes anything.
    """
    own = spec.mode
    if own is None or session_mode in (own, "plan"):
        return session_mode
    if WIDTH.index(own) <= WIDTH.index(session_mode):
        return own
    by_person = is_chosen and (spec.origin in TRUSTED or (spec.origin == "project" and is_trusted))
    if own == "bypassPermissions" and not (may_bypass and spec.origin in TRUSTED):
        return session_mode
    return own if by_person else session_mode


def is_model_of_project(lead: AgentSpec | None, model: str | None) -> bool:
    """Return whether a project's definition of the session's agent chose the main model.

    `model` is the model for new sessions; None for a resumed one, which keeps its model.
    """
    return (
        lead is not None
        and lead.origin == "project"
        and lead.model is not None
        and model in (None, lead.model)
    )


def list_refusals(spec: AgentSpec) -> tuple[str, ...]:
    """Return the rules with which a definition denies some calls of a tool that the agent has."""
    return tuple(rule for rule in spec.disallowed if "(" in rule)


# The session's agents whose end has not been reported in the conversation, from its entries.


# Messages about an agent, and whether they report its end.
HEARD = {"task-notification": True, "task-left": False}
# The attachment that lists running background tasks after a summary.
BACKGROUND_TASKS = "background_tasks"
RUNNING = "<status>running</status>"
# The names of the tool that starts agents, here and in older transcripts.
CALLED = ("Agent", "Task")
SHOWN_STEPS = 8
SHOWN_CHARACTERS = 120


def find_reported_ends(entries: Iterable[Json]) -> dict[str, bool]:
    """Return, for each agent, whether the last message about it reports its end."""
    ends: dict[str, bool] = {}
    for entry in entries:
        if not has_any(entry, "toolUseResult", "origin", "attachment"):
            continue
        raw = entry.get("toolUseResult")
        # A message to a running agent has no status and reports no end.
        if type(raw) is dict and type(raw.get("agentId")) is str and "status" in raw:
            ends[raw["agentId"]] = raw["status"] != "async_launched"
        origin = entry.get("origin")
        if type(origin) is dict and origin.get("kind") in HEARD:
            ends[str(origin.get("runId"))] = HEARD[origin["kind"]] and not tells_it_runs(entry)
        ends.update(
            (row["taskId"], False) for row in find_retold_tasks(entry) if row["kind"] == "agent"
        )
    return ends


def find_retold_tasks(entry: Json) -> list[dict[str, str]]:
    """Return the running tasks listed in an entry that follows a summary.

    Each has `taskId`, `kind`, `title` and the `toolUseId` of the call that started it.
    """
    payload = entry.get("attachment")
    if type(payload) is not dict or payload.get("type") != BACKGROUND_TASKS:
        return []
    rows = payload.get("tasks")
    if type(rows) is not list:
        return []
    names = ("taskId", "kind", "title", "toolUseId")
    return [{n: str(row.get(n, "")) for n in names} for row in rows if type(row) is dict]


def tells_it_runs(entry: Json) -> bool:
    """Return whether a notification is from a task that is still running."""
    return RUNNING in str(entry.get("message"))


def find_heard_letters(entries: Iterable[Json]) -> set[str]:
    """Return the IDs of agents' messages that were delivered in a conversation."""
    heard: set[str] = set()
    for entry in entries:
        origin = entry.get("origin")
        if type(origin) is dict and type(origin.get("messages")) is list:
            heard.update(str(message) for message in origin["messages"])
    return heard


class Begun:
    """The agents that a conversation started, identified by the calls that started them."""

    def __init__(self, entries: Iterable[Json]) -> None:
        self._calls: dict[str, Json] = {}
        self._agents: dict[str, str] = {}
        for entry in entries:
            raw = entry.get("toolUseResult")
            agent_id = raw.get("agentId") if type(raw) is dict else None
            for block in blocks_of(entry):
                arguments = block.get("input")
                if (
                    block.get("name") in CALLED
                    and type(arguments) is dict
                    and not arguments.get("resume")
                ):
                    self._calls[str(block.get("id"))] = block
                elif block.get("type") == "tool_result" and type(agent_id) is str:
                    self._agents[str(block.get("tool_use_id"))] = agent_id

    def call_of(self, agent_id: str, first_words: str) -> Json | None:
        """Return the call that started an agent, or None if it can't be identified.

        The result of the call names the agent. If a call has no result, its prompt must match the
        agent's first prompt.
        """
        for call_id, started_id in self._agents.items():
            if started_id == agent_id and call_id in self._calls:
                return self._calls[call_id]
        calls = [
            call
            for call_id, call in self._calls.items()
            if call_id not in self._agents
            and type(prompt := call["input"].get("prompt")) is str
            and prompt
            and first_words.endswith(prompt)
        ]
        kinds = {str(call["input"].get("subagent_type")) for call in calls}
        return calls[0] if len(kinds) == 1 else None


def blocks_of(entry: Json) -> list[Json]:
    message = entry.get("message")
    content = message.get("content") if type(message) is dict else None
    return [block for block in content if type(block) is dict] if type(content) is list else []


def select_own_part(entries: Sequence[Json], begins_behind: object) -> Sequence[Json]:
    """Return an agent's own entries, without the conversation it was forked from."""
    for place, entry in enumerate(entries):
        if begins_behind and entry.get("uuid") == begins_behind:
            return entries[place + 1 :]
    return entries


def describe_steps(entries: Iterable[Json]) -> list[str]:
    """Return the calls that an agent made, one per line."""
    return [
        step_of(block)
        for entry in entries
        if entry.get("type") == "assistant"
        for block in AssistantMessage(entry).message["content"]
        if block.get("type") == "tool_use"
    ]


def step_of(block: Json) -> str:
    """Return a call in short form: its tool and the first string in its input."""
    arguments = block.get("input")
    texts = [v for v in arguments.values() if type(v) is str] if type(arguments) is dict else []
    words = " ".join(texts[0].split())[:SHOWN_CHARACTERS] if texts else ""
    return f"{block.get('name')} {words}".rstrip()


def describe_work(last_text: str, done: list[str], unheard: Sequence[str] = ()) -> str:
    """Return a summary of an interrupted agent's work and of the messages it has not received."""
    lines = [
        f"It made {format_count(len(done), 'tool call')}" + (", most recently:" if done else ".")
    ]
    lines += [f"- {step}" for step in done[-SHOWN_STEPS:]]
    lines.append(f"Its last message: {last_text}" if last_text else "It sent no message.")
    if unheard:
        lines.append(WAITING)
        lines += [f"- {words}" for words in unheard]
    return "\n".join(lines)
