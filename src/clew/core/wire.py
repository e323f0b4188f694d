"""Build and parse the JSON lines exchanged between clew and hosts.

This module owns the spelling of the frames, including field names of another product that hosts
expect, such as `claude_code_version`. IDs and times are arguments or are taken from the entries.
The module does no I/O.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json, object_of
from clew.core.messages.kinds import find_prompt_faults
from clew.core.messages.text import unescape_line
from clew.core.regex import lazy_pattern
from clew.version import VERSION

State: TypeAlias = Literal["idle", "running", "requires_action"]

# The protocol version that hosts compare with; clew's own version is a separate field.
COMPATIBLE_VERSION = "2.1.332"
# Features beyond the first version of the protocol that a host can rely on.
CAPABILITIES = ("interrupt_receipt", "hook_on_failure", "reload_plugins_refuse_if_busy_v1")
# The name under which hosts know the tool that starts a subagent.
LISTED_AS = {"Agent": "Task"}


def init(
    *,
    session_id: str,
    uuid: str,
    cwd: str,
    tools: Sequence[str],
    model: str,
    mode: str,
    mcp_servers: Sequence[Json] = (),
    commands: Sequence[str] = (),
    agents: Sequence[str] = (),
    skills: Sequence[str] = (),
    plugins: Sequence[Json] = (),
    output_style: str = "default",
    key_source: str = "none",
    memory_paths: Sequence[str] = (),
    directories: Sequence[str] = (),
) -> Json:
    """Return the first frame of every turn, which describes the session."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": [LISTED_AS.get(name, name) for name in tools],
        "mcp_servers": list(mcp_servers),
        "model": model,
        "permissionMode": mode,
        "slash_commands": list(commands),
        "apiKeySource": key_source,
        "claude_code_version": COMPATIBLE_VERSION,
        "clew_version": VERSION,
        "output_style": output_style,
        "agents": list(agents),
        "skills": list(skills),
        "plugins": list(plugins),
        "capabilities": list(CAPABILITIES),
        "memory_paths": list(memory_paths),
        "additional_directories": list(directories),
        "uuid": uuid,
    }


def system(subtype: str, *, session_id: str, uuid: str, **fields: Any) -> Json:
    return {"type": "system", "subtype": subtype, **fields, "session_id": session_id, "uuid": uuid}


def state_changed(state: State, *, session_id: str, uuid: str, for_host_only: bool) -> Json:
    """Return the frame that reports whether the session is running, waiting or idle."""
    marked = {"sdk_host_only": True} if for_host_only else {}
    return system("session_state_changed", session_id=session_id, uuid=uuid, state=state, **marked)


def reset(before: str, after: str, *, uuid: str) -> Json:
    """Return the frame that reports that conversation `after` has replaced `before`."""
    return {
        "type": "conversation_reset",
        "new_conversation_id": after,
        "session_id": before,
        "uuid": uuid,
    }


def assistant(
    entry: Json, *, session_id: str, parent: str | None = None, answers: Sequence[str] = ()
) -> Json:
    """Return the frame for one finished block of a response, or for a reported API error."""
    frame = {
        "type": "assistant",
        "message": readable(entry["message"]),
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": entry["uuid"],
        "timestamp": entry.get("timestamp"),
        "request_id": entry.get("requestId"),
    }
    if entry.get("isAbortedMidStream"):
        frame["aborted"] = True
    if entry.get("isApiErrorMessage"):
        frame["error"] = entry.get("error") or "unknown"
        frame["is_api_error_message"] = True
        frame["api_error_status"] = entry.get("apiErrorStatus")
        frame["api_error_type"] = entry.get("apiErrorType")
    return frame | describe_answered_prompts(answers)


def readable(message: Json) -> Json:
    """Return a message in the form that hosts can parse: each thinking block has a signature."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [
        {"thinking": "", "signature": ""} | block if block.get("type") == "thinking" else block
        for block in content
    ]
    return message | {"content": blocks}


def user(
    entry: Json, *, session_id: str, parent: str | None = None, is_replay: bool = False
) -> Json:
    """Return the frame for a user-role message: a tool result, a replayed prompt or clew's text."""
    frame = {
        "type": "user",
        "message": entry["message"],
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": entry["uuid"],
        "timestamp": entry.get("timestamp"),
    }
    if "toolUseResult" in entry:
        frame["tool_use_result"] = entry["toolUseResult"]
    if "toolDenialKind" in entry:
        frame["tool_denial_kind"] = entry["toolDenialKind"]
    if entry.get("isMeta") or entry.get("isCompactSummary"):
        frame["isSynthetic"] = True
    if entry.get("origin"):
        frame["origin"] = entry["origin"]
    if is_replay:
        frame["isReplay"] = True
    return frame


