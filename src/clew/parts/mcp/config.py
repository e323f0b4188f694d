"""The configuration of one MCP server, validated and with its variables expanded.

Owns the fields of an entry in `mcpServers`, which are the same in every MCP client. An error in an
entry is returned as text; nothing is guessed. A value may contain a secret, so it is shown only
through `clew.system.config.mask`.

Decision: docs/decisions/136-trust-in-projects.md
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.nearest import suggest_nearest
from clew.core.regex import lazy_pattern

# The names of a server's tools for the model and in permission rules.


PREFIX = "mcp__"
# The API's limit for a tool's name.
LONGEST = 128
SERVER_NAME = lazy_pattern(r"[A-Za-z0-9_.\- ]{1,64}")
_OTHER = lazy_pattern(r"[^A-Za-z0-9_-]")
_RUNS = lazy_pattern(r"__+")


def server_part(name: str) -> str:
    return _RUNS.sub("_", _OTHER.sub("_", name)).strip("_") or "server"


def tool_name(server: str, tool: str) -> str:
    """Return a tool's full name. A name that is too long is truncated and ends in a hash."""
    full = f"{PREFIX}{server_part(server)}__{_OTHER.sub('_', tool)}"
    if len(full) <= LONGEST:
        return full
    return f"{full[: LONGEST - 9]}_{compute_digest(server + chr(0) + tool)}"


def compute_digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def make_distinct_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return a server's own tool names by the name that the model sees.

    If two tools would have the same name, the name of the later tool gets a hash.
    """
    distinct_names: dict[str, str] = {}
    for tool in tools:
        name = tool_name(server, tool)
        if name in distinct_names and distinct_names[name] != tool:
            name = f"{name[: LONGEST - 9]}_{compute_digest(tool)}"
        distinct_names.setdefault(name, tool)
    return distinct_names


# By descending precedence.
Scope: TypeAlias = Literal["cli", "local", "project", "user"]

FIELDS: dict[str, frozenset[str]] = {
    "stdio": frozenset({"command", "args", "env", "cwd"}),
    "http": frozenset({"url", "headers", "headersHelper", "oauth"}),
    "sdk": frozenset({"name"}),
}
COMMON = frozenset({"type", "timeout", "alwaysLoad", "protocol", "description"})
KINDS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse", "sdk": "sdk"}

_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class StdioServer(Struct, frozen=True, kw_only=True):
    """The configuration of a server that clew starts as a program and talks to over pipes."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None


class OAuthSettings(Struct, frozen=True, kw_only=True):
    """The OAuth settings in a server's entry; usually empty."""

    client_id: str | None = None
    callback_port: int | None = None
    scopes: str | None = None


class HttpServer(Struct, frozen=True, kw_only=True):
    """The configuration of a server at a URL.

    If `is_sse`, it uses the HTTP transport of 2024, with one stream for all of the server's
    messages.
    """

    url: str
    headers: dict[str, str] = {}
    headers_helper: str | None = None
    oauth: OAuthSettings = OAuthSettings()
    is_sse: bool = False


class InProcessServer(Struct, frozen=True, kw_only=True):
    """The configuration of a server inside the host program, reached over the host's channel."""

    name: str


class IdeServer(Struct, frozen=True, kw_only=True):
    """The configuration of an editor that announced itself with a lock file.

    `token` is the token that the lock file contained when the configuration was made.
    """

    name: str
    port: int
    token: str
    lock_file: str


Reach: TypeAlias = StdioServer | HttpServer | InProcessServer | IdeServer


class ServerConfig(Struct, frozen=True, kw_only=True):
    """The configuration of a server; `raw` is the original entry, with unexpanded variables."""

    name: str
    scope: Scope
    reach: Reach
    raw: Json
    # The file that contains the entry, for display.
    source: str = ""
    # The maximum silence during a call; None: the session's default.
    timeout_s: float | None = None
    # Whether the server's tools are sent in full with every request instead of being searched for.
    always_load: bool = False
    stateless: bool = False
    # The only tools that the model gets, under the server's own names; None: all of them.
    model_tools: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        if isinstance(self.reach, IdeServer):
            return "ide"
        if isinstance(self.reach, HttpServer):
            return "sse" if self.reach.is_sse else "http"
        return "stdio" if isinstance(self.reach, StdioServer) else "sdk"


def read_server(
    name: str, entry: Any, *, scope: Scope, environ: Mapping[str, str] | None, source: str = ""
) -> ServerConfig | str:
    """Return the server that an entry describes, or an error message.

    Without `environ`, variables in the entry are not expanded.
    """
    if not isinstance(entry, dict):
        return "expected an object"
    kind = kind_of(entry)
    if kind is None:
        return f"type: expected one of {', '.join(KINDS)}; got {entry.get('type')!r:.40}"
    problem = misnamed(entry, kind) or mistyped(entry)
    if problem:
        return problem
    missing: list[str] = []
    filled = {k: v for k, v in entry.items() if k != "headersHelper"}
    if environ is not None:
        filled = expanded(filled, environ, missing)
    if missing:
        return f"variable {missing[0]} is not set and has no default (${{NAME:-default}})"
    if "headersHelper" in entry:
        # The shell that runs it expands its variables.
        filled["headersHelper"] = entry["headersHelper"]
    reach = reach_of(name, kind, filled)
    if isinstance(reach, str):
        return reach
    timeout = entry.get("timeout")
    return ServerConfig(
        name=name,
        scope=scope,
        reach=reach,
        raw=entry,
        source=source,
        timeout_s=None if timeout is None else timeout / 1000,
        # A host has few servers, and it relies on them.
        always_load=entry.get("alwaysLoad", kind == "sdk") is True,
        stateless=str(entry.get("protocol", "")).startswith("2026"),
    )


