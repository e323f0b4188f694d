"""Authenticate requests to clouds: sign them for AWS, or add a token for Google or Azure.

Credentials are fetched with the first request, and renewed before they expire or when the service
rejects them. All waiting requests share one fetch. Credentials stay in memory.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

from msgspec.structs import replace

from clew.core.catalog.services import ServiceRow, fill_in
from clew.core.json_object import Json
from clew.providers.anthropic import AnthropicProvider
from clew.providers.auth.sigv4 import AwsKeys, sign
from clew.providers.auth.sources import CloudSources, Token, read_profile
from clew.system.process.spawn import Launcher
from clew.system.transport.seam import HttpRequest, Transport

# Credentials are renewed this long before they expire.
EARLY_S = 300.0

Held = TypeVar("Held", AwsKeys, Token)


class RenewedCredentials(Generic[Held]):
    """Credentials that are fetched when they are missing, expire soon, or were rejected."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Held]],
        now_s: Callable[[], float] = time.time,
        refresh: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Set up the credentials. `refresh` logs in again after the service rejected them."""
        self._fetch: Callable[[], Awaitable[Held]] = fetch
        self._refresh = refresh
        self._now_s = now_s
        self._held: Held | None = None
        self._lock = asyncio.Lock()

    async def get(self, is_rejected: Callable[[Held], bool]) -> Held:
        """Return the credentials, or new ones if the current ones cannot be used."""
        async with self._lock:
            current = self._held
            has_failed = current is not None and is_rejected(current)
            if has_failed and self._refresh is not None:
                await self._refresh()
            if current is None or has_failed or self._is_old(current):
                current = self._held = await self._fetch()
            return current

    def _is_old(self, held: Held) -> bool:
        return held.expires_at_s is not None and held.expires_at_s - self._now_s() < EARLY_S


def with_region(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, with the region of the AWS profile if they contain none."""
    if environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
        return environ
    region = read_profile(environ).get("region", "")
    return {**environ, "AWS_REGION": region} if region else environ


def authorize_in_cloud(
    provider: AnthropicProvider,
    row: ServiceRow,
    environ: Mapping[str, str],
    transport: Transport,
    launcher: Launcher,
    cwd: Path,
    settings: Json,
) -> None:
    """Let the provider authenticate its requests with the credentials of a cloud."""
    sources = CloudSources(environ, transport, launcher, cwd, settings)
    if row.authentication == "aws":
        if not provider.endpoint.hindrance:
            region = fill_in(row, environ).get("region", "us-east-1")
            authorize_for_aws(provider, row.signing_name, sources, region)
    else:
        is_google = row.authentication == "google"
        find = sources.find_google_token if is_google else sources.find_azure_token
        authorize_by_token(provider, find, sources.refresh_google if is_google else None)
    provider.renews = True
    provider.endpoint = replace(provider.endpoint, advice="")


def authorize_for_aws(
    provider: AnthropicProvider, service: str, sources: CloudSources, region: str
) -> None:
    credentials = RenewedCredentials(sources.find_aws_keys, refresh=sources.refresh_aws)

    async def authorize(request: HttpRequest, rejected: HttpRequest | None) -> HttpRequest:
        signed_before = dict(rejected.headers).get("authorization", "") if rejected else ""
        keys = await credentials.get(lambda held: f"={held.access_key}/" in signed_before)
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = sign(
            request.method,
            request.url,
            request.body,
            keys=keys,
            region=region,
            service=service,
            at=at,
            content_type=dict(request.headers).get("content-type", ""),
        )
        return _with_headers(request, headers)

    provider.authorize = authorize


def authorize_by_token(
    provider: AnthropicProvider,
    fetch: Callable[[], Awaitable[Token]],
    refresh: Callable[[], Awaitable[None]] | None,
) -> None:
    credentials = RenewedCredentials(fetch, refresh=refresh)

    async def authorize(request: HttpRequest, rejected: HttpRequest | None) -> HttpRequest:
        sent_before = dict(rejected.headers).get("authorization", "") if rejected else ""
        token = await credentials.get(lambda held: sent_before == f"Bearer {held.secret}")
        provider.endpoint = replace(provider.endpoint, auth_token=token.secret)
        return _with_headers(request, {"authorization": f"Bearer {token.secret}"})

    provider.authorize = authorize


def _with_headers(request: HttpRequest, made: dict[str, str]) -> HttpRequest:
    remaining = tuple((n, v) for n, v in request.headers if n.lower() not in made)
    return replace(request, headers=(*remaining, *made.items()))
