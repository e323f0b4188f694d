"""Convert message histories from and to pydantic-ai.

The histories are used with `Agent.run(message_history=...)` and `all_messages()`.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from clew.adapters.api_messages import blocks_of, make_use, make_valid, refuse
from clew.core.json_object import Json
from clew.core.normalize.clean import as_text
from clew.core.normalize.dialects import for_chat
from clew.core.normalize.target import Target


def read(messages: Iterable[ModelMessage]) -> list[Json]:
    """Return a history as Messages API messages, with usage but no system prompts."""
    return [converted for message in messages if (converted := _convert(message))["content"]]


def write(entries: Iterable[Json]) -> list[ModelMessage]:
    """Return entries or Messages API messages as a history that a run can continue."""
    names: dict[str, str] = {}
    history: list[ModelMessage] = []
    for message in make_valid(entries, for_chat(Target())):
        if message["role"] == "user":
            history.append(ModelRequest(parts=list(_request_parts(message["content"], names))))
            continue
        parts = list(_response_parts(message["content"]))
        names |= {p.tool_call_id: p.tool_name for p in parts if isinstance(p, ToolCallPart)}
        history.append(ModelResponse(parts=parts))
    return history


def _convert(message: ModelMessage) -> Json:
    if isinstance(message, ModelRequest):
        blocks = [block for part in message.parts for block in _request_blocks(part)]
        return {"role": "user", "content": blocks}
    return {
        "role": "assistant",
        "content": [block for part in message.parts for block in _response_blocks(part)],
        "model": message.model_name or "",
        "usage": _usage(message.usage),
    }


def _usage(usage: RequestUsage) -> Json:
    cached = {
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }
    own = max(0, usage.input_tokens - sum(cached.values()))
    return {"input_tokens": own, "output_tokens": usage.output_tokens, **cached}


def _request_blocks(part: ModelRequestPart) -> Iterator[Json]:
    match part:
        case SystemPromptPart():
            return
        case UserPromptPart():
            content = [part.content] if isinstance(part.content, str) else part.content
            yield from map(_user_block, content)
        case ToolReturnPart():
            text = {"type": "text", "text": part.model_response_str()}
            is_error = part.outcome != "success"
            result = {"tool_use_id": part.tool_call_id, "content": [text], "is_error": is_error}
            yield {"type": "tool_result", **result}
        case RetryPromptPart(tool_name=None):
            yield {"type": "text", "text": part.model_response()}
        case RetryPromptPart():
            text = {"type": "text", "text": part.model_response()}
            result = {"tool_use_id": part.tool_call_id, "content": [text], "is_error": True}
            yield {"type": "tool_result", **result}
        case _:
            raise refuse(f"a part of type {type(part).__name__}")


def _user_block(content: UserContent) -> Json:
    match content:
        case str():
            return {"type": "text", "text": content}
        case ImageUrl():
            return {"type": "image", "source": {"type": "url", "url": content.url}}
        case BinaryContent() if content.is_image:
            data = b64encode(content.data).decode()
            source = {"type": "base64", "media_type": content.media_type, "data": data}
            return {"type": "image", "source": source}
        case _:
            raise refuse(f"content of type {type(content).__name__}")


def _response_blocks(part: ModelResponsePart) -> Iterator[Json]:
    match part:
        case TextPart():
            if part.content:
                yield {"type": "text", "text": part.content}
        case ThinkingPart():  # Signed for the service that created it.
            return
        case ToolCallPart():
            yield make_use(part.tool_call_id, part.tool_name, part.args or {})
        case _:
            raise refuse(f"a part of type {type(part).__name__}")


def _request_parts(content: Sequence[Json], names: dict[str, str]) -> Iterator[ModelRequestPart]:
    contents: list[UserContent] = []
    for block in content:
        if block["type"] == "tool_result":
            text = "\n".join(as_text(item) for item in blocks_of(block.get("content")))
            call = block["tool_use_id"]
            outcome = "failed" if block.get("is_error") else "success"
            name = names.get(call, "unknown")
            yield ToolReturnPart(name, text, tool_call_id=call, outcome=outcome)
        elif block["type"] == "image" and block["source"]["type"] == "url":
            contents.append(ImageUrl(block["source"]["url"]))
        elif block["type"] == "image":
            data = f"data:{block['source']['media_type']};base64,{block['source']['data']}"
            contents.append(BinaryContent.from_data_uri(data))
        else:
            contents.append(as_text(block))
    if contents:
        yield UserPromptPart(contents)


def _response_parts(content: Sequence[Json]) -> Iterator[ModelResponsePart]:
    for block in content:
        if block["type"] == "tool_use":
            yield ToolCallPart(block["name"], block["input"], tool_call_id=block["id"])
        else:
            yield TextPart(as_text(block))
