"""The settings: the table of known keys, the validation of a settings file, and typed readers.

A key that is not in the table is reported with the nearest known key and stays in the file, because
newer versions and other tools may use it. The merge leaves out values of the wrong type (see
`layers`). docs/using/settings.md, `settings.schema.json` and the doctor's findings are generated
from this table.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
from clew.core.nearest import find_nearest, suggest_nearest
from clew.system.config.json_text import Path, join_path

STRING = "a string"
BOOLEAN = "true or false"
WHOLE = "a whole number"
OBJECT = "an object"
STRINGS = "an array of strings"
RULES = "an array of permission rules"
TEXTS = "an object of strings"
LIST = "an array"
NUMBER = "a number"
NUMBERS = "an object of numbers"
NUMBER_OR_NUMBERS = "a number or an object of numbers"

OBJECTS = (OBJECT, TEXTS, NUMBERS, NUMBER_OR_NUMBERS)
TYPES: dict[str, type | tuple[type, ...]] = {
    STRING: str, BOOLEAN: bool, WHOLE: int, NUMBER: (int, float), OBJECT: dict, TEXTS: dict,
    NUMBERS: dict, NUMBER_OR_NUMBERS: (dict, int, float), STRINGS: list, RULES: list, LIST: list,
}  # fmt: skip

MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "manual")
THEMES = (
    "auto", "dark", "light", "dark-ansi", "light-ansi", "dark-daltonized", "light-daltonized",
    "plain",
)  # fmt: skip
CHANNELS = (
    "auto", "terminal_bell", "iterm2", "iterm2_with_bell", "kitty", "ghostty",
    "notifications_disabled",
)  # fmt: skip


class SettingKey(Struct, frozen=True, kw_only=True):
    """One known key: its dotted name, its type, and a one-line description.

    `executes`: the value can start programs, extend what runs without asking, or choose who reviews
    calls, so the files in a project may not set it before the folder is trusted. `strictness`: the
    values from strict to loose; the value of an untrusted folder applies only if it is stricter
    than the user's.
    """

    name: str
    kind: str
    meaning: str
    # The value that applies if the key is not set; None if it depends on other things.
    default: Any = None
    choices: tuple[str, ...] = ()
    executes: bool = False
    strictness: tuple[tuple[Any, ...], ...] = ()
    managed_only: bool = False
    # True if a change applies to running sessions too; otherwise it applies to new sessions only.
    is_live: bool = False
    is_secret: bool = False
    # Why clew does not support the key, which stays in the file for other programs. clew names such
    # keys at the start, unless they have the value `fulfilled`, which asks for what clew does anyway.
    unsupported: str = ""
    fulfilled: Any = None

    @property
    def has_effect(self) -> bool:
        return not self.unsupported


def key(name: str, kind: str, meaning: str, **fields: Any) -> SettingKey:
    return SettingKey(name=name, kind=kind, meaning=meaning, **fields)


# fmt: off
KEYS: tuple[SettingKey, ...] = (
    key("$schema", STRING, "JSON Schema for editors (see clew config schema)"),
    key("model", STRING, "Model ID or alias"),
    key("models", OBJECT, "Custom models and their properties", executes=True),
    key("smallModel", STRING, "Model for small tasks, such as session titles", executes=True),
    key("services", OBJECT, "Custom services and their properties", executes=True),
    key("fallbackModel", STRING,
        "Models, separated by commas, to try in order while the main model is overloaded",
        executes=True),
    key("apiVersion", STRING, "Messages API version (default: the version the server reports)"),
    key("cacheDiagnostics", BOOLEAN,
        "Ask the API why a request missed the prompt cache (default: only for Anthropic's API)"),
    key("messageThreads", BOOLEAN,
        "Send only new messages; the server stores earlier ones for up to 1 h "
        "(incompatible with zero data retention)",
        executes=True),
    key("cacheWarmingBudgetUsd", NUMBER,
        "Maximum cost per session, in dollars, of keeping the prompt cache warm; 0: off",
        default=0, executes=True, is_live=True),
    key("maxBudgetUsd", NUMBER,
        "Maximum cost of a session in dollars, including subagents; 0: no limit",
        executes=True),
    key("effortLevel", STRING, "Reasoning effort of the model"),
    key("maxEffortLevel", STRING,
        "Highest reasoning effort allowed; higher levels are reduced to this one",
        choices=("low", "medium", "high", "xhigh", "max"),
        strictness=(("low",), ("medium",), ("high",), ("xhigh",), ("max", None))),
    key("alwaysThinkingEnabled", BOOLEAN,
        "false: turn thinking off, unless maxThinkingTokens is set"),
    key("maxThinkingTokens", WHOLE, "Maximum number of thinking tokens per response; 0: off"),
    key("env", TEXTS, "Environment variables for the session and the programs it starts",
        executes=True, is_secret=True),
    key("apiKeyHelper", STRING, "Command that prints the API key", executes=True),
    key("awsAuthRefresh", STRING, "Command that refreshes AWS credentials", executes=True),
    key("awsCredentialExport", STRING, "Command that prints AWS credentials", executes=True),
    key("gcpAuthRefresh", STRING, "Command that refreshes Google credentials", executes=True),
    key("otelHeadersHelper", STRING, "Command that prints telemetry headers as JSON",
        executes=True),
    key("cleanupPeriodDays", WHOLE, "Days after which an unused session is deleted",
        unsupported="clew deletes sessions only on request; run clew sessions prune"),
    key("sessionStore", STRING, "Session store to copy sessions to: a folder or a URL",
        executes=True, is_secret=True),
    key("remoteAnswers", STRING,
        "Scope of approvals from other devices: once or session",
        default="once", choices=("once", "session"), executes=True),
    key("remoteSealed", BOOLEAN,
        "Encrypt sessions that are sent to servers and session stores", default=False,
        executes=True),
    key("remoteFolders", STRINGS, "Folders in which clew host may start sessions (user settings only)",
        executes=True),
    # Off by default: the list of 120 lines costs about 1,000 tokens in every session, and the model
    # lists what it needs in its first call. The list helps where commands are not allowed.
    key("includeDirectoryStructure", BOOLEAN, "List the project's files at the start of a session",
        default=False),
    key("includeCoAuthoredBy", BOOLEAN, "Credit clew at the end of commit messages", default=False,
        executes=True),
    key("attribution", OBJECT,
        "Last lines of commit messages (commit; {share}: the share of lines that clew wrote) "
        "and pull request descriptions (pr)",
        executes=True),
    key("outputStyle", STRING, "Output style"),
    key("agent", STRING, "Agent to run the session as", executes=True),
    key("promptSuggestionEnabled", BOOLEAN, "Suggest prompts if --prompt-suggestions is given",
        default=True, is_live=True),
    key("generateTitles", BOOLEAN,
        "Title new sessions with the small model (default: only for Anthropic's API)",
        is_live=True),
    key("language", STRING, "Language of the model's responses"),
    key("theme", STRING, "Color theme in the terminal", choices=THEMES, is_live=True),
    key("editorMode", STRING, "Key bindings of the prompt", choices=("normal", "emacs", "vim"),
        is_live=True),
    key("apiMetrics", BOOLEAN,
        "Record each turn's time to the first token and output tokens per second",
        default=False, is_live=True),
    key("showTurnDuration", BOOLEAN,
        "Record how long each turn took (default: only turns of 30 s or more)", is_live=True),
    key("verbose", BOOLEAN, "Show the full output of tools instead of collapsing it",
        default=False),
    key("messageIdleNotifThresholdMs", WHOLE,
        "Idle time in milliseconds before notification hooks run", default=60_000, is_live=True),
    key("preferredNotifChannel", STRING, "How clew notifies you when it needs input or is done",
        default="auto", choices=CHANNELS, is_live=True),
    key("spinnerTipsEnabled", BOOLEAN, "Show tips while waiting for the model",
        unsupported="clew shows no tips", fulfilled=False),
    key("autoCompactEnabled", BOOLEAN, "Compact the session when it approaches the context limit",
        default=True, is_live=True),
    key("autoCompactAt", NUMBER_OR_NUMBERS,
        "When to compact: a fraction of the context window or a number of tokens, "
        "for all models or for each model",
        is_live=True),
    key("autoMemoryEnabled", BOOLEAN,
        "Include the index of the project's memory folder in new sessions, and allow reading the "
        "folder",
        default=True),
    key("dreamAfter", STRING,
        "Idle time after which to tidy the project's memories, such as 10m; or off", executes=True),
    key("memoryExtraction", BOOLEAN, "Propose memories at the end of a session", default=False),
    key("notesFile", STRING, "Memory file for notes that you type as `# text`",
        choices=("project", "local", "user"), is_live=True),
    key("respectGitignore", BOOLEAN, "Omit files ignored by git when completing @-mentions",
        default=True, is_live=True),
    key("plansDirectory", STRING, "Folder in the project for plan files (default: plans in the config home)",
        is_live=True),
    key("statusLine", OBJECT, "Command that prints the status line", executes=True, is_live=True),
    key("subagentStatusLine", OBJECT, "Command that prints the status line of a subagent",
        executes=True, unsupported="the tree above the prompt shows the state of subagents"),
    key("fileSuggestion", OBJECT, "Command that completes @-mentions", executes=True, is_live=True),
    key("webPrivateHosts", STRINGS,
        "Hosts with private addresses that WebFetch may access, as HOST or HOST:PORT",
        executes=True, is_live=True),
    key("webSearchEndpoint", STRING,
        "URL with {query} that returns search results as JSON (default: the model's API)",
        executes=True),
    key("hooks", OBJECT, "Commands to run on events", executes=True, is_live=True),
    key("disableAllHooks", BOOLEAN, "Disable all hooks and the status line command",
        default=False, executes=True, is_live=True),
    key("allowedHttpHookUrls", STRINGS, "URLs that hooks may post to; * matches any characters",
        executes=True, is_live=True),
    key("httpHookAllowedEnvVars", STRINGS, "Environment variables that hooks may use in headers",
        executes=True, is_live=True),
    key("mcpServers", OBJECT, "MCP servers", executes=True, is_secret=True),
    key("lspServers", OBJECT, "Language servers", executes=True),
    key("lspDetection", BOOLEAN, "Use installed language servers in trusted folders", default=True),
    key("autoConnectIde", BOOLEAN,
        "Connect to the editor that has the folder open, if there is exactly one",
        default=False, executes=True),
    key("enableAllProjectMcpServers", BOOLEAN, "Approve all servers in .mcp.json",
        default=False, executes=True),
    key("enabledMcpjsonServers", STRINGS, "Servers in .mcp.json that are approved", executes=True),
    key("disabledMcpjsonServers", STRINGS, "Servers in .mcp.json that are rejected, even if approved elsewhere"),
    key("allowedMcpServers", LIST, "The only MCP servers that may be used", managed_only=True),
    key("deniedMcpServers", LIST, "MCP servers that must not be used"),
    key("enabledPlugins", OBJECT, "Enabled plugins", executes=True),
    key("parts", OBJECT,
        "Session parts from installed Python packages, by name: true, false or options",
        executes=True),
    key("extraKnownMarketplaces", OBJECT, "Additional plugin marketplaces",
        executes=True, unsupported="add them with clew plugin marketplace add"),
    key("strictKnownMarketplaces", LIST, "The only plugin marketplaces that may be used",
        managed_only=True),
    key("features", OBJECT, "Subsystems to turn on or off (see clew config flags)", executes=True),
    key("sandbox", OBJECT, "Sandbox for commands", executes=True),
    key("toolTimeouts", NUMBERS,
        "Time limit of tool calls in seconds, by tool name or pattern"),
    key("worktree", OBJECT, "How git worktrees are created",
        unsupported="a WorktreeCreate hook can create worktrees in any way"),
    key("skipWebFetchPreflight", BOOLEAN, "Fetch pages without checking the domain first",
        unsupported="clew never checks domains with a service", fulfilled=True),
    key("forceLoginMethod", STRING, "The only login method allowed",
        unsupported="clew logs in with API keys only"),
    key("companyAnnouncements", STRINGS, "Announcements, one of which is shown at startup",
        executes=True, is_live=True),
    key("updateNotice", BOOLEAN, "Check for a newer version once a day, and show a notice",
        default=False, executes=True, is_live=True),
    key("allowManagedHooksOnly", BOOLEAN, "Run only managed hooks",
        default=False, managed_only=True, is_live=True),
    key("allowManagedPermissionRulesOnly", BOOLEAN, "Apply only managed permission rules",
        default=False, managed_only=True, is_live=True),
    key("allowManagedMcpServersOnly", BOOLEAN, "Read allowedMcpServers from managed settings only",
        unsupported="clew never reads allowedMcpServers anywhere else", fulfilled=True),
    key("availableModels", STRINGS,
        "The only models that may be used: families, versions or IDs; "
        "the default model remains usable"),
    key("availableModelsMatch", STRING,
        "exact: an ID in availableModels allows no later versions, "
        "and the default model must be listed",
        default="prefix", choices=("prefix", "exact"), managed_only=True),
    key("enforceAvailableModels", BOOLEAN, "Require the default model to be in availableModels too",
        default=False, managed_only=True),
    key("deniedModels", STRINGS,
        "Models that must not be used, even if in availableModels: families, versions or IDs",
        managed_only=True),
    key("disableSkillShellExecution", BOOLEAN,
        "Don't run commands in skills, except those built into clew or from managed settings",
        default=False, is_live=True),
    key("parentSettingsBehavior", STRING,
        "merge: also apply the --managed-settings of the program that starts clew",
        default="first-wins", choices=("first-wins", "merge"), managed_only=True),
    key("disableAutoMode", STRING, "Disable auto mode", choices=("disable",), is_live=True),
    key("permissions", OBJECT, "Permission rules and modes"),
    key("permissions.allow", RULES, "Rules for tool calls to allow", executes=True, is_live=True),
    key("permissions.ask", RULES, "Rules for tool calls to ask about", is_live=True),
    key("permissions.deny", RULES, "Rules for tool calls to deny", is_live=True),
    key("permissions.askAfterUntrusted", RULES,
        "Rules for tool calls to ask about once the session contains untrusted content",
        is_live=True),
    key("permissions.defaultMode", STRING, "Initial permission mode",
        default="default", choices=MODES,
        strictness=(("plan", "dontAsk"), ("default", "manual", None), ("acceptEdits",), ("auto",),
                    ("bypassPermissions",))),
    key("permissions.additionalDirectories", STRINGS,
        "Additional folders to treat as part of the workspace",
        executes=True, is_live=True),
    key("permissions.blockWritesOutsideWorkingDirectories", BOOLEAN,
        "Deny Write, Edit and NotebookEdit outside the workspace in every mode, despite allow rules",
        default=False, is_live=True, strictness=((True,), (False, None))),
    key("permissions.disableBypassPermissionsMode", STRING, "Disable bypassPermissions mode",
        choices=("disable",), is_live=True),
    key("permissions.reviewer", STRING,
        "Model that reviews tool calls in auto mode; off: ask you instead",
        executes=True, is_live=True),
    key("permissions.disableAutoMode", STRING, "Disable auto mode", choices=("disable",),
        is_live=True),
    key("permissions.skipDangerousModePermissionPrompt", BOOLEAN,
        "Don't warn about bypassPermissions mode",
        unsupported="clew never shows this warning", fulfilled=True),
)
# fmt: on

BY_NAME = {k.name: k for k in KEYS}
NO_EFFECT = "not supported, kept in the file for other programs"
OPEN_OBJECTS = {k.name for k in KEYS if k.kind in OBJECTS} - {"permissions"}


# Read merged settings, or those of one file. `name` is a key of the table and determines the type.


def value_in(settings: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key if it has the key's type, else the key's default."""
    setting_key = BY_NAME[name]
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if value is not None and has_kind(setting_key.kind, value) else setting_key.default


