"""The address of the API and the credentials for it, read from a frozen environment.

Owns the headers built from the variables. Must never reveal a credential: `hide` masks credentials
in any text that leaves this package.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import USUAL, is_version
from clew.core.catalog.services import CUSTOM, find_row_at
from clew.core.regex import lazy_pattern
from clew.system.config.environment import Environment
from clew.system.config.mask import mask, mask_all_cut, mask_cut, without_cut
from clew.system.transport.seam import HttpRequest
from clew.version import VERSION

DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION_HEADER = "anthropic-version"
BEARER = "authorization"
# The format of the service's request IDs; no kind of secret begins like this.
REQUEST_ID = lazy_pattern(r"req_[A-Za-z0-9]{1,64}")
DIALECTS = ("messages", "chat", "responses", "gemini")
# The usual header for the API key, by protocol. All others send it as a bearer token.
KEY_HEADERS = {"messages": "x-api-key", "gemini": "x-goog-api-key"}


class Endpoint(Struct, frozen=True, kw_only=True):
    """One API endpoint. `headers` are those that the user configured; they override clew's.

    `dialect` is its protocol, one of `DIALECTS`.
    """

    # The service in the table of services. Empty for Anthropic's own.
    service: str = ""
    # The table row from which a service in the settings inherits.
    kind: str = ""

    base_url: str = DEFAULT_BASE_URL
    api_key: str | None = None
    auth_token: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    betas_allowed: bool = True
    dialect: str = "messages"
    # The API version, and whether it was set explicitly. If it was not, it is replaced by a version
    # that the service supports.
    api_version: str = USUAL
    pins_version: bool = False
    # Whether requests ask why the prompt cache missed. False for a service that rejected such a
    # request.
    diagnoses: bool = False
    # The header for the API key. Empty selects the usual header of the protocol.
    key_header: str = ""
    # Paths that differ from the protocol's own, by kind of request: "ask", "whole" for a response
    # that is not streamed, and "count". `{model}` is replaced by the model's quoted ID.
    paths: Mapping[str, str] = {}
    # Whether a stream of the Messages API arrives in AWS frames.
    frames: bool = False
    # Differences from the service's known quirks, from the settings.
    quirks: Mapping[str, Any] = {}
    # How to get a key, if the service needs one and is not the default API.
    advice: str = ""
    # Whether the Messages API's version and betas are in the body, and the model is in the path.
    is_platform: bool = False
    # The command that printed the key, and that can print a new one.
    key_helper: str = ""
    # Why nothing may be sent: the user selected a platform that clew does not support. Empty
    # otherwise.
    hindrance: str = ""

    @property
    def is_default(self) -> bool:
        """True if the address is the default API."""
        return self.base_url == DEFAULT_BASE_URL

    @property
    def speaks_messages(self) -> bool:
        return self.dialect == "messages"

    @property
    def wants_credentials(self) -> bool:
        """True if the endpoint needs credentials. A gateway or a local model may not."""
        return bool(self.advice) or (
            self.is_default
            and not self.hindrance
            and not self.sends_its_own
            and self.speaks_messages
        )

    @property
    def sends_its_own(self) -> bool:
        """True if the user's own headers contain credentials."""
        return any(name.lower() in (*KEY_HEADERS.values(), BEARER) for name, _ in self.headers)

    @property
    def credentials(self) -> str:
        """The kinds of credentials that are sent, for display and without their values."""
        kinds = [
            word
            for word, value in (("API key", self.api_key), ("bearer token", self.auth_token))
            if value
        ]
        return " and ".join(kinds) or "none"

    @property
    def lacks_credentials(self) -> bool:
        """True if every request would be refused because credentials are missing."""
        return self.wants_credentials and self.credentials == "none"

    @property
    def shown(self) -> str:
        """The address for display, without user name and password."""
        scheme, separator, rest = self.base_url.partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"

    def url(self, path: str) -> str:
        version = f"/{path.split('/')[1]}"
        base = self.base_url.rstrip("/").removesuffix(version)
        if base.endswith(path.removeprefix(version)):
            return base  # The address is already complete, for services without a version.
        return f"{base}{path}"

    def url_for(self, kind: str, path: str, model: str) -> str:
        """Return the URL for a kind of request, with the protocol's own path as the default."""
        template = self.paths.get(kind)
        if template is None:
            return self.url(path)
        from urllib.parse import quote  # Few services have the model in the path.

        return self.base_url.rstrip("/") + template.replace("{model}", quote(model, safe=""))

    def hide(self, text: str) -> str:
        """Return `text` with all credentials masked, in case a server or a proxy echoed one.

        This also masks secrets that clew did not send, because a server's error may quote the
        request.
        """
        return mask_cut(text, self._secrets())

    def hide_in_id(self, text: str) -> str:
        """Return a request ID with all credentials masked.

        For a valid ID, the slow search for unknown secrets is skipped.
        """
        text = without_cut(text, self._secrets())
        return text if REQUEST_ID.fullmatch(text) else mask(text)

    def hide_all(self, value: Any) -> Any:
        """Return a decoded JSON value with the credentials masked in all its strings."""
        return mask_all_cut(value, self._secrets())

    def _secrets(self) -> list[str]:
        password = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        secrets = [self.api_key, self.auth_token, password, *(value for _, value in self.headers)]
        return [secret for secret in secrets if secret]