def of_agent(frame: Json, *, agent_id: str, kind: str, description: str) -> Json:
    """Mark a frame as coming from a subagent's conversation."""
    return frame | {
        "agent_id": agent_id,
        "subagent_type": kind,
        "task_description": description,
    }


def compact_boundary(entry: Json, *, session_id: str) -> Json:
    """Return the frame for a compaction boundary, with the messages it preserves."""
    metadata = entry["compactMetadata"]
    fields = {"trigger": metadata["trigger"], "pre_tokens": metadata["preTokens"]}
    if "postTokens" in metadata:
        fields["post_tokens"] = metadata["postTokens"]
    segment, messages = metadata.get("preservedSegment"), metadata.get("preservedMessages")
    if segment:
        fields["preserved_segment"] = {
            "head_uuid": segment["headUuid"],
            "anchor_uuid": segment["anchorUuid"],
            "tail_uuid": segment["tailUuid"],
        }
    if messages:
        fields["preserved_messages"] = {
            "anchor_uuid": messages["anchorUuid"],
            "uuids": messages["uuids"],
            "all_uuids": messages["allUuids"],
        }
    return system(
        "compact_boundary", session_id=session_id, uuid=entry["uuid"], compact_metadata=fields
    )


def microcompact_boundary(entry: Json, *, session_id: str) -> Json:
    """Return the frame that reports which old tool results were cleared from the context."""
    metadata = entry["microcompactMetadata"]
    fields = {
        "trigger": metadata["trigger"],
        "pre_tokens": metadata["preTokens"],
        "tokens_saved": metadata["tokensSaved"],
        "compacted_tool_ids": metadata["compactedToolIds"],
        "cleared_attachment_uuids": metadata["clearedAttachmentUUIDs"],
    }
    return system(
        "microcompact_boundary",
        session_id=session_id,
        uuid=entry["uuid"],
        microcompact_metadata=fields,
    )


def tool_use_summary(summary: str, calls: Sequence[str], *, session_id: str, uuid: str) -> Json:
    """Return the frame with a short summary of a group of calls."""
    return {
        "type": "tool_use_summary",
        "summary": summary,
        "preceding_tool_use_ids": list(calls),
        "session_id": session_id,
        "uuid": uuid,
    }


def tool_progress(
    call: str, tool: str, elapsed_s: float, data: Json, *, parent: str | None, **ids: str
) -> Json:
    """Return the frame that says how long a call has been running, and the tool's own figures."""
    return {
        "type": "tool_progress",
        "tool_use_id": call,
        "tool_name": tool,
        "parent_tool_use_id": parent,
        "elapsed_time_seconds": elapsed_s,
        "data": data,
        **ids,
    }


def stream_event(
    event: Json,
    *,
    session_id: str,
    uuid: str,
    parent: str | None = None,
    answers: Sequence[str] = (),
) -> Json:
    """Return the frame for one raw event of the model's stream."""
    return {
        "type": "stream_event",
        "event": event,
        "session_id": session_id,
        "parent_tool_use_id": parent,
        "uuid": uuid,
    } | describe_answered_prompts(answers)


def describe_answered_prompts(prompts: Sequence[str]) -> Json:
    """Return the fields that name the host's prompts to which a frame responds."""
    if not prompts:
        return {}
    return {"user_message_uuid": prompts[0], "user_message_uuids": list(prompts)}


def make_success(request_id: str, response: Json | None = None) -> Json:
    """Return the successful response to a control request."""
    body = {} if response is None else {"response": response}
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, **body},
    }


def make_refusal(request_id: str, error: str, *, code: str | None = None) -> Json:
    """Return the error response to a control request."""
    coded = {} if code is None else {"error_code": code}
    return {
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": error, **coded},
    }


def make_request(request_id: str, subtype: str, fields: Json) -> Json:
    """Return a control request from clew to the host."""
    return {
        "type": "control_request",
        "request_id": request_id,
        "request": {"subtype": subtype, **fields},
    }


def make_withdrawal(request_id: str) -> Json:
    """Return the frame that cancels one of clew's control requests."""
    return {"type": "control_cancel_request", "request_id": request_id}


