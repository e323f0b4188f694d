"""The events a hook can be called at, and what each lets a hook do. Pure.

A table, because programs outside decide by these rows what to write: which field matchers are held
against, what an exit code of 2 does, which words of an answer count. Described in docs/extending/hooks.md, whose
table this is; a test holds every row against the published examples.

Decision: docs/decisions/130-hooks.md
"""

from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json

# What exit code 2 and `decision: "block"` do: keep it from happening; be words for the model beside
# what happened; be words for the person; fail (any code but 0 does); nothing at all.
Blocking: TypeAlias = Literal["prevents", "remarks", "is_told", "fails", "nothing"]
Kind: TypeAlias = Literal["command", "http", "mcp_tool", "prompt", "agent", "callback"]

ACTING: frozenset[Kind] = frozenset({"command", "http", "mcp_tool", "callback"})
JUDGING: frozenset[Kind] = ACTING | {"prompt", "agent"}
FIRST: frozenset[Kind] = frozenset({"command", "mcp_tool", "callback"})

USUAL_TIMEOUT_S = 600.0
TIMEOUTS_S: dict[Kind, float] = {"prompt": 30.0, "agent": 60.0, "callback": 60.0}


class Event(Struct, frozen=True, kw_only=True):
    """One row. `subject`: the field of the input that a matcher is held against; empty: none is."""

    name: str
    when: str
    subject: str = ""
    blocking: Blocking = "nothing"
    # Plain words a hook prints are for the model, as its `additionalContext` is.
    hears: bool = False
    takes_context: bool = False
    # `continue: false` ends the turn; `systemMessage` is shown.
    may_halt: bool = True
    may_tell: bool = True
    has_mode: bool = False
    has_tool: bool = False
    # Told of a turn that the model works on: how hard it thinks belongs to it.
    has_effort: bool = False
    # Its matchers are read by narrower rules: names of files and of errors are no lists of tools.
    is_narrow: bool = False
    kinds: frozenset[Kind] = ACTING
    timeout_s: float = USUAL_TIMEOUT_S
    # Fields an input of this event has, as an example that `clew hooks test` begins with.
    example: Json = {}


CALL: Json = {
    "tool_name": "Bash",
    "tool_input": {"command": "echo hello"},
    "tool_use_id": "toolu_example",
}


def tool_event(name: str, when: str, **fields: Any) -> Event:
    return Event(
        name=name,
        when=when,
        subject="tool_name",
        has_mode=True,
        has_tool=True,
        has_effort=True,
        **fields,
    )


def silent(name: str, when: str, **fields: Any) -> Event:
    """An event whose hooks are for what they do elsewhere; nothing they answer counts here."""
    return Event(name=name, when=when, may_halt=False, may_tell=False, **fields)


