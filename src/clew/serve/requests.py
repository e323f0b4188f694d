"""Parsers for requests: bodies, numbers and names. Invalid requests are refused with a reason."""

import asyncio
import uuid

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clew.core.json_object import Json
from clew.serve.devices import Device
from clew.serve.frames import SESSION_PREFIX
from clew.serve.log import RefusedError
from clew.serve.transcripts import make_project

BODY_MAX_BYTES = 64 << 20
EVENTS_MAX_BYTES = 8 << 20
BODY_S = 60.0


def refuse(error: RefusedError) -> Response:
    body = {"type": error.reason, "reason": error.reason, "message": str(error)} | error.about
    headers = {"x-ccr-conflict-reason": error.reason} if error.status == 409 else {}
    if error.reason == "ambiguous_request":
        headers["connection"] = "close"  # What follows may not be a request.
    if error.status == 429:
        headers["retry-after"] = "60"
    return JSONResponse({"error": body} | error.about, status_code=error.status, headers=headers)


async def read_body(request: Request, most_bytes: int) -> bytes:
    size = request.headers.get("content-length", "0")
    if not size.isdecimal() or int(size) > most_bytes:
        raise RefusedError(413, "too_large", f"the body must be at most {most_bytes >> 20} MiB")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                data += piece
                if len(data) > most_bytes:
                    message = f"the body must be at most {most_bytes >> 20} MiB"
                    raise RefusedError(413, "too_large", message)
    except TimeoutError:
        raise RefusedError(408, "too_slow", "the body did not arrive in time") from None
    return bytes(data)


async def parse_object(request: Request, most_bytes: int = 1 << 20) -> Json:
    body = await read_body(request, most_bytes)
    try:
        value = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(400, "invalid_request", "the body must be valid JSON") from None
    if not isinstance(value, dict):
        raise RefusedError(400, "invalid_request", "the body must be a JSON object")
    return value


def list_in(body: Json, name: str) -> list[Json]:
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RefusedError(400, "invalid_request", f"{name} must be a list of objects")
    return value


def parse_number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 15:
        raise RefusedError(
            400,
            "invalid_request",
            f"{name} must be a whole number of at most 15 digits, got {text!r}",
        )
    return int(text)


def read_cursor(request: Request) -> int:
    """Return the number after which a stream resumes."""
    if "from_sequence_num" in request.query_params:
        return parse_number(request, "from_sequence_num", 0)
    last = request.headers.get("last-event-id", "0")
    return int(last) if last.isdecimal() and len(last) <= 15 else 0


def parse_uuid(text: object) -> str:
    try:
        return str(uuid.UUID(text if isinstance(text, str) else ""))
    except ValueError:
        raise RefusedError(400, "invalid_request", f"{text!r} is not a UUID") from None


def read_session_id(request: Request) -> str:
    """Return the UUID of a session, which the bridge protocol writes with a prefix."""
    return parse_uuid(request.path_params["session"].removeprefix(SESSION_PREFIX))


def parse_project(device: Device, request: Request) -> str:
    """Return the first part of a transcript's key: the owner and the project, which clew omits."""
    project = request.query_params.get("project", "")
    if len(project) > 1_000:
        raise RefusedError(400, "invalid_request", "project must have at most 1,000 characters")
    return make_project(device.owner, project)


def entry_key(device: Device, request: Request) -> tuple[str, str, str]:
    query = request.query_params
    session, subpath = query.get("session", ""), query.get("subpath", "")
    if not session or len(session) > 1_000 or len(subpath) > 1_000:
        message = "session must have 1 to 1,000 characters, and subpath at most 1,000"
        raise RefusedError(400, "invalid_request", message)
    return parse_project(device, request), session, subpath


def split_lines(body: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in body.split(b"\n")]
    if lines.pop() != b"\n":
        raise RefusedError(400, "invalid_request", "the last line must end with a newline")
    return lines
