"""The MCP protocol in both of its variants: a session with a handshake, or stateless requests.

Owns versions, capabilities and the metadata of each request. Described at modelcontextprotocol.io,
in the revisions from 2024-11-05 to 2025-11-25 (handshake) and 2026-07-28 (stateless).
"""

from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from clew.core.json_object import Json
from clew.system.jsonrpc.peer import Dialect, PeerFailure
from clew.system.jsonrpc.wire import as_object as as_object
from clew.system.jsonrpc.wire import as_text as as_text
from clew.version import VERSION

Era: TypeAlias = Literal["handshake", "stateless"]

DIALECT = Dialect(
    cancel_method="notifications/cancelled",
    cancel_key="requestId",
    progress_method="notifications/progress",
    progress_key="progressToken",
    # Only revision 2025-03-26 has batches, but they are accepted in all revisions.
    batches=True,
)

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS_VERSIONS = ("2026-07-28",)

UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

META = "io.modelcontextprotocol/"
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

CLIENT_INFO = {"name": "clew", "title": "clew", "version": VERSION}

# For each method, the parameter that is repeated in a header, for routing.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# The list that has changed, for each notification.
LIST_CHANGES = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


def capabilities(*, elicits: bool, samples: bool) -> Json:
    """Return the capabilities that clew declares to servers; most of them are empty objects."""
    offered: Json = {"roots": {"listChanged": True}}
    if elicits:
        offered["elicitation"] = {"form": {}, "url": {}}
    if samples:
        offered["sampling"] = {}
    return offered


class Agreement(Struct, frozen=True, kw_only=True):
    """The result of negotiating the protocol. `server` and `instructions` come from the server."""

    era: Era
    version: str
    capabilities: Json
    server: Json
    instructions: str = ""

    def offers(self, kind: str) -> bool:
        """Return whether the server offers a kind of feature, such as tools, prompts or logging."""
        return isinstance(self.capabilities.get(kind), dict)

    def feature(self, kind: str, name: str) -> bool:
        capability = self.capabilities.get(kind)
        return isinstance(capability, dict) and capability.get(name) is True


def initialize(offered: Json) -> Json:
    return {
        "protocolVersion": HANDSHAKE_VERSIONS[0],
        "capabilities": offered,
        "clientInfo": CLIENT_INFO,
    }


def read_agreement(result: Any) -> Agreement | str:
    """Return the outcome of the handshake, or an error message."""
    if not isinstance(result, dict):
        return "the handshake response is not an object"
    version = result.get("protocolVersion")
    if version not in HANDSHAKE_VERSIONS:
        return f"unsupported protocol version {version!r:.40}"
    return Agreement(
        era="handshake",
        version=str(version),
        capabilities=as_object(result.get("capabilities")),
        server=as_object(result.get("serverInfo")),
        instructions=as_text(result.get("instructions")),
    )


def read_discovery(result: Any) -> Agreement | str:
    """Return the outcome of `server/discover`, or an error message."""
    versions = result.get("supportedVersions") if isinstance(result, dict) else None
    known_versions = [v for v in STATELESS_VERSIONS if isinstance(versions, list) and v in versions]
    if not known_versions:
        return "clew supports none of the server's stateless protocol versions"
    meta = as_object(result.get("_meta"))
    return Agreement(
        era="stateless",
        version=known_versions[0],
        capabilities=as_object(result.get("capabilities")),
        server=as_object(meta.get(META + "serverInfo")) or as_object(result.get("serverInfo")),
        instructions=as_text(result.get("instructions")),
    )


def wants_stateless(failure: PeerFailure) -> str | None:
    """Return the stateless version to use after a failed handshake, or None if there is none."""
    if failure.code != UNSUPPORTED_VERSION:
        return None
    supported = as_object(failure.data).get("supported")
    versions = supported if isinstance(supported, list) else []
    return next((v for v in STATELESS_VERSIONS if v in versions), None)


def make_meta(version: str, offered: Json, log_level: str | None) -> Json:
    """Return the `_meta` field of a stateless request."""
    meta: Json = {
        META + "protocolVersion": version,
        META + "clientInfo": CLIENT_INFO,
        META + "clientCapabilities": offered,
    }
    if log_level is not None:
        meta[META + "logLevel"] = log_level
    return meta


def with_meta(params: Json | None, meta: Json) -> Json:
    fields = params or {}
    return {**fields, "_meta": {**as_object(fields.get("_meta")), **meta}}


def needs_input(result: Any) -> bool:
    """Return whether a result is not an answer but a request for input."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


# The states of a server, and all transitions between them.


State: TypeAlias = Literal[
    "disconnected", "connecting", "initializing", "ready", "waiting", "needs-auth", "closing",
    "failed", "disabled",
]  # fmt: skip
Event: TypeAlias = Literal[
    "connect",  # start, initially or again
    "opened",  # the transport can carry messages
    "agreed",  # handshake and first lists are complete
    "changed",  # the server reports that a list changed
    "refused",  # permanent error; a retry would not help
    "lost",  # the connection was lost or timed out
    "unauthorized",
    "exhausted",  # too many attempts
    "close",
    "closed",
    "disable",
    "enable",
    "reset",
]

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)

_BEGUN: tuple[State, ...] = ("connecting", "initializing", "ready")
_ENDED: tuple[State, ...] = ("disconnected", "waiting", "needs-auth", "failed")

TRANSITIONS: dict[tuple[State, Event], State] = {
    ("disconnected", "connect"): "connecting",
    ("waiting", "connect"): "connecting",
    ("connecting", "opened"): "initializing",
    ("initializing", "agreed"): "ready",
    ("ready", "changed"): "ready",
    **{(state, "refused"): "failed" for state in _BEGUN},
    **{(state, "lost"): "waiting" for state in _BEGUN},
    **{(state, "unauthorized"): "needs-auth" for state in _BEGUN},
    ("waiting", "exhausted"): "failed",
    **{(state, "close"): "closing" for state in _BEGUN},
    **{(state, "close"): "disconnected" for state in _ENDED},
    ("closing", "closed"): "disconnected",
    ("failed", "reset"): "disconnected",
    ("needs-auth", "reset"): "disconnected",
    ("waiting", "reset"): "disconnected",
    ("disconnected", "disable"): "disabled",
    ("disabled", "enable"): "disconnected",
}

# How long a state may last before the connection is considered lost; None means no limit.
PATIENCE_S: dict[State, float | None] = {
    "disconnected": None, "connecting": 30.0, "initializing": 30.0, "ready": None, "waiting": None,
    "needs-auth": None, "closing": 5.0, "failed": None, "disabled": None,
}  # fmt: skip

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
MOST_ATTEMPTS = 5
# After a server was connected for this long, its failed attempts are forgotten.
PROVEN_S = 60.0


def next_state(state: State, event: Event) -> State:
    return TRANSITIONS.get((state, event), state)


def compute_delay_s(attempt: int, *, random: float) -> float | None:
    """Return the delay before retry number `attempt` (starting at 1), or None after the last."""
    if attempt > MOST_ATTEMPTS:
        return None
    longest: float = FIRST_DELAY_S * 2.0 ** (attempt - 1)
    return min(longest, LONGEST_DELAY_S) * (1 + random / 4)


def name_state(state: State) -> str:
    """Return the name that the SDK protocol uses for a state."""
    match state:
        case "ready":
            return "connected"
        case "needs-auth" | "failed" | "disabled":
            return state
        case _:
            return "pending"
