"""clew: a coding agent for the terminal, and the message and session engine under it.

`import clew` loads nothing else. Each name is loaded when a program first uses it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from clew.fronts.sdk.client import ClewClient as ClewClient
    from clew.fronts.sdk.client import query as query
    from clew.fronts.sdk.functions import Function as Function
    from clew.fronts.sdk.functions import tool as tool
    from clew.fronts.sdk.messages import Assistant as Assistant
    from clew.fronts.sdk.messages import Result as Result
    from clew.fronts.sdk.messages import StreamEvent as StreamEvent
    from clew.fronts.sdk.messages import System as System
    from clew.fronts.sdk.messages import Text as Text
    from clew.fronts.sdk.messages import Thinking as Thinking
    from clew.fronts.sdk.messages import ToolResult as ToolResult
    from clew.fronts.sdk.messages import ToolUse as ToolUse
    from clew.fronts.sdk.messages import User as User
    from clew.fronts.sdk.options import Call as Call
    from clew.fronts.sdk.options import ClewOptions as ClewOptions
    from clew.fronts.sdk.options import Deny as Deny
    from clew.fronts.sdk.options import HookAt as HookAt
    from clew.fronts.sdk.options import Permit as Permit
    from clew.fronts.sdk.sessions import fork_session as fork_session
    from clew.fronts.sdk.sessions import list_sessions as list_sessions
    from clew.fronts.sdk.sessions import rename_session as rename_session
    from clew.fronts.sdk.sessions import session_messages as session_messages
    from clew.fronts.sdk.sessions import tag_session as tag_session

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

    return getattr(import_module(f"clew.fronts.sdk.{home}"), name)
