"""From a `ModelRequest` to the body that chat completions take, as OpenAI's service and many others offer them."""

from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.normalize.dialects import to_openai
from clew.providers.base import ModelRequest
from clew.providers.request_body import Built

EFFORTS = {"max": "xhigh"}
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def build_chat(request: ModelRequest, model: Model) -> Built:
    """Thinking has no place there but as effort, and there are no marks for a cache."""
    adjusted: list[str] = []
    body: Json = {"model": model.id}
    messages = [
        message | {"content": blocks_of(message["content"])} for message in request.messages
    ]
    body |= to_openai(messages, system=request.system, tools=request.tools)
    most = request.max_tokens or model.default_output
    if most is not None:
        body["max_completion_tokens"] = min(most, model.max_output or most)
    if request.thinking is not None:
        adjusted.append("chat completions take an effort; how to think was left out")
    if request.task_budget_tokens is not None:
        adjusted.append("chat completions know no budget of a task; it was left out")
    if request.effort is not None:
        body["reasoning_effort"] = EFFORTS.get(request.effort, request.effort)
    if request.tool_choice is not None and request.tools:
        body["tool_choice"] = _choice(request.tool_choice)
    if request.stop_sequences:
        body["stop"] = request.stop_sequences
    if request.output_format is not None:
        schema = {"name": "answer", "schema": request.output_format.get("schema", {})}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Built(body=body | (request.extra or {}), betas=(), adjusted=tuple(adjusted))


def blocks_of(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _choice(choice: Json) -> Json | str:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.get("name", "")}}
    return CHOICES.get(str(kind), "auto")
