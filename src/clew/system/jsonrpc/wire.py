"""JSON-RPC 2.0 messages as values: validate received messages, and build messages to send.

Owns the shapes and error codes. An invalid message becomes a `MalformedMessage`, never an
exception. The format is described at jsonrpc.org/specification.
"""

import re
from typing import Any, Literal, TypeAlias, TypeGuard

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.encoding import decode

Id: TypeAlias = int | str
Params: TypeAlias = dict[str, Any] | list[Any] | None

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

EXCERPT = 120
# No real message is nested more deeply, and a recursive reader could not process it.
MOST_DEEP = 200


class RpcFault(Struct, frozen=True, kw_only=True):
    """The `error` of a response."""

    code: int
    message: str
    data: Any = None


class RpcRequest(Struct, frozen=True, kw_only=True):
    """A request. Its answer must have the same ID."""

    id: Id
    method: str
    params: Params = None


class Notification(Struct, frozen=True, kw_only=True):
    """A notification, which has no ID and gets no answer."""

    method: str
    params: Params = None


class Success(Struct, frozen=True, kw_only=True):
    id: Id
    result: Any = None


class RpcRefusal(Struct, frozen=True, kw_only=True):
    """An error response. It has no ID if the peer could not tell which request it answers."""

    id: Id | None
    fault: RpcFault


class MalformedMessage(Struct, frozen=True, kw_only=True):
    """An invalid message.

    If it seems to be a request, which must be answered, or a response, `answer_to` is its ID.
    """

    why: str
    excerpt: str = ""
    code: int = INVALID_REQUEST
    answer_to: Id | None = None
    kind: Literal["request", "response", "other"] = "other"


Message: TypeAlias = RpcRequest | Notification | Success | RpcRefusal | MalformedMessage


def read(payload: bytes, *, batches: bool = False) -> list[Message]:
    """Parse the messages in one payload. With `batches`, an array is a batch of messages."""
    try:
        value = decode(payload)
    except ValueError as error:
        return [
            MalformedMessage(why=f"not JSON: {error}", excerpt=excerpt(payload), code=PARSE_ERROR)
        ]
    return read_value(value, batches=batches)


def read_value(value: Any, *, batches: bool = False) -> list[Message]:
    """Parse the messages in a decoded payload."""
    if isinstance(value, list) and batches:
        return [message_of(item) for item in value] or [MalformedMessage(why="an empty batch")]
    return [message_of(value)]


def message_of(value: Any) -> Message:
    if not isinstance(value, dict):
        return MalformedMessage(why="not an object", excerpt=excerpt(value))
    if is_deep(value):
        return odd(value, f"nested more than {MOST_DEEP} levels deep")
    if value.get("jsonrpc") != "2.0":
        return odd(value, 'no "jsonrpc": "2.0"')
    if "method" in value:
        return call_of(value)
    return answer_of(value)


def call_of(value: Json) -> Message:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return odd(value, "the method is not a string")
    if params is not None and not isinstance(params, (dict, list)):
        return odd(value, "params must be an object or an array")
    if "result" in value or "error" in value:
        return odd(value, "contains both a call and a response")
    if "id" not in value:
        return Notification(method=method, params=params)
    if not is_id(value["id"]):
        return odd(value, "the id must be a string or an integer")
    return RpcRequest(id=value["id"], method=method, params=params)


def answer_of(value: Json) -> Message:
    if ("result" in value) == ("error" in value):
        why = (
            "contains both result and error" if "result" in value else "no method, result or error"
        )
        return odd(value, why)
    identity = value.get("id")
    if type(identity) is float and identity.is_integer():
        # Some programs write every number as a float.
        identity = int(identity)
    if "result" in value:
        if not is_id(identity):
            return odd(value, "a result without an id")
        return Success(id=identity, result=value["result"])
    if identity is not None and not is_id(identity):
        return odd(value, "the id must be a string or an integer")
    return RpcRefusal(id=identity, fault=fault_of(value["error"]))


def fault_of(error: Any) -> RpcFault:
    """Parse an error object, even if it is incomplete.

    If the value is not an object, its text is the message.
    """
    if not isinstance(error, dict):
        return RpcFault(code=INTERNAL_ERROR, message=excerpt(error))
    code, message = error.get("code"), error.get("message")
    return RpcFault(
        code=code if type(code) is int else INTERNAL_ERROR,
        message=message if isinstance(message, str) else "an error without a message",
        data=error.get("data"),
    )


def odd(value: Json, why: str) -> MalformedMessage:
    """Return a malformed message, classified by the kind of message that it seems to be."""
    identity = value.get("id")
    known_id = identity if is_id(identity) else None
    if "method" in value:
        return MalformedMessage(why=why, excerpt=excerpt(value), answer_to=known_id, kind="request")
    is_answer = "result" in value or "error" in value
    return MalformedMessage(
        why=why,
        excerpt=excerpt(value),
        answer_to=known_id if is_answer else None,
        kind="response" if is_answer else "other",
    )


def is_deep(value: Any) -> bool:
    """Return whether a value is nested too deeply for a message.

    The value is walked level by level, without recursion.
    """
    level: list[Any] = [value]
    for _ in range(MOST_DEEP):
        level = [
            inner
            for item in level
            for inner in (item.values() if type(item) is dict else item)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def is_id(value: Any) -> TypeGuard[Id]:
    return type(value) is int or type(value) is str


def as_object(value: Any) -> Json:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def excerpt(value: Any) -> str:
    """Return the beginning of a received value for display. It is untrusted text."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        text = "an object of " + (", ".join(list(value)[:10]) or "nothing")
    else:
        text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "…"


# -- messages to send


def request(identity: Id, method: str, params: Params) -> Json:
    message: Json = {"jsonrpc": "2.0", "id": identity, "method": method}
    return message if params is None else message | {"params": params}


def make_notification(method: str, params: Params) -> Json:
    message: Json = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def make_success(identity: Id, result: Any) -> Json:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def make_refusal(identity: Id | None, fault: RpcFault) -> Json:
    error: Json = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": identity, "error": error}


# `file:` URIs, by which peers name files. No I/O.


FILE = "file://"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def uri_of(path: str) -> str:
    data = path.encode("utf-8", "surrogateescape")
    return FILE + "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in data)


def path_of(uri: str) -> str:
    """Return the local path that a URI names, or an empty string if it names none."""
    if not uri.startswith(FILE):
        return ""
    path = uri[len(FILE) :].partition("#")[0].partition("?")[0]
    if "/" not in path:
        return ""
    return _ESCAPES.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogateescape"),
        path[path.find("/") :],
    )
