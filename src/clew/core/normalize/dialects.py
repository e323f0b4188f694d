"""Convert a request for chat completions or for Bedrock's Converse operation, and check the result.

The input is what `for_api` built for a target that `for_chat` or `for_converse` returned. The
conversion changes the format and never the content. Blobs are base64 text, as in Converse's JSON.
Must never send anything.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.core.normalize import shapes
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.clean import as_json, as_text
from clew.core.normalize.target import NO_FAMILY, Target

# OpenAI's chat completions: the request format and its rules.


Block: TypeAlias = dict[str, Any]

MAX_NAME = 64
MAX_CALL_ID = 40


def for_chat(target: Target) -> Target:
    """Return `target`, limited to what a model accepts through chat completions."""
    return replace(
        target,
        family=NO_FAMILY,
        server_tools=False,
        error_media=True,
        system_messages=True,
        prefill=False,
        deferred_tools=False,
        binds_thinking=False,
        binding_control=False,
        sources=frozenset({"base64", "url", "text"}),
        max_tool_name=MAX_NAME,
        max_id=MAX_CALL_ID,
    )


def to_openai(
    messages: list[Block], *, system: Any = None, tools: list[Block] | None = None
) -> dict[str, Any]:
    """Return the `messages` and `tools` of a chat completions request."""
    output: list[Block] = []
    if system:
        words = system if isinstance(system, str) else "\n\n".join(b["text"] for b in system)
        output.append({"role": "system", "content": words})
    for message in messages:
        output += _PROJECT[message["role"]](message["content"])
    body: dict[str, Any] = {"messages": output}
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
            words, media = _result(block)
            answers.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": words})
            parts += media
        else:
            parts.append(_part(block))
    return [*answers, {"role": "user", "content": parts}] if parts else answers


def _result(block: Block) -> tuple[str, list[Block]]:
    """Return the text of a tool result, and the parts that must follow in a user message."""
    content = block["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    media = [b for b in content if b["type"] in shapes.MEDIA]
    words = [as_text(b) for b in content if b["type"] not in shapes.MEDIA]
    if media:
        words.append("(the images and documents follow in the next message)")
    return "\n".join(words), [_part(b) for b in media]


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


def openai_faults(body: dict[str, Any]) -> list[RequestViolation]:
    """Return the reasons why chat completions would reject a converted body."""
    violations: list[RequestViolation] = []
    owed: list[str] = []
    for index, message in enumerate(body["messages"]):
        where = f"messages[{index}]"
        fault, owed = _message_fault(message, owed)
        if fault:
            violations.append(RequestViolation(rule="V3", where=where, what=fault))
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            owed = [call["id"] for call in calls]
            if any(not _is_call(call) for call in calls) or len(owed) != len(set(owed)):
                violations.append(
                    RequestViolation(rule="V6", where=where, what="has an invalid tool call")
                )
    if owed:
        violations.append(
            RequestViolation(
                rule="V3", where="messages", what=f"ends without the results of {owed}"
            )
        )
    if not any(message["role"] in ("user", "tool") for message in body["messages"]):
        violations.append(RequestViolation(rule="V4", where="messages", what="has no content"))
    return violations


def _message_fault(message: Block, owed: list[str]) -> tuple[str, list[str]]:
    """Return what is wrong with a message, and the calls that are still open after it.

    `owed` lists the calls that are open before the message.
    """
    if message["role"] == "tool":
        if message["tool_call_id"] not in owed:
            return "answers no open tool call", owed
        if not message["content"].strip():
            return "is an empty result", owed
        return "", [use for use in owed if use != message["tool_call_id"]]
    if owed:
        return f"comes before the results of {owed}", []
    if not message["content"] and not message.get("tool_calls"):
        return "has no content", []
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


IMAGE_FORMATS = frozenset({"png", "jpeg", "gif", "webp"})
MAX_IMAGES = 20
MAX_DOCUMENTS = 5
_DOCUMENT_NAME = shapes.WORD.replace("_", "") + " ()[]"


def for_converse(target: Target) -> Target:
    """Return `target`, limited to what a model accepts through Converse."""
    return replace(
        target,
        server_tools=False,
        system_messages=False,
        sources=frozenset({"base64", "text"}),
        max_images=MAX_IMAGES,
        max_image_bytes=3_750_000 * 4 // 3,
        max_documents=MAX_DOCUMENTS,
        max_document_bytes=4_500_000 * 4 // 3,
        max_tool_name=MAX_NAME,
    )


def to_bedrock(
    messages: list[Block], *, system: Any = None, tools: list[Block] | None = None
) -> dict[str, Any]:
    """Return the `messages`, `system` and `toolConfig` of a Converse request."""
    names = _Names()
    body: dict[str, Any] = {
        "messages": [
            {"role": m["role"], "content": [_block(b, names) for b in m["content"]]}
            for m in messages
        ]
    }
    if system:
        texts = [system] if isinstance(system, str) else [block["text"] for block in system]
        body["system"] = [{"text": text} for text in texts]
    if tools:
        body["toolConfig"] = {"tools": [_bedrock_tool(tool) for tool in tools]}
    return body


class _Names:
    """A generator of the unique document names that Converse requires."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, title: Any) -> str:
        self._count += 1
        plain_title = "".join(c if c in _DOCUMENT_NAME else " " for c in str(title or "document"))
        return f"{' '.join(plain_title.split())[:150]} {self._count}".strip()


