"""Convert a request for Gemini's generateContent.

The input is what `for_api` built for a target that `for_gemini` returned. A response from the same
service is sent back as its original parts, with their thought signatures; everything else is
written from canonical blocks. Must never send anything.

Format: the type `Content` in the `google-genai` package.
Decision: docs/decisions/331-wires.md
"""

from typing import Any

from msgspec.structs import replace

from clew.core.json_object import Json, list_of, object_of, text_of
from clew.core.normalize import shapes
from clew.core.normalize.clean import as_text
from clew.core.normalize.dialects import join_texts
from clew.core.normalize.identifiers import IdMap, is_plain_id, shorten_name
from clew.core.normalize.target import NO_FAMILY, Target

# The documented maximum was raised to 128; older endpoints still have 64.
MAX_NAME = 64
MAX_CALL_ID = 64
# What the service accepts in place of a signature, for calls that another model made.
FOREIGN_SIGNATURE = "skip_thought_signature_validator"
MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
MAX_BODY_BYTES = 20_000_000
# Members of a JSON Schema that map names to schemas, and those whose values are data.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_DATA = frozenset({"enum", "default", "examples", "required"})


def for_gemini(target: Target) -> Target:
    """Return `target`, limited to what a model accepts through generateContent."""
    return replace(
        target,
        family=NO_FAMILY,
        server_tools=False,
        error_media=True,
        system_messages=False,
        prefill=False,
        deferred_tools=False,
        binds_thinking=False,
        binding_control=False,
        sources=frozenset({"base64", "text"}),
        max_body_bytes=MAX_BODY_BYTES,
    )


def shorten_for_gemini(name: str) -> str:
    """Return a tool's name as the service accepts it: it must begin with a letter or `_`."""
    is_named = name[:1].isalpha() or name[:1] == "_"
    return shorten_name(name if is_named else f"_{name}", MAX_NAME)


def to_gemini(
    messages: list[Json],
    *,
    system: Any = None,
    tools: list[Json] | None = None,
    is_signed: bool = True,
    holds_media: bool = True,
) -> Json:
    """Return the `contents`, `systemInstruction` and `tools` of a request.

    `is_signed` tells whether the model requires a signature on the first call of a response, and
    `holds_media` whether it accepts images within the result of a call.
    """
    writer = _ContentWriter(is_signed=is_signed, holds_media=holds_media)
    for message in messages:
        if message["role"] == "assistant":
            writer.add_answer(message)
        else:
            writer.add_user(message["content"])
    body: Json = {"contents": writer.contents}
    if system:
        words = system if isinstance(system, str) else join_texts(system)
        body["systemInstruction"] = {"parts": [{"text": words}]}
    if tools:
        body["tools"] = [{"functionDeclarations": [_declare(tool) for tool in tools]}]
    return body


def _declare(tool: Json) -> Json:
    return {
        "name": shorten_for_gemini(tool["name"]),
        "description": tool.get("description") or "",
        "parametersJsonSchema": to_schema(tool["input_schema"]),
    }


def to_schema(schema: Any) -> Any:
    """Return a JSON Schema with `const`, which the service ignores, written as `enum`."""
    if type(schema) is list:
        return [to_schema(one) for one in schema]
    if type(schema) is not dict:
        return schema
    out: Json = {}
    for name, value in schema.items():
        if name == "const":
            out["enum"] = [value]
        elif name in _NAMED and type(value) is dict:
            out[name] = {inner: to_schema(one) for inner, one in value.items()}
        else:
            out[name] = value if name in _DATA else to_schema(value)
    return out


class _ContentWriter:
    """Writes the contents of one request."""

    def __init__(self, *, is_signed: bool, holds_media: bool) -> None:
        self.contents: list[Json] = []
        self._is_signed = is_signed
        self._holds_media = holds_media
        self._sent_id = IdMap(lambda text: is_plain_id(text, MAX_CALL_ID), MAX_CALL_ID, "call_")
        # The ID, if any, and the name under which each call was sent.
        self._calls: dict[str, Json] = {}

    def add_answer(self, message: Json) -> None:
        content = message["content"]
        parts = self._own_parts(message.get("origin"), content) or self._canonical(content)
        self.contents.append({"role": "model", "parts": parts})

    def _own_parts(self, own: Any, content: list[Json]) -> list[Json]:
        """Return the service's own parts, or none if the service would refuse them."""
        parts = [part for part in list_of(own) if type(part) is dict]
        uses = [block for block in content if block["type"] == "tool_use"]
        if sum("functionCall" in part for part in parts) != len(uses):
            return []
        left, kept = iter(uses), list[Json]()
        for part in parts:
            if "functionCall" in part:
                use, call = next(left), object_of(part["functionCall"])
                if call_id := text_of(call.get("id")):
                    call = call | {"id": self._sent_id.keep(use["id"], call_id)}
                self._calls[use["id"]] = {k: v for k, v in call.items() if k in ("id", "name")}
                part = part | {"functionCall": call}
            kept.append(part)
        return kept

    def _canonical(self, content: list[Json]) -> list[Json]:
        """Return the parts for a response from another service: first its text, then its calls."""
        parts: list[Json] = [
            {"text": as_text(block)} for block in content if block["type"] != "tool_use"
        ]
        is_first = True
        for block in content:
            if block["type"] != "tool_use":
                continue
            call = {
                "id": self._sent_id(block["id"]),
                "name": shorten_for_gemini(block["name"]),
            }
            self._calls[block["id"]] = call
            part: Json = {"functionCall": call | {"args": block["input"]}}
            if is_first and self._is_signed:
                part["thoughtSignature"] = FOREIGN_SIGNATURE
            parts.append(part)
            is_first = False
        return parts

    def add_user(self, content: list[Json]) -> None:
        """Add the results separately from other content; each call must have exactly one result."""
        results: list[Json] = []
        parts: list[Json] = []
        for block in content:
            if block["type"] == "tool_result":
                results.append(self._result(block, parts))
            else:
                parts.append(_part(block))
        for group in filter(None, (results, parts)):
            self.contents.append({"role": "user", "parts": group})

    def _result(self, block: Json, parts: list[Json]) -> Json:
        """Return the part for a result; add media that the part cannot contain to `parts`."""
        content = block["content"]
        inside = [{"type": "text", "text": content}] if isinstance(content, str) else content
        inner_parts = [_part(inner) for inner in inside]
        media = [part for part in inner_parts if "inlineData" in part]
        words = "\n".join(part["text"] for part in inner_parts if "text" in part)
        member = "error" if block.get("is_error") is True else "output"
        result = self._calls[block["tool_use_id"]] | {"response": {member: words}}
        if media and self._holds_media:
            result["parts"] = media
        elif media:
            words = f"Media from the result of {result['name']}:"
            parts += [{"text": words}, *media]
        return {"functionResponse": result}


def _part(block: Json) -> Json:
    if block["type"] in shapes.MEDIA:
        source = block["source"]
        if source["type"] == "text":
            return {"text": source["data"]}
        media_type = source["media_type"]
        if media_type in MEDIA_TYPES:
            return {"inlineData": {"mimeType": media_type, "data": source["data"]}}
        return {"text": f"[{media_type} is a format that this service does not accept]"}
    return {"text": as_text(block)}
