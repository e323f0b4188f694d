"""A request in the shape of OpenAI's chat completions, and the rules that shape has.

`project` takes what `for_api` made for a target of `for_chat`. Results are messages of their own there,
right behind the call, and hold text only: their images go into the user's next message. Thinking has no
place. Must never send anything.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.normalize import shapes
from clew.normalize.block_rules import Violation
from clew.normalize.clean import as_json, as_text
from clew.normalize.target import NO_FAMILY, Target

Block: TypeAlias = dict[str, Any]

MAX_NAME = 64
MAX_CALL_ID = 40


def for_chat(target: Target) -> Target:
    """What a model takes when it is asked through chat completions."""
    return replace(
        target,
        family=NO_FAMILY,
        server_tools=False,
        system_messages=True,
        prefill=False,
        deferred_tools=False,
        binds_thinking=False,
        binding_control=False,
        sources=frozenset({"base64", "url", "text"}),
        max_tool_name=MAX_NAME,
        max_id=MAX_CALL_ID,
    )


def project(
    messages: list[Block], *, system: Any = None, tools: list[Block] | None = None
) -> dict[str, Any]:
    """The request's `messages` and `tools`."""
    made: list[Block] = []
    if system:
        words = system if isinstance(system, str) else "\n\n".join(b["text"] for b in system)
        made.append({"role": "system", "content": words})
    for message in messages:
        made += _PROJECT[message["role"]](message["content"])
    body: dict[str, Any] = {"messages": made}
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    return body


def _tool(tool: Block) -> Block:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _system(content: list[Block]) -> list[Block]:
    return [{"role": "system", "content": "\n\n".join(b["text"] for b in content)}]


def _assistant(content: list[Block]) -> list[Block]:
    calls = [
        {
            "id": b["id"],
            "type": "function",
            "function": {"name": b["name"], "arguments": as_json(b["input"])},
        }
        for b in content
        if b["type"] == "tool_use"
    ]
    words = "\n\n".join(b["text"] for b in content if b["type"] == "text")
    message: Block = {"role": "assistant", "content": words or None}
    return [message | ({"tool_calls": calls} if calls else {})]


def _user(content: list[Block]) -> list[Block]:
    answers: list[Block] = []
    parts: list[Block] = []
    for block in content:
        if block["type"] == "tool_result":
            words, shown = _result(block)
            answers.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": words})
            parts += shown
        else:
            parts.append(_part(block))
    return [*answers, {"role": "user", "content": parts}] if parts else answers


def _result(block: Block) -> tuple[str, list[Block]]:
    """What a result says, and the parts that a result cannot hold there."""
    content = block["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    shown = [b for b in content if b["type"] in shapes.MEDIA]
    words = [as_text(b) for b in content if b["type"] not in shapes.MEDIA]
    if shown:
        words.append("(the images and documents follow in the next message)")
    return "\n".join(words), [_part(b) for b in shown]


def _part(block: Block) -> Block:
    source = block["source"] if block["type"] in shapes.MEDIA else {}
    match block["type"], source.get("type"):
        case "text", _:
            return {"type": "text", "text": block["text"]}
        case "image", "url":
            return {"type": "image_url", "image_url": {"url": source["url"]}}
        case "image", _:
            return {"type": "image_url", "image_url": {"url": _data_url(source)}}
        case "document", "base64":
            name = str(block.get("title") or "document.pdf")
            return {"type": "file", "file": {"filename": name, "file_data": _data_url(source)}}
        case "document", "text":
            return {"type": "text", "text": source["data"]}
    return {"type": "text", "text": as_text(block)}


def _data_url(source: Block) -> str:
    return f"data:{source['media_type']};base64,{source['data']}"


_PROJECT = {"system": _system, "assistant": _assistant, "user": _user}


def validate(body: dict[str, Any]) -> list[Violation]:
    """What chat completions would refuse of a body that `project` made."""
    found: list[Violation] = []
    owed: list[str] = []
    for index, message in enumerate(body["messages"]):
        where = f"messages[{index}]"
        fault, owed = _message_fault(message, owed)
        if fault:
            found.append(Violation(rule="V3", where=where, what=fault))
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            owed = [call["id"] for call in calls]
            if any(not _is_call(call) for call in calls) or len(owed) != len(set(owed)):
                found.append(Violation(rule="V6", where=where, what="has a call that is none"))
    if owed:
        found.append(Violation(rule="V3", where="messages", what=f"ends without {owed}"))
    if not any(message["role"] in ("user", "tool") for message in body["messages"]):
        found.append(Violation(rule="V4", where="messages", what="says nothing"))
    return found


def _message_fault(message: Block, owed: list[str]) -> tuple[str, list[str]]:
    """What is wrong with a message behind calls that are `owed` a result, and what is owed after it."""
    if message["role"] == "tool":
        if message["tool_call_id"] not in owed:
            return "answers no open call", owed
        if not message["content"].strip():
            return "is an empty result", owed
        return "", [use for use in owed if use != message["tool_call_id"]]
    if owed:
        return f"comes before the results of {owed}", []
    if not message["content"] and not message.get("tool_calls"):
        return "says nothing", []
    return "", []


def _is_call(call: Block) -> bool:
    function = call["function"]
    if not shapes.is_word(call["id"], MAX_CALL_ID) or not shapes.is_word(
        function["name"], MAX_NAME
    ):
        return False
    try:
        return isinstance(msgspec.json.decode(function["arguments"]), dict)
    except msgspec.DecodeError:
        return False
