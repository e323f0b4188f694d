"""The table of events that call hooks, and the effect a hook can have at each.

Hook authors rely on these rows: which field matchers are compared with, what exit code 2 does, and
which fields of a reply are used. The table is documented in docs/extending/hooks.md, and a test
checks every row against the published examples.

Decision: docs/decisions/130-hooks.md
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.nearest import find_nearest

# The effect of exit code 2 and `decision: "block"`: prevent the event; add text for the model after
# the event; show text to the user; fail (as any nonzero exit code does); no effect.
Blocking: TypeAlias = Literal["prevents", "remarks", "shown", "fails", "nothing"]
Kind: TypeAlias = Literal["command", "http", "mcp_tool", "prompt", "agent", "callback"]

ACTING: frozenset[Kind] = frozenset({"command", "http", "mcp_tool", "callback"})
JUDGING: frozenset[Kind] = ACTING | {"prompt", "agent"}
FIRST: frozenset[Kind] = frozenset({"command", "mcp_tool", "callback"})

USUAL_TIMEOUT_S = 600.0
TIMEOUTS_S: dict[Kind, float] = {"prompt": 30.0, "agent": 60.0, "callback": 60.0}


class Event(Struct, frozen=True, kw_only=True):
    """A kind of event that can call hooks.

    `subject` is the input field that matchers are compared with, or an empty string.
    """

    name: str
    when: str
    subject: str = ""
    blocking: Blocking = "nothing"
    # Plain text on standard output goes to the model, like `additionalContext`.
    hears: bool = False
    takes_context: bool = False
    # `continue: false` ends the turn, and `systemMessage` is shown.
    may_halt: bool = True
    may_tell: bool = True
    has_mode: bool = False
    has_tool: bool = False
    # The event belongs to a turn, so its input includes the model's effort level.
    has_effort: bool = False
    # Its matchers follow the narrower rules, because file names and error names are not lists of
    # tools.
    is_narrow: bool = False
    kinds: frozenset[Kind] = ACTING
    timeout_s: float = USUAL_TIMEOUT_S
    # Example input fields, used as defaults by `clew hooks test`.
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
    """Return an event whose hooks only have side effects; their replies are ignored."""
    return Event(name=name, when=when, may_halt=False, may_tell=False, **fields)


EVENTS: tuple[Event, ...] = (
    Event(
        name="SessionStart",
        when="a session starts or resumes",
        subject="source",
        blocking="shown",
        hears=True,
        takes_context=True,
        kinds=FIRST,
        example={"source": "startup", "model": "claude-sonnet-5"},
    ),
    silent(
        "Setup",
        "clew sets up a folder (--init, --init-only or --maintenance)",
        subject="trigger",
        kinds=frozenset({"command", "callback"}),
        example={"trigger": "init"},
    ),
    silent(
        "InstructionsLoaded",
        "a memory file is added to the context",
        subject="load_reason",
        example={
            "file_path": "/project/CLAUDE.md",
            "memory_type": "Project",
            "load_reason": "session_start",
        },
    ),
    Event(
        name="UserPromptSubmit",
        when="a prompt is submitted, before it reaches the model",
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
            "command_source": "projectSettings",
            "prompt": "/example",
        },
    ),
    Event(
        name="MessageDisplay",
        when="model text is displayed",
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
        "a tool call is about to be checked for permission",
        blocking="prevents",
        takes_context=True,
        kinds=JUDGING,
        example=CALL,
    ),
    tool_event(
        "PermissionRequest",
        "the user is about to be asked to approve a tool call",
        kinds=JUDGING - {"agent"},
        example={k: v for k, v in CALL.items() if k != "tool_use_id"},
    ),
    tool_event(
        "PermissionDenied",
        "auto mode denied a tool call",
        kinds=JUDGING,
        example=CALL | {"reason": "no reviewer"},
    ),
    tool_event(
        "PostToolUse",
        "a tool call succeeded",
        blocking="remarks",
        takes_context=True,
        kinds=JUDGING,
        example=CALL | {"tool_response": {"stdout": "hello"}, "duration_ms": 1},
    ),
    tool_event(
        "PostToolUseFailure",
        "a tool call failed",
        blocking="remarks",
        takes_context=True,
        kinds=JUDGING,
        example=CALL | {"error": "Exit code 1", "is_interrupt": False, "duration_ms": 1},
    ),
    Event(
        name="PostToolBatch",
        when="all tool calls of a response have results",
        blocking="prevents",
        takes_context=True,
        has_mode=True,
        has_effort=True,
        kinds=JUDGING,
        example={"tool_calls": [CALL | {"tool_response": "hello"}]},
    ),
    silent(
        "Notification",
        "the user's attention is needed",
        subject="notification_type",
        example={
            "message": "clew needs your permission",
            "title": "Permission needed",
            "notification_type": "permission_prompt",
        },
    ),
    Event(
        name="SubagentStart",
        when="a subagent starts",
        subject="agent_type",
        blocking="shown",
        takes_context=True,
        example={"agent_id": "agent-example", "agent_type": "general-purpose"},
    ),
    Event(
        name="SubagentStop",
        when="a subagent finished its answer",
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
        when="a task is about to be created",
        blocking="prevents",
        may_halt=False,
        kinds=JUDGING,
        example={"task_id": "1", "task_subject": "an example"},
    ),
    Event(
        name="TaskCompleted",
        when="a task is about to be completed",
        blocking="prevents",
        may_halt=False,
        has_mode=True,
        kinds=JUDGING,
        example={"task_id": "1", "task_subject": "an example"},
    ),
    Event(
        name="Stop",
        when="the model answered and the turn is about to end",
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
        "a turn ended because the service failed",
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
        when="a teammate is about to become idle",
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
        when="a command changed the shell's working folder",
        blocking="shown",
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
        blocking="shown",
        may_halt=False,
        example={"file_path": "/project/.env", "event": "change"},
    ),
    silent(
        "WorktreeCreate",
        "a worktree is about to be created",
        blocking="fails",
        example={"name": "bold-oak-a3f2"},
    ),
    silent(
        "WorktreeRemove",
        "a worktree is about to be removed",
        blocking="fails",
        example={"worktree_path": "/project/.claude/worktrees/bold-oak-a3f2"},
    ),
    Event(
        name="PreCompact",
        when="the conversation is about to be compacted",
        subject="trigger",
        blocking="prevents",
        example={"trigger": "manual", "custom_instructions": ""},
    ),
    Event(
        name="PostCompact",
        when="the conversation was compacted",
        subject="trigger",
        blocking="shown",
        example={"trigger": "manual", "compact_summary": "an example"},
    ),
    Event(
        name="PreModelSwitch",
        when="a model switch was requested",
        subject="to_model",
        blocking="prevents",
        timeout_s=30.0,
        example={"from_model": "claude-sonnet-5", "to_model": "claude-opus-5"},
    ),
    Event(
        name="PostModelSwitch",
        when="the model was switched",
        subject="to_model",
        blocking="shown",
        hears=True,
        takes_context=True,
        timeout_s=30.0,
        example={"from_model": "claude-sonnet-5", "to_model": "claude-opus-5"},
    ),
    Event(
        name="Elicitation",
        when="an MCP server asks the user for input",
        subject="mcp_server_name",
        blocking="prevents",
        example={"mcp_server_name": "example", "message": "Your name?"},
    ),
    Event(
        name="ElicitationResult",
        when="the user answered an MCP server",
        subject="mcp_server_name",
        blocking="prevents",
        example={"mcp_server_name": "example", "action": "accept", "content": {}},
    ),
    Event(
        name="SessionEnd",
        when="a session ends",
        subject="reason",
        blocking="shown",
        may_halt=False,
        timeout_s=1.5,
        example={"reason": "other"},
    ),
)

BY_NAME: dict[str, Event] = {event.name: event for event in EVENTS}

# Hooks at these events may set variables for later commands.
WITH_ENV_FILE = frozenset({"SessionStart", "Setup", "CwdChanged", "FileChanged"})


def find_nearest_event(name: str) -> str | None:
    """Return the event name closest to a misspelled one, or None."""
    return find_nearest(name, BY_NAME, cutoff=0.7)


def subject_of(event: Event, fields: Json) -> str | None:
    """Return the value that an event's matchers are compared with; None if it has no matchers."""
    if not event.subject:
        return None
    value = fields.get(event.subject)
    text = value if isinstance(value, str) else ""
    return text.rpartition("/")[2] if event.name == "FileChanged" else text


def label_event(event: str, subject: str | None) -> str:
    """Return the label of an event for the transcript and the user."""
    return f"{event}:{subject}" if subject else event