def unsupported(request_id: str, subtype: str) -> Json:
    words = f"Unsupported control request subtype: {subtype}"
    return make_refusal(request_id, words, code="unsupported_request")


# Frames stay below the size that hosts accept: longer ones are shortened and list what was omitted.


# Hosts abort a session on a line of 1,048,576 characters, unless they are configured otherwise.
MAX_FRAME_BYTES = 1024 * 1024 - 1024
# Long strings are first truncated to this fraction of the limit; lowered until the frame fits.
KEPT = 4
LEAST = 64
# The most omissions that a frame lists.
MAX_OMISSIONS = 20
# The members that contain encoded bytes. A part of them can't be decoded, so they are left out.
MEDIA = ("data", "base64", "blob")

_encode = msgspec.json.Encoder().encode


def encode(frame: Json) -> bytes:
    """Encode a frame as one line of JSON.

    Characters that affect a terminal, or that some readers treat as line endings, are escaped.
    """
    return unescape_line(_encode(frame))


def encode_frame(frame: Json, limit: int = MAX_FRAME_BYTES) -> bytes:
    """Encode a frame as one line without the newline, shortened if it exceeds `limit` bytes.

    The field `truncated` of a shortened frame lists what was omitted.
    """
    line = encode(frame)
    longest = limit // KEPT
    while len(line) > limit and longest >= LEAST:
        cuts = FrameCuts(longest)
        short: Json = cuts.shorten(frame)
        line = encode(short | {"truncated": cuts.omissions})
        longest //= KEPT
    return line if len(line) <= limit else encode(emptied(frame))


