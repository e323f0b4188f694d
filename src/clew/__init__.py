"""clew: a coding agent for the terminal, and the message and session engine under it.

`import clew` costs nothing; what a program takes from here is loaded when it is named.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from clew.sdk.client import ClewClient as ClewClient
    from clew.sdk.client import query as query
    from clew.sdk.functions import Function as Function
    from clew.sdk.functions import tool as tool
    from clew.sdk.messages import Assistant as Assistant
    from clew.sdk.messages import Result as Result
    from clew.sdk.messages import StreamEvent as StreamEvent
    from clew.sdk.messages import System as System
    from clew.sdk.messages import Text as Text
    from clew.sdk.messages import Thinking as Thinking
    from clew.sdk.messages import ToolResult as ToolResult
    from clew.sdk.messages import ToolUse as ToolUse
    from clew.sdk.messages import User as User
    from clew.sdk.options import Call as Call
    from clew.sdk.options import ClewOptions as ClewOptions
    from clew.sdk.options import Deny as Deny
    from clew.sdk.options import HookAt as HookAt
    from clew.sdk.options import Permit as Permit
    from clew.sdk.sessions import fork_session as fork_session
    from clew.sdk.sessions import list_sessions as list_sessions
    from clew.sdk.sessions import rename_session as rename_session
    from clew.sdk.sessions import session_messages as session_messages
    from clew.sdk.sessions import tag_session as tag_session

_HOMES = {
    "client": ("ClewClient", "query"),
    "functions": ("Function", "tool"),
    "messages": ("Assistant", "Result", "StreamEvent", "System", "Text", "Thinking", "ToolResult", "ToolUse", "User"),
    "options": ("Call", "ClewOptions", "Deny", "HookAt", "Permit"),
    "sessions": ("fork_session", "list_sessions", "rename_session", "session_messages", "tag_session"),
}  # fmt: skip
_PLACES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_PLACES)


def __getattr__(name: str) -> "Any":
    home = _PLACES.get(name)
    if home is None:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.sdk.{home}"), name)
