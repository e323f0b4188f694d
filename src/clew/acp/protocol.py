"""The words of the Agent Client Protocol, version 1: what is offered, and the shapes of what is said.

Pure. Field names and constants are the protocol's (agentclientprotocol.com); nothing here knows what a
session is.
"""

from typing import Any, TypeAlias

from clew.jsonrpc.peer import Dialect
from clew.jsonrpc.wire import an_object
from clew.version import VERSION as CLEW

Json: TypeAlias = dict[str, Any]

VERSION = 1
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
CANCELLED = -32800

DIALECT = Dialect(
    cancel_method="$/cancel_request",
    cancel_key="requestId",
    # There is no progress of single requests: what happens is told as updates of a session.
    progress_method="",
    progress_key="",
    cancelled_code=CANCELLED,
)

OFFERED: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True, "acp": True},
    "sessionCapabilities": {
        "list": {},
        "resume": {},
        "fork": {},
        "close": {},
        "additionalDirectories": {},
    },
}
BY_KEY = "api-key"
BY_TERMINAL = "login"


class Offer:
    """What a client can do, as far as it said so."""

    __slots__ = ("asks", "logs_in", "reads", "runs", "writes")

    def __init__(self, capabilities: Any = None) -> None:
        given = an_object(capabilities)
        files = an_object(given.get("fs"))
        self.reads = files.get("readTextFile") is True
        self.writes = files.get("writeTextFile") is True
        self.runs = given.get("terminal") is True
        self.logs_in = an_object(given.get("auth")).get("terminal") is True
        # Forms in which a person answers questions that have more than one answer.
        self.asks = isinstance(an_object(given.get("elicitation")).get("form"), dict)


def initialized(offer: Offer) -> Json:
    """The answer to `initialize`: this version, whatever was asked for; the client decides on it."""
    return {
        "protocolVersion": VERSION,
        "agentInfo": {"name": "clew", "title": "clew", "version": CLEW},
        "agentCapabilities": OFFERED,
        "authMethods": auth_methods(offer),
    }


def auth_methods(offer: Offer) -> list[Json]:
    methods: list[Json] = [
        {
            "id": BY_KEY,
            "name": "API key",
            "description": "The key in ANTHROPIC_API_KEY, or the one that `clew login` keeps",
        }
    ]
    if offer.logs_in:
        methods.append(
            {
                "id": BY_TERMINAL,
                "name": "Log in",
                "description": "Enter an API key in a terminal; clew keeps it",
                "type": "terminal",
                "args": ["login"],
            }
        )
    return methods
