"""The settings: one table of the keys that a settings file may hold, the check of a file, typed readers.

A key that is not in the table is kept, so that newer files and other tools' keys live on; it is named
with the nearest known key. A value of the wrong kind is left out by the merge (see `layers`), never
guessed at. docs/using/settings.md, `settings.schema.json` and the doctor's findings come from this table.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from clew.core.json_object import Json
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
)  # fmt: skip
CHANNELS = (
    "auto", "terminal_bell", "iterm2", "iterm2_with_bell", "kitty", "ghostty",
    "notifications_disabled",
)  # fmt: skip


class SettingKey(Struct, frozen=True, kw_only=True):
    """One known key: its dotted name, what it must be, and one line for people.

    `executes`: the value can start programs or widen what runs unasked, so a project's own files
    may not set it before the folder is trusted.
    """

    name: str
    kind: str
    meaning: str
    # What holds where nothing is set, if that is one value.
    default: Any = None
    choices: tuple[str, ...] = ()
    executes: bool = False
    managed_only: bool = False
    # A change counts while a session runs; else from the next session on.
    is_live: bool = False
    is_secret: bool = False
    # Other programs heed it; clew keeps it, and says so when it is asked.
    has_effect: bool = True


def key(name: str, kind: str, meaning: str, **fields: Any) -> SettingKey:
    return SettingKey(name=name, kind=kind, meaning=meaning, **fields)


# fmt: off
KEYS: tuple[SettingKey, ...] = (
    key("$schema", STRING, "Schema that editors check the file with (clew config schema)"),
    key("model", STRING, "Model ID or alias"),
    key("models", OBJECT, "Models of your own, and their properties"),
    key("fallbackModel", STRING, "Models to use while the first is overloaded"),
    key("apiVersion", STRING, "Version of the Messages API; learned from the service where not set"),
    key("cacheDiagnostics", BOOLEAN,
        "Ask the service why its prompt cache missed; where not set, only the vendor's own is asked"),
    key("messageThreads", BOOLEAN,
        "Send only new messages; the service holds the rest for up to an hour (no zero data retention)",
        executes=True),
    key("cacheWarmingBudgetUsd", NUMBER,
        "Most that a session may spend on keeping the prompt cache warm; 0: nothing",
        default=0, executes=True, is_live=True),
    key("effortLevel", STRING, "How much the model thinks"),
    key("alwaysThinkingEnabled", BOOLEAN, "Think in every turn"),
    key("maxThinkingTokens", WHOLE, "Most tokens of thinking in a turn"),
    key("env", TEXTS, "Environment variables of the session and the programs it starts",
        executes=True, is_secret=True),
    key("apiKeyHelper", STRING, "Command that prints the API key", executes=True),
    key("awsAuthRefresh", STRING, "Command that renews AWS credentials",
        executes=True, has_effect=False),
    key("awsCredentialExport", STRING, "Command that prints AWS credentials",
        executes=True, has_effect=False),
    key("gcpAuthRefresh", STRING, "Command that renews Google credentials",
        executes=True, has_effect=False),
    key("otelHeadersHelper", STRING, "Command that prints telemetry headers",
        executes=True, has_effect=False),
    key("cleanupPeriodDays", WHOLE, "Days until a session that nobody opened is removed",
        has_effect=False),
    key("sessionStore", STRING, "Store that sessions are copied to: a folder or a URL",
        executes=True, is_secret=True),
    # Off by default: its 120 lines are about 1,000 tokens in every conversation, and the model lists
    # what it needs in its first call. It helps where nothing may be run.
    key("includeDirectoryStructure", BOOLEAN, "Tell new conversations which files are here",
        default=False),
    key("includeCoAuthoredBy", BOOLEAN, "Name the agent in commits", has_effect=False),
    key("attribution", OBJECT, "How commits and pull requests name the agent", has_effect=False),
    key("outputStyle", STRING, "Output style"),
    key("agent", STRING, "Agent that the session runs as", executes=True),
    key("promptSuggestionEnabled", BOOLEAN, "Suggest prompts where --prompt-suggestions asks for them",
        default=True, is_live=True),
    key("language", STRING, "Language of answers"),
    key("theme", STRING, "Colours of the terminal", choices=THEMES, is_live=True),
    key("editorMode", STRING, "Keys of the input", choices=("normal", "emacs", "vim"), is_live=True),
    key("verbose", BOOLEAN, "Show the whole output of tools", has_effect=False),
    key("messageIdleNotifThresholdMs", WHOLE,
        "Milliseconds until hooks are told that clew waits for you", default=60_000, is_live=True),
    key("preferredNotifChannel", STRING, "How clew notifies you that it asks or has finished",
        default="auto", choices=CHANNELS, is_live=True),
    # clew shows no tips, so there is nothing to switch off; other programs read the key.
    key("spinnerTipsEnabled", BOOLEAN, "Show tips while waiting", has_effect=False),
    key("autoCompactEnabled", BOOLEAN, "Compact a conversation that grows too long",
        default=True, is_live=True),
    key("autoCompactAt", NUMBER_OR_NUMBERS,
        "When to compact: a part of the window up to 1, a number of tokens, or an object of these by model",
        is_live=True),
    key("autoMemoryEnabled", BOOLEAN,
        "Tell new conversations the index of the project's memory folder", default=True),
    key("dreamAfter", STRING, "Tidy the project's memories after so much idle time, as 10m; off",
        executes=True),
    key("memoryExtraction", BOOLEAN, "Propose memories when a session ends", default=False),
    key("notesFile", STRING, "Memory file that `# words` are added to",
        choices=("project", "local", "user"), is_live=True),
    key("respectGitignore", BOOLEAN, "Leave ignored files out of completion",
        default=True, is_live=True),
    key("plansDirectory", STRING, "Folder of plan files", is_live=True),
    key("statusLine", OBJECT, "Command that prints the status line", executes=True, is_live=True),
    # A command would be asked with each step of each agent, for a list that the screen doesn't have.
    key("subagentStatusLine", OBJECT, "Command that prints a subagent's line",
        executes=True, has_effect=False),
    key("fileSuggestion", OBJECT, "Command that completes @-mentions", executes=True, is_live=True),
    key("webPrivateHosts", STRINGS,
        "Hosts, or host:port, that WebFetch may reach though their addresses are private",
        executes=True, is_live=True),
    key("webSearchEndpoint", STRING,
        "Where WebSearch looks: a URL with {query} that answers with JSON; else the model's service",
        executes=True),
    key("hooks", OBJECT, "Commands to run at events", executes=True, is_live=True),
    key("disableAllHooks", BOOLEAN, "Run no hooks and no status line", default=False, is_live=True),
    key("allowedHttpHookUrls", STRINGS, "Only URLs that hooks may post to; * is a pattern",
        is_live=True),
    key("httpHookAllowedEnvVars", STRINGS, "Only variables that headers of hooks may name",
        is_live=True),
    key("mcpServers", OBJECT, "MCP servers", executes=True, is_secret=True),
    key("lspServers", OBJECT, "Language servers", executes=True),
    key("lspDetection", BOOLEAN, "Use the language servers that are installed", default=True),
    key("enableAllProjectMcpServers", BOOLEAN, "Start every server of .mcp.json",
        default=False, executes=True),
    key("enabledMcpjsonServers", STRINGS, "Servers of .mcp.json to start", executes=True),
    key("disabledMcpjsonServers", STRINGS, "Servers of .mcp.json never to start"),
    key("allowedMcpServers", LIST, "Only servers that may be used", managed_only=True),
    key("deniedMcpServers", LIST, "Servers that may not be used"),
    key("enabledPlugins", OBJECT, "Plugins that are on", executes=True),
    key("extraKnownMarketplaces", OBJECT, "More sources of plugins", executes=True, has_effect=False),
    key("strictKnownMarketplaces", LIST, "Only sources of plugins", managed_only=True),
    key("sandbox", OBJECT, "Sandbox around commands", executes=True),
    key("toolTimeouts", NUMBERS,
        "Seconds that a call may take, by the tool's name or a pattern of names"),
    key("worktree", OBJECT, "How git worktrees are made", has_effect=False),
    key("skipWebFetchPreflight", BOOLEAN, "Fetch without asking a service first", has_effect=False),
    key("forceLoginMethod", STRING, "Only way to log in", has_effect=False),
    key("companyAnnouncements", STRINGS, "Lines to show at the start", has_effect=False),
    key("allowManagedHooksOnly", BOOLEAN, "Run managed hooks only",
        default=False, managed_only=True, is_live=True),
    key("allowManagedPermissionRulesOnly", BOOLEAN, "Apply managed permission rules only",
        default=False, managed_only=True, is_live=True),
    key("parentSettingsBehavior", STRING,
        "merge: the --managed-settings of a program that starts clew count as well",
        default="first-wins", choices=("first-wins", "merge"), managed_only=True),
    key("disableAutoMode", STRING, "Disable mode auto", choices=("disable",), is_live=True),
    key("permissions", OBJECT, "Rules and modes of permissions"),
    key("permissions.allow", RULES, "What runs without asking", executes=True, is_live=True),
    key("permissions.ask", RULES, "What always asks", is_live=True),
    key("permissions.deny", RULES, "What never runs", is_live=True),
    key("permissions.askAfterUntrusted", RULES,
        "What asks once the conversation has untrusted text", is_live=True),
    key("permissions.defaultMode", STRING, "Mode at the start", default="default", choices=MODES),
    key("permissions.additionalDirectories", STRINGS, "More folders that count as the workspace",
        executes=True, is_live=True),
    key("permissions.disableBypassPermissionsMode", STRING, "Disable mode bypassPermissions",
        choices=("disable",), is_live=True),
    key("permissions.reviewer", STRING,
        "Model that reviews calls in mode auto; off: you decide", executes=True, is_live=True),
    key("permissions.disableAutoMode", STRING, "Disable mode auto", choices=("disable",),
        is_live=True),
    key("permissions.skipDangerousModePermissionPrompt", BOOLEAN, "Do not warn of bypass mode",
        has_effect=False),
)
# fmt: on

BY_NAME = {k.name: k for k in KEYS}
NO_EFFECT = "other programs heed it, clew keeps it and does nothing with it"
OPEN_OBJECTS = {k.name for k in KEYS if k.kind in OBJECTS} - {"permissions"}


# Readers of settings as they were merged, or of one file. The name is a key of the table, with its kind.


def value_in(settings: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key if it is of the key's kind, else the key's default."""
    setting_key = BY_NAME[name]
    value: Any = settings
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if value is not None and has_kind(setting_key.kind, value) else setting_key.default


