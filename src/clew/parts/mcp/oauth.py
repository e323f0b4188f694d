"""Log in to a server through its authorization server and renew tokens: I/O for `oauth_words`.

Owns the sequence of steps: get the server's metadata, then the authorization server's, then a
client ID, then the user's consent in a browser; finally, the code arrives at a local port.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, TypeAlias

from msgspec import Struct

from clew.core.messages.errors import OutsideError
from clew.parts.mcp import oauth_words as words
from clew.parts.mcp.config import HttpServer
from clew.parts.mcp.oauth_words import Issuer, OAuthTokens, query_of
from clew.system.transport.seam import HttpRequest, Transport, TransportError

# The local port that a browser is redirected to after a login.


PATH = "/callback"
MAX_BODY_BYTES = 1 << 20
ASK_S = 30.0
PERSON_S = 600.0
MAX_LINE_BYTES = 16384
READ_S = 10.0

PAGE = (
    "<!doctype html><meta charset=utf-8><title>clew</title>"
    "<body style='font: 16px sans-serif; margin: 4em'><p>{words}</p>"
)
DONE = "Login complete. You can close this page and return to clew."
STRANGE = "This request does not belong to a login that clew started."


class LoginError(OutsideError):
    """Raised when a login fails; the message says why and contains no secrets."""


class LoginCallback(Struct, frozen=True, kw_only=True):
    """The parameters of the redirect that ends a login.

    They contain the authorization code, so `repr` does not show their values.
    """

    parameters: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Callback({', '.join(self.parameters)})"


class Loopback:
    """A local HTTP server that receives the redirect; a context manager.

    `state` identifies the login: a parameter of the redirect or, with `in_path`, the end of its
    path, for services that return no parameters.
    """

    def __init__(self, state: str, port: int = 0, *, in_path: bool = False) -> None:
        self._state = state
        self._port = port
        self._path = f"{PATH}/{state}" if in_path else PATH
        self._is_in_path = in_path
        self._server: asyncio.Server | None = None
        self._answers: asyncio.Queue[LoginCallback] = asyncio.Queue()

    @property
    def redirect_uri(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._path}"

    async def __aenter__(self) -> "Loopback":
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=MAX_LINE_BYTES
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def answer(self, person_s: float = PERSON_S) -> LoginCallback:
        """Wait for the redirect of this login; ignore all others.

        Raise `LoginError` after `person_s`.
        """
        try:
            async with asyncio.timeout(person_s):
                return await self._answers.get()
        except TimeoutError:
            raise LoginError(f"the login was not completed within {person_s:g} s") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
            method, _, rest = line.decode("latin-1").partition(" ")
            target = rest.partition(" ")[0]
            is_ours = method == "GET" and target.partition("?")[0] == self._path
            callback = LoginCallback(parameters=query_of(target))
            is_known = is_ours and (
                self._is_in_path or callback.parameters.get("state") == self._state
            )
            self._say(writer, is_known=is_known)
            await writer.drain()
            if is_known:
                self._answers.put_nowait(callback)
        except (OSError, TimeoutError, ValueError):
            pass  # not a redirect from a login
        finally:
            writer.close()

    def _say(self, writer: asyncio.StreamWriter, *, is_known: bool) -> None:
        body = PAGE.format(words=DONE if is_known else STRANGE).encode()
        status = "200 OK" if is_known else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
            "Referrer-Policy: no-referrer\r\n\r\n".encode()
            + body
        )


Show: TypeAlias = Callable[[str], Awaitable[None] | None]


class OAuthClient(Struct, frozen=True, kw_only=True):
    """The client ID, and possibly the secret, that identify clew to an authorization server."""

    client_id: str
    client_secret: str = ""

    def __repr__(self) -> str:
        return f"Client(client_id={self.client_id!r})"


async def obtain_tokens(
    reach: HttpServer,
    transport: Transport,
    show: Callable[[str], object],
    *,
    challenge: str = "",
    person_s: float = PERSON_S,
) -> OAuthTokens:
    """Perform a complete login and return the tokens. `show` opens a URL for the user."""
    parameters = words.challenge_of(challenge)
    issuer, wanted = await discover(reach.url, transport, parameters)
    scope = reach.oauth.scopes or parameters.get("scope", "") or wanted
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    async with Loopback(state, reach.oauth.callback_port or 0) as back:
        client = await registered(reach, issuer, transport, back.redirect_uri, scope)
        resource = reach.url.partition("#")[0]
        show(
            words.with_query(
                issuer.authorize,
                {
                    "response_type": "code",
                    "client_id": client.client_id,
                    "redirect_uri": back.redirect_uri,
                    "state": state,
                    "code_challenge": words.proof_of(verifier),
                    "code_challenge_method": "S256",
                    "scope": scope,
                    "resource": resource,
                },
            )
        )
        answer = await back.answer(person_s)
        code = code_of(answer, issuer)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back.redirect_uri,
            "client_id": client.client_id,
            "client_secret": client.client_secret,
            "code_verifier": verifier,
            "resource": resource,
        }
        return await exchanged(transport, issuer.token, client, resource, fields)


def code_of(answer: LoginCallback, issuer: Issuer) -> str:
    """Return the authorization code from a redirect.

    Raise `LoginError` if the redirect came from another authorization server, or the login was
    denied.
    """
    parameters = answer.parameters
    issuer_name = parameters.get("iss", "")
    if issuer_name != issuer.issuer and (issuer_name or issuer.says_issuer):
        raise LoginError(
            f"the response does not come from the authorization server {issuer.issuer}"
        )
    if "error" in parameters:
        raise LoginError(f"the login was denied: {words.describe_refusal(dict(parameters))}")
    if not parameters.get("code"):
        raise LoginError("the response contains no authorization code")
    return parameters["code"]


async def renew_tokens(tokens: OAuthTokens, transport: Transport) -> OAuthTokens:
    """Get new tokens from the authorization server in exchange for expired ones."""
    if not tokens.refresh:
        raise LoginError("no refresh token")
    client = OAuthClient(client_id=tokens.client_id, client_secret=tokens.client_secret)
    fields = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh,
        "client_id": tokens.client_id,
        "client_secret": tokens.client_secret,
        "resource": tokens.resource,
    }
    return await exchanged(
        transport, tokens.token_url, client, tokens.resource, fields, refresh=tokens.refresh
    )


async def exchanged(
    transport: Transport,
    token_url: str,
    client: OAuthClient,
    resource: str,
    fields: Mapping[str, str],
    *,
    refresh: str = "",
) -> OAuthTokens:
    status, answer = await ask(
        transport,
        "POST",
        token_url,
        body=words.encode_form(fields).encode(),
        content_type="application/x-www-form-urlencoded",
    )
    try:
        if status >= 400:
            raise ValueError(words.describe_refusal(answer if isinstance(answer, dict) else {}))
        return words.tokens_of(
            answer,
            now_s=time.time(),
            token_url=token_url,
            client_id=client.client_id,
            client_secret=client.client_secret,
            resource=resource,
            refresh=refresh,
        )
    except ValueError as error:
        raise LoginError(f"no token from {words.parse_origin(token_url)}: {error}") from None


# -- discovery


async def discover(
    url: str, transport: Transport, challenge: Mapping[str, str]
) -> tuple[Issuer, str]:
    """Return the authorization server that an MCP server uses, and the scopes to request.

    The scopes come from the metadata of the MCP server.
    """
    if not words.is_safe(url):
        raise LoginError("a login requires https, or a server on this machine")
    issuers, wanted = [words.parse_origin(url)], ""
    for place in words.list_resource_urls(url, challenge):
        status, metadata = await ask(transport, "GET", place)
        if status != 200:
            continue
        try:
            listed_issuers, wanted = words.issuers_of(metadata, url)
        except ValueError as error:
            raise LoginError(str(error)) from None
        issuers = listed_issuers or issuers
        break
    for place in words.list_issuer_urls(issuers[0]):
        status, metadata = await ask(transport, "GET", place)
        if status != 200:
            continue
        try:
            return words.issuer_of(metadata, issuers[0]), wanted
        except ValueError as error:
            raise LoginError(f"authorization server {issuers[0]}: {error}") from None
    return words.without_metadata(words.parse_origin(issuers[0])), wanted


async def registered(
    reach: HttpServer, issuer: Issuer, transport: Transport, redirect_uri: str, scope: str
) -> OAuthClient:
    """Return the client with the configured ID, or register a new client."""
    if reach.oauth.client_id:
        return OAuthClient(client_id=reach.oauth.client_id)
    if not issuer.register:
        raise LoginError(
            f"{issuer.issuer} does not allow clients to register; set oauth.clientId "
            "in the server's entry"
        )
    status, answer = await ask(
        transport,
        "POST",
        issuer.register,
        body=json.dumps(words.make_registration(redirect_uri, scope)).encode(),
        content_type="application/json",
    )
    fields = answer if isinstance(answer, dict) else {}
    client_id, secret = fields.get("client_id"), fields.get("client_secret")
    if status >= 400 or not isinstance(client_id, str) or not client_id:
        raise LoginError(f"{issuer.issuer} did not register clew: {words.describe_refusal(fields)}")
    return OAuthClient(client_id=client_id, client_secret=secret if isinstance(secret, str) else "")


async def ask(
    transport: Transport, method: str, url: str, *, body: bytes = b"", content_type: str = ""
) -> tuple[int, Any]:
    """Send a request and return the response's status and decoded body.

    The body is None if it is not JSON.
    """
    headers = [("Accept", "application/json")]
    if content_type:
        headers.append(("Content-Type", content_type))
    exchange = transport.exchange(
        HttpRequest(method=method, url=url, headers=tuple(headers), body=body)
    )
    try:
        async with asyncio.timeout(ASK_S):
            head = await exchange.open()
            data = bytearray()
            while (piece := await exchange.read()) and len(data) <= MAX_BODY_BYTES:
                data += piece
    except TimeoutError:
        raise LoginError(f"{words.parse_origin(url)} did not respond") from None
    except TransportError as error:
        raise LoginError(f"{words.parse_origin(url)} could not be reached: {error}") from None
    finally:
        await exchange.close()
    try:
        return head.status, json.loads(bytes(data[:MAX_BODY_BYTES]))
    except (ValueError, RecursionError):
        return head.status, None
