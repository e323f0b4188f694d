"""The frames of the bridge protocol: which may be sent, and how streams present stored events."""

import re
import time
import uuid
from collections.abc import Mapping

import msgspec

from clew.core.json_object import Json
from clew.serve import log
from clew.serve.log import LoggedEvent, RefusedError, SentEvent

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
SESSION_PREFIX = "cse_"
# Requests that viewers may send, and the scopes they need.
VIEWER_REQUESTS: Mapping[str, str] = {
    "initialize": "view",
    "mcp_status": "view",
    "get_context_usage": "view",
    "interrupt": "answer",
    "cancel_async_message": "prompt",
    "rewind_conversation": "prompt",
    "stop_task": "prompt",
    "background_tasks": "prompt",
    "set_model": "prompt",
    "set_max_thinking_tokens": "prompt",
    "set_permission_mode": "prompt",
    "rename_session": "prompt",
    "start_session": "start",
    "fork_session": "start",
    "end_session": "start",
}
QUESTIONS = frozenset({"can_use_tool", "elicitation", "request_user_dialog"})


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sent_event(payload: Json) -> SentEvent:
    """Return a frame to store. Its UUID is its identity; if the frame has no UUID, it gets one."""
    kind = payload.get("type")
    if not isinstance(kind, str) or len(kind) > 100:
        raise RefusedError(
            400, "invalid_request", "a payload must have a type of at most 100 characters"
        )
    name = payload.get("uuid")
    event_id = name if isinstance(name, str) and NAME.fullmatch(name) else str(uuid.uuid4())
    asks, answers, is_failure = "", "", False
    request_id = payload.get("request_id")
    if kind == "control_request" and isinstance(request_id, str):
        request = payload.get("request")
        is_question = isinstance(request, dict) and request.get("subtype") in QUESTIONS
        asks = request_id if is_question else ""
    elif kind == "control_cancel_request" and isinstance(request_id, str):
        answers = request_id
    elif kind == "control_response":
        response = payload.get("response")
        if isinstance(response, dict) and isinstance(response.get("request_id"), str):
            answers = response["request_id"]
            is_failure = response.get("subtype") == "error"
    return SentEvent(
        id=event_id,
        kind=kind,
        body=msgspec.json.encode(payload),
        asks=asks,
        answers=answers,
        is_failure=is_failure,
    )


def scope_of(payload: Json) -> str:
    """Return the scope that a viewer needs to send a frame.

    Refuse frames of kinds that viewers can't send.
    """
    kind, request = payload.get("type"), payload.get("request")
    match kind:
        case "user":
            return "prompt"
        case "control_response":
            return "answer"
        case "control_request" if isinstance(request, dict):
            subtype = request.get("subtype")
            if isinstance(subtype, str) and subtype in VIEWER_REQUESTS:
                return VIEWER_REQUESTS[subtype]
            raise RefusedError(400, "unsupported", f"unsupported request: {subtype!r}")
    raise RefusedError(400, "unsupported", f"viewers can't send frames of type {kind!r}")


def show_session(row: Json) -> Json:
    is_there = now_ms() - row["beat_at"] < log.LEASE_MS
    state = row["state"]
    reported = state.get("external_metadata", {})
    return {
        "id": SESSION_PREFIX + row["id"].replace("-", ""),
        "session_id": row["id"],
        # A session gets its title from its first prompt, after it was registered here.
        "title": reported.get("title") or row["title"],
        "config": row["config"],
        "worker_epoch": row["worker_epoch"],
        "last_sequence_num": row["last_sequence_num"],
        "connection_status": "connected" if is_there else "disconnected",
        "worker_status": state.get("worker_status", "idle"),
        "external_metadata": reported,
        "created_at": timestamp(row["created_at"]),
        "updated_at": timestamp(row["updated_at"]),
    }


def timestamp(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{milliseconds:03}Z"


def event_frame(event: LoggedEvent) -> bytes:
    about: Json = {
        "event_id": event.id,
        "sequence_num": event.seq,
        "event_type": event.kind,
        "source": event.source,
        "created_at": timestamp(event.created_at_ms),
        "payload": msgspec.Raw(event.body),
    }
    if event.sender:
        about["sender"] = event.sender
    if event.status in ("processing", "processed"):
        about["processing_at"] = about["created_at"]
        about["delivery_status"] = event.status
    data = msgspec.json.encode(about)
    return b"id: %d\nevent: client_event\ndata: %s\n\n" % (event.seq, data)


def ephemeral_frame(payload: Json) -> bytes:
    about = {"event_type": payload["type"], "source": "worker", "payload": payload}
    return b"event: ephemeral_event\ndata: %s\n\n" % msgspec.json.encode(about)


def delivery_frame(event_id: str, status: str) -> bytes:
    about = {
        "event_id": event_id,
        "status": f"DELIVERY_STATUS_{status.upper()}",
        "timestamp": timestamp(now_ms()),
    }
    return b"event: delivery_update\ndata: %s\n\n" % msgspec.json.encode(about)
