"""A request in the shape of Bedrock's Converse operation, and the rules that shape has.

`project` takes what `for_api` made for a target of `for_converse`; it changes the shape and never what
is said. Blobs are base64 text, as the operation's JSON has them. Must never send anything.
"""

from typing import Any, TypeAlias

from msgspec.structs import replace

from clew.normalize import shapes
from clew.normalize.block_rules import Violation
from clew.normalize.clean import as_text
from clew.normalize.target import Target

Block: TypeAlias = dict[str, Any]

IMAGE_FORMATS = frozenset({"png", "jpeg", "gif", "webp"})
MAX_NAME = 64
MAX_IMAGES = 20
MAX_DOCUMENTS = 5
_DOCUMENT_NAME = shapes.WORD.replace("_", "") + " ()[]"


def for_converse(target: Target) -> Target:
    """What a model takes when it is asked through Converse."""
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


def project(
    messages: list[Block], *, system: Any = None, tools: list[Block] | None = None
) -> dict[str, Any]:
    """The operation's `messages`, `system` and `toolConfig`."""
    names = _Names()
    body: dict[str, Any] = {
        "messages": [
            {"role": m["role"], "content": [_block(b, names) for b in m["content"]]}
            for m in messages
        ]
    }
    if system:
        said = [system] if isinstance(system, str) else [block["text"] for block in system]
        body["system"] = [{"text": text} for text in said]
    if tools:
        body["toolConfig"] = {"tools": [_tool(tool) for tool in tools]}
    return body


class _Names:
    """Names for documents: the operation wants one each, of few characters, none twice."""

    def __init__(self) -> None:
        self._count = 0

    def take(self, title: Any) -> str:
        self._count += 1
        kept = "".join(c if c in _DOCUMENT_NAME else " " for c in str(title or "document"))
        return f"{' '.join(kept.split())[:150]} {self._count}".strip()


def _tool(tool: Block) -> Block:
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
            return {"toolResult": _result(block, names)}
        case "thinking":
            said = {"text": block["thinking"], "signature": block["signature"]}
            return {"reasoningContent": {"reasoningText": said}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": block["data"]}}
        case "image":
            return {"image": _image(block["source"])}
        case "document":
            return {"document": _document(block, names)}
    return {"text": as_text(block)}


def _result(block: Block, names: _Names) -> Block:
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
    made = {
        "format": "txt" if is_text else "pdf",
        "name": names.take(block.get("title")),
        "source": {"text" if is_text else "bytes": source["data"]},
    }
    return made | ({"context": block["context"]} if block.get("context") else {})


def validate(body: dict[str, Any]) -> list[Violation]:
    """What Converse would refuse of a body that `project` made."""
    found: list[Violation] = []

    def say(rule: str, where: str, what: str) -> None:
        found.append(Violation(rule=rule, where=where, what=what))

    asked: list[str] = []
    has_calls = False
    images = documents = 0
    for index, message in enumerate(body["messages"]):
        where = f"messages[{index}]"
        if message["role"] != ("user", "assistant")[index % 2]:
            say("V2", where, "is out of turn")
        if not message["content"]:
            say("V4", f"{where}.content", "is empty")
        answered = [b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b]
        if sorted(answered) != sorted(asked):
            say("V3", where, f"answers {answered} and was asked {asked}")
        asked = [b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b]
        has_calls = has_calls or bool(asked)
        for place, block in enumerate(_all_blocks(message["content"])):
            fault = _fault(block)
            if fault:
                say("V1", f"{where}.content[{place}]", fault)
            images += "image" in block
            documents += "document" in block
    if has_calls and "toolConfig" not in body:
        say("V3", "toolConfig", "is missing, and the messages hold calls")
    if images > MAX_IMAGES or documents > MAX_DOCUMENTS:
        say("V8", "messages", f"has {images} images and {documents} documents")
    if not body["messages"] or body["messages"][-1]["role"] != "user":
        say("V4", "messages", "does not end with the user")
    return found


def _all_blocks(content: list[Block]) -> list[Block]:
    return [
        inner
        for block in content
        for inner in (block, *block.get("toolResult", {}).get("content", ()))
    ]


def _fault(block: Block) -> str:
    """Why Converse would refuse this block by itself."""
    if len(block) != 1:
        return "is not of one kind"
    if "text" in block:
        return "" if block["text"].strip() else "is text without a word"
    if "toolUse" in block:
        use = block["toolUse"]
        is_named = shapes.is_word(use["name"], MAX_NAME) and shapes.is_word(use["toolUseId"], 64)
        return "" if is_named and isinstance(use["input"], dict) else "is no call"
    if "toolResult" in block:
        return "" if block["toolResult"]["content"] else "is an empty result"
    if "image" in block:
        return "" if block["image"]["format"] in IMAGE_FORMATS else "is of no format it takes"
    if "document" in block:
        name = block["document"]["name"]
        is_named = 0 < len(name) <= 200 and not name.strip(_DOCUMENT_NAME) and "  " not in name
        return "" if is_named else "has a name it does not take"
    return "" if "reasoningContent" in block else "is of no kind it takes"
