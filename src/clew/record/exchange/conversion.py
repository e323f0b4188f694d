"""Convert sessions of other programs to clew messages, and count what was lost. Pure.

Nothing is invented: what has no counterpart is counted by reason. IDs are derived from the source,
so that importing the same file gives the same session.
"""

import re
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.messages import factories

_NO_ID = re.compile(r"[^A-Za-z0-9_-]")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)")
ANSWERED = "answered"
_PLACE = frozenset({"parentUuid", "sessionId", "isSidechain", "agentId"})
LONG_AGO = "1970-01-01T00:00:00.000Z"


class Helper(Struct, kw_only=True):
    """A subagent of the session: its messages, and the metadata for its sidecar."""

    agent_id: str
    messages: list[Json]
    metadata: Json


class Converted(Struct, kw_only=True):
    """The result of a conversion; `source_id` is the session's ID in the source."""

    kind: str
    source_id: str
    messages: list[Json] = []
    agents: list[Helper] = []
    title: str = ""
    cwd: str = ""
    branch: str = ""
    losses: dict[str, int] = {}


class Builder:
    """Builds clew's entries from the source's messages, taken in order.

    `new_uuid` supplies the IDs.
    """

    def __init__(self, kind: str, source_id: str, new_uuid: Any) -> None:
        self.out = Converted(kind=kind, source_id=source_id)
        self._new_uuid = new_uuid
        self._at = LONG_AGO
        self._open: dict[str, str] = {}
        self._thoughts: list[Json] = []

    def lose(self, reason: str, count: int = 1) -> None:
        self.out.losses[reason] = self.out.losses.get(reason, 0) + count

    def time(self, value: Any) -> str:
        """Convert a time to clew's format.

        An invalid time is replaced with the time of the previous message.
        """
        match = _TIME.fullmatch(value) if type(value) is str else None
        if match is not None:
            self._at = f"{match[1]}.{(match[2] or '.').removeprefix('.')[:3]:0<3}Z"
        return self._at

    def take(self, entry: Json) -> None:
        """Add an entry that is already in clew's format; the recorder sets its place."""
        self.out.messages.append({k: v for k, v in entry.items() if k not in _PLACE})
        for block in list_of(object_of(entry.get("message")).get("content")):
            if type(block) is dict and block.get("type") == "tool_use":
                self._open[text_of(block.get("id"))] = entry["uuid"]
            elif type(block) is dict and block.get("type") == "tool_result":
                self._open[text_of(block.get("tool_use_id"))] = ANSWERED

    def finished(self) -> Converted:
        if self._thoughts:
            self.lose("thinking without a response")
            self._thoughts = []
        return self.out

    def user(self, blocks: list[Json], at: str, *, is_meta: bool = False) -> None:
        self.finished()
        blocks = [b for b in blocks if b.get("type") != "text" or b.get("text", "").strip()]
        if not blocks:
            return
        plain = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
        self.out.messages.append(
            factories.make_user(
                plain,
                uuid=self._new_uuid(),
                at=at,
                is_meta=is_meta,
                prompt_source=None if is_meta else "typed",
            )
        )

    def answer(
        self,
        blocks: list[Json],
        at: str,
        *,
        model: str = "",
        usage: Json | None = None,
        **fields: Any,
    ) -> None:
        answer_blocks = []
        for block in blocks:
            if block["type"] == "tool_use":
                if block["id"] in self._open:
                    self.lose("tool call with a duplicate ID")
                    continue
            elif not (block.get("text") or block.get("thinking")):
                continue
            answer_blocks.append(block)
        if all(block["type"] == "thinking" for block in answer_blocks):
            self._thoughts += answer_blocks  # They begin the next response.
            return
        answer_blocks = [*self._thoughts, *answer_blocks]
        self._thoughts = []
        uuids = [self._new_uuid() for _ in answer_blocks]
        for block, uuid in zip(answer_blocks, uuids, strict=True):
            if block["type"] == "tool_use":
                self._open[block["id"]] = uuid
        message = {
            "id": f"msg_{uuids[0].replace('-', '')}",
            "type": "message",
            "model": model,
            "content": answer_blocks,
            "stop_reason": "tool_use" if answer_blocks[-1]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": usage or {"input_tokens": 0, "output_tokens": 0},
        }
        entries = factories.make_assistant(message, uuids=uuids, at=at, request_id="")
        self.out.messages += [entry | fields for entry in entries]

    def result(self, call: str, content: Any, at: str, *, is_error: bool = False) -> None:
        source = self._open.get(tool_id(call))
        if source is None:
            self.lose("tool result without its call")
            return
        if source == ANSWERED:
            self.lose("second result of the same call")
            return
        self._open[tool_id(call)] = ANSWERED
        self.out.messages.append(
            factories.make_tool_answer(
                tool_id(call), content, uuid=self._new_uuid(), at=at, source_uuid=source,
                is_error=is_error,
            )
        )  # fmt: skip


def tool_id(value: str) -> str:
    return _NO_ID.sub("_", value) or "_"


def call(call_id: str, name: str, arguments: Any) -> Json:
    value = arguments if type(arguments) is dict else {"input": arguments}
    return {"type": "tool_use", "id": tool_id(call_id), "name": name or "unknown", "input": value}


def make_picture(media: str, data: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def make_thinking(words: str, signature: str = "") -> Json:
    return {"type": "thinking", "thinking": words, "signature": signature}
