"""The headers that authenticate requests to a server: from its entry, a helper program, or a token.

Decides when a helper runs and when a token is renewed. A configured Authorization header takes
precedence over a token, because the user set it for this server.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.parts.mcp.config import HttpServer
from clew.parts.mcp.line import CannotReachError
from clew.parts.mcp.oauth import LoginError, renew_tokens
from clew.parts.mcp.oauth_words import OAuthTokens
from clew.system.config.keys import ask_keyring, find_keyring, read_secrets, write_secrets
from clew.system.config.paths import Places
from clew.system.transport.seam import Transport

# Token storage: the system's keyring, or a file that only its owner can read.


SERVICE = "clew-mcp"


class TokenStore:
    """Stores the OAuth tokens of servers in the system's keyring or in a file.

    `keyring` is the module of that name, or None to use only the file.
    """

    def __init__(self, places: Places, keyring: Any = None) -> None:
        self._path: Path = places.own / "mcp-tokens.json"
        self._keyring = keyring

    @classmethod
    def usual(cls, places: Places) -> "TokenStore":
        return cls(places, find_keyring())

    def load(self, url: str) -> OAuthTokens | None:
        record = self._asked(url)
        if record is None:
            record = read_secrets(self._path).get(url)
        try:
            return msgspec.convert(record, OAuthTokens)
        except msgspec.ValidationError:
            return None

    def save(self, url: str, tokens: OAuthTokens) -> str:
        """Save the tokens. Return a description of where they were saved, for display."""
        record = msgspec.to_builtins(tokens)
        if self._keyring is not None:
            try:
                self._keyring.set_password(SERVICE, url, json.dumps(record))
            except self._keyring.errors.KeyringError:
                pass
            else:
                return "the keyring"
        write_secrets(self._path, read_secrets(self._path) | {url: record})
        return str(self._path)

    def forget(self, url: str) -> bool:
        """Delete the tokens for a URL. Return whether there were any."""
        is_known = self.load(url) is not None
        if self._keyring is not None and self._asked(url) is not None:
            self._keyring.delete_password(SERVICE, url)
        everything = read_secrets(self._path)
        if everything.pop(url, None) is not None:
            write_secrets(self._path, everything)
        return is_known

    def _asked(self, url: str) -> Any:
        """Return a URL's entry in the keyring; None if there is no entry or no usable keyring."""
        try:
            return json.loads(ask_keyring(self._keyring, SERVICE, url) or "null")
        except ValueError:
            return None


RunHelper = Callable[[str], Awaitable[str | None]]


class Proof:
    """The credentials for one server.

    A helper runs before the first request and after a rejection, not for every request.
    """

    def __init__(
        self, reach: HttpServer, store: TokenStore, transport: Transport, run_helper: RunHelper
    ) -> None:
        self._reach = reach
        self._store = store
        self._transport = transport
        self._run_helper = run_helper
        self._helped: Mapping[str, str] | None = None
        self._tokens: OAuthTokens | None = None
        self._renewing = asyncio.Lock()
        self._was_loaded = False

    @property
    def _wants_token(self) -> bool:
        return not any(name.lower() == "authorization" for name in self._reach.headers)

    async def headers(self) -> Mapping[str, str]:
        if self._reach.headers_helper is not None and self._helped is None:
            self._helped = await self._asked(self._reach.headers_helper)
        headers = {**self._reach.headers, **(self._helped or {})}
        if any(name.lower() == "authorization" for name in headers):
            return headers
        tokens = await self._current()
        return (
            headers if tokens is None else {**headers, "Authorization": f"Bearer {tokens.access}"}
        )

    async def renew(self, challenge: str) -> bool:
        """Replace rejected credentials. Return whether different ones are available now."""
        if self._reach.headers_helper is not None:
            before = self._helped
            self._helped = await self._asked(self._reach.headers_helper)
            return self._helped != before
        if not self._wants_token or "insufficient_scope" in challenge:
            return False
        before_token = self._tokens
        self._tokens = self._store.load(self._reach.url)
        if self._tokens is not None and self._tokens != before_token:
            # Another session renewed the token, or the user logged in.
            return True
        return await self._renew(before_token) is not None

    async def _current(self) -> OAuthTokens | None:
        if not self._was_loaded:
            self._was_loaded = True
            self._tokens = self._store.load(self._reach.url)
        tokens = self._tokens
        if tokens is None or not tokens.is_stale(time.time()):
            return tokens
        return await self._renew(tokens)

    async def _renew(self, stale: OAuthTokens | None) -> OAuthTokens | None:
        """Renew an expired token only once, even if several requests find it expired.

        Return the new token, or None if there is none to renew or the renewal fails.
        """
        if stale is None:
            return None
        async with self._renewing:
            if self._tokens != stale:
                return self._tokens
            try:
                self._tokens = await renew_tokens(stale, self._transport)
            except LoginError:
                self._tokens = None
                return None
            self._store.save(self._reach.url, self._tokens)
            return self._tokens

    async def _asked(self, helper: str) -> Mapping[str, str]:
        """Run a helper and return the headers that it prints as a JSON object."""
        printed = await self._run_helper(helper)
        try:
            reply = json.loads(printed or "")
        except ValueError:
            reply = None
        if not isinstance(reply, dict) or not all(isinstance(v, str) for v in reply.values()):
            what = "failed" if printed is None else "did not print a JSON object of strings"
            raise CannotReachError(f"headersHelper {what}; run its command in a shell to see why")
        return reply