def read_switch(settings: Mapping[str, Any], name: str) -> bool | None:
    """Return a Boolean, or None if it is not set and has no default."""
    value: bool | None = value_in(settings, name)
    return value


def read_text(settings: Mapping[str, Any], name: str) -> str | None:
    """Return a string, or None if it is empty or not set."""
    return value_in(settings, name) or None


def read_number(settings: Mapping[str, Any], name: str) -> Any:
    """Return an integer or a float, depending on the key's type."""
    return value_in(settings, name)


def read_list(settings: Mapping[str, Any], name: str) -> tuple[Any, ...] | None:
    """Return an array as a tuple, or None if it is not set. Its elements were validated before."""
    value: list[Any] | None = value_in(settings, name)
    return None if value is None else tuple(value)


def read_object(settings: Mapping[str, Any], name: str) -> Json:
    """Return an object, empty if it is not set."""
    value: Json = value_in(settings, name) or {}
    return value


class SettingFault(Struct, frozen=True, kw_only=True):
    """One error in a settings file. If `fatal`, the merge leaves the value out."""

    path: Path
    what: str
    fatal: bool = True
    # Whether the message contains the key.
    names_key: bool = False

    def __str__(self) -> str:
        name = join_path(self.path)
        return f"{name}: {self.what}" if name and not self.names_key else self.what