def read_endpoint(environment: Environment) -> Endpoint:
    dialect = environment.text("dialect") or "messages"
    speaks_messages = dialect == "messages"

    def given(field: str) -> str | None:
        """Return the value of a variable, or None if it is meant for the other kind of API."""
        ours = speaks_messages or (environment.source(field) or "").startswith("CLEW_")
        return environment.text(field) if ours else None

    headers = tuple(_custom_headers(given("custom_headers") or ""))
    of_header = next((value for name, value in headers if name.lower() == VERSION_HEADER), None)
    version = of_header or environment.text("api_version")
    base_url = given("base_url") or DEFAULT_BASE_URL
    row = find_row_at(base_url)
    return Endpoint(
        service=CUSTOM if row is None else row.name if base_url != DEFAULT_BASE_URL else "",
        base_url=base_url,
        api_key=given("api_key"),
        auth_token=given("auth_token"),
        headers=headers,
        betas_allowed=not environment.switch("betas_disabled") and speaks_messages,
        dialect=dialect,
        api_version=version or USUAL,
        pins_version=version is not None,
        hindrance=_hindrance(environment, dialect) or why_not_version(version),
    )


def _hindrance(environment: Environment, dialect: str) -> str:
    if dialect not in DIALECTS:
        return f"CLEW_DIALECT must be one of {', '.join(DIALECTS)}, got {dialect!r}"
    is_ours = (environment.source("base_url") or "").startswith("CLEW_")
    if dialect != "messages" and not is_ours:
        return f"CLEW_DIALECT is {dialect}, so CLEW_BASE_URL must be set to the URL of the service"
    return ""


def why_not_version(version: str | None) -> str:
    """Return why an API version is invalid, or an empty string if it is valid."""
    if version is None or is_version(version):
        return ""
    return (
        f"the API version (CLEW_API_VERSION, apiVersion) must be a date such as {USUAL}, "
        f"got {version!r}"
    )


def _custom_headers(text: str) -> list[tuple[str, str]]:
    r"""Parse `Name: value` lines. A literal `\n` also separates them, as some shells need it."""
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
    """Return the headers of one request. The user's own headers override clew's by name."""
    headers: dict[str, tuple[str, str]] = {}

    def put(name: str, value: str | None) -> None:
        if value:
            headers[name.lower()] = (name, value)

    put("content-type", "application/json")
    put("accept", "text/event-stream" if stream else "application/json")
    put("user-agent", f"clew/{VERSION}")
    token = endpoint.auth_token
    if endpoint.speaks_messages:
        put(VERSION_HEADER, endpoint.api_version)
        put("anthropic-beta", ",".join(betas))
    key_header = endpoint.key_header or KEY_HEADERS.get(endpoint.dialect, BEARER)
    if key_header == BEARER:
        token = token or endpoint.api_key
    else:
        put(key_header, endpoint.api_key)
    put(BEARER, f"Bearer {token}" if token else None)
    # Gateways and the API already use these names to group requests.
    put("x-claude-code-session-id", session_id)
    put("x-claude-code-agent-id", agent_id)
    put("x-stainless-retry-count", str(retry_count))
    for name, value in endpoint.headers:
        put(name, value)
    return tuple(headers.values())


def with_header(request: HttpRequest, name: str, value: str) -> HttpRequest:
    """Return the request with one of its headers set to another value."""
    headers = tuple((n, value if n.lower() == name else v) for n, v in request.headers)
    return replace(request, headers=headers)
