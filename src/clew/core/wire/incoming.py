"""What a host says: each line as one value, and never an exception.

Owns the reading of user lines and of the control protocol's requests, answers and withdrawals. What
nobody knows is `IgnoredLine`; what is no JSON object, or lacks what its kind needs, is `MalformedLine`.
"""

import re
from typing import TypeAlias

import msgspec
from msgspec import Struct

from clew.core.json_object import Json
from clew.core.messages.kinds import faults_of_words


class Said(Struct, frozen=True, kw_only=True):
    """A user message. `uuid` is the host's own id for it; with `asks` false it is only kept."""

    content: str | list[Json]
    uuid: str | None = None
    origin: Json | None = None
    is_synthetic: bool = False
    # A host that composed the text itself wants no commands or mentions looked for in it.
    is_verbatim: bool = False
    asks: bool = True
    # What stands behind the words and is never read for commands or names.
    piped: str = ""

    @property
    def typed(self) -> str | None:
        """The words in which a command or a mention may stand; None where there are none such."""
        if self.is_verbatim:
            return None
        if isinstance(self.content, str):
            return self.content
        if len(self.content) == 1 and isinstance(self.content[0].get("text"), str):
            words: str = self.content[0]["text"]
            return words
        return None


class ControlRequest(Struct, frozen=True, kw_only=True):
    """A control request; it wants exactly one answer."""

    request_id: str
    subtype: str
    fields: Json


class HostAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a request of ours; `error` is None where it was answered well."""

    request_id: str
    response: Json
    error: str | None = None


class WithdrawnRequest(Struct, frozen=True, kw_only=True):
    """A request that its asker no longer wants answered."""

    request_id: str


class IgnoredLine(Struct, frozen=True, kw_only=True):
    """Nothing that asks for anything: a blank line, a sign of life, a kind of a later version."""


class MalformedLine(Struct, frozen=True, kw_only=True):
    """A line that cannot be understood, and why; with the id it should have answered, if it has one."""

    why: str
    request_id: str | None = None


Incoming: TypeAlias = (
    Said | ControlRequest | HostAnswer | WithdrawnRequest | IgnoredLine | MalformedLine
)

EXCERPT = 80
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def read_line(line: bytes) -> Incoming:
    """A line of standard input."""
    if not line.strip():
        return IgnoredLine()
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        shown = line[:EXCERPT].decode("utf-8", "replace")
        return MalformedLine(why=f"not JSON ({error}): {shown!r}")
    if not isinstance(data, dict):
        return MalformedLine(why="expected a JSON object on each line")
    return read(data)


def read(data: Json) -> Incoming:
    """A decoded line."""
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
        return MalformedLine(why="a user line needs message, an object")
    if message.get("role") != "user":
        return MalformedLine(why='a user line needs message.role "user"')
    content = message.get("content")
    if isinstance(content, list):
        if found := faults_of_words(content):
            return MalformedLine(why=f"message.content: {'; '.join(found)}")
    elif not isinstance(content, str):
        return MalformedLine(why="message.content: expected a text or an array of blocks")
    uuid, origin = data.get("uuid"), data.get("origin")
    return Said(
        content=content,
        # An id of another form could not be the entry's.
        uuid=uuid if isinstance(uuid, str) and UUID.fullmatch(uuid) else None,
        origin=origin if isinstance(origin, dict) else None,
        is_synthetic=data.get("isSynthetic") is True,
        is_verbatim=data.get("client_composed") is True,
        asks=data.get("shouldQuery") is not False,
    )


def read_asked(data: Json) -> ControlRequest | MalformedLine:
    request_id, request = data.get("request_id"), data.get("request")
    if not isinstance(request_id, str):
        return MalformedLine(why="a control_request needs request_id, a text")
    subtype = request.get("subtype") if isinstance(request, dict) else None
    if not isinstance(subtype, str) or not isinstance(request, dict):
        return MalformedLine(
            why="a control_request needs request.subtype, a text", request_id=request_id
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
            error=words if isinstance(words, str) and words else "the host answered with an error",
        )
    held = response.get("response")
    return HostAnswer(request_id=request_id, response=held if isinstance(held, dict) else {})
