"""Where the Messages API is and how one shows who one is, read from a frozen environment.

Owns the headers made of the variables. Must never show a credential: `hide` takes them out of any
text that leaves this package.
"""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import USUAL, is_version
from clew.system.config.environment import Environment
from clew.system.config.mask import mask, mask_all_cut, mask_cut, without_cut
from clew.system.transport.seam import HttpRequest
from clew.version import VERSION

DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION_HEADER = "anthropic-version"
# What the service calls a request; no kind of secret begins so.
REQUEST_ID = re.compile(r"req_[A-Za-z0-9]{1,64}")
DIALECTS = ("messages", "chat")
PLATFORMS = {"bedrock": "Amazon Bedrock", "vertex": "Google's Agent Platform"}


class Endpoint(Struct, frozen=True, kw_only=True):
    """One place that answers. `headers` are a person's own, set over clew's; `dialect` is what is
    spoken there: the Messages API, or `chat` completions."""

    base_url: str = DEFAULT_BASE_URL
    api_key: str | None = None
    auth_token: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    betas_allowed: bool = True
    dialect: str = "messages"
    # The version of the Messages API that is spoken, and whether it was asked for: one that was not
    # gives way to what the service takes.
    api_version: str = USUAL
    pins_version: bool = False
    # Whether requests ask why the prompt cache missed. A service that refuses to say is not asked.
    diagnoses: bool = False
    # Why nothing may be sent at all: somebody asked for a service that clew cannot speak to.
    hindrance: str = ""

    @property
    def is_default(self) -> bool:
        """Whether nobody named another address than the service's own."""
        return self.base_url == DEFAULT_BASE_URL

    @property
    def speaks_chat(self) -> bool:
        return self.dialect == "chat"

    @property
    def wants_credentials(self) -> bool:
        """The service's own address does; a gateway or a local model may not."""
        return (
            self.is_default
            and not self.hindrance
            and not self.sends_its_own
            and not self.speaks_chat
        )

    @property
    def sends_its_own(self) -> bool:
        """Whether a person's own headers say who they are."""
        return any(name.lower() in ("x-api-key", "authorization") for name, _ in self.headers)

    @property
    def credentials(self) -> str:
        """Which kind of credentials is sent, in words and without them."""
        kinds = [
            word
            for word, value in (("API key", self.api_key), ("bearer token", self.auth_token))
            if value
        ]
        return " and ".join(kinds) or "none"

    @property
    def lacks_credentials(self) -> bool:
        """Whether every request would be refused for want of them."""
        return self.wants_credentials and self.credentials == "none"

    @property
    def shown(self) -> str:
        """The address as people may see it: without a user and a password."""
        scheme, separator, rest = self.base_url.partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"

    def url(self, path: str) -> str:
        base = self.base_url.rstrip("/").removesuffix("/v1")
        if base.endswith(path.removeprefix("/v1")):
            return base  # a whole address, for services that have no /v1
        return f"{base}{path}"

    def hide(self, text: str) -> str:
        """`text` without any credential, should a server or a proxy have echoed one.

        Not only those that are sent: a server that refuses a request may quote from it.
        """
        return mask_cut(text, self._secrets())

    def hide_in_id(self, text: str) -> str:
        """Return the id of a request like `hide`; the search for secrets costs more than a hello."""
        text = without_cut(text, self._secrets())
        return text if REQUEST_ID.fullmatch(text) else mask(text)

    def hide_all(self, value: Any) -> Any:
        """A decoded JSON value with every text in it hidden in this way."""
        return mask_all_cut(value, self._secrets())

    def _secrets(self) -> list[str]:
        password = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        secrets = [self.api_key, self.auth_token, password, *(value for _, value in self.headers)]
        return [secret for secret in secrets if secret]


def read_endpoint(environment: Environment) -> Endpoint:
    dialect = environment.text("dialect") or "messages"
    speaks_chat = dialect == "chat"

    def given(field: str) -> str | None:
        """What another service's variable says is for that service."""
        ours = not speaks_chat or (environment.source(field) or "").startswith("CLEW_")
        return environment.text(field) if ours else None

    headers = tuple(_custom_headers(given("custom_headers") or ""))
    of_header = next((value for name, value in headers if name.lower() == VERSION_HEADER), None)
    version = of_header or environment.text("api_version")
    return Endpoint(
        base_url=given("base_url") or DEFAULT_BASE_URL,
        api_key=given("api_key"),
        auth_token=given("auth_token"),
        headers=headers,
        betas_allowed=not environment.switch("betas_disabled") and not speaks_chat,
        dialect=dialect,
        api_version=version or USUAL,
        pins_version=version is not None,
        hindrance=_hindrance(environment, dialect) or why_not_version(version),
    )


def _hindrance(environment: Environment, dialect: str) -> str:
    for field, platform in PLATFORMS.items():
        if environment.switch(field):
            variable = environment.source(field)
            return (
                f"{variable} is set, and clew cannot speak to {platform}: unset it, or set it to 0 and "
                "ANTHROPIC_BASE_URL to a gateway"
            )
    if dialect == "chat" and not (environment.source("base_url") or "").startswith("CLEW_"):
        return "CLEW_DIALECT is chat: set CLEW_BASE_URL to the address of the service"
    if dialect not in DIALECTS:
        return f"CLEW_DIALECT is {dialect!r}: expected {' or '.join(DIALECTS)}"
    return ""


def why_not_version(version: str | None) -> str:
    """Say why a version that was asked for cannot be one; empty for one that can."""
    if version is None or is_version(version):
        return ""
    return (
        f"the API version {version!r} is not a date such as {USUAL} (CLEW_API_VERSION, apiVersion)"
    )


def _custom_headers(text: str) -> list[tuple[str, str]]:
    """`Name: value` lines; some shells can only write the line breaks as `\\n`."""
    headers = []
    for line in text.replace("\\n", "\n").split("\n"):
        name, colon, value = line.partition(":")
        if colon and name.strip():
            headers.append((name.strip(), value.strip()))
    return headers


def request_headers(
    endpoint: Endpoint,
    *,
    betas: tuple[str, ...],
    stream: bool,
    retry_count: int = 0,
    session_id: str | None = None,
    agent_id: str | None = None,
) -> tuple[tuple[str, str], ...]:
    """The headers of one request, a person's own in place of clew's where they name the same."""
    headers: dict[str, tuple[str, str]] = {}

    def put(name: str, value: str | None) -> None:
        if value:
            headers[name.lower()] = (name, value)

    put("content-type", "application/json")
    put("accept", "text/event-stream" if stream else "application/json")
    put("user-agent", f"clew/{VERSION}")
    token = endpoint.auth_token
    if endpoint.speaks_chat:
        token = token or endpoint.api_key
    else:
        put(VERSION_HEADER, endpoint.api_version)
        put("anthropic-beta", ",".join(betas))
        put("x-api-key", endpoint.api_key)
    put("authorization", f"Bearer {token}" if token else None)
    # The names gateways and the service already sort requests by.
    put("x-claude-code-session-id", session_id)
    put("x-claude-code-agent-id", agent_id)
    put("x-stainless-retry-count", str(retry_count))
    for name, value in endpoint.headers:
        put(name, value)
    return tuple(headers.values())


def with_header(request: HttpRequest, name: str, value: str) -> HttpRequest:
    """Return the request with another value of a header that it has."""
    headers = tuple((n, value if n.lower() == name else v) for n, v in request.headers)
    return replace(request, headers=headers)
