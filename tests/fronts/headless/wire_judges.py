"""The official packages as judges of the bodies that clew sends."""

import json
from collections.abc import Iterator
from typing import Any

from google.genai import types as google
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

Json = dict[str, Any]
_RESPONSES = TypeAdapter[Any](ResponseCreateParamsStreaming)
_CHAT = TypeAdapter[Any](CompletionCreateParamsStreaming)


def dropped(sent: Any, judged: Any, where: str = "") -> Iterator[str]:
    """The members that the judge's types don't know: they drop them without a word."""
    if isinstance(sent, dict) and isinstance(judged, dict):
        for name in sent:
            if name not in judged:
                yield f"{where}.{name}"
            else:
                yield from dropped(sent[name], judged[name], f"{where}.{name}")
    elif isinstance(sent, list) and isinstance(judged, list):
        for place, (one, other) in enumerate(zip(sent, judged, strict=True)):
            yield from dropped(one, other, f"{where}[{place}]")


def judge_responses(body: Json) -> list[str]:
    judged = walked(_RESPONSES.validate_python(body))
    assert ResponseCreateParams
    return list(dropped(body, judged))


def judge_chat(body: Json) -> list[str]:
    judged = walked(_CHAT.validate_python(body))
    # Google's member at a call, which its service asks for.
    return [name for name in dropped(body, judged) if not name.endswith(".extra_content")]


def judge_gemini(body: Json) -> list[str]:
    """Google's types forbid unknown members; every part has one kind and belongs in its place."""
    body = dict(body)
    contents = [google.Content.model_validate(one) for one in body.pop("contents")]
    google.Content.model_validate(body.pop("systemInstruction"))
    for tool in body.pop("tools"):
        google.Tool.model_validate(tool)
    if "toolConfig" in body:
        google.ToolConfig.model_validate(body.pop("toolConfig"))
    google.GenerateContentConfig.model_validate(body.pop("generationConfig"))
    faults = list(body)
    for content, after in zip(contents, [*contents[1:], google.Content()], strict=True):
        parts = content.parts or []
        calls = [part.function_call for part in parts if part.function_call]
        results = [p.function_response for p in after.parts or () if p.function_response]
        asked = [(call.id, call.name) for call in calls]
        if content.role == "model" and asked != [(one.id, one.name) for one in results]:
            faults.append(f"calls {asked} without their results")
        signed = [part.thought_signature for part in parts if part.function_call]
        if signed and not signed[0]:
            faults.append("the first call has no thought signature")
    return faults


def walked(value: Any) -> Any:
    """The value with every lazy iterable made a list, which judges the parts too."""
    if isinstance(value, dict):
        return {name: walked(inner) for name, inner in value.items()}
    if isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    return [walked(inner) for inner in value]


JUDGES = {"responses": judge_responses, "chat": judge_chat, "gemini": judge_gemini}


def own_parts(wire: str, body: Json) -> list[Any]:
    """What the service itself wrote, as it stands in a body."""
    match wire:
        case "responses":
            return [item for item in body["input"] if "id" in item]
        case "chat":
            return [m for m in body["messages"] if "extra_content" in json.dumps(m)]
        case "gemini":
            return [c for c in body["contents"] if "thoughtSignature" in json.dumps(c)]
        case _:
            return [m for m in body["messages"] if "signature" in json.dumps(m)]


def history(wire: str, body: Json) -> list[Any]:
    """The growing part of a body."""
    return list(body[{"responses": "input", "gemini": "contents"}.get(wire, "messages")])
