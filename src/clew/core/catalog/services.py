"""The services that answer requests, as data: wire, address, credentials and default models.

A model's name may begin with a service (`openai/gpt-6-sol`). Settings add services under
`services`, which can inherit from a row with `like`. Must never contain a secret: a row names the
environment variables of its key.

Decision: docs/decisions/332-services.md
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.messages.errors import UserError
from clew.core.regex import lazy_pattern

Wire: TypeAlias = Literal["messages", "responses", "chat", "gemini", "converse"]
Authentication: TypeAlias = Literal["key", "aws", "google", "azure", "none"]


# The version in the ID of a Claude model, `5-5` in claude-opus-5-5.
_VERSION = lazy_pattern(r"-(\d+)-(\d)(?!\d)")


class ServiceRow(Struct, frozen=True, kw_only=True):
    """One service. Values in braces in its URL come from `fills`."""

    name: str
    title: str
    wire: Wire
    url: str
    authentication: Authentication = "key"
    # The header for the key; empty selects the usual one of the wire.
    key_header: str = ""
    # The environment variables with the key and with another URL.
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    # The variables for each value in braces, and the default values.
    fills: Mapping[str, tuple[str, ...]] = {}
    defaults: Mapping[str, str] = {}
    # Paths that differ from the wire's own, by kind of request.
    paths: Mapping[str, str] = {}
    # Additional headers, which may contain values in braces.
    headers: Mapping[str, str] = {}
    # How the service's IDs of Claude models are derived from the usual ones.
    claude_id: str = "{}"
    # Whether these IDs have a dot, as in `claude-opus-5.5`.
    has_dotted_versions: bool = False
    # Whether a stream of the Messages API arrives in AWS frames.
    frames: bool = False
    # Whether the Messages API's version and betas are in the body, and the model is in the path.
    is_platform: bool = False
    # The name under which AWS signs requests.
    signing_name: str = ""
    betas: bool = False
    # The row whose models this service offers, if not its own.
    models_of: str = ""
    # The default models: for the conversation and for small tasks.
    model: str = ""
    small_model: str = ""
    keys_url: str = ""
    # The page on which a browser grants a new key, by OAuth with PKCE for programs on this machine.
    login_url: str = ""
    # The port of a local server.
    port: int = 0
    # The row whose prices and quirks apply, for services from settings.
    kind: str = ""
    # Differences in chat completions, from settings.
    quirks: Mapping[str, Any] = {}
    # A command that prints the key, from settings.
    key_helper: str = ""

    @property
    def is_local(self) -> bool:
        return bool(self.port)

    @property
    def catalog_name(self) -> str:
        """The name under which the catalog lists this service's models."""
        base = ROWS.get(self.kind, self)
        return base.models_of or base.name

    @property
    def serves_claude(self) -> bool:
        base = ROWS.get(self.kind, self)
        return "claude" in base.model

    def name_claude(self, model_id: str) -> str:
        """Return the service's ID for a Claude model."""
        if self.has_dotted_versions:
            model_id = _VERSION.sub(r"-\1.\2", model_id)
        return self.claude_id.format(model_id)

    @property
    def described_key(self) -> str:
        """Instructions for setting a key."""
        variables = " or ".join(self.key_variables)
        return f"run `clew login {self.name}`" + (f" or set {variables}" if variables else "")


def _row(name: str, title: str, wire: Wire, url: str, *variables: str, **more: Any) -> ServiceRow:
    return ServiceRow(name=name, title=title, wire=wire, url=url, key_variables=variables, **more)


def _local(name: str, title: str, port: int) -> ServiceRow:
    return _row(
        name,
        title,
        "messages",
        f"http://127.0.0.1:{port}",
        authentication="none",
        key_header="authorization",
        port=port,
    )


REGION = {"region": ("AWS_REGION", "AWS_DEFAULT_REGION")}
GOOGLE = {
    "project": ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"),
    "region": ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION"),
}
PUBLISHERS = "/v1/projects/{project}/locations/{region}/publishers"