EVENTS: tuple[Event, ...] = (
    Event(
        name="SessionStart",
        when="a session begins or goes on",
        subject="source",
        blocking="is_told",
        hears=True,
        takes_context=True,
        kinds=FIRST,
        example={"source": "startup", "model": "claude-sonnet-5"},
    ),
    silent(
        "Setup",
        "clew is started to prepare a folder",
        subject="trigger",
        kinds=frozenset({"command", "callback"}),
        example={"trigger": "init"},
    ),
    silent(
        "InstructionsLoaded",
        "a memory file joins the context",
        subject="load_reason",
        example={
            "file_path": "/project/CLAUDE.md",
            "memory_type": "Project",
            "load_reason": "session_start",
        },
    ),
    Event(
        name="UserPromptSubmit",
        when="a prompt is given, before the model has it",
        blocking="prevents",
        hears=True,
        takes_context=True,
        has_mode=True,
        kinds=JUDGING,
        timeout_s=30.0,
        example={"prompt": "hello"},
    ),
    Event(
        name="UserPromptExpansion",
        when="a typed command becomes a prompt",
        subject="command_name",
        blocking="prevents",
        hears=True,
        takes_context=True,
        has_mode=True,
        kinds=JUDGING,
        example={
            "expansion_type": "slash_command",
            "command_name": "example",
            "command_args": "",
            "command_source": "project",
            "prompt": "/example",
        },
    ),
    Event(
        name="MessageDisplay",
        when="text of the model is shown",
        may_halt=False,
        may_tell=False,
        timeout_s=10.0,
        example={
            "turn_id": "00000000-0000-4000-8000-000000000000",
            "message_id": "00000000-0000-4000-8000-000000000001",
            "index": 0,
            "final": True,
            "delta": "hello\n",
        },
    ),
    tool_event(
        "PreToolUse",
        "a call is about to be decided",
        blocking="prevents",
        takes_context=True,
        kinds=JUDGING,
        example=CALL,
    ),
    tool_event(
        "PermissionRequest",
        "a person is about to be asked about a call",
        kinds=JUDGING - {"agent"},
        example={k: v for k, v in CALL.items() if k != "tool_use_id"},
    ),
    tool_event(
        "PermissionDenied",
        "mode auto refused a call",
        kinds=JUDGING,
        example=CALL | {"reason": "no reviewer"},
    ),
    tool_event(
        "PostToolUse",
        "a call has succeeded",
        blocking="remarks",
        takes_context=True,
        kinds=JUDGING,
        example=CALL | {"tool_response": {"stdout": "hello"}, "duration_ms": 1},
    ),
    tool_event(
        "PostToolUseFailure",
        "a call has failed",
        blocking="remarks",
        takes_context=True,
        kinds=JUDGING,
        example=CALL | {"error": "Exit code 1", "is_interrupt": False, "duration_ms": 1},
    ),
    Event(
        name="PostToolBatch",
        when="all calls of an answer have results",
        blocking="prevents",
        takes_context=True,
        has_mode=True,
        has_effort=True,
        kinds=JUDGING,
        example={"tool_calls": [CALL | {"tool_response": "hello"}]},
    ),
    silent(
        "Notification",
        "a person should look",
        subject="notification_type",
        example={
            "message": "clew needs your permission",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        },
    ),
    Event(
        name="SubagentStart",
        when="a subagent begins",
        subject="agent_type",
        blocking="is_told",
        takes_context=True,
        example={"agent_id": "agent-example", "agent_type": "general-purpose"},
    ),
    Event(
        name="SubagentStop",
        when="a subagent has answered",
        subject="agent_type",
        blocking="prevents",
        takes_context=True,
        has_mode=True,
        has_effort=True,
        kinds=JUDGING,
        example={
            "stop_hook_active": False,
            "agent_id": "agent-example",
            "agent_type": "general-purpose",
            "agent_transcript_path": "",
            "last_assistant_message": "done",
        },
    ),
    Event(
        name="TaskCreated",
        when="a task is being made",
        blocking="prevents",
        may_halt=False,
        kinds=JUDGING,
        example={"task_id": "1", "task_subject": "an example"},
    ),
    Event(
        name="TaskCompleted",
        when="a task is being marked as done",
        blocking="prevents",
        may_halt=False,
        has_mode=True,
        kinds=JUDGING,
        example={"task_id": "1", "task_subject": "an example"},
    ),
    Event(
        name="Stop",
        when="the model has answered and the turn would end",
        blocking="prevents",
        takes_context=True,
        has_mode=True,
        has_effort=True,
        kinds=JUDGING,
        example={
            "stop_hook_active": False,
            "last_assistant_message": "done",
            "background_tasks": [],
            "session_crons": [],
        },
    ),
    silent(
        "StopFailure",
        "a turn ends because the service failed",
        subject="error",
        is_narrow=True,
        example={
            "error": "rate_limit",
            "error_details": "429",
            "last_assistant_message": "API Error: 429",
        },
    ),
    Event(
        name="TeammateIdle",
        when="a teammate is about to wait",
        blocking="prevents",
        has_mode=True,
        kinds=JUDGING,
        example={"teammate_name": "example", "team_name": "example"},
    ),
    Event(
        name="ConfigChange",
        when="a settings file changed",
        subject="source",
        blocking="prevents",
        may_halt=False,
        may_tell=False,
        example={"source": "user_settings", "file_path": "/home/me/.claude/settings.json"},
    ),
    Event(
        name="CwdChanged",
        when="a command moved the shell to another folder",
        blocking="is_told",
        may_halt=False,
        example={"old_cwd": "/project", "new_cwd": "/project/src"},
    ),
    Event(
        name="DirectoryAdded",
        when="a folder was added to the workspace",
        subject="source",
        may_halt=False,
        example={"directory": "/other", "source": "slash_command"},
    ),
    Event(
        name="FileChanged",
        when="a watched file changed",
        subject="file_path",
        is_narrow=True,
        blocking="is_told",
        may_halt=False,
        example={"file_path": "/project/.env", "event": "change"},
    ),
    silent(
        "WorktreeCreate",
        "a worktree is to be made",
        blocking="fails",
        example={"name": "bold-oak-a3f2"},
    ),
    silent(
        "WorktreeRemove",
        "a worktree is to be removed",
        blocking="fails",
        example={"worktree_path": "/project/.claude/worktrees/bold-oak-a3f2"},
    ),
    Event(
        name="PreCompact",
        when="the history is about to be shortened",
        subject="trigger",
        blocking="prevents",
        example={"trigger": "manual", "custom_instructions": ""},
    ),
    Event(
        name="PostCompact",
        when="the history was shortened",
        subject="trigger",
        blocking="is_told",
        example={"trigger": "manual", "compact_summary": "an example"},
    ),
    Event(
        name="PreModelSwitch",
        when="another model was asked for",
        subject="to_model",
        blocking="prevents",
        timeout_s=30.0,
        example={"from_model": "claude-sonnet-5", "to_model": "claude-opus-5"},
    ),
    Event(
        name="PostModelSwitch",
        when="another model answers from now on",
        subject="to_model",
        blocking="is_told",
        hears=True,
        takes_context=True,
        timeout_s=30.0,
        example={"from_model": "claude-sonnet-5", "to_model": "claude-opus-5"},
    ),
    Event(
        name="Elicitation",
        when="a server asks the person for input",
        subject="mcp_server_name",
        blocking="prevents",
        example={"mcp_server_name": "example", "message": "Your name?"},
    ),
    Event(
        name="ElicitationResult",
        when="the person has answered a server",
        subject="mcp_server_name",
        blocking="prevents",
        example={"mcp_server_name": "example", "action": "accept", "content": {}},
    ),
    Event(
        name="SessionEnd",
        when="a session ends",
        subject="reason",
        blocking="is_told",
        may_halt=False,
        timeout_s=1.5,
        example={"reason": "other"},
    ),
)

BY_NAME: dict[str, Event] = {event.name: event for event in EVENTS}

# Hooks of these may leave variables for the commands that follow.
WITH_ENV_FILE = frozenset({"SessionStart", "Setup", "CwdChanged", "FileChanged"})


def find_nearest_event(name: str) -> str | None:
    """The event that a misspelled name most likely meant."""
    return next(iter(get_close_matches(name, BY_NAME, n=1, cutoff=0.7)), None)


def subject_of(event: Event, fields: Json) -> str | None:
    """What the matchers of an event are held against; None where it has no matchers."""
    if not event.subject:
        return None
    value = fields.get(event.subject)
    text = value if isinstance(value, str) else ""
    return text.rpartition("/")[2] if event.name == "FileChanged" else text


def label_event(event: str, subject: str | None) -> str:
    """How one occasion of an event is called in the log and to people."""
    return f"{event}:{subject}" if subject else event
