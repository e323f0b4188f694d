"""The wires other than the Messages API: the provider and the request rules of each.

Only the modules of the wire in use are imported.
"""

from msgspec.structs import replace

from clew.core.catalog.models import Model
from clew.core.normalize.target import NO_FAMILY, Reader, Target, family_of
from clew.providers.anthropic import AnthropicProvider
from clew.providers.endpoint import Endpoint
from clew.providers.foreign import name_service


def find_provider(endpoint: Endpoint) -> type[AnthropicProvider]:
    """Return the provider class for an endpoint's wire."""
    match endpoint.dialect:
        case "messages":
            from clew.providers.platform import PlatformProvider

            return PlatformProvider
        case "converse":
            from clew.providers.converse import ConverseProvider

            return ConverseProvider
        case "responses":
            from clew.providers.responses import ResponsesProvider

            return ResponsesProvider
        case "gemini":
            from clew.providers.gemini import GeminiProvider

            return GeminiProvider
        case _:
            from clew.providers.chat import ChatProvider

            return ChatProvider


def narrow_target(target: Target, model: Model, endpoint: Endpoint) -> Target:
    """Return `target`, limited to what the model accepts on the endpoint's wire."""
    reader = Reader(
        service=name_service(endpoint), wire=endpoint.dialect, family=family_of(model.id)
    )
    return replace(_narrowed(target, endpoint), reader=reader)


def _narrowed(target: Target, endpoint: Endpoint) -> Target:
    match endpoint.dialect:
        case "responses":
            from clew.core.normalize.responses import for_responses

            return for_responses(target)
        case "gemini":
            from clew.core.normalize.gemini import for_gemini

            return for_gemini(target)
        case "converse":
            from clew.core.normalize.dialects import for_converse

            # Only Claude's thinking is signed, so only its thinking can be sent back.
            family = target.family if target.family == "claude" else NO_FAMILY
            return replace(for_converse(target), family=family)
        case _:
            from clew.core.normalize.dialects import for_chat
            from clew.providers.chat import quirks_at

            return for_chat(target, quirks_at(endpoint))
