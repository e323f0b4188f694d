"""A whole message, as a request without streaming answers it, told as the events of a stream.

So that there is one way from an answer to a message, with the same checks and the same ids.
"""

import msgspec

from clew.stream.events import Json, StreamFault, excerpt
from clew.stream.objects import parse_object

# Told at the end of a stream, not at its start.
_LATE = ("stop_reason", "stop_sequence", "stop_details")


def events_of_body(body: bytes) -> list[Json | StreamFault]:
    """The same from the bytes of the response."""
    message = parse_object(body)
    return [message] if isinstance(message, StreamFault) else events_of_message(message)


def events_of_message(message: Json) -> list[Json | StreamFault]:
    if message.get("type") == "error":
        return [message]
    content = message.get("content")
    if content is None and message.get("error"):
        # A gateway's error with HTTP 200.
        return [message | {"type": "error"}]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raw = excerpt(msgspec.json.encode(message))
        return [StreamFault(kind="malformed_event", message="this is no message", excerpt=raw)]
    late = {name: message[name] for name in _LATE if name in message}
    early = message | dict.fromkeys(late) | {"content": []}
    events: list[Json | StreamFault] = [{"type": "message_start", "message": early}]
    for index, block in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": late}, {"type": "message_stop"}]
