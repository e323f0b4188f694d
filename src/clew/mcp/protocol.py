"""The words of MCP in both of its eras: a session behind a handshake, or requests that carry all.

Owns versions, capabilities and what each request carries. Described at modelcontextprotocol.io, in
the revisions 2024-11-05 to 2025-11-25 (handshake) and 2026-07-28 (stateless).
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.jsonrpc.peer import Dialect, Failure
from clew.jsonrpc.wire import a_text as a_text
from clew.jsonrpc.wire import an_object as an_object
from clew.version import VERSION

Json: TypeAlias = dict[str, Any]
Era: TypeAlias = Literal["handshake", "stateless"]

DIALECT = Dialect(
    cancel_method="notifications/cancelled",
    cancel_key="requestId",
    progress_method="notifications/progress",
    progress_key="progressToken",
    # Revision 2025-03-26 has batches; from every other one they are read as kindly.
    batches=True,
)

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS_VERSIONS = ("2026-07-28",)

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

META = "io.modelcontextprotocol/"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

CLIENT_INFO = {"name": "clew", "title": "clew", "version": VERSION}

# Per method, the parameter that is said in a header too, for whoever routes by it.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# What a server announces of a change, and the list that is to be asked for again.
LIST_CHANGES = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


def capabilities(*, elicits: bool, samples: bool) -> Json:
    """What this client can be asked for; each is an object, of which most are empty."""
    offered: Json = {"roots": {"listChanged": True}}
    if elicits:
        offered["elicitation"] = {"form": {}, "url": {}}
    if samples:
        offered["sampling"] = {}
    return offered


class Agreement(Struct, frozen=True, kw_only=True):
    """What client and server settled on. `server` and `instructions` are the server's own words."""

    era: Era
    version: str
    capabilities: Json
    server: Json
    instructions: str = ""

    def offers(self, kind: str) -> bool:
        """Whether the server has tools, prompts, resources, completions or logging."""
        return isinstance(self.capabilities.get(kind), dict)

    def feature(self, kind: str, name: str) -> bool:
        found = self.capabilities.get(kind)
        return isinstance(found, dict) and found.get(name) is True


def initialize(offered: Json) -> Json:
    return {
        "protocolVersion": HANDSHAKE_VERSIONS[0],
        "capabilities": offered,
        "clientInfo": CLIENT_INFO,
    }


def agreed(result: Any) -> Agreement | str:
    """The outcome of the handshake, or why there is none."""
    if not isinstance(result, dict):
        return "the handshake's answer is no object"
    version = result.get("protocolVersion")
    if version not in HANDSHAKE_VERSIONS:
        return f"the server speaks version {version!r:.40}, which clew does not"
    return Agreement(
        era="handshake",
        version=str(version),
        capabilities=an_object(result.get("capabilities")),
        server=an_object(result.get("serverInfo")),
        instructions=a_text(result.get("instructions")),
    )


def discovered(result: Any) -> Agreement | str:
    """The outcome of `server/discover`, or why the stateless era cannot be spoken."""
    versions = result.get("supportedVersions") if isinstance(result, dict) else None
    known = [v for v in STATELESS_VERSIONS if isinstance(versions, list) and v in versions]
    if not known:
        return "the server names no stateless version that clew speaks"
    meta = an_object(result.get("_meta"))
    return Agreement(
        era="stateless",
        version=known[0],
        capabilities=an_object(result.get("capabilities")),
        server=an_object(meta.get(META + "serverInfo")) or an_object(result.get("serverInfo")),
        instructions=a_text(result.get("instructions")),
    )


def wants_stateless(failure: Failure) -> str | None:
    """The stateless version a refused handshake asks for, if clew speaks one of those it names."""
    if failure.code != UNSUPPORTED_VERSION:
        return None
    supported = an_object(failure.data).get("supported")
    named = supported if isinstance(supported, list) else []
    return next((v for v in STATELESS_VERSIONS if v in named), None)


def envelope(version: str, offered: Json, log_level: str | None) -> Json:
    """The `_meta` of a request that stands alone."""
    meta: Json = {
        META + "protocolVersion": version,
        META + "clientInfo": CLIENT_INFO,
        META + "clientCapabilities": offered,
    }
    if log_level is not None:
        meta[META + "logLevel"] = log_level
    return meta


def with_meta(params: Json | None, meta: Json) -> Json:
    given = params or {}
    return {**given, "_meta": {**an_object(given.get("_meta")), **meta}}


def needs_input(result: Any) -> bool:
    """Whether a result is none yet: the server wants answers first."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"
