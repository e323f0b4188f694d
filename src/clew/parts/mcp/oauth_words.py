"""OAuth as MCP uses it: challenges, metadata, forms and tokens. Performs no I/O.

Owns the rules for what is accepted from servers. URLs must use https or point to this machine, and
PKCE with S256 is required. Described in the authorization part of MCP 2025-11-25 and in RFC 6749,
7591, 7636, 8414, 8707, 9207 and 9728.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.transport.network import BadUrlError, split_url, unquote

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# A token that expires within this time is renewed before it is used.
EARLY_S = 30
_PARAMETER = re.compile(r'([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Issuer(Struct, frozen=True, kw_only=True):
    """An authorization server, as described by its metadata."""

    issuer: str
    authorize: str
    token: str
    register: str = ""
    revoke: str = ""
    scopes: tuple[str, ...] = ()
    says_issuer: bool = False


class OAuthTokens(Struct, frozen=True, kw_only=True):
    """The tokens for one server, and the data needed to renew them. `repr` does not show them."""

    access: str
    token_url: str
    client_id: str
    refresh: str = ""
    client_secret: str = ""
    expires_at: float | None = None
    scope: str = ""
    resource: str = ""

    def __repr__(self) -> str:
        return f"Tokens(token_url={self.token_url!r}, expires_at={self.expires_at!r})"

    def is_stale(self, now_s: float) -> bool:
        return self.expires_at is not None and now_s > self.expires_at - EARLY_S


# -- challenges and addresses


def challenge_of(header: str) -> dict[str, str]:
    """Return the parameters in a `WWW-Authenticate: Bearer ...` header."""
    return {
        m[1].lower(): re.sub(r"\\(.)", r"\1", m[2]) if m[2] is not None else m[3]
        for m in _PARAMETER.finditer(header)
    }


def parse_origin(url: str) -> str:
    parts = split_url(url)
    return f"{parts.scheme}://{parts.authority}"


def path_of(url: str) -> str:
    return split_url(url).target.partition("?")[0].rstrip("/")


def list_resource_urls(url: str, challenge: Mapping[str, str]) -> list[str]:
    """Return the URLs where a server may name its authorization server, the most likely first."""
    metadata_url = challenge.get("resource_metadata", "")
    # Only the server's own metadata is used; metadata on another host could be anyone's.
    own = [metadata_url] if metadata_url and same_origin(metadata_url, url) else []
    well_known = f"{parse_origin(url)}/.well-known/oauth-protected-resource"
    return list(dict.fromkeys([*own, well_known + path_of(url), well_known]))


def list_issuer_urls(issuer: str) -> list[str]:
    """Return the URLs where an authorization server may publish its metadata."""
    base, path = parse_origin(issuer), path_of(issuer)
    if not path:
        names = ("oauth-authorization-server", "openid-configuration")
        return [f"{base}/.well-known/{name}" for name in names]
    return [
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
        f"{base}{path}/.well-known/openid-configuration",
    ]


def same_origin(url: str, other: str) -> bool:
    try:
        return parse_origin(url) == parse_origin(other)
    except BadUrlError:
        return False


def is_safe(url: Any) -> bool:
    """Return whether it is safe to send a token or the user to a URL."""
    if not isinstance(url, str) or not url.isprintable():
        return False
    try:
        parts = split_url(url)
    except BadUrlError:
        return False
    if parts.credentials is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.host in LOOPBACK)


def is_web(url: Any) -> bool:
    """Return whether a URL is an http or https URL that may be shown to the user."""
    if not isinstance(url, str) or not url.isprintable():
        return False
    try:
        return split_url(url).scheme in ("http", "https")
    except BadUrlError:
        return False


# -- metadata


def issuers_of(metadata: Any, url: str) -> tuple[list[str], str]:
    """Return the authorization servers and scopes that a server's metadata lists.

    Raise ValueError if the metadata is for a different server.
    """
    fields = metadata if isinstance(metadata, dict) else {}
    resource = fields.get("resource")
    if isinstance(resource, str) and not covers(resource, url):
        raise ValueError(f"its metadata belongs to another resource ({resource:.100})")
    servers = fields.get("authorization_servers")
    issuers = [server for server in servers if is_safe(server)] if isinstance(servers, list) else []
    scopes = fields.get("scopes_supported")
    wanted = " ".join(s for s in scopes if isinstance(s, str)) if isinstance(scopes, list) else ""
    return issuers, wanted


def covers(resource: str, url: str) -> bool:
    """Return whether a token for `resource` is valid for `url`."""
    if not same_origin(resource, url):
        return False
    own, path = path_of(resource), path_of(url)
    return path == own or path.startswith(own + "/")


def issuer_of(metadata: Any, issuer: str) -> Issuer:
    """Return the authorization server that metadata describes.

    Raise ValueError if the metadata is not usable.
    """
    fields = metadata if isinstance(metadata, dict) else {}
    issuer_url = fields.get("issuer")
    if isinstance(issuer_url, str) and issuer_url.rstrip("/") != issuer.rstrip("/"):
        raise ValueError(f"it identifies itself as {issuer_url:.100}")
    for field in ("authorization_endpoint", "token_endpoint"):
        if not is_safe(fields.get(field)):
            raise ValueError(f"its {field} is not a usable URL")
    methods = fields.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ValueError("it does not support PKCE with S256")
    scopes = fields.get("scopes_supported")
    return Issuer(
        issuer=issuer,
        authorize=fields["authorization_endpoint"],
        token=fields["token_endpoint"],
        register=safe_or_none(fields.get("registration_endpoint")),
        revoke=safe_or_none(fields.get("revocation_endpoint")),
        scopes=tuple(s for s in scopes if isinstance(s, str)) if isinstance(scopes, list) else (),
        says_issuer=fields.get("authorization_response_iss_parameter_supported") is True,
    )


def safe_or_none(url: Any) -> str:
    return url if is_safe(url) else ""


def without_metadata(base: str) -> Issuer:
    """Return an authorization server that publishes no metadata, with the default endpoints."""
    return Issuer(
        issuer=base,
        authorize=f"{base}/authorize",
        token=f"{base}/token",
        register=f"{base}/register",
    )


# -- requests


def proof_of(verifier: str) -> str:
    """Return the S256 code challenge for a PKCE verifier."""
    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def make_registration(redirect_uri: str, scope: str) -> Json:
    wanted: Json = {
        "client_name": "clew",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    return wanted | {"scope": scope} if scope else wanted


def with_query(url: str, pairs: Mapping[str, str]) -> str:
    joint = "&" if "?" in url else "?"
    return url + joint + encode_form(pairs)


def encode_form(pairs: Mapping[str, str]) -> str:
    return "&".join(f"{quoted(name)}={quoted(value)}" for name, value in pairs.items() if value)


def quoted(text: str) -> str:
    return "".join(
        chr(byte) if byte < 128 and (chr(byte).isalnum() or byte in b"-._~") else f"%{byte:02X}"
        for byte in text.encode()
    )


def query_of(target: str) -> dict[str, str]:
    """Parse the query parameters of a request target.

    If a parameter is repeated, its first value is used.
    """
    parameters: dict[str, str] = {}
    for pair in target.partition("?")[2].split("&"):
        name, _, value = pair.partition("=")
        parameters.setdefault(unquote(name.replace("+", " ")), unquote(value.replace("+", " ")))
    return parameters


# -- responses


def tokens_of(
    answer: Any,
    *,
    now_s: float,
    token_url: str,
    client_id: str,
    client_secret: str,
    resource: str,
    refresh: str = "",
) -> OAuthTokens:
    """Return the tokens in a token response. Raise ValueError if the response contains none."""
    fields = answer if isinstance(answer, dict) else {}
    access = fields.get("access_token")
    if not isinstance(access, str) or not access or not access.isprintable():
        raise ValueError(describe_refusal(fields))
    if str(fields.get("token_type", "bearer")).lower() != "bearer":
        raise ValueError(f"unsupported token type {fields['token_type']!r:.40}")
    lives_s, renewed = fields.get("expires_in"), fields.get("refresh_token")
    scope = fields.get("scope")
    return OAuthTokens(
        access=access,
        token_url=token_url,
        client_id=client_id,
        client_secret=client_secret,
        resource=resource,
        # Without a new refresh token, the old one remains valid.
        refresh=renewed if isinstance(renewed, str) and renewed else refresh,
        expires_at=now_s + lives_s if isinstance(lives_s, (int, float)) else None,
        scope=scope if isinstance(scope, str) else "",
    )


def describe_refusal(fields: Json) -> str:
    """Describe an authorization server's error response in one line."""
    code = fields.get("error")
    why = fields.get("error_description")
    words = [w for w in (code, why) if isinstance(w, str)]
    return ": ".join(words)[:300] if words else "the response contains no token"
