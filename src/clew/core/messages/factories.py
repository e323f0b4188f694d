"""The only functions that create clew's own messages, blocks, events and records.

A factory returns the complete object in its written form. IDs and times are arguments: `at` is a
time such as `2026-01-31T12:00:00.000Z`. Absent values are omitted, not written as null.
"""

from __future__ import annotations

from clew.core.messages.errors import MisuseError
from clew.core.messages.kinds import BESIDE, KINDS
from clew.core.messages.text import (
    CONTINUED,
    INTERRUPTED,
    INTERRUPTED_FOR_TOOL_USE,
    NO_CONTENT,
    SYNTHETIC_MODEL,
    wrap_in_tag,
)
from clew.core.messages.views import complete_usage, make_zero_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


def format_timestamp(epoch_ms: int) -> str:
    """Format milliseconds since 1970 as UTC with three decimals: `2026-01-31T12:00:00.000Z`."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def make_text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def make_tool_result(tool_use_id: str, content: Any, *, is_error: bool = False) -> dict[str, Any]:
    """Return the block that answers a tool call; `is_error` is written only for a failure."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    return block | ({"is_error": True} if is_error else {})


def _is_empty(content: Any) -> bool:
    return content is None or content in ("", [])


def _without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value is not False}


def make_user(
    content: str | Sequence[dict[str, Any]],
    *,
    uuid: str,
    at: str,
    is_meta: bool = False,
    is_virtual: bool = False,
    is_compact_summary: bool = False,
    is_visible_in_transcript_only: bool = False,
    is_synthetic: bool = False,
    tool_use_result: Any = None,
    source_tool_assistant_uuid: str | None = None,
    mcp_meta: dict[str, Any] | None = None,
    image_paste_ids: list[int] | None = None,
    permission_mode: str | None = None,
    origin: dict[str, Any] | None = None,
    prompt_source: str | None = None,
    prompt_id: str | None = None,
) -> dict[str, Any]:
    """Return a user message. Empty content, which the API rejects, is replaced by a placeholder."""
    body = content if isinstance(content, str) else list(content)
    return {
        "type": "user",
        "message": {"role": "user", "content": NO_CONTENT if _is_empty(body) else body},
        "uuid": uuid,
        "timestamp": at,
    } | _without_nothing(
        {
            "isMeta": is_meta,
            "isVirtual": is_virtual,
            "isCompactSummary": is_compact_summary,
            "isVisibleInTranscriptOnly": is_visible_in_transcript_only,
            "isSynthetic": is_synthetic,
            "toolUseResult": tool_use_result,
            "sourceToolAssistantUUID": source_tool_assistant_uuid,
            "mcpMeta": mcp_meta,
            "imagePasteIds": image_paste_ids,
            "permissionMode": permission_mode,
            "origin": origin,
            "promptSource": prompt_source,
            "promptId": prompt_id,
        }
    )


