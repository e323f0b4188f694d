"""Chat completions over HTTP: another wire format with the same attempts, failures and limits.

OpenAI's API uses this protocol, and so do most gateways and local servers; `core.catalog.quirks`
lists how they differ. Must never send a key that was meant for the Messages API (`endpoint` ensures
that).
"""

from clew.core.catalog.quirks import Quirks, find_quirks
from clew.core.json_object import Json
from clew.core.normalize.identifiers import shortened_names
from clew.core.stream.chat import ChatDecoder, events_of_completion
from clew.core.stream.events import StreamFault
from clew.core.stream.message_writer import Stamp
from clew.providers.base import ModelRequest
from clew.providers.chat_body import build_chat
from clew.providers.endpoint import Endpoint
from clew.providers.foreign import ForeignProvider
from clew.providers.request_body import Built

COMPLETIONS = "/v1/chat/completions"


def quirks_at(endpoint: Endpoint) -> Quirks:
    """Return how the service at an endpoint differs from OpenAI's."""
    return find_quirks(endpoint.kind or endpoint.service, endpoint.shown, endpoint.quirks)


class ChatProvider(ForeignProvider):
    """One endpoint of the chat completions API."""

    wire_name = "chat"
    title = "chat completions"

    @property
    def quirks(self) -> Quirks:
        return quirks_at(self.endpoint)

    def build(self, request: ModelRequest) -> Built:
        return build_chat(request, self.catalog.entry(request.model), self.quirks)

    def names(self, request: ModelRequest) -> dict[str, str]:
        names = (str(tool["name"]) for tool in request.tools or ())
        return shortened_names(names, self.quirks.max_tool_name)

    def path(self, kind: str, model: str) -> str:
        del kind, model
        return COMPLETIONS

    def new_decoder(self, stamp: Stamp) -> ChatDecoder:
        return ChatDecoder(stamp, max_event_bytes=self.max_answer_bytes)

    def decode_body(self, body: bytes, stamp: Stamp) -> list[Json | StreamFault]:
        return events_of_completion(body, stamp)
