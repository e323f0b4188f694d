"""What a message of clew's own looks like; says what is wrong instead of raising.

These are the rules of one message as a line that every known reader reads (docs/messages.md), not
the API's rules for a whole request, which are `clew.normalize`'s. Unknown kinds have no faults.

Decision: docs/decisions/010-views-over-dicts.md
"""

from __future__ import annotations

import re

from clew.messages import blocks
from clew.messages.kinds import view
from clew.messages.messages import Assistant, Message
from clew.messages.usage import usage_for_writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The one form of time that every known reader accepts.
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
# Which kinds may hold which payload.
_PAYLOADS = {
    "message": frozenset({"user", "assistant"}),
    "attachment": frozenset({"attachment"}),
    "data": frozenset({"progress"}),
}


def faults(message: dict[str, Any]) -> list[str]:
    """What is wrong with one message; nothing, for a kind that is not a message."""
    seen = view(message)
    if not isinstance(seen, Message) and seen.type not in ("system", "attachment", "progress"):
        return []
    found = list(_identity(message))
    for payload, kinds in _PAYLOADS.items():
        if payload in message and seen.type not in kinds:
            found.append(f"{payload} on a message of type {seen.type}")
        if payload not in message and seen.type in kinds:
            found.append(f"no {payload} on a message of type {seen.type}")
    if isinstance(seen, Message):
        found += _content(seen)
    if isinstance(seen, Assistant):
        found += _answer(seen)
    return found


def _identity(message: dict[str, Any]) -> Iterator[str]:
    for key, form in (("uuid", _UUID), ("timestamp", _AT)):
        value = message.get(key)
        if not isinstance(value, str) or not form.fullmatch(value):
            yield f"{key} is not one"


def faults_of_words(content: list[Any]) -> list[str]:
    """What is wrong with blocks that somebody wants to say as a prompt."""
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content):
        return ["every block needs a type"]
    said = view({"type": "user", "message": {"role": "user", "content": content}})
    found = [
        "text without words"
        for block in content
        if block["type"] == "text" and not isinstance(block.get("text"), str)
    ]
    return found + (list(_content(said)) if content and isinstance(said, Message) else [])


def _content(message: Message) -> Iterator[str]:
    if message.role != message.type:
        yield f"role {message.role} on a message of type {message.type}"
    if not isinstance(message.content, str | list) or not message.content:
        yield "content is neither text nor blocks"
    for block in message.blocks:
        if message.type not in block.roles:
            yield f"{block.type} said by {message.type}"
        if isinstance(block, blocks.ToolUse) and not (
            block.id and block.name and block.input is not None
        ):
            yield f"{block.type} without id, name or input"
        if isinstance(block, blocks.ToolResult) and not (
            block.tool_use_id and "content" in block.data
        ):
            yield "tool_result without tool_use_id or content"


def _answer(answer: Assistant) -> Iterator[str]:
    """What readers count by. A message no model wrote has no request."""
    if not answer.message_id or not answer.model:
        yield "no message id or no model"
    if not answer.request_id and not answer.is_synthetic:
        yield "requestId is empty"
    if answer.usage.data != usage_for_writing(answer.usage.data):
        yield "usage lacks a count, or its split does not add up"


def repeated_tool_ids(messages: Iterable[dict[str, Any]]) -> list[str]:
    """Ids of tool calls that more than one call of a session bears."""
    seen: set[str] = set()
    repeated: list[str] = []
    for message in messages:
        if message.get("type") == "assistant":
            for use in Assistant(message).tool_uses:
                if use.id in seen:
                    repeated.append(use.id)
                elif use.id:
                    seen.add(use.id)
    return repeated