def make_tool_answer(
    tool_use_id: str,
    content: Any,
    *,
    uuid: str,
    at: str,
    source_uuid: str | None,
    raw: Any = None,
    is_error: bool = False,
    mcp_meta: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the message that contains the result of one tool call.

    `content` is the result for the model, and `raw` is what the tool returned.
    """
    result = NO_CONTENT if _is_empty(content) else content
    return make_user(
        [make_tool_result(tool_use_id, result, is_error=is_error)],
        uuid=uuid,
        at=at,
        tool_use_result=raw,
        source_tool_assistant_uuid=source_uuid,
        mcp_meta=mcp_meta,
    )


def make_interruption(
    *, uuid: str, at: str, for_tool_use: bool, message_id: str | None = None
) -> dict[str, Any]:
    """Return the message that marks where the user interrupted the turn."""
    words = INTERRUPTED_FOR_TOOL_USE if for_tool_use else INTERRUPTED
    entry = make_user([make_text(words)], uuid=uuid, at=at, is_synthetic=True)
    return entry | _without_nothing({"interruptedMessageId": message_id})


def warning(words: str, *, uuid: str, at: str) -> dict[str, Any]:
    """Return a reminder that only the model sees."""
    return make_user(
        wrap_in_tag("system-reminder", words), uuid=uuid, at=at, is_meta=True, is_synthetic=True
    )


def compact_summary(summary: str, *, uuid: str, at: str) -> dict[str, Any]:
    """Return the summary that replaces the conversation before a compaction boundary."""
    return make_user(
        f"{CONTINUED}\n\n{summary}",
        uuid=uuid,
        at=at,
        is_compact_summary=True,
        is_visible_in_transcript_only=True,
        is_synthetic=True,
    )


# The model of a response that does not name one.
UNKNOWN_MODEL = "unknown"


def make_assistant(
    message: dict[str, Any],
    *,
    uuids: Iterable[str],
    at: str,
    request_id: str,
    first: int = 0,
    is_aborted_mid_stream: bool = False,
    requested_model: str = "",
) -> list[dict[str, Any]]:
    """Return the entries of one response: one per block, each with the response's ID and usage.

    `first` is the index of the first block if `message` is only part of the response. The requested
    model is added if the response names another. Readers count usage once per message ID and
    request ID, so every entry has both; if a gateway omitted one, it is derived from the first
    uuid.
    """
    content = message.get("content")
    parts = content if isinstance(content, list) and content else [make_text(NO_CONTENT)]
    places = list(zip(parts, uuids, strict=False))
    message_id = _said(message, "id") or f"msg_{places[0][1].replace('-', '')}"
    payload = message | {
        "id": message_id,
        "role": "assistant",
        "model": _said(message, "model") or UNKNOWN_MODEL,
        "usage": complete_usage(message.get("usage")),
    }
    extra = {"requestId": request_id or message_id} | _without_nothing(
        {
            "isAbortedMidStream": is_aborted_mid_stream,
            "requestedModel": "" if requested_model == payload["model"] else requested_model,
        }
    )
    return [
        {
            "type": "assistant",
            "message": payload | {"content": [part]},
            **extra,
            **({"thinkingDisplay": "omitted"} if _is_omitted(part) else {}),
            "apiBlockIndex": index,
            "uuid": uuid,
            "timestamp": at,
        }
        for index, (part, uuid) in enumerate(places, first)
    ]


def _is_omitted(block: dict[str, Any]) -> bool:
    """Return whether the service withheld the thinking text and sent only its signature."""
    is_thought = block.get("type") == "thinking" and bool(block.get("signature"))
    return is_thought and block.get("thinking") == ""


def _said(message: dict[str, Any], key: str) -> str | None:
    value = message.get(key)
    return value if isinstance(value, str) and value else None


def synthetic_assistant(
    content: str | Sequence[dict[str, Any]],
    *,
    uuid: str,
    at: str,
    message_id: str,
    usage: dict[str, Any] | None = None,
    is_virtual: bool = False,
) -> dict[str, Any]:
    """Return an assistant message that clew wrote, marked by its model name."""
    parts = [make_text(content)] if isinstance(content, str) else list(content)
    if _is_empty(parts) or parts == [make_text("")]:
        parts = [make_text(NO_CONTENT)]
    return {
        "type": "assistant",
        "message": {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": SYNTHETIC_MODEL,
            "content": parts,
            "container": None,
            "context_management": None,
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "usage": make_zero_usage() if usage is None else complete_usage(usage),
        },
        "uuid": uuid,
        "timestamp": at,
    } | _without_nothing({"isVirtual": is_virtual})


def make_api_error(
    words: str,
    *,
    uuid: str,
    at: str,
    message_id: str,
    error: str,
    error_details: str | None = None,
    status: int | None = None,
    error_type: str | None = None,
    request_id: str | None = None,
) -> dict[str, Any]:
    """Return the message that tells the user about a failed request; never sent to the API."""
    message = synthetic_assistant(words, uuid=uuid, at=at, message_id=message_id)
    return message | _without_nothing(
        {
            "isApiErrorMessage": True,
            "error": error,
            "errorDetails": error_details,
            "apiErrorStatus": status,
            "apiErrorType": error_type,
            "requestId": request_id,
        }
    )


def make_system(
    subtype: str,
    content: str | None = None,
    *,
    uuid: str,
    at: str,
    level: str = "info",
    **fields: Any,
) -> dict[str, Any]:
    """Return a system message. `fields` are the subtype's own, under the names used in the file."""
    note = {"type": "system", "subtype": subtype} | _without_nothing({"content": content})
    return note | {"level": level, "uuid": uuid, "timestamp": at} | fields


def compact_boundary(
    *,
    uuid: str,
    at: str,
    trigger: str,
    pre_tokens: int,
    logical_parent_uuid: str | None = None,
    preserved_segment: dict[str, str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return the boundary after which the conversation continues from a summary.

    The chain is cut here: the entry's parent is null, and its logical parent is the entry before
    the boundary. `preserved_segment` names the head, anchor and tail of the preserved messages.
    """
    metadata = {"trigger": trigger, "preTokens": pre_tokens} | fields
    if preserved_segment is not None:
        metadata["preservedSegment"] = preserved_segment
    note = make_system("compact_boundary", "Conversation compacted", uuid=uuid, at=at)
    link = _without_nothing({"logicalParentUuid": logical_parent_uuid})
    return note | link | {"compactMetadata": metadata}


def make_attachment(
    payload: dict[str, Any], *, uuid: str, at: str, rendered: Sequence[str] = (), role: str = "user"
) -> dict[str, Any]:
    """Return an attachment: context for the model that is not part of the dialogue.

    `rendered` is sent verbatim, even after a resume; without it, nothing is sent.
    """
    entry: dict[str, Any] = {"type": "attachment", "attachment": payload}
    if rendered:
        entry |= {"rendered": [{"content": part} for part in rendered], "renderedRole": role}
    return entry | {"uuid": uuid, "timestamp": at}


def progress(
    tool_use_id: str, data: Any, *, uuid: str, at: str, parent_tool_use_id: str | None = None
) -> dict[str, Any]:
    """Return an event that reports the progress of a tool; `data` is in the tool's own format."""
    return {
        "type": "progress",
        "toolUseID": tool_use_id,
        **_without_nothing({"parentToolUseID": parent_tool_use_id}),
        "data": data,
        "uuid": uuid,
        "timestamp": at,
    }


def record(tag: str, /, *, session_id: str, at: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an entry off the chain, with `fields` under the names used in the file.

    The entry has no uuid: a reader that does not know the kind would treat an entry with a uuid as
    part of the chain and lose the history before it.
    """
    kind = KINDS.get(tag)
    if kind is None or kind.place != BESIDE or not kind.written:
        raise MisuseError(f'record type "{tag}": clew does not write this type outside the chain')
    if "uuid" in fields:
        raise MisuseError(f'record type "{tag}": entries outside the chain must not have a uuid')
    place = {"type": tag, **fields, "sessionId": session_id}
    return place if at is None else place | {"timestamp": at}


def stream_event(event: dict[str, Any], *, parent_tool_use_id: str | None = None) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent_tool_use_id}


def tool_use_summary(
    summary: str, tool_use_ids: Sequence[str], *, uuid: str, at: str
) -> dict[str, Any]:
    return {
        "type": "tool_use_summary",
        "summary": summary,
        "toolUseIds": list(tool_use_ids),
        "uuid": uuid,
        "timestamp": at,
    }