def unknown_key(path: Path, near: str | None) -> SettingFault:
    hint = f'did you mean "{near}"?' if near else "ignored"
    what = f'unknown key "{join_path(path)}" ({hint})'
    return SettingFault(path=path, what=what, fatal=False, names_key=True)


def check(data: Any, *, managed: bool = False) -> list[SettingFault]:
    """Return the errors in a decoded settings file, in the order of the file."""
    if not isinstance(data, dict):
        return [
            SettingFault(path=(), what=f"expected an object at the top level, got {found(data)}")
        ]
    faults: list[SettingFault] = []
    for name, value in data.items():
        faults += check_member((name,), value, managed=managed)
    permissions = data.get("permissions")
    if isinstance(permissions, dict):
        for name, value in permissions.items():
            faults += check_member(("permissions", name), value, managed=managed)
    return faults


def check_member(path: Path, value: Any, *, managed: bool) -> list[SettingFault]:
    name = join_path(path)
    setting_key = BY_NAME.get(name)
    if setting_key is None:
        near = find_nearest_key(name)
        return [unknown_key(path, near)]
    if setting_key.managed_only and not managed:
        return [SettingFault(path=path, what="allowed only in managed settings")]
    return check_value(setting_key, path, value)


def check_value(setting_key: SettingKey, path: Path, value: Any) -> list[SettingFault]:
    if not has_kind(setting_key.kind, value):
        return [SettingFault(path=path, what=f"expected {setting_key.kind}, got {found(value)}")]
    if setting_key.choices and value not in setting_key.choices:
        hint = suggest_nearest(value, setting_key.choices)
        listed = ", ".join(setting_key.choices)
        return [SettingFault(path=path, what=f"expected one of {listed}; got {value!r}{hint}")]
    if setting_key.kind in (STRINGS, RULES):
        inside = [(i, v) for i, v in enumerate(value) if not isinstance(v, str)]
        return [
            SettingFault(path=(*path, i), what=f"expected a string, got {found(v)}")
            for i, v in inside
        ]
    if setting_key.kind == TEXTS:
        odd = [(k, v) for k, v in value.items() if not isinstance(v, (str, int, float, bool))]
        return [
            SettingFault(path=(*path, k), what=f"expected a string, got {found(v)}") for k, v in odd
        ]
    if setting_key.kind == NUMBER and not 0 <= value < float("inf"):
        return [SettingFault(path=path, what=f"expected a number of at least 0, got {value}")]
    if setting_key.kind in (NUMBERS, NUMBER_OR_NUMBERS):
        pairs = value.items() if isinstance(value, dict) else [(None, value)]
        return [
            SettingFault(path=path if k is None else (*path, k), what=what)
            for k, v in pairs
            if (what := not_above_zero(v))
        ]
    return []


