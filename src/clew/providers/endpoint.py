"""Where the Messages API is and how one shows who one is, read from a frozen environment.

Owns the names of the variables and the headers made of them. Must never show a credential: `hide`
takes them out of any text that leaves this package.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from clew.version import VERSION

DEFAULT_BASE_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
HIDDEN = "[hidden]"
# Shorter values are words that any text may hold.
LEAST_SECRET = 6
# What stands behind an excerpt that was cut.
AFTER_A_CUT = ".'\")"


class Endpoint(Struct, frozen=True, kw_only=True):
    """One place that speaks the Messages API. `headers` are a person's own, set over clew's."""

    base_url: str = DEFAULT_BASE_URL
    api_key: str | None = None
    auth_token: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    betas_allowed: bool = True

    @property
    def wants_credentials(self) -> bool:
        """The service's own address does; a gateway or a local model may not."""
        return self.base_url == DEFAULT_BASE_URL and not self.sends_its_own

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
    def shown(self) -> str:
        """The address as people may see it: without a user and a password."""
        scheme, separator, rest = self.base_url.partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"

    def url(self, path: str) -> str:
        base = self.base_url.rstrip("/").removesuffix("/v1")
        return f"{base}{path}"

    def hide(self, text: str) -> str:
        """`text` without any credential, should a server or a proxy have echoed one.

        An excerpt may end inside a credential, so the beginning of one at the end is hidden too.
        """
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
            at = text.rfind(secret[:LEAST_SECRET])
            if at >= 0 and secret.startswith(text[at:].rstrip(AFTER_A_CUT)):
                text = text[:at] + HIDDEN
        return text

    def hide_all(self, value: Any) -> Any:
        """A decoded JSON value with every text in it hidden in this way."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_all(item) for item in value]
        if isinstance(value, dict):
            return {self.hide(key): self.hide_all(item) for key, item in value.items()}
        return value

    def _secrets(self) -> list[str]:
        password = self.base_url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        known = [self.api_key, self.auth_token, password, *(value for _, value in self.headers)]
        return [secret for secret in known if secret is not None and len(secret) >= LEAST_SECRET]


def endpoint_from_environment(environment: Mapping[str, str]) -> Endpoint:
    """Reads the variables; clew's own spelling stands above the one other tools share."""

    def value(*names: str) -> str | None:
        found = (environment.get(name, "").strip() for name in names)
        return next((text for text in found if text), None)

    custom = value("CLEW_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
    off = value("CLEW_DISABLE_BETAS", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS")
    return Endpoint(
        base_url=value("CLEW_BASE_URL", "ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL,
        api_key=value("CLEW_API_KEY", "ANTHROPIC_API_KEY"),
        auth_token=value("CLEW_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
        headers=tuple(_custom_headers(custom or "")),
        betas_allowed=not is_on(off),
    )


def is_on(text: str | None) -> bool:
    return (text or "").strip().lower() not in ("", "0", "false", "no", "off")


def _custom_headers(text: str) -> list[tuple[str, str]]:
    """`Name: value` lines; some shells can only write the line breaks as `\\n`."""
    headers = []
    for line in text.replace("\\n", "\n").split("\n"):
        name, colon, said = line.partition(":")
        if colon and name.strip():
            headers.append((name.strip(), said.strip()))
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

    def put(name: str, said: str | None) -> None:
        if said:
            headers[name.lower()] = (name, said)

    put("content-type", "application/json")
    put("accept", "text/event-stream" if stream else "application/json")
    put("user-agent", f"clew/{VERSION}")
    put("anthropic-version", API_VERSION)
    put("anthropic-beta", ",".join(betas))
    put("x-api-key", endpoint.api_key)
    put("authorization", f"Bearer {endpoint.auth_token}" if endpoint.auth_token else None)
    # The names gateways and the service already sort requests by.
    put("x-claude-code-session-id", session_id)
    put("x-claude-code-agent-id", agent_id)
    put("x-stainless-retry-count", str(retry_count))
    for name, said in endpoint.headers:
        put(name, said)
    return tuple(headers.values())
