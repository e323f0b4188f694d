"""Gemini's generateContent over HTTP.

Thought signatures are sent back within the conversation. Must never use the service's named caches.

Decision: docs/decisions/331-wires.md
"""

from clew.core.catalog.models import Model
from clew.core.json_object import Json, text_of
from clew.core.normalize.gemini import shorten_for_gemini, to_gemini, to_schema
from clew.core.regex import lazy_pattern
from clew.core.stream.events import StreamFault
from clew.core.stream.gemini import GeminiDecoder, events_of_gemini
from clew.core.stream.message_writer import Stamp
from clew.providers.base import Failure, ModelRequest, Off
from clew.providers.chat_body import blocks_of
from clew.providers.failure_kinds import find_effective_status
from clew.providers.foreign import ForeignProvider
from clew.providers.request_body import Built

# The parts of a request that determine its number of input tokens.
COUNTED = ("contents", "systemInstruction", "tools")
CHOICES = {"auto": "AUTO", "any": "ANY", "none": "NONE"}
LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
# Thinking budgets for models before Gemini 3, which do not support levels.
BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
LEAST_BUDGET = 128
MAX_STOPS = 5
VERSION = lazy_pattern(r"gemini-(\d{1,3})")
ACTIONS = {
    "ask": "streamGenerateContent?alt=sse",
    "whole": "generateContent",
    "count": "countTokens",
}


class GeminiProvider(ForeignProvider):
    """One endpoint of generateContent."""

    wire_name = "gemini"
    title = "Gemini"
    count_member = "totalTokens"

    # Whether the model supports thinking. Learned from a refusal.
    with_thinking = True

    def build(self, request: ModelRequest) -> Built:
        model = self.catalog.entry(request.model)
        adjusted: list[str] = []
        messages = [m | {"content": blocks_of(m["content"])} for m in request.messages]
        is_new = is_third_generation(model.id)
        body = to_gemini(
            messages,
            system=request.system,
            tools=request.tools,
            is_signed=is_new,
            holds_media=is_new,
        )
        if request.tool_choice is not None and request.tools:
            body["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
        settings: Json = {}
        most = request.max_tokens or model.default_output
        if most is not None:
            settings["maxOutputTokens"] = min(most, model.max_output or most)
        if request.stop_sequences:
            settings["stopSequences"] = request.stop_sequences[:MAX_STOPS]
        if self.with_thinking and model.thinking != ():
            settings["thinkingConfig"] = _thinking(request, model)
        if request.task_budget_tokens is not None:
            adjusted.append("Gemini does not support task budgets, so the task budget was left out")
        if request.output_format is not None:
            settings["responseMimeType"] = "application/json"
            settings["responseJsonSchema"] = to_schema(request.output_format.get("schema", {}))
        if settings:
            body["generationConfig"] = settings
        return Built(body=body | (request.extra or {}), betas=(), adjusted=tuple(adjusted))

    def build_count(self, request: ModelRequest) -> Json | None:
        body = self.build(request).body
        name = f"models/{self.catalog.entry(request.model).id}"
        counted = {member: body[member] for member in COUNTED if member in body}
        return {"generateContentRequest": {"model": name} | counted}

    def names(self, request: ModelRequest) -> dict[str, str]:
        names = [str(tool["name"]) for tool in request.tools or ()]
        return {short: name for name in names if (short := shorten_for_gemini(name)) != name}

    def path(self, kind: str, model: str) -> str:
        return f"/v1beta/models/{model}:{ACTIONS[kind]}"

    def new_decoder(self, stamp: Stamp) -> GeminiDecoder:
        return GeminiDecoder(stamp, max_event_bytes=self.max_answer_bytes)

    def decode_body(self, body: bytes, stamp: Stamp) -> list[Json | StreamFault]:
        return events_of_gemini(body, stamp)

    def amend(self, request: ModelRequest, refused: Failure) -> ModelRequest | None:
        """Stop asking for thinking if the model rejects it; return the request to send again.

        Return None for any other rejection.
        """
        is_about_thinking = "thinking" in refused.message.lower()
        if find_effective_status(refused) == 400 and is_about_thinking and self.with_thinking:
            self.with_thinking = False
            return request
        return None


def is_third_generation(model_id: str) -> bool:
    """Return whether a model is Gemini 3 or later.

    An alias without a version is assumed to be the newest model.
    """
    if "gemini" not in model_id:
        return False
    match = VERSION.search(model_id)
    return match is None or int(match[1]) >= 3


def _thinking(request: ModelRequest, model: Model) -> Json:
    """Return the thinking level or, for older models, the thinking budget."""
    is_off = isinstance(request.thinking, Off)
    effort = "low" if is_off else request.effort
    if is_third_generation(model.id):
        level = {} if effort is None else {"thinkingLevel": LEVELS.get(effort, "HIGH")}
        return {"includeThoughts": not is_off} | level
    if is_off:
        return {"thinkingBudget": LEAST_BUDGET if "pro" in model.id else 0}
    budget = {} if effort is None else {"thinkingBudget": BUDGETS.get(effort, BUDGETS["high"])}
    return {"includeThoughts": True} | budget


def _choice(choice: Json) -> Json:
    kind = choice.get("type")
    if kind == "tool":
        name = shorten_for_gemini(text_of(choice.get("name")))
        return {"mode": "ANY", "allowedFunctionNames": [name]}
    return {"mode": CHOICES.get(str(kind), "AUTO")}
