"""The options of a session: one frozen value, and the table of their sources.

Each field of `Options` is a row. Its annotations list the flags that fill it, the setting and the
variable that it overrides, and its names in `ClewOptions` and in a host's handshake. The parser
(`clew.session.flags`), the text of `clew --help`, shell completion, `ClewOptions`, the handshake
and docs/using/options.md are all derived from these rows; `make docs` updates the generated files.

Decision: docs/decisions/002-start-up-imports.md
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from msgspec import Struct

from clew.agent import option_values as values
from clew.permissions.request import Mode
from clew.providers.base import Effort, Thinking
from clew.system.config.layers import Scope

if TYPE_CHECKING:
    from clew.agent.subagents.specs import AgentSpec

SOURCES: tuple[Scope, ...] = ("user", "project", "local")
# The service rejects a smaller budget.
LEAST_THINKING = 1024
# A smaller window has no room for what survives a compaction.
LEAST_WINDOW = 4_000


class Flag(Struct, frozen=True):
    """A command-line flag: its spellings and its argument, as `clew --help` shows them.

    `-r, --resume [SESSION]` has two spellings and an optional argument. The argument of
    `--debug[=KINDS]` must follow the `=`. A flag without an argument is a switch. A switch, or a
    flag without its optional argument, sets the option to `value`.
    """

    spelling: str
    help: str
    read: Callable[[str], Any] = values.word
    choices: tuple[str, ...] = ()
    value: Any = True
    # Repeated tuples are concatenated; otherwise the last value applies.
    is_repeatable: bool = False


class Overrides(Struct, frozen=True):
    """The setting and the environment variable that the option overrides.

    The variable is given as a field of the environment's table.
    """

    setting: str = ""
    variable: str = ""


class Sdk(Struct, frozen=True):
    """The option's name in `ClewOptions`, and its type there if it is different."""

    name: str = ""
    type: str = ""


class HostMember(Struct, frozen=True):
    """The option's name in a host's `initialize` request.

    The result of `read` replaces the option's value unless it is None. A switch can only be changed
    from its default. With `yields`, a value from the command line takes precedence over the host's.
    """

    name: str
    read: Callable[[Any], Any] = values.member
    yields: bool = False