def read_switch(settings: Mapping[str, Any], name: str) -> bool | None:
    """Return a switch; None where it has no default and nothing is set."""
    value: bool | None = value_in(settings, name)
    return value


def read_text(settings: Mapping[str, Any], name: str) -> str | None:
    """Return a text; None for an empty one."""
    return value_in(settings, name) or None


def read_number(settings: Mapping[str, Any], name: str) -> Any:
    """Return a number, whole or not as its key says."""
    return value_in(settings, name)


def read_list(settings: Mapping[str, Any], name: str) -> tuple[Any, ...] | None:
    """Return the members of an array; None where nothing is set. The check has seen to their types."""
    value: list[Any] | None = value_in(settings, name)
    return None if value is None else tuple(value)


def read_object(settings: Mapping[str, Any], name: str) -> Json:
    """Return an object; an empty one where nothing is set."""
    value: Json = value_in(settings, name) or {}
    return value


class SettingFault(Struct, frozen=True, kw_only=True):
    """One thing a settings file says wrongly. `fatal`: the value is left out of the merge."""

    path: Path
    what: str
    fatal: bool = True

    def __str__(self) -> str:
        name = join_path(self.path)
        return f"{name}: {self.what}" if name else self.what


def check(data: Any, *, managed: bool = False) -> list[SettingFault]:
    """What a decoded settings file says wrongly, in the order of the file."""
    if not isinstance(data, dict):
        return [SettingFault(path=(), what=f"expected an object at the top, found {found(data)}")]
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
        hint = f"; did you mean {near}?" if near else " (kept as it is)"
        return [SettingFault(path=path, what=f"unknown key{hint}", fatal=False)]
    if setting_key.managed_only and not managed:
        return [SettingFault(path=path, what="counts in managed settings only")]
    return check_value(setting_key, path, value)


