"""What a program asks of a session, as a value; the words of the command line in Python's spelling."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.agent.options import Options
from clew.core.json_object import Json
from clew.fronts.sdk.functions import SERVER, Function
from clew.permissions.request import Mode
from clew.providers.base import Effort, Thinking


class Permit(Struct, frozen=True, kw_only=True):
    """Yes; with `input`, to this call instead."""

    input: Json | None = None


class Deny(Struct, frozen=True, kw_only=True):
    """No: the model reads `words`. `stop` ends the turn as well."""

    words: str
    stop: bool = False


class Call(Struct, frozen=True, kw_only=True):
    """A call that needs somebody's word: what it would do, and why it asks."""

    tool: str
    input: Json
    title: str
    why: str
    tool_use_id: str


Permission: TypeAlias = Callable[[Call], Awaitable[Permit | Deny]]
# Given the event's input and the id of the call it is about; answers as a hook's program would.
HookFunction: TypeAlias = Callable[[Json, str | None], Awaitable[Json]]


class HookAt(Struct, frozen=True, kw_only=True):
    """A function at an event, for the tools that `matcher` names; an empty one means all."""

    event: str
    call: HookFunction
    matcher: str = ""
    timeout_s: float | None = None


class ClewOptions(Struct, frozen=True, kw_only=True):
    """None leaves a choice to the settings, as on the command line."""

    cwd: str | os.PathLike[str] | None = None
    # Laid over the process's environment.
    env: Mapping[str, str] = {}
    model: str | None = None
    fallback_models: Sequence[str] = ()
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    permission_mode: Mode | None = None
    allowed_tools: Sequence[str] = ()
    disallowed_tools: Sequence[str] = ()
    # The built-in tools there are; None: all.
    tools: Sequence[str] | None = None
    add_dirs: Sequence[str] = ()
    settings: str | None = None
    setting_sources: Sequence[Literal["user", "project", "local"]] | None = None
    resume: str | None = None
    continue_conversation: bool = False
    fork_session: bool = False
    session_id: str | None = None
    max_turns: int | None = None
    max_budget_usd: Decimal | float | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    partial_messages: bool = False
    persists: bool = True
    can_use_tool: Permission | None = None
    hooks: Sequence[HookAt] = ()
    # Functions of the program that the model may call, as `mcp__program__NAME`.
    functions: Sequence[Function] = ()
    # MCP servers by name, as in `.mcp.json`.
    mcp_servers: Mapping[str, Json] = {}
    strict_mcp_config: bool = False
    # Folders of plugins for this session alone.
    plugin_dirs: Sequence[str] = ()
    # The shape of the answer: `Result.structured_output` has it.
    json_schema: Mapping[str, Any] | None = None
    # Where a session that is gone on with is taken up, and its title.
    resume_at: str | None = None
    name: str | None = None
    # The kind of agent that the session is itself.
    agent: str | None = None
    task_budget: int | None = None
    # Kinds of agents by name: `description`, `prompt`, `tools` and what else docs/agents.md names.
    agents: Mapping[str, Json] = {}
    # What agents say, not only the tools they use.
    agent_text: bool = False

    def as_options(self, *, asks_host: bool = False) -> Options:
        budget = self.max_budget_usd
        servers = dict(self.mcp_servers)
        if self.functions:
            servers[SERVER] = {"type": "sdk", "name": SERVER}
        given = msgspec.json.encode({"mcpServers": servers}).decode()
        return Options(
            is_print=True,
            verbose=True,
            output_format="stream-json",
            input_format="stream-json",
            partial=self.partial_messages,
            asks="stdio" if asks_host or self.can_use_tool is not None else None,
            continues=self.continue_conversation,
            resume=self.resume,
            session_id=self.session_id,
            fork=self.fork_session,
            model=self.model,
            fallback_models=tuple(self.fallback_models),
            mode=self.permission_mode,
            may_bypass=self.permission_mode == "bypassPermissions",
            allow=tuple(self.allowed_tools),
            deny=tuple(self.disallowed_tools),
            directories=tuple(self.add_dirs),
            system_prompt=self.system_prompt,
            append_system_prompt=self.append_system_prompt,
            settings=self.settings,
            sources=None if self.setting_sources is None else tuple(self.setting_sources),
            tools=None if self.tools is None else tuple(self.tools),
            max_turns=self.max_turns,
            max_budget_usd=None if budget is None else Decimal(str(budget)),
            thinking=self.thinking,
            effort=self.effort,
            persists=self.persists,
            mcp_config=(given,) if servers else (),
            strict_mcp_config=self.strict_mcp_config,
            plugin_folders=tuple(self.plugin_dirs),
            json_schema=None if self.json_schema is None else dict(self.json_schema),
            resume_at=self.resume_at,
            name=self.name,
            agent=self.agent,
            task_budget=self.task_budget,
            agents=dict(self.agents) or None,
            agent_text=self.agent_text,
        )
