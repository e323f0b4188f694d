"""Convert the pieces that a program's own provider yields to events of the Messages API.

A piece is text, a complete content block, or an event of the Messages API. A provider that yields
`message_start` writes all events itself; they are passed on unchanged.
"""

from typing import Any, TypeAlias

from clew.core.json_object import Json
from clew.core.messages.encoding import encode
from clew.core.stream.message_writer import MessageWriter

Piece: TypeAlias = str | Json
# The start of a block, by the members that arrive as deltas: (member, type of delta).
DELTAS = {
    "text": (("text", "text_delta"),),
    "thinking": (("thinking", "thinking_delta"), ("signature", "signature_delta")),
}
EVENTS = (
    "message_start", "message_delta", "message_stop", "content_block_start",
    "content_block_delta", "content_block_stop", "ping", "error",
)  # fmt: skip


class PieceError(Exception):
    """A piece that is neither text nor a block nor an event."""


class PieceWriter:
    """Converts the pieces of one answer. `close` ends the message."""

    def __init__(self, *, message_id: str, model: str) -> None:
        self._id, self._model = message_id, model
        self._writer = MessageWriter()
        self._text: int | None = None
        self._usage: Json = {}
        self._has_calls = False
        self._is_raw = False

    def feed(self, piece: Any) -> list[Json]:
        """Return the events of a piece. Raise `PieceError` if it is not a valid piece."""
        match piece:
            case str():
                self._begin()
                if self._text is None:
                    self._text = self._writer.open_words("text")
                self._writer.say(self._text, "text", piece)
            case {"type": "message_start", "message": dict(message)}:
                self._is_raw = True
                own = {"id": message.get("id") or self._id}
                own["model"] = message.get("model") or self._model
                return [{**piece, "message": {**message, **own}}]
            case {"type": "usage"}:
                self._usage |= {name: value for name, value in piece.items() if name != "type"}
            case dict() if piece.get("type") in EVENTS:
                return [piece]
            case dict() if isinstance(piece.get("type"), str):
                self._add_block(piece)
            case _:
                raise PieceError(
                    "a provider must yield text, a content block, an event of the Messages API or "
                    f"a Failure, got {type(piece).__name__}"
                )
        return self._writer.drain()

    def close(self) -> list[Json]:
        """Return the events that end the message."""
        if not self._is_raw:
            self._begin()
            self._end_text()
            reason = "tool_use" if self._has_calls else "end_turn"
            self._writer.end(reason, {"input_tokens": 0, "output_tokens": 0, **self._usage})
        return self._writer.drain()

    def _begin(self) -> None:
        self._writer.begin(self._id, self._model)

    def _end_text(self) -> None:
        if self._text is not None:
            self._writer.stop(self._text, [])
            self._text = None

    def _add_block(self, block: Json) -> None:
        self._begin()
        self._end_text()
        writer, kind = self._writer, block["type"]
        if kind == "tool_use":
            self._has_calls = True
            index = writer.open_call(block.get("id"), block.get("name"))
            encoded = encode(block.get("input") or {}).decode()
            writer.add(index, "input_json_delta", "partial_json", encoded)
        else:
            deltas = DELTAS.get(kind, ())
            index = writer.open(block | {member: "" for member, _ in deltas})
            for member, delta in deltas:
                if value := block.get(member):
                    writer.add(index, delta, member, str(value))
        writer.stop(index, [])