# The order in which services are searched for a key if no model is given.
SERVICES: tuple[ServiceRow, ...] = (
    _row(
        "anthropic",
        "Anthropic",
        "messages",
        "https://api.anthropic.com",
        "CLEW_API_KEY",
        "ANTHROPIC_API_KEY",
        betas=True,
        model="claude-sonnet-5-5",
        small_model="claude-haiku-5-5",
        keys_url="https://console.anthropic.com/settings/keys",
    ),
    _row(
        "openai",
        "OpenAI",
        "responses",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        url_variables=("OPENAI_BASE_URL",),
        model="gpt-6.1-sol",
        small_model="gpt-6-luna",
        keys_url="https://platform.openai.com/api-keys",
    ),
    _row(
        "gemini",
        "Gemini",
        "gemini",
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        model="gemini-4-argon",
        small_model="gemini-3.8-flash",
        keys_url="https://aistudio.google.com/apikey",
    ),
    _row(
        "openrouter",
        "OpenRouter",
        "chat",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        claude_id="anthropic/{}",
        has_dotted_versions=True,
        model="anthropic/claude-sonnet-5.5",
        small_model="anthropic/claude-haiku-5.5",
        keys_url="https://openrouter.ai/keys",
        login_url="https://openrouter.ai/auth",
        # The list of models is public, so it says nothing about a key.
        paths={"key": "/key"},
    ),
    _row(
        "mistral",
        "Mistral",
        "chat",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        model="mistral-large-4-0",
        small_model="mistral-medium-3.5",
        keys_url="https://console.mistral.ai/api-keys",
    ),
    _row(
        "deepseek",
        "DeepSeek",
        "chat",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        model="deepseek-v4-pro",
        small_model="deepseek-v4-flash",
        keys_url="https://platform.deepseek.com/api_keys",
    ),
    _row(
        "moonshot",
        "Moonshot",
        "chat",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        model="kimi-k3.1-pro",
        small_model="kimi-k2.6",
        keys_url="https://platform.moonshot.ai/console/api-keys",
    ),
    _row(
        "zai",
        "Z.ai",
        "chat",
        "https://api.z.ai/api/paas/v4/chat/completions",
        "ZAI_API_KEY",
        model="glm-5.3",
        small_model="glm-5.3-flash",
        keys_url="https://z.ai/manage-apikey/apikey-list",
    ),
    _row(
        "minimax",
        "MiniMax",
        "chat",
        "https://api.minimax.io/v1",
        "MINIMAX_API_KEY",
        model="MiniMax-M3",
        small_model="MiniMax-M2.5-lightning",
    ),
    _row(
        "xai",
        "xAI",
        "chat",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        model="grok-4.7",
        small_model="grok-4.3",
        keys_url="https://console.x.ai",
    ),
    _row(
        "groq",
        "Groq",
        "chat",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        model="openai/gpt-oss-120b",
        small_model="openai/gpt-oss-20b",
        keys_url="https://console.groq.com/keys",
    ),
    _row(
        "together",
        "Together",
        "chat",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        model="moonshotai/Kimi-K3",
        small_model="openai/gpt-oss-120b",
        keys_url="https://api.together.ai/settings/api-keys",
    ),
    # anthropic/lib/bedrock/_mantle.py: plain server-sent events
    _row(
        "bedrock",
        "Amazon Bedrock",
        "messages",
        "https://bedrock-mantle.{region}.api.aws/anthropic",
        "AWS_BEARER_TOKEN_BEDROCK",
        authentication="aws",
        key_header="authorization",
        fills=REGION,
        claude_id="anthropic.{}",
        signing_name="bedrock-mantle",
        betas=True,
        model="anthropic.claude-sonnet-5-5",
        small_model="anthropic.claude-haiku-5-5",
    ),
    # anthropic/lib/bedrock/_client.py: the Messages API in the frames of AWS
    _row(
        "bedrock-runtime",
        "Amazon Bedrock (InvokeModel)",
        "messages",
        "https://bedrock-runtime.{region}.amazonaws.com",
        "AWS_BEARER_TOKEN_BEDROCK",
        authentication="aws",
        key_header="authorization",
        fills=REGION,
        paths={
            "ask": "/model/{model}/invoke-with-response-stream",
            "whole": "/model/{model}/invoke",
        },
        claude_id="global.anthropic.{}",
        frames=True,
        is_platform=True,
        signing_name="bedrock",
        betas=True,
        model="global.anthropic.claude-sonnet-5-5",
        small_model="global.anthropic.claude-haiku-5-5",
    ),
    _row(
        "converse",
        "Amazon Bedrock (Converse)",
        "converse",
        "https://bedrock-runtime.{region}.amazonaws.com",
        "AWS_BEARER_TOKEN_BEDROCK",
        authentication="aws",
        key_header="authorization",
        fills=REGION,
        paths={
            "ask": "/model/{model}/converse-stream",
            "whole": "/model/{model}/converse",
        },
        claude_id="global.anthropic.{}",
        signing_name="bedrock",
        model="global.anthropic.claude-sonnet-5-5",
        small_model="global.anthropic.claude-haiku-5-5",
    ),
    # anthropic/lib/aws
    _row(
        "aws",
        "Claude on AWS",
        "messages",
        "https://aws-external-anthropic.{region}.api.aws",
        "ANTHROPIC_AWS_API_KEY",
        authentication="aws",
        fills=REGION | {"workspace": ("ANTHROPIC_AWS_WORKSPACE_ID",)},
        headers={"anthropic-workspace-id": "{workspace}"},
        signing_name="aws-external-anthropic",
        betas=True,
        model="claude-sonnet-5-5",
        small_model="claude-haiku-5-5",
    ),
    # anthropic/lib/vertex/_client.py
    _row(
        "vertex",
        "Claude on Vertex AI",
        "messages",
        "https://{host}",
        authentication="google",
        fills=GOOGLE,
        defaults={"region": "global"},
        paths={
            "ask": PUBLISHERS + "/anthropic/models/{model}:streamRawPredict",
            "whole": PUBLISHERS + "/anthropic/models/{model}:rawPredict",
            "count": PUBLISHERS + "/anthropic/models/count-tokens:rawPredict",
        },
        is_platform=True,
        betas=True,
        model="claude-sonnet-5-5",
        small_model="claude-haiku-5-5",
    ),
    _row(
        "vertex-gemini",
        "Gemini on Vertex AI",
        "gemini",
        "https://{host}",
        authentication="google",
        fills=GOOGLE,
        defaults={"region": "global"},
        paths={
            "ask": PUBLISHERS + "/google/models/{model}:streamGenerateContent?alt=sse",
            "whole": PUBLISHERS + "/google/models/{model}:generateContent",
            "count": PUBLISHERS + "/google/models/{model}:countTokens",
        },
        models_of="gemini",
        model="gemini-4-argon",
        small_model="gemini-3.8-flash",
    ),
    # openai/lib/azure.py
    _row(
        "azure",
        "Azure OpenAI",
        "responses",
        "https://{resource}.openai.azure.com/openai/v1",
        "AZURE_OPENAI_API_KEY",
        authentication="azure",
        key_header="api-key",
        fills={"resource": ("AZURE_OPENAI_RESOURCE", "AZURE_RESOURCE_NAME")},
        model="gpt-6.1-sol",
        small_model="gpt-6-luna",
    ),
    # anthropic/lib/foundry.py
    _row(
        "foundry",
        "Claude in Microsoft Foundry",
        "messages",
        "https://{resource}.services.ai.azure.com/anthropic",
        "ANTHROPIC_FOUNDRY_API_KEY",
        authentication="azure",
        fills={"resource": ("ANTHROPIC_FOUNDRY_RESOURCE",)},
        betas=True,
        model="claude-sonnet-5-5",
        small_model="claude-haiku-5-5",
    ),
    replace(_local("ollama", "Ollama", 11434), url_variables=("OLLAMA_HOST",)),
    _local("lmstudio", "LM Studio", 1234),
    _local("llamacpp", "llama.cpp", 8080),
    _local("vllm", "vLLM", 8000),
)
ROWS: Mapping[str, ServiceRow] = {row.name: row for row in SERVICES}
# The service that `CLEW_BASE_URL` and the like describe, if no row has that URL.
CUSTOM = "custom"