def _bedrock_tool(tool: Block) -> Block:
    spec = {"name": tool["name"], "inputSchema": {"json": tool["input_schema"]}}
    if tool.get("description"):
        spec["description"] = tool["description"]
    return {"toolSpec": spec}


def _block(block: Block, names: _Names) -> Block:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "tool_use":
            use = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return {"toolUse": use}
        case "tool_result":
            return {"toolResult": _bedrock_result(block, names)}
        case "thinking":
            fields = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": fields}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"]}}
        case "image":
            return {"image": _image(block["source"])}
        case "document":
            return {"document": _document(block, names)}
    return {"text": as_text(block)}


def _bedrock_result(block: Block, names: _Names) -> Block:
    content = block["content"]
    inside = [{"type": "text", "text": content}] if isinstance(content, str) else content
    result = {
        "toolUseId": block["tool_use_id"],
        "content": [_block(inner, names) for inner in inside],
    }
    return result | ({"status": "error"} if block.get("is_error") else {})


def _image(source: Block) -> Block:
    return {
        "format": source["media_type"].removeprefix("image/"),
        "source": {"bytes": source["data"]},
    }


def _document(block: Block, names: _Names) -> Block:
    source = block["source"]
    is_text = source["type"] == "text"
    document = {
        "format": "txt" if is_text else "pdf",
        "name": names.take(block.get("title")),
        "source": {"text" if is_text else "bytes": source["data"]},
    }
    return document | ({"context": block["context"]} if block.get("context") else {})


def bedrock_faults(body: dict[str, Any]) -> list[RequestViolation]:
    """Return the reasons why Converse would reject a converted body."""
    violations: list[RequestViolation] = []

    def say(rule: str, where: str, what: str) -> None:
        violations.append(RequestViolation(rule=rule, where=where, what=what))

    expected_ids: list[str] = []
    has_calls = False
    images = documents = 0
    for index, message in enumerate(body["messages"]):
        where = f"messages[{index}]"
        if message["role"] != ("user", "assistant")[index % 2]:
            say("V2", where, "has the wrong role for its position")
        if not message["content"]:
            say("V4", f"{where}.content", "is empty")
        answered = [b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b]
        if sorted(answered) != sorted(expected_ids):
            say("V3", where, f"answers {answered}, but the calls were {expected_ids}")
        expected_ids = [b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b]
        has_calls = has_calls or bool(expected_ids)
        for place, block in enumerate(_all_blocks(message["content"])):
            fault = _fault(block)
            if fault:
                say("V1", f"{where}.content[{place}]", fault)
            images += "image" in block
            documents += "document" in block
    if has_calls and "toolConfig" not in body:
        say("V3", "toolConfig", "is missing, but the messages contain tool calls")
    if images > MAX_IMAGES or documents > MAX_DOCUMENTS:
        say("V8", "messages", f"has {images} images and {documents} documents, which is too many")
    if not body["messages"] or body["messages"][-1]["role"] != "user":
        say("V4", "messages", "must end with a user message")
    return violations


def _all_blocks(content: list[Block]) -> list[Block]:
    return [
        inner
        for block in content
        for inner in (block, *block.get("toolResult", {}).get("content", ()))
    ]


def _fault(block: Block) -> str:
    """Return the reason why Converse would reject this block, or an empty string."""
    if len(block) != 1:
        return "must have exactly one type"
    if "text" in block:
        return "" if block["text"].strip() else "is blank text"
    if "toolUse" in block:
        use = block["toolUse"]
        is_named = shapes.is_word(use["name"], MAX_NAME) and shapes.is_word(use["toolUseId"], 64)
        return "" if is_named and isinstance(use["input"], dict) else "is not a valid tool call"
    if "toolResult" in block:
        return "" if block["toolResult"]["content"] else "is an empty result"
    if "image" in block:
        return (
            "" if block["image"]["format"] in IMAGE_FORMATS else "has an unsupported image format"
        )
    if "document" in block:
        name = block["document"]["name"]
        is_named = 0 < len(name) <= 200 and not name.strip(_DOCUMENT_NAME) and "  " not in name
        return "" if is_named else "has an invalid document name"
    return "" if "reasoningContent" in block else "has an unsupported type"
