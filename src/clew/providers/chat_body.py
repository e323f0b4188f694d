"""Build the body of a chat completions request in the form that each service accepts.

The body expresses thinking only as effort, or as a switch where a service has one. Must never
mutate its arguments.
"""

from clew.core.catalog.models import Model
from clew.core.catalog.quirks import Quirks
from clew.core.json_object import Json
from clew.core.normalize.dialects import DEFAULT_QUIRKS, to_openai
from clew.core.normalize.identifiers import shorten_name
from clew.core.normalize.target import family_of
from clew.providers.base import ModelRequest, Off
from clew.providers.request_body import Built

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
MARK = {"type": "ephemeral"}


def build_chat(request: ModelRequest, model: Model, quirks: Quirks = DEFAULT_QUIRKS) -> Built:
    """Return the body of a chat completions request."""
    adjusted: list[str] = []
    body: Json = {"model": model.id}
    messages = [
        message | {"content": blocks_of(message["content"])} for message in request.messages
    ]
    body |= to_openai(messages, system=request.system, tools=request.tools, quirks=quirks)
    if quirks.cache_marks and request.cache is not None and family_of(model.id) == "claude":
        body["messages"] = _marked(body["messages"])
    most = request.max_tokens or model.default_output
    if most is not None:
        body[quirks.limit] = min(most, model.max_output or most)
    if request.task_budget_tokens is not None:
        adjusted.append(
            "chat completions do not support task budgets, so the task budget was left out"
        )
    body |= _effort(request, quirks, adjusted)
    if request.tool_choice is not None and request.tools:
        body["tool_choice"] = _choice(request.tool_choice, quirks)
    if request.stop_sequences:
        body["stop"] = request.stop_sequences[: quirks.max_stops]
    if request.output_format is not None:
        body |= _format(request.output_format, quirks, adjusted)
    if quirks.cache_key and request.session_id is not None:
        body["prompt_cache_key"] = request.session_id
    if request.stream:
        body["stream"] = True
        if quirks.usage_option:
            body["stream_options"] = {"include_usage": True}
    return Built(body=body | (request.extra or {}), betas=(), adjusted=tuple(adjusted))


def _effort(request: ModelRequest, quirks: Quirks, adjusted: list[str]) -> Json:
    """Return the fields for effort and thinking, in the form that the service accepts.

    Note in `adjusted` what was left out.
    """
    is_off = isinstance(request.thinking, Off)
    is_asked = request.thinking is not None or request.effort is not None
    match quirks.effort:
        case "reasoning":
            if is_off:
                return {"reasoning": {"enabled": False}}
            if request.effort is not None:
                return {"reasoning": {"effort": _word(request.effort, quirks)}}
            return {"reasoning": {"enabled": True}} if is_asked else {}
        case "thinking":
            return {"thinking": {"type": "disabled" if is_off else "enabled"}} if is_asked else {}
        case "enable_thinking":
            return {"enable_thinking": not is_off} if is_asked else {}
        case "chat_template_kwargs":
            return {"chat_template_kwargs": {"enable_thinking": not is_off}} if is_asked else {}
        case "none":
            if is_asked:
                adjusted.append(
                    "this service supports neither effort nor thinking modes, so they were left out"
                )
            return {}
    if request.thinking is not None:
        adjusted.append("chat completions support only effort; the thinking mode was left out")
    return {} if request.effort is None else {"reasoning_effort": _word(request.effort, quirks)}


def _word(effort: str, quirks: Quirks) -> str:
    return quirks.effort_words.get(effort, effort)


def _format(output_format: Json, quirks: Quirks, adjusted: list[str]) -> Json:
    if not quirks.schema:
        adjusted.append(
            "this service does not support schemas, so the response is only required to be JSON"
        )
        return {"response_format": {"type": "json_object"}}
    schema = {"name": "answer", "schema": output_format.get("schema", {})}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _marked(messages: list[Json]) -> list[Json]:
    """For Claude, put cache marks on the instructions and on the last message with text."""
    marked = list(messages)
    last = next((i for i in range(len(marked) - 1, 0, -1) if marked[i].get("content")), 0)
    for place in dict.fromkeys((0, last)):
        content = marked[place].get("content")
        parts = blocks_of(content) if content else []
        if parts and parts[-1].get("type") == "text":
            content = [*parts[:-1], parts[-1] | {"cache_control": MARK}]
            marked[place] = marked[place] | {"content": content}
    return marked


def blocks_of(content: str | list[Json]) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _choice(choice: Json, quirks: Quirks) -> Json | str:
    kind = choice.get("type")
    if kind == "tool":
        name = shorten_name(str(choice.get("name", "")), quirks.max_tool_name)
        return {"type": "function", "function": {"name": name}}
    return CHOICES.get(str(kind), "auto")
