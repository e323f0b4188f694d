"""The frames that clew writes to hosts: the table of their kinds and required fields.

`make docs` generates `host_frames.schema.json` and a table of docs/extending/stream-json.md from
it. Frames may have more fields than the table lists, and hosts must ignore unknown kinds.
"""

from msgspec import Struct

TEXT = "string"
COUNT = "integer"
NUMBER = "number"
FLAG = "boolean"
OBJECT = "object"
LIST = "array"


class FrameKind(Struct, frozen=True, kw_only=True):
    """One kind of frame: its `type`, its `subtype` if it has one, and its required fields.

    A field's type is spelled as in JSON Schema; `string?` also allows null.
    """

    type: str
    subtype: str = ""
    meaning: str
    members: dict[str, str]


def frame(name: str, meaning: str, **members: str) -> FrameKind:
    kind, _, subtype = name.partition("/")
    return FrameKind(type=kind, subtype=subtype, meaning=meaning, members=members)


def system(subtype: str, meaning: str, **members: str) -> FrameKind:
    return frame(f"system/{subtype}", meaning, **members, session_id=TEXT, uuid=TEXT)


def result(subtype: str, meaning: str, **members: str) -> FrameKind:
    return frame(
        f"result/{subtype}", meaning, **members, is_error=FLAG, num_turns=COUNT,
        duration_ms=COUNT, duration_api_ms=COUNT, stop_reason="string?", session_id=TEXT,
        total_cost_usd=NUMBER,
        usage=OBJECT, modelUsage=OBJECT, permission_denials=LIST, uuid=TEXT,
    )  # fmt: skip


# fmt: off
FRAMES: tuple[FrameKind, ...] = (
    system("init", "The start of a turn, with the session's tools, commands and model",
        cwd=TEXT, tools=LIST, mcp_servers=LIST, model=TEXT, permissionMode=TEXT,
        slash_commands=LIST, apiKeySource=TEXT, claude_code_version=TEXT, clew_version=TEXT,
        output_style=TEXT, agents=LIST, skills=LIST, plugins=LIST, capabilities=LIST),
    frame("assistant", "One finished block of a response, or a reported API error",
        message=OBJECT, parent_tool_use_id="string?", session_id=TEXT, uuid=TEXT),
    frame("user", "A tool result, a replayed prompt, or text from clew",
        message=OBJECT, parent_tool_use_id="string?", session_id=TEXT, uuid=TEXT),
    frame("stream_event", "One event of the model's stream",
        event=OBJECT, parent_tool_use_id="string?", session_id=TEXT, uuid=TEXT),
    result("success", "The end of a turn", result=TEXT),
    result("error_during_execution", "The end of a turn that failed or was interrupted",
        errors=LIST),
    result("error_max_turns", "The end of a turn that reached --max-turns", errors=LIST),
    result("error_max_budget_usd", "The end of a turn that reached its cost limit", errors=LIST),
    result("error_max_structured_output_retries",
        "The end of a turn without valid structured output", errors=LIST),
    system("session_state_changed", "The session is running, waiting or idle", state=TEXT),
    system("status", "The session's activity, or its new permission mode", status="string?"),
    system("task_started", "A task started", task_id=TEXT, description=TEXT),
    system("task_progress", "A subagent finished a step",
        task_id=TEXT, description=TEXT, usage=OBJECT),
    system("task_updated", "A task's state changed", task_id=TEXT, patch=OBJECT),
    system("task_notification", "A task ended",
        task_id=TEXT, status=TEXT, output_file=TEXT, summary=TEXT),
    system("background_tasks_changed", "All running background tasks", tasks=LIST),
    system("permission_denied", "A rule or permission mode denied a tool call",
        tool_name=TEXT, tool_use_id=TEXT, message=TEXT),
    system("api_retry", "A failed request will be retried",
        attempt=COUNT, max_retries="integer?", retry_delay_ms=COUNT, error_status="integer?",
        error=TEXT),
    system("model_fallback", "clew switched to another model",
        trigger=TEXT, original_model=TEXT, fallback_model=TEXT, content=TEXT),
    system("model_refusal_no_fallback", "The model refused to answer",
        original_model=TEXT, request_id="string?", content=TEXT),
    system("compact_boundary", "The conversation was compacted here", compact_metadata=OBJECT),
    system("rewound", "Messages were removed from the conversation, or are part of it again",
        content=TEXT, removed=LIST, restored=LIST),
    system("microcompact_boundary", "Old tool results were removed from the context",
        microcompact_metadata=OBJECT),
    system("hook_started", "A hook started", hook_id=TEXT, hook_name=TEXT, hook_event=TEXT),
    system("hook_response", "A hook ended",
        hook_id=TEXT, hook_name=TEXT, hook_event=TEXT, output=TEXT, stdout=TEXT, stderr=TEXT,
        outcome=TEXT),
    system("informational", "A notice or warning from clew", content=TEXT, level=TEXT),
    system("local_command_output", "The output of a slash command that did not use the model",
        content=TEXT),
    system("commands_changed", "All slash commands, sent when they change", commands=LIST),
    system("session_writes_lost",
        "The last frame if a full disk prevented saving lines of the transcript",
        error_code=TEXT, lost=LIST),
    system("worker_shutting_down", "The last frame when a signal ends clew", reason=TEXT),
    frame("conversation_reset", "A new conversation replaced the one with `session_id`",
        new_conversation_id=TEXT, session_id=TEXT, uuid=TEXT),
    frame("tool_use_summary", "A summary of a group of tool calls",
        summary=TEXT, preceding_tool_use_ids=LIST, session_id=TEXT, uuid=TEXT),
    frame("tool_progress", "A tool call that is still running",
        tool_use_id=TEXT, tool_name=TEXT, parent_tool_use_id="string?",
        elapsed_time_seconds=NUMBER, data=OBJECT, session_id=TEXT, uuid=TEXT),
    frame("prompt_suggestion", "A suggestion for the next prompt",
        suggestion=TEXT, session_id=TEXT, uuid=TEXT),
    frame("transcript_mirror", "Lines appended to a transcript",
        filePath=TEXT, entries=LIST),
    frame("control_request", "A request to the host", request_id=TEXT, request=OBJECT),
    frame("control_response", "The answer to a request from the host", response=OBJECT),
    frame("control_cancel_request", "The cancellation of a request to the host", request_id=TEXT),
)
# fmt: on


def make_schema() -> dict[str, object]:
    """Return the JSON Schema of a frame. Unknown kinds and additional fields are valid."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A frame that clew writes to a host",
        "type": "object",
        "properties": {"type": {"type": "string"}},
        "required": ["type"],
        "allOf": [
            {
                "if": {
                    "properties": {
                        "type": {"const": kind.type},
                        **({"subtype": {"const": kind.subtype}} if kind.subtype else {}),
                    },
                    "required": ["type", *(["subtype"] if kind.subtype else [])],
                },
                "then": {
                    "description": kind.meaning,
                    "properties": {
                        name: {"type": [of[:-1], "null"] if of.endswith("?") else of}
                        for name, of in kind.members.items()
                    },
                    "required": list(kind.members),
                },
            }
            for kind in FRAMES
        ],
    }
