"""Payloads that a platform wraps as `{"bytes": "<base64>"}` inside its frames.

What the base64 holds is JSON. Bedrock's streams wrap events of the Messages API this way; two-way
streams wrap what the two sides say to each other, told apart by `type`. Nothing here touches SSE:
only the platform adapters use it.
"""

from base64 import b64decode, b64encode
from typing import Any, Literal, TypeAlias

import msgspec

from clew.stream.events import Json, StreamFault, excerpt
from clew.stream.objects import parse_object

Side: TypeAlias = Literal["client", "server"]

# Who says what on a two-way stream.
KINDS: dict[str, Side] = {
    "ContinuedUserInput": "client",
    "ToolResultBlock": "client",
    "ConversationTurnInput": "client",
    "ContentBlockDelta": "server",
    "ToolUseRequest": "server",
    "Error": "server",
    "Metadata": "server",
}


def wrap(value: Json) -> Json:
    data = b64encode(msgspec.json.encode(value)).decode("ascii")
    return {"bytes": data, "encoding": "base64"}


def unwrap(payload: Json) -> Json | StreamFault:
    """The object inside, whatever its kind; a payload that is none is a fault."""
    data = payload.get("bytes")
    if not isinstance(data, str):
        return _fault("a payload without `bytes`", payload)
    if payload.get("encoding", "base64") != "base64":
        return _fault("a payload in an encoding other than base64", payload)
    try:
        return parse_object(b64decode(data, validate=True))
    except ValueError:  # outside the alphabet, wrong padding, not ASCII
        return _fault("a payload that is not base64", payload)


def side_of(value: Json) -> Side | None:
    """Which side says this; None for a kind this version does not know."""
    kind = value.get("type")
    return KINDS.get(kind) if isinstance(kind, str) else None


def _fault(message: str, payload: Any) -> StreamFault:
    return StreamFault(kind="bad_payload", message=message, excerpt=excerpt(repr(payload)))
