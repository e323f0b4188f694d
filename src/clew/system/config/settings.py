"""The keys a settings file may hold, and what each must be.

Owns the table of known keys and the check of a decoded file against it. A key that is not in the
table is kept, so that newer files and other tools' keys live on; it is named with the nearest known
key. A value of the wrong kind is left out by the merge (see `layers`), never guessed at.
Described in docs/settings.md, whose table is this one.
"""

from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from clew.system.config.json_text import Path, dotted

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

MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions", "manual")


class SettingKey(Struct, frozen=True, kw_only=True):
    """One known key: its dotted name, what it must be, and one line for people.

    `executes`: the value can start programs or widen what runs unasked, so a project's own files
    may not set it before the folder is trusted.
    """

    name: str
    kind: str
    meaning: str
    choices: tuple[str, ...] = ()
    executes: bool = False
    managed_only: bool = False
    # Other programs heed it; clew keeps it, and says so when it is asked.
    has_effect: bool = True


def key(name: str, kind: str, meaning: str, **more: Any) -> SettingKey:
    return SettingKey(name=name, kind=kind, meaning=meaning, **more)


KEYS: tuple[SettingKey, ...] = (
    key("$schema", STRING, "the schema an editor checks the file with"),
    key("model", STRING, "the model, or an alias of one"),
    key("models", OBJECT, "models of your own, and what is to be known of them"),
    key("fallbackModel", STRING, "the model to use while the first is overloaded"),
    key(
        "apiVersion",
        STRING,
        "the version of the Messages API that is spoken; learned from the service where not set",
    ),
    key(
        "cacheDiagnostics",
        BOOLEAN,
        "ask the service why its prompt cache missed; where not set, only the vendor's own is asked",
    ),
    key(
        "messageThreads",
        BOOLEAN,
        "send only new messages; the service holds the rest for up to an hour (no zero data retention)",
        executes=True,
    ),
    key(
        "cacheWarmingBudgetUsd",
        NUMBER,
        "the most that a session may spend on keeping the prompt cache warm; 0: nothing",
        executes=True,
    ),
    key("effortLevel", STRING, "how much the model thinks"),
    key("alwaysThinkingEnabled", BOOLEAN, "think in every turn"),
    key("maxThinkingTokens", WHOLE, "the most tokens of thinking in a turn"),
    key("env", TEXTS, "variables for the session and the programs it starts", executes=True),
    key("apiKeyHelper", STRING, "a command that prints the API key", executes=True),
    key(
        "awsAuthRefresh",
        STRING,
        "a command that renews AWS credentials",
        executes=True,
        has_effect=False,
    ),
    key(
        "awsCredentialExport",
        STRING,
        "a command that prints AWS credentials",
        executes=True,
        has_effect=False,
    ),
    key(
        "gcpAuthRefresh",
        STRING,
        "a command that renews Google credentials",
        executes=True,
        has_effect=False,
    ),
    key(
        "otelHeadersHelper",
        STRING,
        "a command that prints telemetry headers",
        executes=True,
        has_effect=False,
    ),
    key(
        "cleanupPeriodDays",
        WHOLE,
        "days until a session nobody opened is removed",
        has_effect=False,
    ),
    key(
        "sessionStore",
        STRING,
        "a store that sessions are copied to and come home from: a folder, or a URL",
        executes=True,
    ),
    # Off by default: its 120 lines are about 1,000 tokens in every conversation, and the model lists
    # what it needs in its first call. It helps where nothing may be run.
    key("includeDirectoryStructure", BOOLEAN, "tell new conversations which files lie here"),
    key("includeCoAuthoredBy", BOOLEAN, "name the agent in commits", has_effect=False),
    key("attribution", OBJECT, "how commits and pull requests name the agent", has_effect=False),
    key("outputStyle", STRING, "the output style"),
    key("agent", STRING, "the kind of agent that a session is itself", executes=True),
    key("promptSuggestionEnabled", BOOLEAN, "false: --prompt-suggestions guesses nothing"),
    key("language", STRING, "the language of answers"),
    key(
        "theme",
        STRING,
        "the colours of the terminal",
        choices=(
            "auto",
            "dark",
            "light",
            "dark-ansi",
            "light-ansi",
            "dark-daltonized",
            "light-daltonized",
        ),
    ),
    key("editorMode", STRING, "the keys of the input", choices=("normal", "emacs", "vim")),
    key("verbose", BOOLEAN, "show what tools print, whole", has_effect=False),
    key(
        "messageIdleNotifThresholdMs",
        WHOLE,
        "for how long an answer stands until hooks are told that you are waited for (60000)",
    ),
    key(
        "preferredNotifChannel",
        STRING,
        "how a person who looks elsewhere is told that clew asks or has ended",
        choices=(
            "auto",
            "terminal_bell",
            "iterm2",
            "iterm2_with_bell",
            "kitty",
            "ghostty",
            "notifications_disabled",
        ),
    ),
    # clew shows no tips, so there is nothing to switch off; other programs read the key.
    key("spinnerTipsEnabled", BOOLEAN, "show tips while waiting", has_effect=False),
    key("autoCompactEnabled", BOOLEAN, "shorten a history that grows too long"),
    key(
        "autoCompactAt",
        NUMBER_OR_NUMBERS,
        "when to do that: a part of the window up to 1, a number of tokens, or an object of these by model",
    ),
    key(
        "autoMemoryEnabled",
        BOOLEAN,
        "tell new conversations the index of the project's memory folder",
    ),
    key(
        "dreamAfter",
        STRING,
        "tidy the project's memories after so much idleness, as 10m; off",
        executes=True,
    ),
    key("memoryExtraction", BOOLEAN, "look for memories to propose when a session ends"),
    key(
        "notesFile",
        STRING,
        "the memory file that `# words` go to",
        choices=("project", "local", "user"),
    ),
    key("respectGitignore", BOOLEAN, "leave ignored files out of completion"),
    key("plansDirectory", STRING, "the folder of plan files"),
    key("statusLine", OBJECT, "the command behind the status line", executes=True),
    # A command would be asked with each step of each agent, for a list that the screen doesn't have.
    key(
        "subagentStatusLine",
        OBJECT,
        "the command behind a subagent's line",
        executes=True,
        has_effect=False,
    ),
    key("fileSuggestion", OBJECT, "the command behind @-completion", executes=True),
    key(
        "webPrivateHosts",
        STRINGS,
        "hosts, or host:port, that WebFetch may reach though their addresses are private",
        executes=True,
    ),
    key(
        "webSearchEndpoint",
        STRING,
        "where WebSearch looks: an address with {query} that answers with JSON; else the model's service",
        executes=True,
    ),
    key("hooks", OBJECT, "commands run at events", executes=True),
    key("disableAllHooks", BOOLEAN, "run no hooks and no status line"),
    key(
        "allowedHttpHookUrls", STRINGS, "the only addresses that hooks may post to; * is a pattern"
    ),
    key("httpHookAllowedEnvVars", STRINGS, "the only variables that headers of hooks may name"),
    key("mcpServers", OBJECT, "MCP servers", executes=True),
    key("lspServers", OBJECT, "language servers", executes=True),
    key("lspDetection", BOOLEAN, "use the language servers that are installed"),
    key("enableAllProjectMcpServers", BOOLEAN, "start every server of .mcp.json", executes=True),
    key("enabledMcpjsonServers", STRINGS, "servers of .mcp.json to start", executes=True),
    key("disabledMcpjsonServers", STRINGS, "servers of .mcp.json never to start"),
    key("allowedMcpServers", LIST, "servers that may be used", managed_only=True),
    key("deniedMcpServers", LIST, "servers that may not be used"),
    key("enabledPlugins", OBJECT, "plugins that are on", executes=True),
    key(
        "extraKnownMarketplaces",
        OBJECT,
        "further sources of plugins",
        executes=True,
        has_effect=False,
    ),
    key("strictKnownMarketplaces", LIST, "the only sources of plugins", managed_only=True),
    key("sandbox", OBJECT, "the operating system's walls around commands", executes=True),
    key(
        "toolTimeouts",
        NUMBERS,
        "the seconds a call may take, by the tool's name or a pattern of names",
    ),
    key("worktree", OBJECT, "how git worktrees are made", has_effect=False),
    key("skipWebFetchPreflight", BOOLEAN, "fetch without asking a service first", has_effect=False),
    key("forceLoginMethod", STRING, "the only way to log in", has_effect=False),
    key("companyAnnouncements", STRINGS, "lines shown at the start", has_effect=False),
    key("allowManagedHooksOnly", BOOLEAN, "run managed hooks alone", managed_only=True),
    key(
        "allowManagedPermissionRulesOnly",
        BOOLEAN,
        "heed managed permission rules alone",
        managed_only=True,
    ),
    key(
        "parentSettingsBehavior",
        STRING,
        "merge: the --managed-settings of a program that starts clew count beside these",
        choices=("first-wins", "merge"),
        managed_only=True,
    ),
    key("disableAutoMode", STRING, "take mode auto away", choices=("disable",)),
    key("permissions", OBJECT, "what may be done, and by whom it is decided"),
    key("permissions.allow", RULES, "what runs without asking", executes=True),
    key("permissions.ask", RULES, "what always asks"),
    key("permissions.deny", RULES, "what never runs"),
    key(
        "permissions.askAfterUntrusted",
        RULES,
        "what asks once untrusted text stands in the conversation",
    ),
    key("permissions.defaultMode", STRING, "the mode at the start", choices=MODES),
    key(
        "permissions.additionalDirectories",
        STRINGS,
        "further folders that count as the workspace",
        executes=True,
    ),
    key(
        "permissions.disableBypassPermissionsMode",
        STRING,
        "take mode bypassPermissions away",
        choices=("disable",),
    ),
    key(
        "permissions.reviewer",
        STRING,
        "the model that reviews calls in mode auto; off: a person decides",
        executes=True,
    ),
    key("permissions.disableAutoMode", STRING, "take mode auto away", choices=("disable",)),
    key(
        "permissions.skipDangerousModePermissionPrompt",
        BOOLEAN,
        "do not warn of bypass mode",
        has_effect=False,
    ),
)

