"""The environment variables: one table of all that clew reads, in every spelling, read once and frozen.

`freeze` takes the process's environment at the start; nothing asks `os.environ`
after that, so that a session means the same from its first turn to its last. Our own spelling wins
over the others. A value that is no number where one is needed is a fault, and the default stands.

Decision: docs/decisions/110-keys-and-secrets.md
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

Kind = Literal["text", "secret", "number", "switch"]


class Variable(Struct, frozen=True, kw_only=True):
    """One meaning and the names it is read under, the strongest first."""

    field: str
    names: tuple[str, ...]
    kind: Kind
    meaning: str
    default: str | None = None


def variable(
    field: str, kind: Kind, names: str, meaning: str, default: str | None = None
) -> Variable:
    return Variable(
        field=field, names=tuple(names.split()), kind=kind, meaning=meaning, default=default
    )


# fmt: off
# What clew is told by variables; `freeze` reads these.
VARIABLES: tuple[Variable, ...] = (
    # The service.
    variable("api_key", "secret", "CLEW_API_KEY ANTHROPIC_API_KEY", "Key of the Messages API"),
    variable("auth_token", "secret", "CLEW_AUTH_TOKEN ANTHROPIC_AUTH_TOKEN",
        "Bearer token, instead of a key"),
    variable("base_url", "text", "CLEW_BASE_URL ANTHROPIC_BASE_URL", "URL of the API"),
    variable("dialect", "text", "CLEW_DIALECT",
        "messages, or chat for chat completions as OpenAI's service has them", "messages"),
    variable("api_version", "text", "CLEW_API_VERSION",
        "Version of the Messages API; learned from the service where not set"),
    variable("message_threads", "switch", "CLEW_MESSAGE_THREADS",
        "Send only new messages; the service holds the rest for up to an hour (no zero data retention)"),
    variable("custom_headers", "secret", "CLEW_CUSTOM_HEADERS ANTHROPIC_CUSTOM_HEADERS",
        "More headers, one `Name: value` a line"),
    variable("betas_disabled", "switch", "CLEW_DISABLE_BETAS CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
        "Request no beta features", "0"),
    variable("bedrock", "switch", "CLEW_USE_BEDROCK CLAUDE_CODE_USE_BEDROCK",
        "Use Amazon Bedrock, which clew can't: nothing is sent", "0"),
    variable("vertex", "switch", "CLEW_USE_VERTEX CLAUDE_CODE_USE_VERTEX",
        "Use Google's Agent Platform, which clew can't: nothing is sent", "0"),
    variable("ollama", "text", "OLLAMA_HOST",
        "Where a local Ollama listens, as host:port; looked at without a key"),
    variable("store_token", "secret", "CLEW_STORE_TOKEN", "Bearer token of a session store at a URL"),
    # Models and answers.
    variable("model", "text", "CLEW_MODEL ANTHROPIC_MODEL CLAUDE_MODEL", "Model ID or alias"),
    variable("small_model", "text",
        "CLEW_SMALL_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_SMALL_FAST_MODEL",
        "Model for small work"),
    variable("agent_model", "text", "CLEW_SUBAGENT_MODEL CLAUDE_CODE_SUBAGENT_MODEL",
        "Model of every subagent"),
    variable("effort", "text", "CLEW_EFFORT CLAUDE_CODE_EFFORT_LEVEL", "How much the model thinks"),
    variable("max_thinking_tokens", "number", "CLEW_MAX_THINKING_TOKENS MAX_THINKING_TOKENS",
        "Most tokens of thinking"),
    variable("max_output_tokens", "number",
        "CLEW_MAX_OUTPUT_TOKENS CLAUDE_CODE_MAX_OUTPUT_TOKENS", "Most tokens of an answer"),
    variable("max_answer_bytes", "number", "CLEW_MAX_ANSWER_BYTES",
        "Longest stream of one answer, framing included", "268435456"),
    variable("cache_1h", "switch", "CLEW_CACHE_1H ENABLE_PROMPT_CACHING_1H",
        "Keep cached prompts for an hour", "0"),
    variable("cache_disabled", "switch", "CLEW_DISABLE_CACHE DISABLE_PROMPT_CACHING",
        "Cache no prompts", "0"),
    variable("auto_compact_disabled", "switch", "CLEW_DISABLE_AUTO_COMPACT DISABLE_AUTO_COMPACT",
        "Compact only when you ask for it", "0"),
    variable("auto_window", "number", "CLEW_AUTO_COMPACT_WINDOW CLAUDE_CODE_AUTO_COMPACT_WINDOW",
        "Compact to stay within a window of this many tokens, if the model's is not smaller"),
    variable("prompt_suggestions", "switch", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION",
        "Suggest prompts where --prompt-suggestions asks for them, whatever the settings say"),
    # Time limits and retries.
    variable("api_timeout_ms", "number", "CLEW_API_TIMEOUT_MS API_TIMEOUT_MS",
        "How long an answer in one piece may take", "300000"),
    variable("wait_hint_ms", "number", "CLEW_WAIT_HINT_MS", "Silence until it is mentioned", "20000"),
    variable("bytes_timeout_ms", "number", "CLEW_BYTES_TIMEOUT_MS",
        "Silence of the line until an attempt is given up", "90000"),
    variable("events_timeout_ms", "number", "CLEW_EVENTS_TIMEOUT_MS",
        "Time with nothing but pings until an attempt is given up", "300000"),
    variable("max_retries", "number", "CLEW_MAX_RETRIES CLAUDE_CODE_MAX_RETRIES",
        "Attempts after the first", "9"),
    variable("retry_budget_ms", "number", "CLEW_RETRY_BUDGET_MS",
        "Time that all attempts at one answer may take", "600000"),
    variable("unattended", "switch", "CLEW_UNATTENDED CLAUDE_CODE_UNATTENDED_RETRY",
        "Retry without end while the service is busy", "0"),
    variable("wait_for_agents_ms", "number",
        "CLEW_WAIT_FOR_AGENTS_MS CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS",
        "How long a run whose input has ended waits for background agents; 0: without end", "600000"),
    variable("mcp_wait_ms", "number", "CLEW_MCP_WAIT_MS",
        "How long the first request waits for MCP servers", "5000"),
    variable("mcp_timeout_ms", "number", "CLEW_MCP_TIMEOUT_MS MCP_TIMEOUT",
        "How long an MCP server may take to start", "30000"),
    variable("mcp_tool_timeout_ms", "number", "CLEW_MCP_TOOL_TIMEOUT_MS MCP_TOOL_TIMEOUT",
        "How long a call of an MCP tool may be silent", "600000"),
    # Tools and the programs that they start.
    variable("bash_max_output", "number", "CLEW_BASH_MAX_OUTPUT_LENGTH BASH_MAX_OUTPUT_LENGTH",
        "Characters of a command's output that the model sees", "30000"),
    variable("bash_timeout_ms", "number", "CLEW_BASH_DEFAULT_TIMEOUT_MS BASH_DEFAULT_TIMEOUT_MS",
        "Time limit of a command that asks for none", "120000"),
    variable("bash_max_timeout_ms", "number", "CLEW_BASH_MAX_TIMEOUT_MS BASH_MAX_TIMEOUT_MS",
        "Longest time limit that a command may ask for", "600000"),
    variable("tool_search", "switch", "CLEW_TOOL_SEARCH ENABLE_TOOL_SEARCH",
        "Tell the model only the names of MCP tools until it looks for them", "1"),
    variable("keeps_keys_from_programs", "switch",
        "CLEW_SUBPROCESS_ENV_SCRUB CLAUDE_CODE_SUBPROCESS_ENV_SCRUB",
        "Hide the variables with the API's keys from programs that tools start", "1"),
    variable("sandboxed", "switch", "CLEW_SANDBOXED IS_SANDBOX",
        "The whole program runs in a container or machine made for it", "0"),
    variable("dumpable", "switch", "CLEW_DUMPABLE",
        "Let debuggers of this user attach to clew; its commands then can, too", "0"),
    # The network.
    variable("http_proxy", "secret", "http_proxy HTTP_PROXY", "Proxy for http"),
    variable("https_proxy", "secret", "https_proxy HTTPS_PROXY", "Proxy for https"),
    variable("all_proxy", "secret", "all_proxy ALL_PROXY", "Proxy where no other is named"),
    variable("no_proxy", "text", "no_proxy NO_PROXY", "Hosts reached without a proxy"),
    variable("cert_file", "text", "SSL_CERT_FILE", "Certificates in place of the system's"),
    variable("cert_folder", "text", "SSL_CERT_DIR", "Folder of such certificates"),
    variable("extra_certs", "text", "CLEW_CA_FILE NODE_EXTRA_CA_CERTS", "Certificates in addition"),
    variable("http2", "switch", "CLEW_HTTP2", "Use HTTP/2 where a server offers it", "0"),
    # Programs that start clew.
    variable("entrypoint", "text", "CLAUDE_CODE_ENTRYPOINT",
        "What a host is called in transcripts", "sdk-cli"),
    variable("emits_state", "text", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
        "1: tell the host when a session is idle or busy"),
    variable("reads_state", "text", "CLAUDE_CODE_SDK_READS_SESSION_STATE", "1: the same"),
    variable("telemetry_disabled", "switch",
        "CLEW_TELEMETRY_DISABLED DISABLE_TELEMETRY CLAUDE_TELEMETRY_DISABLED",
        "No telemetry: clew has none, whatever this says, and `clew doctor` confirms it", "1"),
    variable("config_dir", "text", "CLEW_CONFIG_DIR CLAUDE_CONFIG_DIR", "Config home", "~/.claude"),
)
# What the machine and the terminal say of themselves, read where it is needed.
AMBIENT: tuple[Variable, ...] = (
    variable("home", "text", "HOME USERPROFILE", "Home folder"),
    variable("path", "text", "PATH", "Folders of programs"),
    variable("git_dir", "text", "GIT_DIR", "Repository that git reads"),
    variable("editor", "text", "VISUAL EDITOR", "Editor of prompts and plans", "vi"),
    variable("pager", "text", "PAGER", "Program that shows long text", "less -R"),
    variable("term", "text", "TERM", "Kind of terminal; with dumb, nothing is drawn"),
    variable("terminals", "text",
        "TERM_PROGRAM TMUX STY KITTY_WINDOW_ID WT_SESSION VTE_VERSION KONSOLE_VERSION",
        "Set by terminals: whether they show links, pictures and notifications"),
    variable("colours", "text", "COLORTERM COLORFGBG", "How many colours there are, on which ground"),
    variable("no_colours", "text", "NO_COLOR", "Use no colours"),
    variable("ssh", "text", "SSH_TTY", "Set over ssh; the doctor names it"),
    variable("displays", "text", "WAYLAND_DISPLAY DISPLAY", "Set where pictures can be pasted"),
)
# fmt: on

BY_FIELD = {v.field: v for v in VARIABLES}
OFF = frozenset({"", "0", "false", "no", "off"})
NUMBER = re.compile(r"[0-9][0-9_]{0,14}(?:[eE]\+?[0-9])?")


class Environment(Struct, frozen=True, kw_only=True):
    """What the variables said when the session began."""

    values: dict[str, str]
    named: dict[str, str]
    faults: tuple[str, ...] = ()

    def text(self, field: str) -> str | None:
        """The value of a field, or its default."""
        return self.values.get(field, BY_FIELD[field].default)

    def number(self, field: str) -> int | None:
        value = self.text(field)
        return None if value is None else int(float(value.replace("_", "")))

    def switch(self, field: str) -> bool:
        value = self.text(field)
        return value is not None and value.strip().lower() not in OFF

    def told(self) -> Iterator[str]:
        """Yield what is set, as NAME=value, without secrets."""
        for field, value in self.values.items():
            text = "(hidden)" if BY_FIELD[field].kind == "secret" else value
            yield f"{self.named[field]}={text}"

    def source(self, field: str) -> str | None:
        """The spelling the value came from; None where the default stands."""
        return self.named.get(field)


# What gives access to the model; a program that a model started has no use for it.
KEYS = ("api_key", "auth_token", "custom_headers")


def for_programs(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for what tools start: the session's own keys stay with the session."""
    if not freeze(environ).switch("keeps_keys_from_programs"):
        return dict(environ)
    hidden = {name for field in KEYS for name in BY_FIELD[field].names}
    return {name: value for name, value in environ.items() if name not in hidden}


def freeze(environ: Mapping[str, str], overlay: Mapping[str, str] | None = None) -> Environment:
    """Reads every known variable once. `overlay` is the settings' `env`, which wins by name."""
    read = {name: value.strip() for name, value in {**environ, **(overlay or {})}.items()}
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    faults: list[str] = []
    for variable in VARIABLES:
        name = next((n for n in variable.names if read.get(n)), None)
        if name is None:
            continue
        if variable.kind == "number" and not NUMBER.fullmatch(read[name]):
            faults.append(f"{name}: expected a whole number; using {variable.default or 'none'}")
            continue
        values[variable.field], names[variable.field] = read[name], name
    return Environment(values=values, named=names, faults=tuple(faults))