class Options(Struct, frozen=True, kw_only=True):
    """The options of one run. If an option is None, the settings decide."""

    # fmt: off
    prompt: str = ""
    is_print: Annotated[bool,
        Flag("-p, --print", "Print the answer to one prompt and exit")] = False
    is_linear: Annotated[bool,
        Flag("--linear", "Line-by-line output, for screen readers")] = False
    continues: Annotated[bool, Flag("-c, --continue", "Continue the newest session in this folder"),
        Sdk("continue_conversation")] = False
    resume: Annotated[str | None,
        Flag("-r, --resume [SESSION]",
            "Resume a session by ID, title or file (no value: pick from a list)", value=""),
        Flag("--from-pr NUMBER|URL", "Resume the session that created this pull request",
            values.pull_request),
        Sdk()] = None
    fork: Annotated[bool,
        Flag("--fork-session", "Fork: continue in a copy with a new session ID"),
        Sdk("fork_session")] = False
    # The part of the session that is resumed, and the turn that may be dropped.
    resume_at: Annotated[str | None,
        Flag("--resume-session-at UUID", "Resume after this message and drop later ones"),
        Sdk()] = None
    drops_turn: Annotated[str | None,
        Flag("--resume-drops-turn UUID",
            "Fail if --resume-session-at drops more than this turn")] = None
    session_id: Annotated[str | None,
        Flag("--session-id UUID", "ID of the new session", values.uuid), Sdk()] = None
    name: Annotated[str | None, Flag("-n, --name TITLE", "Title of the session"), Sdk(),
        HostMember("title", values.filled, yields=True)] = None
    # The worktree of the session, in the form recorded in the transcript.
    worktree: Annotated[dict[str, Any] | None,
        Flag("-w, --worktree [NAME]", "Run in a git worktree (created if missing)",
            values.worktree, value={"worktreeName": ""})] = None
    directories: Annotated[tuple[str, ...],
        Flag("--add-dir DIR", "Additional working folder", values.one, is_repeatable=True),
        Sdk("add_dirs")] = ()
    persists: Annotated[bool,
        Flag("--no-session-persistence", "Don't save the session", value=False), Sdk()] = True
    model: Annotated[str | None, Flag("--model MODEL", "Model ID or alias"),
        Overrides("model", "model"), Sdk()] = None
    fallback_models: Annotated[tuple[str, ...],
        Flag("--fallback-model MODELS", "Models to try in order while the main model is overloaded", values.models),
        Overrides("fallbackModel"), Sdk()] = ()
    effort: Annotated[Effort | None,
        Flag("--effort LEVEL", "Reasoning effort of the model",
            choices=("low", "medium", "high", "xhigh", "max")),
        Overrides("effortLevel", "effort"), Sdk()] = None
    thinking: Annotated[Thinking | None,
        Flag("--thinking MODE", "Thinking mode of the model",
            choices=("adaptive", "enabled", "disabled")),
        Flag("--thinking-display FORM", "How thinking is returned",
            choices=("summarized", "omitted")),
        Flag("--max-thinking-tokens N", "Limit thinking to N tokens; 0: off", values.number(0)),
        Overrides("maxThinkingTokens", "max_thinking_tokens"), Sdk()] = None
    betas: Annotated[tuple[str, ...],
        Flag("--betas NAMES", "Beta features to request", values.names)] = ()
    max_turns: Annotated[int | None,
        Flag("--max-turns N", "Stop each turn after N model responses", values.number(1)), Sdk()] = None
    max_budget_usd: Annotated[Decimal | None,
        Flag("--max-budget-usd USD", "Maximum cost of the session, including subagents",
            values.dollars),
        Overrides("maxBudgetUsd"), Sdk(type="Decimal | float | None")] = None
    # The token budget for the task, as stated to the model.
    task_budget: Annotated[int | None,
        Flag("--task-budget TOKENS", "Token budget for the task, as stated to the model",
            values.number(1, " token")),
        Sdk()] = None
    # The context window to keep conversations within, if the model's own window is larger.
    autocompact: Annotated[int | None,
        Flag("--autocompact TOKENS", "Compact to fit a context window of this size",
            values.number(LEAST_WINDOW, " tokens")),
        Overrides(variable="auto_window")] = None
    mode: Annotated[Mode | None,
        Flag("--permission-mode MODE", "Permission mode", values.mode, choices=tuple(values.MODES)),
        Flag("--dangerously-skip-permissions", "Same as --permission-mode bypassPermissions",
            value="bypassPermissions"),
        Overrides("permissions.defaultMode"), Sdk("permission_mode")] = None
    # Whether the session may later switch to bypassPermissions.
    may_bypass: Annotated[bool,
        Flag("--allow-dangerously-skip-permissions",
            "Allow switching to bypassPermissions mode later")] = False
    allow: Annotated[tuple[str, ...],
        Flag("--allowedTools, --allowed-tools RULES",
            'Rules that allow tool calls, such as "Bash(git log:*),Read"', values.rules, is_repeatable=True),
        Sdk("allowed_tools")] = ()
    deny: Annotated[tuple[str, ...],
        Flag("--disallowedTools, --disallowed-tools RULES", "Rules that deny tool calls", values.rules,
            is_repeatable=True),
        Sdk("disallowed_tools")] = ()
    # None: all tools.
    tools: Annotated[tuple[str, ...] | None,
        Flag("--tools NAMES", 'Built-in tools to offer, such as Read,Bash; "" for none',
            values.tools),
        Sdk()] = None
    # Maps other names by which a model may call tools to the tools' own names.
    tool_aliases: Annotated[dict[str, str], HostMember("toolAliases", values.texts)] = {}
    # The target of permission prompts without a user: the host ("stdio") or an MCP tool.
    asks: Annotated[str | None,
        Flag("--permission-prompt-tool WHO",
            "Who approves: the host (stdio) or a tool (mcp__SERVER__TOOL)"),
        Flag("--permission-prompts WHO", "host: ask as usual; none: deny calls that need approval",
            choices=("host", "none"))] = None
    system_prompt: Annotated[str | None, Flag("--system-prompt TEXT", "Replace the system prompt"),
        Flag("--system-prompt-file FILE", "Read the system prompt from a file",
            values.file_text), Sdk(),
        HostMember("systemPrompt", values.paragraphs)] = None
    append_system_prompt: Annotated[str | None,
        Flag("--append-system-prompt TEXT", "Append text to the system prompt"),
        Flag("--append-system-prompt-file FILE", "Append a file to the system prompt",
            values.file_text), Sdk(),
        HostMember("appendSystemPrompt", values.text)] = None
    # Whether requests begin exactly like those of the session's earlier runs.
    keeps_prompt: Annotated[bool,
        Flag("--system-prompt-snapshot [SWITCH]",
            "off: rebuild the system prompt in each run of a session", values.switch,
            choices=values.SWITCH),
        HostMember("systemPromptSnapshot")] = True
    has_static_prompt: Annotated[bool,
        Flag("--exclude-dynamic-system-prompt-sections",
            "No effect: the system prompt has no machine-specific facts")] = False
    # Instructions for plan mode that replace clew's own.
    planning: Annotated[str | None, HostMember("planModeInstructions", values.filled)] = None
    settings: Annotated[str | None,
        Flag("--settings JSON|FILE", "Extra settings; only managed settings override them"),
        Sdk()] = None
    # The restrictions set by the program that started this one, as JSON: see
    # `clew.system.config.layers`.
    managed: Annotated[str | None,
        Flag("--managed-settings JSON|FILE",
            "Restrictions that override all other settings (see parentSettingsBehavior)")] = None
    # The settings files to read in addition to the managed ones; None: all.
    sources: Annotated[tuple[Scope, ...] | None,
        Flag("--setting-sources NAMES", "Settings files to read: user,project,local",
            values.names_among(*SOURCES)),
        Sdk("setting_sources", 'Sequence[Literal["user", "project", "local"]] | None')] = None
    # Whether settings files, memory files, hooks, MCP servers and agents from files are ignored.
    is_bare: Annotated[bool,
        Flag("--bare", "Load no memory, hooks, servers, agents or settings, except managed settings"),
        Flag("--safe-mode", "Same as --bare")] = False
    # Whether the session may only change files in the workspace, and run no commands.
    is_restricted: Annotated[bool,
        Flag("--restricted",
            "No commands, WebFetch, settings files, or changes outside the workspace")] = False
    has_commands: Annotated[bool,
        Flag("--disable-slash-commands", "Treat lines that begin with / as prompts",
            value=False)] = True
    mcp_config: Annotated[tuple[str, ...],
        Flag("--mcp-config JSON|FILE", "Add MCP servers", values.one, is_repeatable=True)] = ()
    strict_mcp_config: Annotated[bool,
        Flag("--strict-mcp-config", "Use only the servers from --mcp-config"), Sdk()] = False
    plugin_folders: Annotated[tuple[str, ...],
        Flag("--plugin-dir DIR", "Load and trust a plugin for this session", values.one,
            is_repeatable=True),
        Sdk("plugin_dirs")] = ()
    # The plugin folders whose MCP servers are left out.
    plugins_without_servers: Annotated[tuple[str, ...],
        Flag("--plugin-dir-no-mcp DIR", "Like --plugin-dir, without the plugin's MCP servers",
            values.one, is_repeatable=True)] = ()
    ide: Annotated[bool, Flag("--ide", "Connect to the editor that has this folder open"),
        Overrides("autoConnectIde")] = False
    # Agent definitions as a program passes them.
    agents: Annotated[dict[str, Any] | None,
        Flag("--agents JSON", "Define agents: {NAME: {description, prompt, tools, ...}}",
            values.agents),
        Sdk(type="Mapping[str, Json] | None")] = None
    # The session's own agent: its name, and its definition once agents are loaded.
    agent: Annotated[str | None, Flag("--agent NAME", "Run the session as this agent"),
        Overrides("agent"), Sdk()] = None
    lead: "AgentSpec | None" = None
    # Which Setup hooks run first, if any. With `only_sets_up`, nothing else runs.
    setup: Annotated[Literal["", "init", "maintenance"],
        Flag("--init", "Run the Setup hooks first", value="init"),
        Flag("--maintenance", "Run the Setup hooks for maintenance first",
            value="maintenance")] = ""
    only_sets_up: Annotated[bool, Flag("--init-only", "Run the Setup hooks and exit")] = False
    # "" is clew's own file, "-" standard error.
    debug: Annotated[str | None, Flag("--debug-file FILE", "Write the debug log to this file"),
        Flag("--debug-to-stderr", "Write the debug log to standard error", value="-")] = None
    # Empty: all kinds.
    debug_kinds: Annotated[tuple[str, ...],
        Flag("-d, --debug[=KINDS]", "Write a debug log; KINDS are api, tools, hooks, session",
            values.names_among("api", "tools", "hooks", "session"), value=())] = ()
    # The server of a remote session; empty: the one in the environment.
    remote: Annotated[str | None,
        Flag("--remote [URL]", "Make this session available to viewers on a clew server", value="")] = None
    output_format: Annotated[str,
        Flag("--output-format FORMAT", "Output format of --print; stream-json requires --verbose",
            choices=("text", "json", "stream-json"))] = "text"
    json_schema: Annotated[dict[str, Any] | None,
        Flag("--json-schema JSON|FILE", "JSON Schema for the answer", values.schema),
        Sdk(type="Mapping[str, Any] | None"),
        HostMember("jsonSchema", values.answer_schema, yields=True)] = None
    verbose: Annotated[bool, Flag("--verbose", "Show full tool output; required by stream-json")] = False
    input_format: Annotated[str,
        Flag("--input-format FORMAT", "stream-json: read JSON lines from standard input",
            choices=("text", "stream-json"))] = "text"
    partial: Annotated[bool,
        Flag("--include-partial-messages", "Include the streaming events of responses"),
        Sdk("partial_messages")] = False
    replays: Annotated[bool,
        Flag("--replay-user-messages", "Echo user messages to the output")] = False
    hook_events: Annotated[bool,
        Flag("--include-hook-events", "Include hook events in the output")] = False
    agent_text: Annotated[bool,
        Flag("--forward-subagent-text", "Include the text of subagents, not only their tool calls"),
        Sdk(), HostMember("forwardSubagentText")] = False
    mirrors: Annotated[bool,
        Flag("--session-mirror", "Send every transcript entry to the host")] = False
    # The longest line that the host accepts; None: 1 MiB.
    max_frame_bytes: Annotated[int | None,
        Flag("--max-frame-bytes N", "Maximum length of an output line in bytes (default: 1 MiB)",
            values.number(values.LEAST_FRAME_BYTES, " bytes")),
        HostMember("maxFrameBytes", values.frame_size)] = None
    suggests: Annotated[bool,
        Flag("--prompt-suggestions [SWITCH]", "Send the host suggestions for the next prompt",
            values.switch, choices=values.SWITCH),
        HostMember("promptSuggestions")] = False
    awaits_host: Annotated[bool,
        Flag("--await-initialize", "Wait for the host's initialize request")] = False
    # Ignored values from a host, with the reasons. Hosts may be newer than clew.
    ignored: tuple[str, ...] = ()
    # Whether the session replaces one that the user cleared, which is reported to hooks.
    is_cleared: bool = False
    # fmt: on


# The sections of `clew --help`, by the field that each begins with.
SECTIONS = {
    "prompt": "session",
    "model": "model",
    "mode": "permissions",
    "system_prompt": "system prompt",
    "settings": "settings and extensions",
    "setup": "setup and debugging",
    "output_format": "output and hosts",
}

DEFAULTS = dict(zip(Options.__struct_fields__, Options.__struct_defaults__, strict=True))
Note = TypeVar("Note", Flag, Overrides, Sdk, HostMember)


def notes(field: str, kind: type[Note]) -> Iterator[Note]:
    """Yield a field's annotations of this kind."""
    annotation = Options.__annotations__[field]
    yield from (note for note in getattr(annotation, "__metadata__", ()) if isinstance(note, kind))