BY_NAME = {k.name: k for k in KEYS}
NO_EFFECT = "other programs heed it, clew keeps it and does nothing with it"
OPEN_OBJECTS = {k.name for k in KEYS if k.kind in OBJECTS} - {"permissions"}


class SettingFault(Struct, frozen=True, kw_only=True):
    """One thing a settings file says wrongly. `fatal`: the value is left out of the merge."""

    path: Path
    what: str
    fatal: bool = True

    def __str__(self) -> str:
        name = dotted(self.path)
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
    name = dotted(path)
    known = BY_NAME.get(name)
    if known is None:
        near = nearest(name)
        hint = f"; did you mean {near}?" if near else " (kept as it is)"
        return [SettingFault(path=path, what=f"unknown key{hint}", fatal=False)]
    if known.managed_only and not managed:
        return [SettingFault(path=path, what="counts in managed settings only")]
    return check_value(known, path, value)


def check_value(known: SettingKey, path: Path, value: Any) -> list[SettingFault]:
    if not has_kind(known.kind, value):
        return [SettingFault(path=path, what=f"expected {known.kind}, found {found(value)}")]
    if known.choices and value not in known.choices:
        near = get_close_matches(value, known.choices, n=1)
        hint = f"; nearest: {near[0]}" if near else ""
        listed = ", ".join(known.choices)
        return [SettingFault(path=path, what=f"expected one of {listed}, found {value!r}{hint}")]
    if known.kind in (STRINGS, RULES):
        inside = [(i, v) for i, v in enumerate(value) if not isinstance(v, str)]
        return [
            SettingFault(path=(*path, i), what=f"expected a string, found {found(v)}")
            for i, v in inside
        ]
    if known.kind == TEXTS:
        odd = [(k, v) for k, v in value.items() if not isinstance(v, (str, int, float, bool))]
        return [
            SettingFault(path=(*path, k), what=f"expected a string, found {found(v)}")
            for k, v in odd
        ]
    if known.kind == NUMBER and not 0 <= value < float("inf"):
        return [SettingFault(path=path, what=f"expected a number of at least 0, found {value}")]
    if known.kind in (NUMBERS, NUMBER_OR_NUMBERS):
        named = value.items() if isinstance(value, dict) else [(None, value)]
        return [
            SettingFault(path=path if k is None else (*path, k), what=what)
            for k, v in named
            if (what := not_above_zero(v))
        ]
    return []


