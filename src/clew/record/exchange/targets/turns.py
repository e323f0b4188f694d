"""A conversation for exports to other programs: prompts, responses and results. Does no I/O.

Each response is one turn with all its blocks, and each call is followed by exactly one result. Data
that only clew uses (screen notices, service errors, context that clew adds) is omitted.
"""

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages.encoding import encode
from clew.core.messages.messages import AssistantMessage
from clew.record.exchange.formats.conversion import make_text

# The namespace of IDs that exports generate.
_SPACE = uuid.UUID("0d6a1c2b-7f3e-5b94-8a60-3c5d7e9f1b24")
NO_RESULT = "The result of this call was not recorded."


class ExportedSession(Struct, frozen=True, kw_only=True):
    """A session to export: its ID, title, working folder, git branch and turns."""

    session_id: str
    title: str
    cwd: str
    branch: str
    turns: tuple["ExportedTurn", ...]

    @property
    def begun_at(self) -> str:
        return self.turns[0].at if self.turns else ""

    @property
    def last_uuid(self) -> str:
        return self.turns[-1].uuid if self.turns else ""

    def derive_id(self, *names: object) -> str:
        """Return an ID for a part of the session that is the same in every export."""
        name = "\n".join([self.session_id, *map(str, names)])
        return str(uuid.UUID(int=uuid.uuid5(_SPACE, name).int, version=4))


class ExportedTurn(Struct, frozen=True, kw_only=True):
    """A prompt (`user`), a response (`assistant`) or the result of one call (`result`).

    `origins` contains the record of origin, or None, for each block of a response.
    """

    role: str
    blocks: tuple[Json, ...]
    origins: tuple[Any, ...] = ()
    at: str
    uuid: str
    model: str = ""
    usage: Json = {}
    cost_usd: float = 0.0
    call_id: str = ""
    tool: str = ""
    is_error: bool = False
    is_meta: bool = False

    @property
    def at_ms(self) -> int:
        """The time in milliseconds since 1970."""
        try:
            return int(datetime.fromisoformat(self.at).timestamp() * 1000)
        except ValueError:
            return 0

    @property
    def text(self) -> str:
        return "\n".join(b["text"] for b in self.blocks if b["type"] == "text")

    @property
    def thinking(self) -> str:
        return "\n".join(b["thinking"] for b in self.blocks if b["type"] == "thinking")

    @property
    def calls(self) -> list[Json]:
        return [block for block in self.blocks if block["type"] == "tool_use"]


def make_turns(messages: Iterable[Json]) -> Iterator[ExportedTurn]:
    """Yield the turns of entries in order; a call without a result gets a placeholder result."""
    open_calls: dict[str, str] = {}
    waiting: list[Json] = []
    last = ""
    for entry in messages:
        kind, body = entry.get("type"), object_of(entry.get("message"))
        is_said = kind == "assistant" and not AssistantMessage(entry).is_api_error_message
        if waiting and not (is_said and body.get("id") == waiting[0]["message"].get("id")):
            turn = _response(waiting)
            waiting = []
            open_calls |= {block["id"]: block["name"] for block in turn.calls}
            yield turn
        last = text_of(entry.get("timestamp")) or last
        if is_said:
            waiting.append(entry)
        elif kind == "user":
            blocks = _blocks(body.get("content"))
            results = [b for b in blocks if b["type"] == "tool_result"]
            for block in results:
                name = open_calls.pop(text_of(block.get("tool_use_id")), None)
                if name is not None:
                    yield _result(block, entry, name)
            others = [b for b in blocks if b["type"] in ("text", "image")]
            if others:
                yield from _missing(open_calls, last)
                yield _prompt(entry, others)
    if waiting:
        turn = _response(waiting)
        open_calls |= {block["id"]: block["name"] for block in turn.calls}
        yield turn
    yield from _missing(open_calls, last)


def _blocks(content: Any) -> list[Json]:
    if type(content) is str:
        return [make_text(content)]
    return [b for b in list_of(content) if type(b) is dict and type(b.get("type")) is str]


def _prompt(entry: Json, blocks: list[Json]) -> ExportedTurn:
    return ExportedTurn(
        role="user",
        blocks=tuple(blocks),
        at=text_of(entry.get("timestamp")),
        uuid=text_of(entry.get("uuid")),
        is_meta=entry.get("isMeta") is True,
    )


def _response(entries: list[Json]) -> ExportedTurn:
    first, body = entries[0], object_of(entries[0].get("message"))
    blocks = [
        (block, entry.get("origin"))
        for entry in entries
        for block in _blocks(entry["message"].get("content"))
    ]
    origin_keys = {
        "text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name"),
    }  # fmt: skip
    content = [
        (b, origin) for b, origin in blocks
        if b["type"] in origin_keys and all(type(b.get(key)) is str for key in origin_keys[b["type"]])
    ]  # fmt: skip
    cost = first.get("costUSD")
    return ExportedTurn(
        role="assistant",
        blocks=tuple(block for block, _ in content),
        origins=tuple(origin for _, origin in content),
        at=text_of(first.get("timestamp")),
        uuid=text_of(first.get("uuid")),
        model=text_of(body.get("model")),
        usage=object_of(body.get("usage")),
        cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _result(block: Json, entry: Json, tool: str) -> ExportedTurn:
    parts = [b for b in _blocks(block.get("content")) if b["type"] in ("text", "image")]
    return ExportedTurn(
        role="result",
        blocks=tuple(parts),
        at=text_of(entry.get("timestamp")),
        uuid=text_of(entry.get("uuid")),
        call_id=text_of(block.get("tool_use_id")),
        tool=tool,
        is_error=block.get("is_error") is True,
    )


def _missing(open_calls: dict[str, str], at: str) -> Iterator[ExportedTurn]:
    for call_id, tool in open_calls.items():
        yield ExportedTurn(
            role="result",
            blocks=(make_text(NO_RESULT),),
            at=at,
            uuid="",
            call_id=call_id,
            tool=tool,
            is_error=True,
        )
    open_calls.clear()


def picture_url(block: Json) -> str:
    """Return an image as a data URL, or its own URL."""
    source = object_of(block.get("source"))
    if type(source.get("url")) is str:
        return str(source["url"])
    return f"data:{text_of(source.get('media_type'))};base64,{text_of(source.get('data'))}"


def count_tokens(usage: Json, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int else 0


def encode_lines(lines: Iterable[Json]) -> bytes:
    return b"".join(encode(line) + b"\n" for line in lines)