def check_value(setting_key: SettingKey, path: Path, value: Any) -> list[SettingFault]:
    if not has_kind(setting_key.kind, value):
        return [SettingFault(path=path, what=f"expected {setting_key.kind}, found {found(value)}")]
    if setting_key.choices and value not in setting_key.choices:
        near = get_close_matches(value, setting_key.choices, n=1)
        hint = f"; nearest: {near[0]}" if near else ""
        listed = ", ".join(setting_key.choices)
        return [SettingFault(path=path, what=f"expected one of {listed}, found {value!r}{hint}")]
    if setting_key.kind in (STRINGS, RULES):
        inside = [(i, v) for i, v in enumerate(value) if not isinstance(v, str)]
        return [
            SettingFault(path=(*path, i), what=f"expected a string, found {found(v)}")
            for i, v in inside
        ]
    if setting_key.kind == TEXTS:
        odd = [(k, v) for k, v in value.items() if not isinstance(v, (str, int, float, bool))]
        return [
            SettingFault(path=(*path, k), what=f"expected a string, found {found(v)}")
            for k, v in odd
        ]
    if setting_key.kind == NUMBER and not 0 <= value < float("inf"):
        return [SettingFault(path=path, what=f"expected a number of at least 0, found {value}")]
    if setting_key.kind in (NUMBERS, NUMBER_OR_NUMBERS):
        pairs = value.items() if isinstance(value, dict) else [(None, value)]
        return [
            SettingFault(path=path if k is None else (*path, k), what=what)
            for k, v in pairs
            if (what := not_above_zero(v))
        ]
    return []


def not_above_zero(value: Any) -> str:
    """What is wrong with a value that should be a number above 0; nothing if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"expected a number, found {found(value)}"
    return "" if 0 < value < float("inf") else f"expected a number above 0, found {value}"


def has_kind(kind: str, value: Any) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == BOOLEAN or not isinstance(value, bool))


def found(value: Any) -> str:
    names = {bool: "true or false", str: "a string", dict: "an object", list: "an array"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def find_nearest_key(name: str) -> str | None:
    """The known key a misspelled one most likely meant."""
    exact = {k.lower(): k for k in BY_NAME}
    if name.lower() in exact:
        return exact[name.lower()]
    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.75)
    return near[0] if near else None


def find_nearest_part(name: str) -> str | None:
    """The known key whose last part begins most like this one's, however far inside it stands."""
    word = name.rpartition(".")[2]
    parts = {
        key_name.rpartition(".")[2][: len(word) + 2]: key_name for key_name in reversed(BY_NAME)
    }
    near = get_close_matches(word, parts, n=1)
    return parts[near[0]] if near else None
