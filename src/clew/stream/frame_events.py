"""From the frames of an AWS event stream to the event dicts of the Messages API.

Bedrock sends each event in a frame of its own, wrapped as `payload.py` says; its failures come as
frames too and are named here as the Messages API names them.
"""

from clew.stream.events import Json, StreamFault
from clew.stream.eventstream import Frame, FrameDecoder
from clew.stream.objects import parse_object
from clew.stream.payload import unwrap

_ERROR_TYPES = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "internalServerException": "api_error",
    "modelStreamErrorException": "api_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
    "accessDeniedException": "permission_error",
    "resourceNotFoundException": "not_found_error",
}


class FrameEventDecoder:
    """Bytes to event dicts and faults, in order; the twin of `decode.EventDecoder`."""

    __slots__ = ("_frames",)

    def __init__(self, *, max_frame_bytes: int | None = None) -> None:
        self._frames = FrameDecoder(max_frame_bytes=max_frame_bytes)

    def feed(self, chunk: bytes) -> list[Json | StreamFault]:
        return [event_of_frame(frame) for frame in self._frames.feed(chunk)]

    def close(self) -> list[Json | StreamFault]:
        return [event_of_frame(frame) for frame in self._frames.close()]


def event_of_frame(frame: Frame | StreamFault) -> Json | StreamFault:
    if isinstance(frame, StreamFault):
        return frame
    kind = frame.headers.get(":message-type", "event")
    if kind == "error":
        return _failure(frame.headers.get(":error-code"), frame.headers.get(":error-message"))
    body = parse_object(frame.payload) if frame.payload else {}
    if kind == "exception":
        said = body.get("message") if isinstance(body, dict) else frame.payload
        return _failure(frame.headers.get(":exception-type"), said)
    if isinstance(body, StreamFault):
        return body
    if frame.headers.get(":event-type", "chunk") == "chunk":
        return unwrap(body)
    return {"type": frame.headers[":event-type"], **body}


def _failure(name: object, said: object) -> StreamFault:
    error_type = _ERROR_TYPES.get(str(name), str(name))
    message = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said or name)
    error = {"type": error_type, "message": message}
    return StreamFault(kind="error_event", message=message, error_type=error_type, error=error)