def kind_of(entry: Json) -> str | None:
    """Return the type of server that an entry names or that its fields imply; None if unknown."""
    if "type" in entry:
        kind = entry["type"]
        return KINDS.get(kind) if isinstance(kind, str) else None
    return "http" if "url" in entry and "command" not in entry else "stdio"


def misnamed(entry: Json, kind: str) -> str:
    known_fields = FIELDS["http" if kind == "sse" else kind] | COMMON
    for field in entry:
        if field in known_fields:
            continue
        if hint := suggest_nearest(field, known_fields):
            return f'unknown field "{field}"{hint}'
    return ""


def mistyped(entry: Json) -> str:
    """Return an error message for the first value that has the wrong type.

    Unknown fields are ignored.
    """
    for field in ("command", "url", "cwd", "headersHelper", "name", "protocol"):
        if field in entry and not isinstance(entry[field], str):
            return f"{field}: expected a string"
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(a, str) for a in args):
        return "args: expected an array of strings"
    for field in ("env", "headers"):
        value = entry.get(field, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            return f"{field}: expected an object of strings"
    timeout = entry.get("timeout")
    if timeout is not None and (type(timeout) not in (int, float) or not timeout > 0):
        return "timeout: expected a positive number of milliseconds"
    return "" if isinstance(entry.get("oauth", {}), dict) else "oauth: expected an object"


def reach_of(name: str, kind: str, filled: Json) -> Reach | str:
    if kind == "sdk":
        return InProcessServer(name=filled.get("name", name))
    if kind == "stdio":
        if not filled.get("command"):
            return "command: missing (for an HTTP server, set url instead)"
        return StdioServer(
            command=filled["command"],
            args=tuple(filled.get("args", ())),
            env=filled.get("env", {}),
            cwd=filled.get("cwd"),
        )
    url = filled.get("url", "")
    if not url.startswith(("http://", "https://")):
        return "url: must begin with http:// or https://"
    oauth = oauth_of(filled.get("oauth", {}))
    if isinstance(oauth, str):
        return oauth
    return HttpServer(
        url=url,
        headers=filled.get("headers", {}),
        headers_helper=filled.get("headersHelper"),
        oauth=oauth,
        is_sse=kind == "sse",
    )


def oauth_of(fields: Json) -> OAuthSettings | str:
    client_id, port, scopes = (fields.get(k) for k in ("clientId", "callbackPort", "scopes"))
    if client_id is not None and not isinstance(client_id, str):
        return "oauth.clientId: expected a string"
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        return "oauth.callbackPort: expected a port number from 1 to 65535"
    if isinstance(scopes, list):
        scopes = " ".join(str(scope) for scope in scopes)
    if scopes is not None and not isinstance(scopes, str):
        return "oauth.scopes: expected a string"
    return OAuthSettings(client_id=client_id, callback_port=port, scopes=scopes)


def expanded(value: Any, environ: Mapping[str, str], missing: list[str]) -> Any:
    """Return a value with `${NAME}` and `${NAME:-default}` expanded in all of its strings.

    The names of unset variables without a default are added to `missing`.
    """

    def one(match: re.Match[str]) -> str:
        value = environ.get(match[1])
        if value is None and match[2] is None:
            missing.append(match[1])
        return value or match[2] or ""

    if isinstance(value, str):
        return _VARIABLE.sub(one, value)
    if isinstance(value, dict):
        return {k: expanded(v, environ, missing) for k, v in value.items()}
    if isinstance(value, list):
        return [expanded(v, environ, missing) for v in value]
    return value


def find_variables(value: Any) -> list[str]:
    """Return the names of the variables that an entry uses without a default."""
    names: list[str] = []
    expanded(value, {}, names)
    return names


# The administrator's lists of allowed and denied servers.


def why_forbidden(server: ServerConfig, allowed: Any, denied: Any) -> str:
    """Return why the administrator's lists forbid a server, or an empty string."""
    if any(names(entry, server) for entry in listed(denied)):
        return "denied by deniedMcpServers"
    if isinstance(allowed, list) and not may(server, allowed):
        return "not in allowedMcpServers"
    return ""


def may(server: ServerConfig, allowed: list[Any]) -> bool:
    """Return whether the list allows a server.

    If the list has entries with a command (or, for a server at a URL, entries with a URL), only
    those are compared; otherwise the server is looked up by name.
    """
    key = {"stdio": "serverCommand", "http": "serverUrl", "sse": "serverUrl"}.get(server.kind)
    entries = [e for e in allowed if isinstance(e, dict) and key in e]
    return any(names(entry, server) for entry in entries or allowed)


def listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def names(entry: Any, server: ServerConfig) -> bool:
    if not isinstance(entry, dict):
        return False
    if "serverCommand" in entry:
        reach = server.reach
        return isinstance(reach, StdioServer) and entry["serverCommand"] == [
            reach.command,
            *reach.args,
        ]
    if "serverUrl" in entry:
        return isinstance(server.reach, HttpServer) and fits(entry["serverUrl"], server.reach.url)
    return entry.get("serverName") == server.name


def fits(pattern: Any, url: str) -> bool:
    """Return whether a URL matches a pattern.

    A `*` in the host matches only within the host, and a `*` in the path only within the path.
    """
    if not isinstance(pattern, str):
        return False
    scheme, separator, rest = pattern.partition("://")
    host, slash, path = rest.partition("/")
    parts = (
        re.escape(scheme + separator).replace(r"\*", "[^/]*"),
        re.escape(host).replace(r"\*", "[^/@]*"),
        re.escape(slash + path).replace(r"\*", ".*"),
    )
    return re.fullmatch("".join(parts), url) is not None
