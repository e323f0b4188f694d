"""What every front can be told at the start of a session, as one frozen value.

`clew.session.flags` reads it from a command line.

Decision: docs/decisions/002-start-up-imports.md
"""

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from clew.permissions.request import Mode
from clew.providers.base import Effort, Thinking
from clew.system.config.layers import Scope

if TYPE_CHECKING:
    from clew.agent.subagents.specs import AgentSpec

SOURCES: tuple[Scope, ...] = ("user", "project", "local")
# A smaller budget is none to the service.
LEAST_THINKING = 1024
# In a smaller window nothing that survives a compaction has room.
LEAST_WINDOW = 4_000


class Options(Struct, frozen=True, kw_only=True):
    """What a person or program asked of this run; None leaves it to the settings."""

    prompt: str = ""
    is_print: bool = False
    # Line by line, where a terminal could be drawn on.
    is_linear: bool = False
    output_format: str = "text"
    input_format: str = "text"
    verbose: bool = False
    # Of a stream of messages: every event of the model's too, and the host's own lines said back.
    partial: bool = False
    replays: bool = False
    hook_events: bool = False
    # Who is asked for permission where nobody sits: the host ("stdio"), or a tool of a server.
    asks: str | None = None
    continues: bool = False
    resume: str | None = None
    session_id: str | None = None
    fork: bool = False
    # How far of the session is gone on with, and whose turn alone may be left behind.
    resume_at: str | None = None
    drops_turn: str | None = None
    mirrors: bool = False
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    mode: Mode | None = None
    # Whether the mode that asks nobody may be entered while the session runs.
    may_bypass: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    settings: str | None = None
    # What the program that started this one forbids it, as JSON: see `clew.system.config.layers`.
    managed: str | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    max_turns: int | None = None
    max_budget_usd: Decimal | None = None
    # The shape of the answer, where a program asks for one.
    json_schema: dict[str, Any] | None = None
    persists: bool = True
    # The window that conversations are kept within, where the model's is larger.
    autocompact: int | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    betas: tuple[str, ...] = ()
    # The built-in tools there are; None: all.
    tools: tuple[str, ...] | None = None
    # Names that the model may call a tool by, and the tool that is called then.
    tool_aliases: dict[str, str] = {}
    # How to plan, in the place of clew's own words, where plan mode is on.
    planning: str | None = None
    # The settings files that are read beside the managed ones; None: every kind.
    sources: tuple[Scope, ...] | None = None
    name: str | None = None
    # The kind of agent that the session is itself: its name, and its definition once kinds are known.
    agent: str | None = None
    lead: "AgentSpec | None" = None
    # How many tokens the model is told it has for the whole task.
    task_budget: int | None = None
    # Whether requests go on to begin as those of the session's earlier runs did.
    keeps_prompt: bool = True
    # Whether a prompt that may come next is said behind each turn.
    suggests: bool = False
    # Whether nothing is done before the host has introduced itself.
    awaits_host: bool = False
    # The checkout that the session works in, as the log names it.
    worktree: dict[str, Any] | None = None
    # Kinds of agents by name, as a program spells them.
    agents: dict[str, Any] | None = None
    # Folders of plugins for this session alone.
    plugin_folders: tuple[str, ...] = ()
    # Those among them whose MCP servers are left out.
    plugins_without_servers: tuple[str, ...] = ()
    # Only what the command line names: no settings files, memory, hooks, servers or agents of files.
    is_bare: bool = False
    # Whether lines that begin with a slash are commands.
    has_commands: bool = True
    # Where what happens is written down for whoever looks for a fault: "" is a file of clew's own, "-"
    # standard error; and of which kinds, none being all.
    debug: str | None = None
    debug_kinds: tuple[str, ...] = ()
    # Hooks that prepare a folder run first; and perhaps nothing else does.
    setup: Literal["", "init", "maintenance"] = ""
    only_sets_up: bool = False
    # Whether it begins where another was cleared away; hooks are told.
    is_cleared: bool = False
    # Stream of messages: what agents say, not only which tools they use.
    agent_text: bool = False
