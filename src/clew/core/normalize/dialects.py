"""Convert a request for chat completions or for Bedrock's Converse operation, and check the result.

The input is what `for_api` built for a target that `for_chat` or `for_converse` returned. The
conversion changes the format and never the content. Blobs are base64 text, as in Converse's JSON.
Must never send anything.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.core.catalog.quirks import THOUGHTS, Quirks
from clew.core.json_object import text_of
from clew.core.messages.text import format_count
from clew.core.normalize import shapes
from clew.core.normalize.block_rules import RequestViolation
from clew.core.normalize.clean import as_json, as_text
from clew.core.normalize.identifiers import IdMap, is_plain_id, shorten_name
from clew.core.normalize.target import NO_FAMILY, Target

# OpenAI's chat completions: the request format and its rules.


Block: TypeAlias = dict[str, Any]

MAX_NAME = 64
MAX_CALL_ID = 40
DEFAULT_QUIRKS = Quirks()


def for_chat(target: Target, quirks: Quirks = DEFAULT_QUIRKS) -> Target:
    """Return `target`, limited to what a model accepts through chat completions."""
    return replace(
        target,
        family=NO_FAMILY,
        server_tools=False,
        error_media=True,
        system_messages=quirks.later_system,
        prefill=False,
        deferred_tools=False,
        binds_thinking=False,
        binding_control=False,
        sources=frozenset({"base64", "url", "text"}),
        images=target.images and quirks.images,
        documents=target.documents and quirks.documents,
    )


def to_openai(
    messages: list[Block],
    *,
    system: Any = None,
    tools: list[Block] | None = None,
    quirks: Quirks = DEFAULT_QUIRKS,
) -> dict[str, Any]:
    """Return the `messages` and `tools` of a chat completions request."""
    writer = _ChatWriter(quirks)
    if system:
        words = system if isinstance(system, str) else join_texts(system)
        writer.messages.append({"role": quirks.system_role, "content": words})
    for message in messages:
        writer.add(message)
    body: dict[str, Any] = {"messages": writer.messages}
    if tools:
        body["tools"] = [_tool(tool, quirks) for tool in tools]
    return body


def _tool(tool: Block, quirks: Quirks) -> Block:
    schema = tool["input_schema"]
    name = shorten_name(tool["name"], quirks.max_tool_name)
    parameters = schema if quirks.schema_const else without_const(schema)
    function = {"name": name, "parameters": parameters}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def without_const(schema: Any) -> Any:
    """Return a JSON Schema with each `const` written as an `enum` of one value."""
    if type(schema) is list:
        return [without_const(inner) for inner in schema]
    if type(schema) is not dict:
        return schema
    plain = {name: without_const(value) for name, value in schema.items() if name != "const"}
    # A property may be called `const`; its value is then a schema.
    if "const" in schema and type(schema["const"]) is not dict:
        return plain | {"enum": [schema["const"]]}
    return plain | ({"const": without_const(schema["const"])} if "const" in schema else {})


def join_texts(blocks: list[Block]) -> str:
    return "\n\n".join(block["text"] for block in blocks)


class _ChatWriter:
    """Writes the messages of one request, with the IDs that the service accepts."""

    def __init__(self, quirks: Quirks) -> None:
        self.messages: list[Block] = []
        self._quirks = quirks
        self._names: dict[str, str] = {}
        self._sent_id = IdMap(self._takes_id, quirks.max_call_id)

    def _takes_id(self, call_id: str) -> bool:
        longest = self._quirks.max_call_id
        if self._quirks.exact_call_id:
            return len(call_id) == longest and call_id.isascii() and call_id.isalnum()
        return is_plain_id(call_id, longest)

    def add(self, message: Block) -> None:
        content = message["content"]
        match message["role"]:
            case "system":
                self.messages.append({"role": "system", "content": join_texts(content)})
            case "assistant":
                own = message.get("origin")
                merged = None if own is None else merge_parts(own, self._quirks)
                self.messages.append(self._own(merged, content) or self._assistant(content))
            case _:
                self._user(content)

    def _own(self, merged: Block | None, content: list[Block]) -> Block | None:
        """Return the service's own message, or None if the service could not read its calls."""
        uses = [block for block in content if block["type"] == "tool_use"]
        calls = [] if merged is None else merged.get("tool_calls", [])
        if merged is None or len(calls) != len(uses) or not all(map(_is_readable, calls)):
            return None
        kept: list[Block] = []
        for call, use in zip(calls, uses, strict=True):
            kept.append(call | {"id": self._sent_id.keep(use["id"], text_of(call.get("id")))})
            self._names[use["id"]] = call["function"]["name"]
        return self._with_thoughts(merged | ({"tool_calls": kept} if kept else {}))

    def _assistant(self, content: list[Block]) -> Block:
        calls = []
        for block in content:
            if block["type"] == "tool_use":
                name = shorten_name(block["name"], self._quirks.max_tool_name)
                self._names[block["id"]] = name
                function = {"name": name, "arguments": as_json(block["input"])}
                call_id = self._sent_id(block["id"])
                calls.append({"id": call_id, "type": "function", "function": function})
        words = join_texts([b for b in content if b["type"] == "text"])
        none = None if self._quirks.null_content else ""
        message: Block = {"role": "assistant", "content": words or none}
        return self._with_thoughts(message | ({"tool_calls": calls} if calls else {}))

    def _with_thoughts(self, message: Block) -> Block:
        is_missing = self._quirks.thoughts_required and "tool_calls" in message
        return {"reasoning_content": ""} | message if is_missing else message

    def _user(self, content: list[Block]) -> None:
        parts: list[Block] = []
        user_parts: list[Block] = []
        answers: list[Block] = []
        for block in content:
            if block["type"] == "tool_result":
                answer, media = self._result(block)
                answers.append(answer)
                user_parts += media
            else:
                parts.append(_part(block))
        self.messages += answers
        if (user_parts or parts) and answers and not self._quirks.user_after_results:
            self.messages.append({"role": "assistant", "content": "(continues)"})
        # A separate message, so that a later prompt leaves the prefix unchanged.
        self.messages += [{"role": "user", "content": own} for own in (user_parts, parts) if own]

    def _result(self, block: Block) -> tuple[Block, list[Block]]:
        """Return a tool result, and the parts that must follow in a user message."""
        answer: Block = {"role": "tool", "tool_call_id": self._sent_id(block["tool_use_id"])}
        if self._quirks.result_name:
            answer["name"] = self._names.get(block["tool_use_id"], "")
        content = block["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        media = [_part(b) for b in content if b["type"] in shapes.MEDIA]
        texts = [as_text(b) for b in content if b["type"] not in shapes.MEDIA]
        if media and not self._quirks.result_images:
            texts.append("(the images and documents follow in the next message)")
        words = mark_error("\n".join(texts), is_error=block.get("is_error") is True)
        if not media or not self._quirks.result_images:
            return answer | {"content": words}, media
        parts = [{"type": "text", "text": words}] if words else []
        return answer | {"content": [*parts, *media]}, []


def mark_error(words: str, *, is_error: bool) -> str:
    """Return a result's text, marked as an error for formats that have no field for errors."""
    is_said = words[:5].lower() == "error"
    return f"Error: {words}" if is_error and not is_said else words


def merge_parts(parts: list[Any], quirks: Quirks) -> Block | None:
    """Combine the parts of a response into the message that is returned to the service.

    Reasoning is returned only in the form that the service accepts. Return None if a part is
    not an object.
    """
    message: Block = {"role": "assistant"}
    texts: list[Any] = []
    for part in parts:
        if type(part) is not dict:
            return None
        for name, value in part.items():
            if name == "content":
                texts.append(value)
            elif type(value) is list:
                message[name] = [*message.get(name, ()), *value]
            elif type(value) is dict:
                message[name] = message.get(name, {}) | value
            else:
                message[name] = f"{message.get(name, '')}{value}"
    has_text = bool(texts)
    message["content"] = _joined(texts, quirks) if has_text else None
    if not message["content"]:
        message["content"] = None if quirks.null_content and "tool_calls" in message else ""
    _choose_thoughts(message, quirks)
    return message


def _joined(texts: list[Any], quirks: Quirks) -> Any:
    if all(type(text) is str for text in texts):
        return "".join(texts)
    chunks: list[Any] = []
    for text in texts:
        chunks += text if type(text) is list else [{"type": "text", "text": text}]
    if quirks.thoughts_back != "chunks":
        return "".join(str(c.get("text") or "") for c in chunks if c.get("type") == "text")
    return chunks


def _choose_thoughts(message: Block, quirks: Quirks) -> None:
    """Reduce a message's reasoning to the one field that the service accepts."""
    words = next((message[name] for name in THOUGHTS if message.get(name)), "")
    details = message.pop("reasoning_details", None)
    for name in THOUGHTS:
        message.pop(name, None)
    match quirks.thoughts_back:
        case "reasoning_content" | "reasoning":
            if words:
                message[quirks.thoughts_back] = words
        case "reasoning_details":
            if details:
                message["reasoning_details"] = details
            elif words:
                message["reasoning"] = words


def _is_readable(call: Any) -> bool:
    """Return whether the service's own arguments of a call are an object, as services require."""
    function = call.get("function") if type(call) is dict else None
    arguments = function.get("arguments") if type(function) is dict else None
    try:
        return type(arguments) is str and isinstance(msgspec.json.decode(arguments), dict)
    except msgspec.DecodeError:
        return False


def _part(block: Block) -> Block:
    source = block["source"] if block["type"] in shapes.MEDIA else {}
    match block["type"], source.get("type"):
        case "text", _:
            return {"type": "text", "text": block["text"]}
        case "image", "url":
            return {"type": "image_url", "image_url": {"url": source["url"]}}
        case "image", _:
            return {"type": "image_url", "image_url": {"url": make_data_url(source)}}
        case "document", "base64":
            name = str(block.get("title") or "document.pdf")
            return {"type": "file", "file": {"filename": name, "file_data": make_data_url(source)}}
        case "document", "text":
            return {"type": "text", "text": source["data"]}
    return {"type": "text", "text": as_text(block)}


def make_data_url(source: Block) -> str:
    return f"data:{source['media_type']};base64,{source['data']}"


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
                    RequestViolation(
                        rule="V6", where=where, what="has an invalid or duplicate tool call"
                    )
                )
    if owed:
        violations.append(
            RequestViolation(
                rule="V3", where="messages", what=f"ends before the results of the calls {owed}"
            )
        )
    if not any(message["role"] in ("user", "tool") for message in body["messages"]):
        violations.append(
            RequestViolation(
                rule="V4",
                where="messages",
                what="contains neither a user message nor a tool result",
            )
        )
    return violations


def _message_fault(message: Block, owed: list[str]) -> tuple[str, list[str]]:
    """Return what is wrong with a message, and the calls that are still open after it.

    `owed` lists the calls that are open before the message.
    """
    if message["role"] == "tool":
        if message["tool_call_id"] not in owed:
            return "does not match an open tool call", owed
        if not message["content"].strip():
            return "is an empty result", owed
        return "", [use for use in owed if use != message["tool_call_id"]]
    if owed:
        return f"comes before the results of the calls {owed}", []
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
    """Generates the unique document names that Converse requires."""

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
            say("V3", where, f"has results for the calls {answered}, expected {expected_ids}")
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
        say(
            "V8",
            "messages",
            f"has {format_count(images, 'image')} and {format_count(documents, 'document')}, more "
            f"than the limits of {MAX_IMAGES} and {MAX_DOCUMENTS}",
        )
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
        return "" if block["text"].strip() else "is a blank text block"
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
