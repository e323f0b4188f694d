"""Bedrock's Converse operation over HTTP, for all models including Claude.

Claude's signed thinking is sent back in canonical form; other models' thinking is not sent back.

Decision: docs/decisions/331-wires.md
"""

from clew.core.json_object import Json, text_of
from clew.core.normalize.dialects import MAX_NAME, to_bedrock
from clew.core.normalize.identifiers import shorten_name, shortened_names
from clew.core.normalize.target import family_of
from clew.core.stream.converse import ConverseDecoder, events_of_converse
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import Stamp
from clew.providers.base import ModelRequest
from clew.providers.chat_body import blocks_of
from clew.providers.foreign import ForeignProvider
from clew.providers.request_body import Built

ACTIONS = {"ask": "converse-stream", "whole": "converse"}
CACHE_POINT = {"cachePoint": {"type": "default"}}


class ConverseProvider(ForeignProvider):
    """One endpoint of Bedrock's runtime."""

    wire_name = "converse"
    title = "Converse"

    def build(self, request: ModelRequest) -> Built:
        model = self.catalog.entry(request.model)
        adjusted: list[str] = []
        messages = [m | {"content": blocks_of(m["content"])} for m in request.messages]
        body = to_bedrock(messages, system=request.system, tools=request.tools)
        if family_of(model.id) == "claude" and request.cache is not None:
            body = _marked(body)
        config: Json = {}
        most = request.max_tokens or model.default_output
        if most is not None:
            config["maxTokens"] = min(most, model.max_output or most)
        if request.stop_sequences:
            config["stopSequences"] = request.stop_sequences
        if config:
            body["inferenceConfig"] = config
        if request.tool_choice is not None and request.tools:
            body["toolConfig"]["toolChoice"] = _choice(request.tool_choice)
        if request.effort is not None and model.effort:
            body["outputConfig"] = {"effort": request.effort}
        if request.task_budget_tokens is not None:
            adjusted.append(
                "Converse does not support task budgets, so the task budget was left out"
            )
        if request.output_format is not None:
            adjusted.append(
                "Converse does not support response schemas, so the schema was left out"
            )
        return Built(body=body | (request.extra or {}), betas=(), adjusted=tuple(adjusted))

    def names(self, request: ModelRequest) -> dict[str, str]:
        return shortened_names((str(tool["name"]) for tool in request.tools or ()), MAX_NAME)

    def path(self, kind: str, model: str) -> str:
        del model  # The endpoint's paths contain the model.
        return f"/model/unknown/{ACTIONS[kind]}"

    def new_decoder(self, stamp: Stamp) -> ConverseDecoder:
        return ConverseDecoder(stamp, max_event_bytes=self.max_answer_bytes)

    def decode_body(self, body: bytes, stamp: Stamp) -> list[Json | StreamFault]:
        return events_of_converse(body, stamp)


def _marked(body: Json) -> Json:
    """Return the body with cache points."""
    marked = dict(body)
    if body.get("system"):
        marked["system"] = [*body["system"], CACHE_POINT]
    if body["messages"]:
        *before, last = body["messages"]
        marked["messages"] = [*before, last | {"content": [*last["content"], CACHE_POINT]}]
    return marked


def _choice(choice: Json) -> Json:
    match choice.get("type"):
        case "tool":
            return {"tool": {"name": shorten_name(text_of(choice.get("name")), MAX_NAME)}}
        case "any":
            return {"any": {}}
        case _:
            return {"auto": {}}