def not_above_zero(value: Any) -> str:
    """Return an error message if a value is not a number above 0, else an empty string."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"expected a number, got {found(value)}"
    return "" if 0 < value < float("inf") else f"expected a number above 0, got {value}"


def has_kind(kind: str, value: Any) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == BOOLEAN or not isinstance(value, bool))


def found(value: Any) -> str:
    names = {bool: "true or false", str: "a string", dict: "an object", list: "an array"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def find_unsupported(data: Mapping[str, Any]) -> list[SettingKey]:
    """Return the keys in a settings file that clew does not support, in the order of the table."""
    return [
        key
        for key in KEYS
        if key.unsupported and (value := value_in(data, key.name)) is not None
        if value != key.fulfilled
    ]


def is_known(name: str) -> bool:
    """Return whether a dotted name is a known key, or is inside an object such as `env`."""
    parts = name.split(".")
    above = (".".join(parts[:end]) for end in range(1, len(parts)))
    return name in BY_NAME or any(key_name in OPEN_OBJECTS for key_name in above)


def find_nearest_key(name: str) -> str | None:
    """Return the known key that a misspelled key most likely means, or None."""
    exact = {k.lower(): k for k in BY_NAME}
    if name.lower() in exact:
        return exact[name.lower()]
    return find_nearest(name, BY_NAME, cutoff=0.75)


def find_nearest_part(name: str) -> str | None:
    """Return a known key whose last part begins like the last part of `name`, or None.

    The key may have any number of parts.
    """
    word = name.rpartition(".")[2]
    parts = {
        key_name.rpartition(".")[2][: len(word) + 2]: key_name for key_name in reversed(BY_NAME)
    }
    near = find_nearest(word, parts)
    return parts[near] if near else None
