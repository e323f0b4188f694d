"""The options of a session: one frozen value, and the one table of what fills it.

Each field of `Options` is a row. What stands beside its type says which flags fill it, what the setting
and the variable are that it overrides, and its names in `ClewOptions` and in a host's handshake. The
parser (`clew.session.flags`), the text of `clew --help`, shell completion, `ClewOptions`, the handshake
and docs/using/options.md are made from these rows; `make docs` writes those that are text.

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
# A smaller budget is none to the service.
LEAST_THINKING = 1024
# In a smaller window nothing that survives a compaction has room.
LEAST_WINDOW = 4_000


class Flag(Struct, frozen=True):
    """A flag of the command line: its spellings and its argument, as `clew --help` shows them.

    `-r, --resume [SESSION]` has two spellings and an argument that may be left out; that of
    `--debug[=KINDS]` is never the next word; a flag without an argument is a switch. A switch gives
    its `value`, and so does a flag whose argument is left out.
    """

    spelling: str
    help: str
    read: Callable[[str], Any] = values.word
    choices: tuple[str, ...] = ()
    value: Any = True
    # Given again, its tuples add up; otherwise the last one counts.
    is_repeatable: bool = False


class Overrides(Struct, frozen=True):
    """The setting and the environment variable (a field of its table) that the option overrides."""

    setting: str = ""
    variable: str = ""


class Sdk(Struct, frozen=True):
    """The option's name in `ClewOptions`, and its type where it is another than here or a wider one."""

    name: str = ""
    type: str = ""


class HostMember(Struct, frozen=True):
    """The option's name in a host's `initialize` request.

    What `read` makes of it replaces the option, None being ignored; a switch only leaves its default.
    `yields`: what the command line says stands above the host's word.
    """

    name: str
    read: Callable[[Any], Any] = values.member
    yields: bool = False


