"""Replace a key from `apiKeyHelper` when the service rejects it.

All waiting requests share one run of the helper. Must never put a key into an error.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from clew.providers.anthropic import AnthropicProvider, CredentialError
from clew.providers.endpoint import request_headers, with_header
from clew.system.transport.seam import HttpRequest


class RenewedKey:
    """The current key. `fetch` returns a new one, or None if it fails."""

    def __init__(self, current: str, fetch: Callable[[], Awaitable[str | None]]) -> None:
        self._current = current
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._fetches = 0

    async def get(self, rejected: Callable[[str], bool]) -> str:
        """Return the current key, or a new one if the service rejected it.

        Callers that wait for the same fetch share its key or its failure.
        """
        fetches_before = self._fetches
        async with self._lock:
            if not rejected(self._current):
                return self._current
            if self._fetches == fetches_before:
                self._fetches += 1
                self._current = (await self._fetch() or "").strip() or self._current
            if rejected(self._current):
                raise CredentialError(
                    "the service rejected the API key, and apiKeyHelper printed no new one; run its"
                    " command in a shell to find out why"
                )
            return self._current


def renew_key(provider: AnthropicProvider, fetch: Callable[[], Awaitable[str | None]]) -> None:
    """Let the provider replace its key when the service rejects it."""
    key = RenewedKey(provider.endpoint.api_key or "", fetch)

    async def authorize(request: HttpRequest, rejected: HttpRequest | None) -> HttpRequest:
        def is_rejected(secret: str) -> bool:
            return rejected is not None and _with_key(provider, rejected, secret) == rejected

        secret = await key.get(is_rejected)
        provider.endpoint = replace(provider.endpoint, api_key=secret)
        return _with_key(provider, request, secret)

    provider.authorize, provider.renews = authorize, True


def _with_key(provider: AnthropicProvider, request: HttpRequest, secret: str) -> HttpRequest:
    """Return the request with this key in the endpoint's header for it."""
    bare = replace(provider.endpoint, api_key=None)
    without = dict(request_headers(bare, betas=(), stream=False))
    endpoint = replace(provider.endpoint, api_key=secret)
    for name, value in request_headers(endpoint, betas=(), stream=False):
        if without.get(name) != value:
            request = with_header(request, name.lower(), value)
    return request
