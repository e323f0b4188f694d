"""Chat completions over HTTP: another wire format with the same attempts, failures and limits.

OpenAI's API uses this protocol, and so do most gateways and local servers. Must never send a key
that was meant for the Messages API (`endpoint` ensures that).
"""

from clew.core.json_object import Json
from clew.core.stream.chat import ChatDecoder, events_of_completion
from clew.core.stream.events import StreamFault
from clew.providers.anthropic import AnthropicProvider, MessagesAttempt
from clew.providers.base import Description, Failure, ModelRequest
from clew.providers.request_body import build_chat
from clew.providers.writing import encode_request

COMPLETIONS = "/v1/chat/completions"


class ChatProvider(AnthropicProvider):
    """One endpoint of the chat completions API."""

    def stream(self, request: ModelRequest) -> MessagesAttempt:
        built = build_chat(request, self.catalog.entry(request.model))
        return MessagesAttempt(self, self._http(COMPLETIONS, built, request, stream=request.stream))

    def adjustments(self, request: ModelRequest) -> tuple[str, ...]:
        return build_chat(request, self.catalog.entry(request.model)).adjusted

    async def count_tokens(self, request: ModelRequest) -> int | Failure:
        del request
        return Failure(
            kind="configuration", message="chat completions do not support token counting"
        )

    def describe(self) -> Description:
        return Description(
            name="chat completions",
            endpoint=self.endpoint.shown,
            credentials=self.endpoint.credentials,
        )

    def written(self, body: Json, agent_id: str | None) -> bytes:
        del agent_id  # Every request converts all messages again, so no encoding can be reused.
        return encode_request(body)

    def decoder(self) -> ChatDecoder:
        return ChatDecoder(max_event_bytes=self.max_answer_bytes)

    def events_of_body(self, body: bytes) -> list[Json | StreamFault]:
        return events_of_completion(body)
