"""OpenAI's Responses API over HTTP, without any state at the service.

Nothing is stored; reasoning is sent back in encrypted form within the conversation. Must never
refer to an earlier response by its ID.

Decision: docs/decisions/331-wires.md
"""

from clew.core.catalog.models import EffortLevel, Model
from clew.core.json_object import Json, text_of
from clew.core.normalize.identifiers import shorten_name, shortened_names
from clew.core.normalize.responses import MAX_NAME, to_responses
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import Stamp
from clew.core.stream.responses import ResponsesDecoder, events_of_response
from clew.providers.base import Effort, Failure, ModelRequest, Off
from clew.providers.chat_body import CHOICES, blocks_of
from clew.providers.failure_kinds import find_effective_status, simple
from clew.providers.foreign import ForeignProvider
from clew.providers.preferences import EFFORTS
from clew.providers.request_body import Built

# The parts of a request that determine its number of input tokens.
COUNTED = ("model", "instructions", "input", "tools", "tool_choice", "reasoning", "text")
UNREADABLE = "invalidencryptedcontent"


class ResponsesProvider(ForeignProvider):
    """One endpoint of the Responses API."""

    wire_name = "responses"
    title = "responses"
    count_member = "input_tokens"

    # Reasoning that the service could not read, whether it accepts items with IDs, and whether the
    # model reasons at all. All are learned from refusals.
    refused: frozenset[str] = frozenset()
    with_ids = True
    with_reasoning = True

    def build(self, request: ModelRequest) -> Built:
        model = self.catalog.entry(request.model)
        adjusted: list[str] = []
        body: Json = {"model": model.id}
        messages = [m | {"content": blocks_of(m["content"])} for m in request.messages]
        body |= to_responses(
            messages,
            system=request.system,
            tools=request.tools,
            refused=self.refused,
            with_ids=self.with_ids,
        )
        body["store"] = False
        if self.with_reasoning:
            body["include"] = ["reasoning.encrypted_content"]
        most = request.max_tokens or model.default_output
        if most is not None:
            # The service rejects lower limits.
            body["max_output_tokens"] = max(16, min(most, model.max_output or most))
        if self.with_reasoning and (reasoning := _reasoning(request, model)):
            body["reasoning"] = reasoning
        if request.task_budget_tokens is not None:
            adjusted.append(
                "the Responses API does not support task budgets, so the task budget was left out"
            )
        if request.stop_sequences:
            adjusted.append(
                "the Responses API does not support stop sequences, so they were left out"
            )
        if request.tool_choice is not None and request.tools:
            body["tool_choice"] = _choice(request.tool_choice)
        if request.output_format is not None:
            schema = request.output_format.get("schema", {})
            body["text"] = {
                "format": {
                    "type": "json_schema", "name": "answer", "schema": schema, "strict": False,
                }
            }  # fmt: skip
        if request.session_id is not None and request.cache is not None:
            body["prompt_cache_key"] = request.session_id
        if request.stream:
            body["stream"] = True
        return Built(body=body | (request.extra or {}), betas=(), adjusted=tuple(adjusted))

    def build_count(self, request: ModelRequest) -> Json | None:
        body = self.build(request).body
        return {name: body[name] for name in COUNTED if name in body}

    def names(self, request: ModelRequest) -> dict[str, str]:
        return shortened_names((str(tool["name"]) for tool in request.tools or ()), MAX_NAME)

    def path(self, kind: str, model: str) -> str:
        del model
        return "/v1/responses/input_tokens" if kind == "count" else "/v1/responses"

    def new_decoder(self, stamp: Stamp) -> ResponsesDecoder:
        return ResponsesDecoder(stamp, max_event_bytes=self.max_answer_bytes)

    def decode_body(self, body: bytes, stamp: Stamp) -> list[Json | StreamFault]:
        return events_of_response(body, stamp)

    def amend(self, request: ModelRequest, refused: Failure) -> ModelRequest | None:
        """Note which parts the service rejected; return the request to send again without them.

        The parts are reasoning that it does not support or can't read, and IDs that it can't find.
        Return None if the failure has another cause, or if these parts were already left out.
        """
        status, words = find_effective_status(refused), refused.message.lower()
        names = (simple(refused.error_code), simple(refused.error_type))
        is_unsupported = "not supported" in words or "unsupported" in words or "verified" in words
        about_reasoning = "reasoning" in words or "encrypted content" in words
        if status == 400 and is_unsupported and about_reasoning and self.with_reasoning:
            self.with_reasoning = False
            return request
        if status == 400 and (UNREADABLE in names or "encrypted content" in words):
            encrypted = _encrypted_in(request)
            if encrypted <= self.refused:
                return None
            self.refused |= encrypted
            return request
        is_lost = "not persisted" in words or "item with id" in words or "item_id" in words
        if status in (400, 404) and is_lost and self.with_ids:
            self.with_ids = False
            return request
        return None


def _encrypted_in(request: ModelRequest) -> frozenset[str]:
    return frozenset(
        text_of(item.get("encrypted_content"))
        for message in request.messages
        for item in message.get("origin", ())
        if type(item) is dict and item.get("type") == "reasoning"
    )


def _reasoning(request: ModelRequest, model: Model) -> Json:
    """Return the effort, and the request for summaries of the reasoning."""
    if isinstance(request.thinking, Off):
        return {"effort": "none"}
    if model.thinking == ():
        return {}
    effort: Json = {}
    if request.effort is not None:
        effort = {"effort": lower_effort(request.effort, model.effort)}
    return effort | {"summary": "auto"}


def lower_effort(wanted: Effort, known: tuple[EffortLevel, ...] | None) -> Effort:
    """Return the effort, or the highest level below it that the model is known to support."""
    if not known or wanted in known:
        return wanted
    lower = [level for level in EFFORTS[: EFFORTS.index(wanted)] if level in known]
    return lower[-1] if lower else known[0]


def _choice(choice: Json) -> Json | str:
    kind = choice.get("type")
    if kind == "tool":
        return {"type": "function", "name": shorten_name(text_of(choice.get("name")), MAX_NAME)}
    return CHOICES.get(str(kind), "auto")
