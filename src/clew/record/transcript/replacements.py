"""Tool results that requests contain in shortened form, as `content-replacement` lines record.

Other clients keep the full result in its entry, and record the shortened text in such a line.
clew's entries already contain the shortened text, and its lines tell other programs which results
were shortened. The format is in docs/internals/transcript.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clew.core.json_object import list_of, object_of
from clew.core.normalize.select import MICRO

Message = dict[str, Any]


def find_replacements(message: Message) -> list[Message]:
    """Return the results that an entry replaced: its own, or earlier ones that it removed."""
    if message.get("subtype") == MICRO:
        references = object_of(object_of(message.get("microcompactMetadata")).get("references"))
        return [_replacement(call, text) for call, text in references.items()]
    raw = message.get("toolUseResult")
    if type(raw) is not dict or "persistedOutputPath" not in raw:
        return []
    return [
        _replacement(block["tool_use_id"], block["content"])
        for block in _results(message)
        if type(block.get("content")) is str
    ]


def _replacement(tool_use_id: str, text: str) -> Message:
    return {"kind": "tool-result", "toolUseId": tool_use_id, "replacement": text}


def apply_replacements(messages: Sequence[Message], lines: Iterable[Message]) -> list[Message]:
    """Return the messages with the results as the model saw them.

    Lines that refer to a separate entry are skipped: that entry has the same effect as long as it
    is part of the conversation.
    """
    texts = dict(_texts(lines))
    return [_replaced(message, texts) for message in messages] if texts else list(messages)


def _texts(lines: Iterable[Message]) -> Iterator[tuple[str, str]]:
    for line in lines:
        for item in list_of(line.get("replacements")) if "messageUuid" not in line else ():
            call, text = object_of(item).get("toolUseId"), object_of(item).get("replacement")
            if type(call) is str and type(text) is str:
                yield call, text


def _replaced(message: Message, texts: dict[str, str]) -> Message:
    blocks = _results(message)
    if not any(texts.get(b["tool_use_id"], b.get("content")) != b.get("content") for b in blocks):
        return message
    inner = message["message"]
    content = [
        block | {"content": texts[block["tool_use_id"]]}
        if block in blocks and block["tool_use_id"] in texts
        else block
        for block in inner["content"]
    ]
    return message | {"message": inner | {"content": content}}


def _results(message: Message) -> list[Message]:
    content = object_of(message.get("message")).get("content")
    return [
        block
        for block in list_of(content)
        if type(block) is dict
        and block.get("type") == "tool_result"
        and type(block.get("tool_use_id")) is str
    ]