class Options(Struct, frozen=True, kw_only=True):
    """The options of one run; None leaves a choice to the settings."""

    # fmt: off
    prompt: str = ""
    is_print: Annotated[bool,
        Flag("-p, --print", "Print the answer to one prompt and exit")] = False
    is_linear: Annotated[bool,
        Flag("--linear", "Write line by line without drawing, for screen readers")] = False
    continues: Annotated[bool, Flag("-c, --continue", "Continue the newest session of this folder"),
        Sdk("continue_conversation")] = False
    resume: Annotated[str | None,
        Flag("-r, --resume [SESSION]",
            "Resume a session by ID, title or file; pick one from a list without it", value=""),
        Sdk()] = None
    fork: Annotated[bool,
        Flag("--fork-session", "Continue in a copy and leave the session as it is"),
        Sdk("fork_session")] = False
    # How much of the session is resumed, and whose turn alone may be dropped.
    resume_at: Annotated[str | None,
        Flag("--resume-session-at UUID", "Resume after this message and drop later ones"),
        Sdk()] = None
    drops_turn: Annotated[str | None,
        Flag("--resume-drops-turn UUID",
            "The same, only if that drops nothing but this prompt's turn")] = None
    session_id: Annotated[str | None,
        Flag("--session-id UUID", "ID of the new session", values.uuid), Sdk()] = None
    name: Annotated[str | None, Flag("-n, --name TITLE", "Title of the session"), Sdk(),
        HostMember("title", values.filled, yields=True)] = None
    # The checkout that the session works in, as the log names it.
    worktree: Annotated[dict[str, Any] | None,
        Flag("-w, --worktree [NAME]", "Work in a git worktree, created if it does not exist",
            values.worktree, value={"worktreeName": ""})] = None
    directories: Annotated[tuple[str, ...],
        Flag("--add-dir DIR", "Add a folder to work in", values.one, is_repeatable=True),
        Sdk("add_dirs")] = ()
    persists: Annotated[bool, Flag("--no-session-persistence", "Write no transcript", value=False),
        Sdk()] = True
    model: Annotated[str | None, Flag("--model MODEL", "Model ID or alias"),
        Overrides("model", "model"), Sdk()] = None
    fallback_models: Annotated[tuple[str, ...],
        Flag("--fallback-model MODELS", "Models to ask when the model can't answer", values.models),
        Overrides("fallbackModel"), Sdk()] = ()
    effort: Annotated[Effort | None,
        Flag("--effort LEVEL", "How much the model thinks",
            choices=("low", "medium", "high", "xhigh", "max")),
        Overrides("effortLevel", "effort"), Sdk()] = None
    thinking: Annotated[Thinking | None,
        Flag("--thinking MODE", "When the model thinks",
            choices=("adaptive", "enabled", "disabled")),
        Flag("--thinking-display FORM", "Form of thinking", choices=("summarized", "omitted")),
        Flag("--max-thinking-tokens N", "Limit thinking to N tokens; 0: off", values.number(0)),
        Overrides("maxThinkingTokens", "max_thinking_tokens"), Sdk()] = None
    betas: Annotated[tuple[str, ...],
        Flag("--betas NAMES", "Beta features to request", values.names)] = ()
    max_turns: Annotated[int | None,
        Flag("--max-turns N", "Stop after N answers of the model", values.number(1)), Sdk()] = None
    max_budget_usd: Annotated[Decimal | None,
        Flag("--max-budget-usd USD", "Stop after the answer that spends this much", values.dollars),
        Sdk(type="Decimal | float | None")] = None
    # How many tokens the model is told it has for the whole task.
    task_budget: Annotated[int | None,
        Flag("--task-budget TOKENS", "Tell the model its budget for the task",
            values.number(1, " token")),
        Sdk()] = None
    # The window that conversations are kept within, where the model's is larger.
    autocompact: Annotated[int | None,
        Flag("--autocompact TOKENS", "Compact to stay within a window of this size",
            values.number(LEAST_WINDOW, " tokens")),
        Overrides(variable="auto_window")] = None
    mode: Annotated[Mode | None,
        Flag("--permission-mode MODE", "Permission mode", values.mode, choices=tuple(values.MODES)),
        Flag("--dangerously-skip-permissions", "The same as --permission-mode bypassPermissions",
            value="bypassPermissions"),
        Overrides("permissions.defaultMode"), Sdk("permission_mode")] = None
    # Whether the mode that asks nobody may be entered while the session runs.
    may_bypass: Annotated[bool,
        Flag("--allow-dangerously-skip-permissions",
            "Allow a later change to bypassPermissions")] = False
    allow: Annotated[tuple[str, ...],
        Flag("--allowedTools, --allowed-tools RULES",
            'Rules that allow, such as "Bash(git log:*),Read"', values.rules, is_repeatable=True),
        Sdk("allowed_tools")] = ()
    deny: Annotated[tuple[str, ...],
        Flag("--disallowedTools, --disallowed-tools RULES", "Rules that deny", values.rules,
            is_repeatable=True),
        Sdk("disallowed_tools")] = ()
    # None: all.
    tools: Annotated[tuple[str, ...] | None,
        Flag("--tools NAMES", 'Built-in tools to offer, such as Read,Bash; "" for none',
            values.tools),
        Sdk()] = None
    # Names that the model may call a tool by, and the tool that is called then.
    tool_aliases: Annotated[dict[str, str], HostMember("toolAliases", values.texts)] = {}
    # Who is asked for permission where nobody sits: the host ("stdio"), or a tool of a server.
    asks: Annotated[str | None,
        Flag("--permission-prompt-tool WHO", "Ask the host (stdio) or a tool (mcp__SERVER__TOOL)"),
        Flag("--permission-prompts WHO", "none: deny what would need an approval",
            choices=("host", "none"))] = None
    system_prompt: Annotated[str | None, Flag("--system-prompt TEXT", "Replace the system prompt"),
        Flag("--system-prompt-file FILE", "The same, from a file", values.file_text), Sdk(),
        HostMember("systemPrompt", values.paragraphs)] = None
    append_system_prompt: Annotated[str | None,
        Flag("--append-system-prompt TEXT", "Add to the system prompt"),
        Flag("--append-system-prompt-file FILE", "The same, from a file", values.file_text), Sdk(),
        HostMember("appendSystemPrompt", values.text)] = None
    # Whether requests go on to begin as those of the session's earlier runs did.
    keeps_prompt: Annotated[bool,
        Flag("--system-prompt-snapshot [SWITCH]",
            "off: rebuild the system prompt in each run of a session", values.switch,
            choices=values.SWITCH),
        HostMember("systemPromptSnapshot")] = True
    has_static_prompt: Annotated[bool,
        Flag("--exclude-dynamic-system-prompt-sections",
            "Accepted; the system prompt never has facts of this machine")] = False
    # How to plan, in the place of clew's own words, where plan mode is on.
    planning: Annotated[str | None, HostMember("planModeInstructions", values.filled)] = None
    settings: Annotated[str | None, Flag("--settings JSON|FILE", "Settings above those of files"),
        Sdk()] = None
    # What the program that started this one forbids it, as JSON: see `clew.system.config.layers`.
    managed: Annotated[str | None,
        Flag("--managed-settings JSON|FILE",
            "Settings that only restrict, above all others")] = None
    # The settings files that are read beside the managed ones; None: every kind.
    sources: Annotated[tuple[Scope, ...] | None,
        Flag("--setting-sources NAMES", "Settings files to read, out of user,project,local",
            values.names_among(*SOURCES)),
        Sdk("setting_sources", 'Sequence[Literal["user", "project", "local"]] | None')] = None
    # No settings files, memory, hooks, servers or agents of files.
    is_bare: Annotated[bool,
        Flag("--bare", "Use only what the command line names, nothing from files")] = False
    has_commands: Annotated[bool,
        Flag("--disable-slash-commands", "Treat lines that begin with / as prompts",
            value=False)] = True
    mcp_config: Annotated[tuple[str, ...],
        Flag("--mcp-config JSON|FILE", "Add MCP servers", values.one, is_repeatable=True)] = ()
    strict_mcp_config: Annotated[bool,
        Flag("--strict-mcp-config", "Use only the servers of --mcp-config"), Sdk()] = False
    plugin_folders: Annotated[tuple[str, ...],
        Flag("--plugin-dir DIR", "Load a plugin, and trust it, for this session", values.one,
            is_repeatable=True),
        Sdk("plugin_dirs")] = ()
    # Those among them whose MCP servers are left out.
    plugins_without_servers: Annotated[tuple[str, ...],
        Flag("--plugin-dir-no-mcp DIR", "The same, without its MCP servers", values.one,
            is_repeatable=True)] = ()
    # As a program spells them.
    agents: Annotated[dict[str, Any] | None,
        Flag("--agents JSON", "Add agents: name to description, prompt, tools ...", values.agents),
        Sdk(type="Mapping[str, Json] | None")] = None
    # The kind of agent that the session is itself: its name, and its definition once kinds are known.
    agent: Annotated[str | None, Flag("--agent NAME", "Run the session as this agent"),
        Overrides("agent"), Sdk()] = None
    lead: "AgentSpec | None" = None
    # Hooks that prepare a folder run first; and perhaps nothing else does.
    setup: Annotated[Literal["", "init", "maintenance"],
        Flag("--init", "Run the Setup hooks first", value="init"),
        Flag("--maintenance", "Run the Setup hooks for maintenance first",
            value="maintenance")] = ""
    only_sets_up: Annotated[bool, Flag("--init-only", "Run the Setup hooks and exit")] = False
    # "" is a file of clew's own, "-" standard error.
    debug: Annotated[str | None, Flag("--debug-file FILE", "Write the debug log to this file"),
        Flag("--debug-to-stderr", "Write the debug log to standard error", value="-")] = None
    # None of them named: all.
    debug_kinds: Annotated[tuple[str, ...],
        Flag("-d, --debug[=KINDS]", "Write a debug log; KINDS are api, tools, hooks, session",
            values.names_among("api", "tools", "hooks", "session"), value=())] = ()
    output_format: Annotated[str,
        Flag("--output-format FORMAT", "Format of --print; stream-json needs --verbose",
            choices=("text", "json", "stream-json"))] = "text"
    json_schema: Annotated[dict[str, Any] | None,
        Flag("--json-schema JSON|FILE", "Schema of the answer", values.schema),
        Sdk(type="Mapping[str, Any] | None"),
        HostMember("jsonSchema", values.answer_schema, yields=True)] = None
    verbose: Annotated[bool, Flag("--verbose", "Write more; stream-json needs it")] = False
    input_format: Annotated[str,
        Flag("--input-format FORMAT", "stream-json: read lines of JSON from standard input",
            choices=("text", "stream-json"))] = "text"
    partial: Annotated[bool,
        Flag("--include-partial-messages", "Write each event of the model's stream"),
        Sdk("partial_messages")] = False
    replays: Annotated[bool, Flag("--replay-user-messages", "Write prompts back")] = False
    hook_events: Annotated[bool,
        Flag("--include-hook-events", "Write an event for each hook")] = False
    agent_text: Annotated[bool,
        Flag("--forward-subagent-text", "Write what subagents say, not only their tool calls"),
        Sdk(), HostMember("forwardSubagentText")] = False
    mirrors: Annotated[bool,
        Flag("--session-mirror", "Write each entry of the transcript to the host too")] = False
    suggests: Annotated[bool,
        Flag("--prompt-suggestions [SWITCH]", "Suggest the next prompt after each turn",
            values.switch, choices=values.SWITCH),
        HostMember("promptSuggestions")] = False
    awaits_host: Annotated[bool,
        Flag("--await-initialize", "Wait for the host's initialize request")] = False
    # Whether it begins where another was cleared away; hooks are told.
    is_cleared: bool = False
    # fmt: on


# The sections of `clew --help`: each begins with a field.
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
    """Yield what the row of a field says in one of these kinds."""
    annotation = Options.__annotations__[field]
    yield from (note for note in getattr(annotation, "__metadata__", ()) if isinstance(note, kind))
