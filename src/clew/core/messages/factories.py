"""The only way to make a message, block, event or record of clew's own.

A factory returns the whole object in its written form. Ids and times are arguments: `at` is the
moment as `2026-01-31T12:00:00.000Z`. What is absent is left out, not written as null.
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


def derive_uuid(parent: str, index: int) -> str:
    """The id older programs give to part `index` of a message.

    Kept for reading what they wrote: parts of parts collide (`derive(derive(p, 1), 0)` equals
    `derive(p, 0)`), so nothing of clew's identifies anything by it.
    """
    return f"{parent[:24]}{index:012x}"


def format_timestamp(epoch_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`: milliseconds since 1970 in UTC, three decimals and a Z."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def make_text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def make_tool_result(tool_use_id: str, content: Any, *, is_error: bool = False) -> dict[str, Any]:
    """The block that answers a call; a failure says so, a success does not."""
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
    """Any user message; an empty content becomes the placeholder, because the API refuses none."""
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
    """The message that answers one call: `content` for the model, `raw` as the tool gave it."""
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
    """Marks where the person stopped the turn."""
    words = INTERRUPTED_FOR_TOOL_USE if for_tool_use else INTERRUPTED
    entry = make_user([make_text(words)], uuid=uuid, at=at, is_synthetic=True)
    return entry | _without_nothing({"interruptedMessageId": message_id})


def warning(words: str, *, uuid: str, at: str) -> dict[str, Any]:
    """What clew tells the model beside the conversation; the person does not see it."""
    return make_user(
        wrap_in_tag("system-reminder", words), uuid=uuid, at=at, is_meta=True, is_synthetic=True
    )


def compact_summary(summary: str, *, uuid: str, at: str) -> dict[str, Any]:
    """What stands for the conversation above a compaction's boundary."""
    return make_user(
        f"{CONTINUED}\n\n{summary}",
        uuid=uuid,
        at=at,
        is_compact_summary=True,
        is_visible_in_transcript_only=True,
        is_synthetic=True,
    )


# The model of an answer that does not say which one wrote it.
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
    """The entries of one answer: one per block, each with the answer's id, ends and final usage; and with
    the model that was asked, where another name stands below the answer.

    `first` is the place of the first block in the answer, where `message` is only a part of it.

    Readers count usage once per message id and request id, so both are on every entry: where a
    gateway left one out, it follows from the first uuid.
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
    """Whether the service kept the words of a thought to itself: it takes the signature back alone."""
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
    """An assistant message no model wrote; its model says so."""
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
    """A request that was given up, in words for the person; never sent back to the API."""
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
    """A note of the program. `fields` are the subtype's own fields in their written spelling."""
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
    """Where history begins anew. The chain is cut here: the entry's parent is null, its logical
    parent says what stood above; `preserved_segment` names head, anchor and tail of what is kept."""
    metadata = {"trigger": trigger, "preTokens": pre_tokens} | fields
    if preserved_segment is not None:
        metadata["preservedSegment"] = preserved_segment
    note = make_system("compact_boundary", "Conversation compacted", uuid=uuid, at=at)
    link = _without_nothing({"logicalParentUuid": logical_parent_uuid})
    return note | link | {"compactMetadata": metadata}


def make_attachment(
    payload: dict[str, Any], *, uuid: str, at: str, rendered: Sequence[str] = (), role: str = "user"
) -> dict[str, Any]:
    """Context beside the talk. `rendered` is sent word for word, on resume too; none, nothing is."""
    entry: dict[str, Any] = {"type": "attachment", "attachment": payload}
    if rendered:
        entry |= {"rendered": [{"content": part} for part in rendered], "renderedRole": role}
    return entry | {"uuid": uuid, "timestamp": at}


def progress(
    tool_use_id: str, data: Any, *, uuid: str, at: str, parent_tool_use_id: str | None = None
) -> dict[str, Any]:
    """How far a tool is, in the tool's own terms."""
    return {
        "type": "progress",
        "toolUseID": tool_use_id,
        **_without_nothing({"parentToolUseID": parent_tool_use_id}),
        "data": data,
        "uuid": uuid,
        "timestamp": at,
    }


def tombstone(message: dict[str, Any]) -> dict[str, Any]:
    """The event that withdraws an assistant message."""
    return {"type": "tombstone", "message": message}


def record(tag: str, /, *, session_id: str, at: str | None = None, **fields: Any) -> dict[str, Any]:
    """An entry off the chain, `fields` in their written spelling. It has no uuid: readers that do
    not know its kind lose the history above it as soon as it looks like a part of the chain."""
    kind = KINDS.get(tag)
    if kind is None or kind.place != BESIDE or not kind.written or "uuid" in fields:
        raise MisuseError(f"{tag} is no kind of record that clew writes, or it was given a uuid")
    place = {"type": tag, **fields, "sessionId": session_id}
    return place if at is None else place | {"timestamp": at}


def stream_event(event: dict[str, Any], *, parent_tool_use_id: str | None = None) -> dict[str, Any]:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent_tool_use_id}


def request_start() -> dict[str, Any]:
    return {"type": "stream_request_start"}


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
