"""The environment variables that clew reads: one table, read once and frozen.

`freeze` reads the process's environment at the start. Nothing reads `os.environ` after that, so a
session behaves the same from its first turn to its last. If a variable has several names, clew's
own name takes precedence. An invalid value of a numeric variable is reported, and the default
applies.

Decision: docs/decisions/110-keys-and-secrets.md
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from clew.core.catalog.services import ROWS, SERVICES, find_keyed_row, has_variable
from clew.core.regex import lazy_pattern

Kind = Literal["text", "secret", "number", "switch"]


class Variable(Struct, frozen=True, kw_only=True):
    """One variable, and the names under which it is read, in order of precedence."""

    field: str
    names: tuple[str, ...]
    kind: Kind
    meaning: str
    default: str | None = None

    @property
    def is_model_key(self) -> bool:
        """True for a key of a model service."""
        return self.field in ("api_key", "auth_token") or self.field.startswith(SERVICE_KEY)


# Fields for keys of services begin with this.
SERVICE_KEY = "key of "


def variable(
    field: str, kind: Kind, names: str, meaning: str, default: str | None = None
) -> Variable:
    return Variable(
        field=field, names=tuple(names.split()), kind=kind, meaning=meaning, default=default
    )


def variables_of_services(known: frozenset[str]) -> tuple[Variable, ...]:
    """Return the variables in the table of services, except those whose names are in `known`."""
    variables: dict[str, Variable] = {}
    for row in SERVICES:
        named = [
            (name, SERVICE_KEY, "secret", f"API key for {row.title}") for name in row.key_variables
        ]
        named += [(name, "URL of ", "text", f"URL of {row.title}") for name in row.url_variables]
        for value, names in row.fills.items():
            named += [
                (name, "place of ", "text", f"{value.capitalize()} of {row.title}")
                for name in names
            ]
        for name, prefix, kind, meaning in named:
            if name not in known and name not in variables:
                variables[name] = variable(
                    prefix + name, "secret" if kind == "secret" else "text", name, meaning
                )
    return tuple(variables.values())


# fmt: off
# The environment variables that clew reads, with `freeze`.
OWN_VARIABLES: tuple[Variable, ...] = (
    # The model service.
    variable("api_key", "secret", "CLEW_API_KEY ANTHROPIC_API_KEY", "API key for the Messages API"),
    variable("auth_token", "secret", "CLEW_AUTH_TOKEN ANTHROPIC_AUTH_TOKEN",
        "Bearer token to use instead of an API key"),
    variable("base_url", "text", "CLEW_BASE_URL ANTHROPIC_BASE_URL", "Base URL of the API"),
    variable("dialect", "text", "CLEW_DIALECT",
        "API of the service: messages, responses, gemini or chat", "messages"),
    variable("api_version", "text", "CLEW_API_VERSION",
        "Messages API version (default: the version the server reports)"),
    variable("message_threads", "switch", "CLEW_MESSAGE_THREADS",
        "Send only new messages; the server stores earlier ones for up to 1 h "
        "(incompatible with zero data retention)"),
    variable("custom_headers", "secret", "CLEW_CUSTOM_HEADERS ANTHROPIC_CUSTOM_HEADERS",
        "Additional headers, one `Name: value` per line"),
    variable("betas_disabled", "switch", "CLEW_DISABLE_BETAS CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
        "Don't request beta features", "0"),
    variable("bedrock", "switch", "CLEW_USE_BEDROCK CLAUDE_CODE_USE_BEDROCK",
        "Use Claude on Amazon Bedrock (InvokeModel)", "0"),
    variable("vertex", "switch", "CLEW_USE_VERTEX CLAUDE_CODE_USE_VERTEX",
        "Use Claude on Vertex AI", "0"),
    variable("foundry", "switch", "CLEW_USE_FOUNDRY CLAUDE_CODE_USE_FOUNDRY",
        "Use Claude in Microsoft Foundry", "0"),
    variable("ollama", "text", "OLLAMA_HOST",
        "Address of the Ollama server (default: 127.0.0.1:11434)"),
    variable("store_token", "secret", "CLEW_STORE_TOKEN",
        "Bearer token for a session store with a URL"),
    variable("remote_url", "text", "CLEW_REMOTE_URL",
        "Address of the clew server for --remote and clew attach"),
    variable("remote_token", "secret", "CLEW_REMOTE_TOKEN",
        "Token that identifies this device to the server"),
    # Models and responses.
    variable("model", "text", "CLEW_MODEL ANTHROPIC_MODEL CLAUDE_MODEL", "Model ID or alias"),
    variable("small_model", "text",
        "CLEW_SMALL_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_SMALL_FAST_MODEL",
        "Model for small tasks, such as session titles"),
    variable("agent_model", "text", "CLEW_SUBAGENT_MODEL CLAUDE_CODE_SUBAGENT_MODEL",
        "Model for all subagents"),
    variable("effort", "text", "CLEW_EFFORT CLAUDE_CODE_EFFORT_LEVEL",
        "Reasoning effort of the model"),
    variable("max_thinking_tokens", "number", "CLEW_MAX_THINKING_TOKENS MAX_THINKING_TOKENS",
        "Maximum number of thinking tokens per response; 0: off"),
    variable("max_output_tokens", "number",
        "CLEW_MAX_OUTPUT_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "Maximum number of output tokens per response"),
    variable("max_answer_bytes", "number", "CLEW_MAX_ANSWER_BYTES",
        "Maximum size of a response stream in bytes, including framing", "268435456"),
    variable("cache_1h", "switch", "CLEW_CACHE_1H ENABLE_PROMPT_CACHING_1H",
        "Cache prompts for one hour instead of five minutes", "0"),
    variable("cache_disabled", "switch", "CLEW_DISABLE_CACHE DISABLE_PROMPT_CACHING",
        "Don't cache prompts", "0"),
    variable("auto_compact_disabled", "switch", "CLEW_DISABLE_AUTO_COMPACT DISABLE_AUTO_COMPACT",
        "Don't compact automatically", "0"),
    variable("auto_window", "number", "CLEW_AUTO_COMPACT_WINDOW CLAUDE_CODE_AUTO_COMPACT_WINDOW",
        "Largest context window to assume for automatic compaction, in tokens"),
    variable("side_requests_disabled", "switch",
        "CLEW_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "Don't generate session titles automatically", "0"),
    variable("prompt_suggestions", "switch", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION",
        "Override the setting promptSuggestionEnabled"),
    variable("tool_summaries", "switch",
        "CLEW_EMIT_TOOL_USE_SUMMARIES CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES",
        "Send hosts a summary of each group of tool calls", "0"),
    # Time limits and retries.
    variable("api_timeout_ms", "number", "CLEW_API_TIMEOUT_MS API_TIMEOUT_MS",
        "Time limit for a response that is not streamed", "300000"),
    variable("wait_hint_ms", "number", "CLEW_WAIT_HINT_MS",
        "Silence after which clew reports that it is still waiting", "20000"),
    variable("bytes_timeout_ms", "number", "CLEW_BYTES_TIMEOUT_MS",
        "Silence on the connection after which an attempt is abandoned", "90000"),
    variable("events_timeout_ms", "number", "CLEW_EVENTS_TIMEOUT_MS",
        "Time without events other than pings after which an attempt is abandoned", "300000"),
    variable("max_retries", "number", "CLEW_MAX_RETRIES CLAUDE_CODE_MAX_RETRIES",
        "Maximum number of retries of a request; if set, retries after an overload count too", "9"),
    variable("retry_budget_ms", "number", "CLEW_RETRY_BUDGET_MS",
        "Time limit for all attempts at one response", "600000"),
    variable("unattended", "switch", "CLEW_UNATTENDED CLAUDE_CODE_UNATTENDED_RETRY",
        "Keep retrying without limit while the server is overloaded or limits the rate", "0"),
    variable("wait_for_agents_ms", "number",
        "CLEW_WAIT_FOR_AGENTS_MS CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS",
        "How long to wait for background tasks after the input ends; 0: no limit", "600000"),
    variable("mcp_wait_ms", "number", "CLEW_MCP_WAIT_MS",
        "How long the first request waits for MCP servers to connect", "5000"),
    variable("mcp_timeout_ms", "number", "CLEW_MCP_TIMEOUT_MS MCP_TIMEOUT",
        "Time limit for an MCP server to start", "30000"),
    variable("mcp_tool_timeout_ms", "number", "CLEW_MCP_TOOL_TIMEOUT_MS MCP_TOOL_TIMEOUT",
        "Maximum silence during an MCP tool call", "600000"),
    # Tools and the programs they start.
    variable("bash_max_output", "number", "CLEW_BASH_MAX_OUTPUT_LENGTH BASH_MAX_OUTPUT_LENGTH",
        "Maximum characters of command output sent to the model (at most 150000)", "30000"),
    variable("bash_timeout_ms", "number", "CLEW_BASH_DEFAULT_TIMEOUT_MS BASH_DEFAULT_TIMEOUT_MS",
        "Default time limit for commands", "120000"),
    variable("bash_max_timeout_ms", "number", "CLEW_BASH_MAX_TIMEOUT_MS BASH_MAX_TIMEOUT_MS",
        "Maximum time limit that a command may request", "600000"),
    variable("tool_search", "switch", "CLEW_TOOL_SEARCH ENABLE_TOOL_SEARCH",
        "Send only the names of MCP tools until the model searches for them", "1"),
    variable("keeps_keys_from_programs", "switch",
        "CLEW_SUBPROCESS_ENV_SCRUB CLAUDE_CODE_SUBPROCESS_ENV_SCRUB",
        "Hide clew's own keys and tokens from commands, hooks and servers", "1"),
    variable("hidden_from_programs", "text", "CLEW_SUBPROCESS_ENV_HIDE",
        "Other variables, separated by commas, to hide from commands, hooks and servers"),
    variable("sandboxed", "switch", "CLEW_SANDBOXED IS_SANDBOX",
        "Allow bypassPermissions mode as root (set only in a container or on a dedicated machine)",
        "0"),
    variable("dumpable", "switch", "CLEW_DUMPABLE",
        "Allow debuggers of the same user, including commands that clew runs, to attach to clew",
        "0"),
    variable("features", "text", "CLEW_FEATURES",
        "Subsystems to turn on or off, such as `-landlock,threads` (see clew config flags)"),
    # The network.
    variable("http_proxy", "secret", "http_proxy HTTP_PROXY", "Proxy for http:// URLs"),
    variable("https_proxy", "secret", "https_proxy HTTPS_PROXY", "Proxy for https:// URLs"),
    variable("all_proxy", "secret", "all_proxy ALL_PROXY",
        "Proxy to use if http_proxy or https_proxy is not set"),
    variable("no_proxy", "text", "no_proxy NO_PROXY", "Hosts to connect to without a proxy"),
    variable("cert_file", "text", "SSL_CERT_FILE",
        "File of CA certificates to use instead of the system's"),
    variable("cert_folder", "text", "SSL_CERT_DIR",
        "Directory of CA certificates to use instead of the system's"),
    variable("extra_certs", "text", "CLEW_CA_FILE NODE_EXTRA_CA_CERTS",
        "File of additional CA certificates"),
    # Programs that start clew.
    variable("ide_port", "number", "CLEW_IDE_PORT CLAUDE_CODE_SSE_PORT",
        "Port of the editor in whose terminal clew runs"),
    variable("entrypoint", "text", "CLAUDE_CODE_ENTRYPOINT",
        "Name of the host program in transcripts", "sdk-cli"),
    variable("emits_state", "text", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
        "1: tell the host when a session becomes idle or busy"),
    variable("reads_state", "text", "CLAUDE_CODE_SDK_READS_SESSION_STATE",
        "1: same as CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"),
    variable("telemetry", "switch", "CLEW_ENABLE_TELEMETRY CLAUDE_CODE_ENABLE_TELEMETRY",
        "1: send telemetry to the collector that the OTEL_ variables specify"),
    variable("telemetry_disabled", "switch",
        "CLEW_TELEMETRY_DISABLED DISABLE_TELEMETRY CLAUDE_TELEMETRY_DISABLED",
        "1: send no telemetry, even if it is enabled"),
    variable("config_dir", "text", "CLEW_CONFIG_DIR CLAUDE_CONFIG_DIR",
        "Config home, the folder for user settings and sessions", "~/.claude"),
)
# Variables set by the machine and the terminal, read where they are needed.
AMBIENT: tuple[Variable, ...] = (
    variable("home", "text", "HOME USERPROFILE", "Home folder"),
    variable("otel", "text",
        "OTEL_METRICS_EXPORTER OTEL_LOGS_EXPORTER OTEL_EXPORTER_OTLP_ENDPOINT "
        "OTEL_METRIC_EXPORT_INTERVAL OTEL_LOGS_EXPORT_INTERVAL OTEL_SERVICE_NAME "
        "OTEL_RESOURCE_ATTRIBUTES OTEL_LOG_USER_PROMPTS OTEL_LOG_TOOL_DETAILS "
        "OTEL_METRICS_INCLUDE_SESSION_ID OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        "Telemetry, if it is enabled (see docs/using/telemetry.md)"),
    variable("path", "text", "PATH", "Directories searched for programs"),
    variable("git_dir", "text", "GIT_DIR", "Repository that git uses"),
    variable("editor", "text", "VISUAL EDITOR", "Editor for prompts and plans", "vi"),
    variable("term", "text", "TERM", "Terminal type (dumb: no escape sequences)"),
    variable("terminals", "text",
        "TERM_PROGRAM TMUX STY KITTY_WINDOW_ID WT_SESSION VTE_VERSION KONSOLE_VERSION",
        "Set by terminals; used to detect links, images and notifications"),
    variable("colors", "text", "COLORTERM COLORFGBG", "Number of colors and background color"),
    variable("no_colors", "text", "NO_COLOR", "Disable colors"),
    variable("ssh", "text", "SSH_TTY", "Set in SSH sessions; shown by clew doctor"),
    variable("aws_keys", "secret", "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN",
        "AWS credentials"),
    variable("aws_profile", "text",
        "AWS_PROFILE AWS_DEFAULT_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE",
        "AWS profile and the files that define profiles"),
    variable("aws_container", "text",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_CREDENTIALS_FULL_URI "
        "AWS_CONTAINER_AUTHORIZATION_TOKEN AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE "
        "AWS_EC2_METADATA_DISABLED",
        "Source of credentials in an AWS container or on an AWS instance"),
    variable("google_credentials", "text", "GOOGLE_APPLICATION_CREDENTIALS",
        "File with Google Cloud credentials"),
    variable("displays", "text", "WAYLAND_DISPLAY DISPLAY", "Display server; needed to paste images"),
)
# fmt: on

OWN_NAMES = frozenset(name for v in OWN_VARIABLES for name in v.names)
VARIABLES = (*OWN_VARIABLES, *variables_of_services(OWN_NAMES))
BY_FIELD = {v.field: v for v in VARIABLES}
ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"", "0", "false", "no", "off"})
NUMBER = lazy_pattern(r"[0-9][0-9_]{0,14}(?:[eE]\+?[0-9])?")


class Environment(Struct, frozen=True, kw_only=True):
    """The values of the variables at the start of the session."""

    values: dict[str, str]
    named: dict[str, str]
    faults: tuple[str, ...] = ()

    def text(self, field: str) -> str | None:
        """Return the value of a field, or its default, which may be None."""
        return self.values.get(field, BY_FIELD[field].default)

    def number(self, field: str) -> int | None:
        value = self.text(field)
        return None if value is None else int(float(value.replace("_", "")))

    def switch(self, field: str) -> bool:
        value = self.text(field)
        return value is not None and value.strip().lower() not in OFF

    def told(self) -> Iterator[str]:
        """Yield `NAME=value` for every variable that is set, with secrets hidden."""
        for field, value in self.values.items():
            text = "(hidden)" if BY_FIELD[field].kind == "secret" else value
            yield f"{self.named[field]}={text}"

    def source(self, field: str) -> str | None:
        """Return the name under which a value was found, or None if the default applies."""
        return self.named.get(field)


# Credentials of the session. Programs started by a model do not need them; with the token of a
# remote session, a program could answer the session's own questions.
KEYS = ("api_key", "auth_token", "custom_headers", "store_token", "remote_token")


# How a program learns that an agent runs it.
AGENT_VARIABLES = {"CLEW": "1", "AI_AGENT": "clew"}


def for_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for programs that tools start.

    The variables that `hidden_from_programs` names are removed and, if `keeps_keys_from_programs`
    is on, so are the session's credentials.
    """
    environment = freeze(environ)
    hidden = set((environment.text("hidden_from_programs") or "").split(","))
    if environment.switch("keeps_keys_from_programs"):
        hidden |= {name for field in KEYS for name in BY_FIELD[field].names}
        # Commands may need keys of other services, but not the key that this session uses.
        row = find_keyed_row(ROWS, environ, lambda row: has_variable(row, environ))
        if row is not None and not environment.text("api_key"):
            hidden |= set(row.key_variables)
    return {name: value for name, value in environ.items() if name not in hidden}


def freeze(environ: Mapping[str, str], overlay: Mapping[str, str] | None = None) -> Environment:
    """Read all known variables once.

    Values in `overlay`, the settings' `env`, override `environ` by name.
    """
    read = {name: value.strip() for name, value in {**environ, **(overlay or {})}.items()}
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    faults: list[str] = []
    for variable in VARIABLES:
        name = next((n for n in variable.names if read.get(n)), None)
        if name is None:
            continue
        if variable.kind == "number" and not NUMBER.fullmatch(read[name]):
            used = f"using {variable.default}" if variable.default else "ignored"
            faults.append(f"{name}: expected a whole number, got {read[name]!r}; {used}")
            continue
        if (
            variable.kind == "switch"
            and name.startswith("CLEW_")
            and read[name].lower() not in ON | OFF
        ):
            # Variables that other programs define may have values besides yes and no.
            faults.append(f"{name}: expected 1 or 0, got {read[name]!r}; ignored")
            continue
        values[variable.field], names[variable.field] = read[name], name
    return Environment(values=values, named=names, faults=tuple(faults))