def not_above_zero(value: Any) -> str:
    """What is wrong with a value that should be a number above 0; nothing if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"expected a number, found {found(value)}"
    return "" if 0 < value < float("inf") else f"expected a number above 0, found {value}"


def has_kind(kind: str, value: Any) -> bool:
    match kind:
        case "a string":
            return isinstance(value, str)
        case "true or false":
            return isinstance(value, bool)
        case "a whole number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "a number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "an object" | "an object of strings" | "an object of numbers":
            return isinstance(value, dict)
        case "a number or an object of numbers":
            return isinstance(value, dict | int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, list)


def found(value: Any) -> str:
    names = {bool: "true or false", str: "a string", dict: "an object", list: "an array"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def nearest(name: str) -> str | None:
    """The known key a misspelled one most likely meant."""
    exact = {k.lower(): k for k in BY_NAME}
    if name.lower() in exact:
        return exact[name.lower()]
    near = get_close_matches(name, BY_NAME, n=1, cutoff=0.75)
    return near[0] if near else None


def nearest_part(name: str) -> str | None:
    """The known key whose last part begins most like this one's, however far inside it stands."""
    said = name.rpartition(".")[2]
    parts = {known.rpartition(".")[2][: len(said) + 2]: known for known in reversed(BY_NAME)}
    near = get_close_matches(said, parts, n=1)
    return parts[near[0]] if near else None