class FrameCuts:
    """Shortens a frame and lists what it omits.

    Long strings lose their middle, and long arrays and objects their end. Encoded media is omitted
    entirely.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.omissions: list[Json] = []

    def shorten(self, value: Any, path: str = "") -> Any:
        limit = self._limit
        match value:
            case str() if len(value) > limit:
                self._note(path, "characters", len(value) - limit)
                return cut(value, limit)
            case {"type": str(kind), "source": {"data": str(data)}} if len(data) > limit:
                self._note(f"{path}.source.data", "characters", len(data))
                return {"type": "text", "text": f"[{kind}: {len(data)} characters omitted]"}
            case dict():
                if len(value) > limit:
                    self._note(path, "members", len(value) - limit)
                return {key: self._member(key, value[key], path) for key in list(value)[:limit]}
            case list():
                if len(value) > limit:
                    self._note(path, "items", len(value) - limit)
                return [self.shorten(v, f"{path}[{n}]") for n, v in enumerate(value[:limit])]
        return value

    def _member(self, key: Any, value: Any, path: str) -> Any:
        path = f"{path}.{key}" if path else str(key)
        if key in MEDIA and isinstance(value, str) and len(value) > self._limit:
            self._note(path, "characters", len(value))
            return ""
        return self.shorten(value, path)

    def _note(self, path: str, unit: str, count: int) -> None:
        if len(self.omissions) < MAX_OMISSIONS:
            self.omissions.append({"path": path[-LEAST * 4 :], "omitted": count, "unit": unit})


def cut(text: str, limit: int) -> str:
    head, tail = text[: limit * 3 // 4], text[len(text) - limit // 4 :]
    omitted = "1 character" if len(text) == limit + 1 else f"{len(text) - limit} characters"
    return f"{head}\n[... {omitted} omitted ...]\n{tail}"


def emptied(frame: Json) -> Json:
    """Return only the scalar fields of a frame that would be too long even after truncation."""
    flat = {
        key: value
        for key, value in frame.items()
        if value is None or isinstance(value, bool | int | float | str)
    }
    few: Json = FrameCuts(LEAST).shorten(flat)
    left_out = {"path": "", "omitted": len(frame) - len(flat), "unit": "members"}
    return few | {"truncated": [left_out]}


# Lines from a host. Each line parses to one value and never raises.


class Said(Struct, frozen=True, kw_only=True):
    """A user message.

    `uuid` is the host's ID for the message. If `asks` is false, the message is stored but does not
    start a turn.
    """

    content: str | list[Json]
    uuid: str | None = None
    origin: Json | None = None
    is_synthetic: bool = False
    # The host composed the text itself, so it must not be scanned for commands or mentions.
    is_verbatim: bool = False
    asks: bool = True
    # Text appended to the prompt that is never scanned for commands or mentions.
    piped: str = ""

    @property
    def typed(self) -> str | None:
        """The text to scan for commands and mentions; None if it must not be scanned."""
        if self.is_verbatim:
            return None
        if isinstance(self.content, str):
            return self.content
        if len(self.content) == 1 and isinstance(self.content[0].get("text"), str):
            words: str = self.content[0]["text"]
            return words
        return None


class ControlRequest(Struct, frozen=True, kw_only=True):
    """A control request; it needs exactly one response."""

    request_id: str
    subtype: str
    fields: Json


class HostAnswer(Struct, frozen=True, kw_only=True):
    """The host's response to one of clew's requests; `error` is None on success."""

    request_id: str
    response: Json
    error: str | None = None


class WithdrawnRequest(Struct, frozen=True, kw_only=True):
    """A request that the sender has cancelled."""

    request_id: str


class IgnoredLine(Struct, frozen=True, kw_only=True):
    """A line that needs no action: blank, a keep-alive or a kind from a later version."""


class MalformedLine(Struct, frozen=True, kw_only=True):
    """An invalid line and the reason; `request_id` is set if the line was a request."""

    why: str
    request_id: str | None = None


Incoming: TypeAlias = (
    Said | ControlRequest | HostAnswer | WithdrawnRequest | IgnoredLine | MalformedLine
)

EXCERPT = 80
UUID = lazy_pattern(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def read_line(line: bytes) -> Incoming:
    """Parse a line of standard input."""
    if not line.strip():
        return IgnoredLine()
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        excerpt = line[:EXCERPT].decode("utf-8", "replace")
        return MalformedLine(why=f"invalid JSON ({error}): {excerpt!r}")
    if not isinstance(data, dict):
        return MalformedLine(why="expected a JSON object")
    return read(data)


def read(data: Json) -> Incoming:
    """Interpret a decoded line."""
    match data.get("type"):
        case "user":
            return read_said(data)
        case "control_request":
            return read_asked(data)
        case "control_response":
            return read_answered(data)
        case "control_cancel_request":
            request_id = data.get("request_id")
            return (
                WithdrawnRequest(request_id=request_id)
                if isinstance(request_id, str)
                else IgnoredLine()
            )
        case _:
            return IgnoredLine()


def read_said(data: Json) -> Said | MalformedLine:
    message = data.get("message")
    if not isinstance(message, dict):
        return MalformedLine(why='"user" line: "message" must be an object')
    if message.get("role") != "user":
        return MalformedLine(why='"user" line: "message.role" must be "user"')
    content = message.get("content")
    if isinstance(content, list):
        if problems := find_prompt_faults(content):
            return MalformedLine(why=f"message.content: {'; '.join(problems)}")
    elif not isinstance(content, str):
        return MalformedLine(why="message.content: expected a string or an array of blocks")
    uuid, origin = data.get("uuid"), data.get("origin")
    return Said(
        content=content,
        # The ID becomes the entry's uuid, so it must be one.
        uuid=uuid if isinstance(uuid, str) and UUID.fullmatch(uuid) else None,
        origin=origin if isinstance(origin, dict) else None,
        is_synthetic=data.get("isSynthetic") is True,
        is_verbatim=data.get("client_composed") is True,
        asks=data.get("shouldQuery") is not False,
    )


def read_asked(data: Json) -> ControlRequest | MalformedLine:
    request_id, request = data.get("request_id"), data.get("request")
    if not isinstance(request_id, str):
        return MalformedLine(why='"control_request" line: "request_id" must be a string')
    subtype = request.get("subtype") if isinstance(request, dict) else None
    if not isinstance(subtype, str) or not isinstance(request, dict):
        return MalformedLine(
            why='"control_request" line: "request.subtype" must be a string', request_id=request_id
        )
    return ControlRequest(request_id=request_id, subtype=subtype, fields=request)


def read_answered(data: Json) -> HostAnswer | IgnoredLine:
    response = data.get("response")
    request_id = response.get("request_id") if isinstance(response, dict) else None
    if not isinstance(request_id, str) or not isinstance(response, dict):
        return IgnoredLine()
    if response.get("subtype") == "error":
        words = response.get("error")
        return HostAnswer(
            request_id=request_id,
            response={},
            error=words if isinstance(words, str) and words else "the host reported an error",
        )
    return HostAnswer(request_id=request_id, response=object_of(response.get("response")))