class UserService(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A service as described in settings."""

    like: str
    wire: Wire | None = None
    url: str | None = None
    # `env:NAME`, the variable of the key. Without it, the key is saved with `clew login`.
    key: str | None = None
    key_helper: str = ""
    key_header: str | None = None
    login_url: str | None = None
    headers: Mapping[str, str] = {}
    model: str = ""
    small_model: str = ""
    resource: str = ""
    region: str = ""
    project: str = ""
    quirks: Mapping[str, Any] = {}


def read_services(described: Mapping[str, Any]) -> tuple[dict[str, ServiceRow], tuple[str, ...]]:
    """Return all services, including those from settings, and the problems found.

    An invalid entry is reported and has no effect.
    """
    rows = dict(ROWS)
    problems = []
    for name, facts in described.items():
        try:
            rows[name] = _added(name, msgspec.convert(facts, UserService), rows)
        except (msgspec.ValidationError, UserError) as error:
            problems.append(f"services.{name}: {error}")
    return rows, tuple(problems)


def _added(name: str, user: UserService, rows: Mapping[str, ServiceRow]) -> ServiceRow:
    base = rows.get(user.like)
    if base is None:
        raise UserError(f'like: unknown service "{user.like}"')
    if not name or "/" in name or not name.isprintable() or name == CUSTOM:
        raise UserError(
            f'invalid service name: must not be empty or "{CUSTOM}", or contain "/" or unprintable '
            "characters"
        )
    values = {"resource": user.resource, "region": user.region, "project": user.project}
    row = replace(
        base,
        name=name,
        title=base.title if name == base.name else name,
        kind=base.kind or base.name,
        url=user.url or base.url,
        wire=user.wire or base.wire,
        # A key belongs to one host, so a row with another URL does not inherit the key's variables.
        url_variables=() if user.url else base.url_variables,
        key_variables=()
        if user.url and host_of(user.url) != host_of(base.url)
        else base.key_variables,
        login_url=inherited_login(user, base),
        key_header=base.key_header if user.key_header is None else user.key_header.lower(),
        headers={**base.headers, **user.headers},
        defaults={**base.defaults, **{k: v for k, v in values.items() if v}},
        fills={k: v for k, v in base.fills.items() if not values.get(k)},
        model=user.model or base.model,
        small_model=user.small_model or (user.model or base.small_model),
        quirks=user.quirks,
        key_helper=user.key_helper,
        port=base.port if not user.url else 0,
    )
    if user.wire is not None and user.wire != base.wire:
        row = replace(row, paths={}, key_header=user.key_header or "")
    if user.key is None:
        return row
    variable = user.key.removeprefix("env:")
    if variable == user.key or not variable:
        raise UserError(
            'key: must be "env:NAME", where NAME is an environment variable; '
            f"or remove it and run clew login {name}"
        )
    return replace(row, key_variables=(variable,))


def inherited_login(user: UserService, base: ServiceRow) -> str:
    """Return the login page from the settings, or the base row's page if the host is the same."""
    if user.login_url is not None:
        return user.login_url
    is_elsewhere = user.url and host_of(user.url) != host_of(base.url)
    return "" if is_elsewhere else base.login_url


def fill_in(row: ServiceRow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values for braces in a service's URL, from environment variables or defaults.

    Raise `UserError` if one is missing.
    """
    values = dict(row.defaults)
    for value, names in row.fills.items():
        filled = next(
            (environ[name].strip() for name in names if environ.get(name, "").strip()), ""
        )
        if filled:
            values[value] = filled
        elif value not in values:
            where = f'"{value}" under services.{row.name} in the settings'
            raise UserError(f"{row.title}: set {' or '.join(names)}, or {where}")
    if "{host}" in row.url:
        values["host"] = _host_in(values["region"])
    return values


def _host_in(region: str) -> str:
    """Return the host of Vertex AI for a region."""
    match region:
        case "global":
            return "aiplatform.googleapis.com"
        case "us" | "eu":
            return f"aiplatform.{region}.rep.googleapis.com"
        case _:
            return f"{region}-aiplatform.googleapis.com"


def is_placed(row: ServiceRow, environ: Mapping[str, str]) -> bool:
    """Return whether all values in a service's URL are known."""
    try:
        fill_in(row, environ)
    except UserError:
        return False
    return True


def find_keyed_row(
    rows: Mapping[str, ServiceRow],
    environ: Mapping[str, str],
    has_key: Callable[[ServiceRow], bool],
) -> ServiceRow | None:
    """Return the first service that has a key and a complete URL, or None.

    Anthropic and local services don't count.
    """
    for row in rows.values():
        if (
            row.name != "anthropic"
            and not row.is_local
            and has_key(row)
            and is_placed(row, environ)
        ):
            return row
    return None


def has_variable(row: ServiceRow, environ: Mapping[str, str]) -> bool:
    """Return whether an environment variable contains a service's key."""
    return any(environ.get(name, "").strip() for name in row.key_variables)


def host_of(url: str) -> str:
    """Return the host and port of a URL."""
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0]
    return authority.rpartition("@")[2].lower()


def find_row_at(url: str) -> ServiceRow | None:
    """Return the row with the host of a URL, or None."""
    host = host_of(url)
    return next((row for row in SERVICES if "{" not in row.url and host_of(row.url) == host), None)


def split_name(name: str, services: Mapping[str, Any]) -> tuple[str, str]:
    """Return the service prefix of a model's name, or an empty string, and the rest of the name."""
    service, slash, rest = name.partition("/")
    return (service, rest) if slash and rest and service in services else ("", name)
