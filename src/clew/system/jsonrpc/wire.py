"""JSON-RPC 2.0 as values: what a peer sent, read without trusting it, and what is sent to it.

Owns the shapes and their codes. A message that breaks the rules is a `MalformedMessage`, never an exception.
Described at jsonrpc.org/specification.
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
# What is nested deeper is no message of anybody's, and more than a recursive reader of it could bear.
MOST_DEEP = 200


class RpcFault(Struct, frozen=True, kw_only=True):
    """The `error` of an answer."""

    code: int
    message: str
    data: Any = None


class RpcRequest(Struct, frozen=True, kw_only=True):
    """Wants an answer under its id."""

    id: Id
    method: str
    params: Params = None


class Notification(Struct, frozen=True, kw_only=True):
    """Wants none, and has no id."""

    method: str
    params: Params = None


class Success(Struct, frozen=True, kw_only=True):
    id: Id
    result: Any = None


class RpcRefusal(Struct, frozen=True, kw_only=True):
    """An error; without an id where the peer could not tell which request it is about."""

    id: Id | None
    fault: RpcFault


class MalformedMessage(Struct, frozen=True, kw_only=True):
    """No message. `answer_to`: the id of what seems to have been a request, which is owed an answer."""

    why: str
    excerpt: str = ""
    code: int = INVALID_REQUEST
    answer_to: Id | None = None
    kind: Literal["request", "response", "other"] = "other"


Message: TypeAlias = RpcRequest | Notification | Success | RpcRefusal | MalformedMessage


def read(payload: bytes, *, batches: bool = False) -> list[Message]:
    """The messages of one payload; an array of them is a batch, in the versions that have those."""
    try:
        value = decode(payload)
    except ValueError as error:
        return [
            MalformedMessage(why=f"not JSON: {error}", excerpt=excerpt(payload), code=PARSE_ERROR)
        ]
    return read_value(value, batches=batches)


def read_value(value: Any, *, batches: bool = False) -> list[Message]:
    """The same of what is decoded already."""
    if isinstance(value, list) and batches:
        return [message_of(item) for item in value] or [MalformedMessage(why="an empty batch")]
    return [message_of(value)]


def message_of(value: Any) -> Message:
    if not isinstance(value, dict):
        return MalformedMessage(why="not an object", excerpt=excerpt(value))
    if is_deep(value):
        return odd(value, f"it is nested deeper than {MOST_DEEP} levels")
    if value.get("jsonrpc") != "2.0":
        return odd(value, 'no "jsonrpc": "2.0"')
    if "method" in value:
        return call_of(value)
    return answer_of(value)


def call_of(value: Json) -> Message:
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        return odd(value, "the method is no text")
    if params is not None and not isinstance(params, (dict, list)):
        return odd(value, "params are neither an object nor an array")
    if "result" in value or "error" in value:
        return odd(value, "a call and an answer in one")
    if "id" not in value:
        return Notification(method=method, params=params)
    if not is_id(value["id"]):
        return odd(value, "the id is neither a text nor a whole number")
    return RpcRequest(id=value["id"], method=method, params=params)


def answer_of(value: Json) -> Message:
    if ("result" in value) == ("error" in value):
        why = "result and error in one" if "result" in value else "no method, result or error"
        return odd(value, why)
    identity = value.get("id")
    if type(identity) is float and identity.is_integer():
        # Some writers know one kind of number.
        identity = int(identity)
    if "result" in value:
        if not is_id(identity):
            return odd(value, "a result without an id")
        return Success(id=identity, result=value["result"])
    if identity is not None and not is_id(identity):
        return odd(value, "the id is neither a text nor a whole number")
    return RpcRefusal(id=identity, fault=fault_of(value["error"]))


def fault_of(error: Any) -> RpcFault:
    """An error as far as it can be read; what breaks the rules is its own message."""
    if not isinstance(error, dict):
        return RpcFault(code=INTERNAL_ERROR, message=excerpt(error))
    code, message = error.get("code"), error.get("message")
    return RpcFault(
        code=code if type(code) is int else INTERNAL_ERROR,
        message=message if isinstance(message, str) else "an error without a message",
        data=error.get("data"),
    )


def odd(value: Json, why: str) -> MalformedMessage:
    """What is wrong with an object, and whether it seems to have been a call or an answer."""
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
    """Whether a value is nested deeper than a message may be; a walk by levels, that depth costs nothing."""
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
    """What should be an object; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def excerpt(value: Any) -> str:
    """The beginning of what came, for people; a stranger's words, never trusted."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        text = "an object of " + (", ".join(list(value)[:10]) or "nothing")
    else:
        text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "…"


# -- what is sent


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


# Files as peers name them: `file:` URIs. Pure.


FILE = "file://"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def uri_of(path: str) -> str:
    data = path.encode("utf-8", "surrogateescape")
    return FILE + "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in data)


def path_of(uri: str) -> str:
    """The file that a URI names; empty for what is no file of this machine."""
    if not uri.startswith(FILE):
        return ""
    path = uri[len(FILE) :].partition("#")[0].partition("?")[0]
    if "/" not in path:
        return ""
    return _ESCAPES.sub(
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogateescape"),
        path[path.find("/") :],
    )
