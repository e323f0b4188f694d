"""What the program around a session brings into it: functions of its own at the session's events,
MCP servers, and kinds of agents."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from clew.hooks.handlers import Hook

if TYPE_CHECKING:
    from clew.mcp.server import MakeLine
    from clew.tools.editor import Buffers, Terminal


class Brought(Struct, frozen=True, kw_only=True):
    """`hooks` run like those of the settings, from the session's first event on."""

    hooks: Sequence[Hook] = ()
    # Kinds of agents by name, as hosts spell them.
    agents: Mapping[str, Any] = {}
    # The skills that the model is told of and may load, by name; None: all.
    skills: Sequence[str] | None = None
    # The way to MCP servers in that program: the server's name and a message, and what it answers.
    to_host: Callable[[str, dict[str, Any]], Awaitable[Any]] | None = None
    # The same where messages go both ways: makes the line to such a server.
    in_host: "MakeLine | None" = None
    # Puts a server's question to a person of that program: what they say to it, None where it has no way to
    # ask, and they are asked as about a call.
    elicit: "Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]] | None" = None
    # What the editor around the session has open, and where its commands can be watched.
    buffers: "Buffers | None" = None
    terminal: "Terminal | None" = None
    # Servers of this session, each as an entry of settings that is taken literally.
    servers: Mapping[str, dict[str, Any]] = {}


NOTHING = Brought()
