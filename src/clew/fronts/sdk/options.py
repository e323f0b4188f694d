"""The options of a session for a program: the command line's options under Python names."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.agent.options import Options, Sdk, notes
from clew.core.json_object import Json
from clew.fronts.sdk.functions import SERVER, Function
from clew.permissions.request import Mode
from clew.providers.base import Effort, Thinking


class Permit(Struct, frozen=True, kw_only=True):
    """Approves a call. If `input` is set, it replaces the call's input."""

    input: Json | None = None


class Deny(Struct, frozen=True, kw_only=True):
    """Rejects a call. `words` tells the model why, and `stop` also ends the turn."""

    words: str
    stop: bool = False


class Call(Struct, frozen=True, kw_only=True):
    """A call that needs approval: what it would do, and why approval is needed."""

    tool: str
    input: Json
    title: str
    why: str
    tool_use_id: str


Permission: TypeAlias = Callable[[Call], Awaitable[Permit | Deny]]
# Receives the event's input and the id of its call; answers as a command hook does.
HookFunction: TypeAlias = Callable[[Json, str | None], Awaitable[Json]]


class HookAt(Struct, frozen=True, kw_only=True):
    """A function to call at an event. `matcher` selects tools by name; an empty one matches all."""

    event: str
    call: HookFunction
    matcher: str = ""
    timeout_s: float | None = None


class ClewOptions(Struct, frozen=True, kw_only=True):
    """The options of a session; None leaves a choice to the settings. See docs/using/options.md."""

    cwd: str | os.PathLike[str] | None = None
    # Added to the process's environment.
    env: Mapping[str, str] = {}
    can_use_tool: Permission | None = None
    hooks: Sequence[HookAt] = ()
    # Functions of the program that the model may call as `mcp__program__NAME`.
    functions: Sequence[Function] = ()
    # MCP servers by name, as in `.mcp.json`.
    mcp_servers: Mapping[str, Json] = {}
    # Made from `clew.agent.options` by `make docs`.
    continue_conversation: bool = False
    resume: str | None = None
    fork_session: bool = False
    resume_at: str | None = None
    session_id: str | None = None
    name: str | None = None
    add_dirs: Sequence[str] = ()
    persists: bool = True
    model: str | None = None
    fallback_models: Sequence[str] = ()
    effort: Effort | None = None
    thinking: Thinking | None = None
    max_turns: int | None = None
    max_budget_usd: Decimal | float | None = None
    task_budget: int | None = None
    permission_mode: Mode | None = None
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    tools: Sequence[str] | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    settings: str | None = None
    setting_sources: Sequence[Literal["user", "project", "local"]] | None = None
    strict_mcp_config: bool = False
    plugin_dirs: Sequence[str] = ()
    agents: Mapping[str, Json] | None = None
    agent: str | None = None
    json_schema: Mapping[str, Any] | None = None
    partial_messages: bool = False
    agent_text: bool = False
    # End of what is made.

    def as_options(self, *, asks_host: bool = False) -> Options:
        servers = dict(self.mcp_servers)
        if self.functions:
            servers[SERVER] = {"type": "sdk", "name": SERVER}
        mcp_config = msgspec.json.encode({"mcpServers": servers}).decode()
        shared = {
            field: plain(getattr(self, sdk.name or field))
            for field in Options.__struct_fields__
            for sdk in notes(field, Sdk)
        }
        return Options(
            is_print=True,
            verbose=True,
            output_format="stream-json",
            input_format="stream-json",
            asks="stdio" if asks_host or self.can_use_tool is not None else None,
            may_bypass=self.permission_mode == "bypassPermissions",
            mcp_config=(mcp_config,) if servers else (),
            **shared,
        )


def plain(value: Any) -> Any:
    """Convert a value from a program to the type that `Options` uses."""
    match value:
        case str():
            return value
        case float():
            return Decimal(str(value))
        case Mapping():
            return dict(value)
        case Sequence():
            return tuple(value)
        case _:
            return value
