"""The differences between services that use chat completions, as data.

A service's row is selected by its name, or else by its host; settings may override single fields.
The defaults are OpenAI's own behavior, with no reasoning sent back. Must never contain an address
or a credential: those are in the table of services.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.messages.errors import UserError

EffortForm: TypeAlias = Literal[
    "reasoning_effort",  # OpenAI, and most others
    "reasoning",  # OpenRouter: `reasoning: {effort}`
    "thinking",  # Z.ai, Moonshot, DeepSeek: `thinking: {type}`
    "enable_thinking",  # DashScope
    "chat_template_kwargs",  # vLLM, SGLang
    "none",
]
ThoughtsBack: TypeAlias = Literal[
    "none", "reasoning_content", "reasoning", "reasoning_details", "chunks"
]


# The members in which services send reasoning. If a delta has several, they are equal.
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text")


class Quirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The features that a service supports in chat completions."""

    # The member that limits the length of a response.
    limit: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    # Whether usage must be requested for a stream.
    usage_option: bool = True
    # The role of instructions.
    system_role: Literal["system", "developer"] = "system"
    # Whether a system message may follow the first message.
    later_system: bool = True
    effort: EffortForm = "reasoning_effort"
    # The service's names for clew's effort levels, where they differ.
    effort_words: Mapping[str, str] = field(default_factory=lambda: {"max": "xhigh"})
    # The form in which reasoning is returned to the service that wrote it.
    thoughts_back: ThoughtsBack = "none"
    # Whether every message with calls must have reasoning, even an empty one.
    thoughts_required: bool = False
    # The member `name` of a tool result.
    result_name: bool = False
    # Whether a user message may follow a tool result without an assistant message in between.
    user_after_results: bool = True
    # Whether the content of a message with calls may be null.
    null_content: bool = True
    # Whether tool results may contain images.
    result_images: bool = False
    images: bool = True
    documents: bool = True
    # Whether content is a list of parts even if it is only text.
    text_as_parts: bool = True
    max_call_id: int = 40
    # Whether call IDs consist of letters and digits only, with exactly the maximum length.
    exact_call_id: bool = False
    max_tool_name: int = 64
    # Whether `response_format` accepts a JSON Schema.
    schema: bool = True
    # Whether tool schemas may contain `const`; if not, it is written as `enum`.
    schema_const: bool = True
    # Whether text parts may carry `cache_control` (Claude behind a gateway).
    cache_marks: bool = False
    # The member that routes requests with a common prefix to one cache.
    cache_key: bool = False
    # The largest number of stop sequences.
    max_stops: int = 4


QUIRKS: Mapping[str, Quirks] = {
    "openai": Quirks(cache_key=True),
    "azure": Quirks(cache_key=True),
    # https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
    "openrouter": Quirks(
        limit="max_tokens",
        effort="reasoning",
        thoughts_back="reasoning_details",
        cache_marks=True,
    ),
    # mistralai.ChatCompletionStreamRequest knows neither `max_completion_tokens` nor
    # `stream_options`; IDs: opencode#1680, gptel#1203.
    "mistral": Quirks(
        limit="max_tokens",
        usage_option=False,
        effort="reasoning_effort",
        effort_words={"low": "none", "medium": "high", "xhigh": "high", "max": "high"},
        thoughts_back="chunks",
        result_name=True,
        user_after_results=False,
        null_content=False,
        result_images=True,
        documents=False,
        max_call_id=9,
        exact_call_id=True,
    ),
    # earendil-works/pi#3636, anomalyco/opencode#24083: every message with calls needs its reasoning.
    "deepseek": Quirks(
        limit="max_tokens",
        effort="thinking",
        thoughts_back="reasoning_content",
        thoughts_required=True,
        images=False,
        documents=False,
        schema=False,
        max_stops=16,
    ),
    # anomalyco/opencode#27273
    "moonshot": Quirks(
        limit="max_tokens",
        effort="thinking",
        thoughts_back="reasoning_content",
        thoughts_required=True,
        documents=False,
        max_call_id=64,
    ),
    # QwenLM/qwen-code#3578
    "mimo": Quirks(
        limit="max_tokens",
        effort="thinking",
        thoughts_back="reasoning_content",
        thoughts_required=True,
        documents=False,
    ),
    "zai": Quirks(
        limit="max_tokens",
        effort="thinking",
        thoughts_back="reasoning_content",
        documents=False,
        schema=False,
        max_stops=1,
    ),
    "minimax": Quirks(
        limit="max_tokens",
        effort="none",
        thoughts_back="reasoning_details",
        documents=False,
        schema=False,
    ),
    "dashscope": Quirks(
        limit="max_tokens",
        effort="enable_thinking",
        thoughts_back="reasoning_content",
        documents=False,
    ),
    "xai": Quirks(documents=False, effort_words={"max": "high", "xhigh": "high"}),
    "groq": Quirks(
        documents=False,
        effort_words={"max": "high", "xhigh": "high"},
        thoughts_back="reasoning",
    ),
    "together": Quirks(limit="max_tokens", effort="none", documents=False),
    # Thought signatures travel in `extra_content` and return with their calls.
    "gemini": Quirks(
        documents=False,
        effort_words={"max": "high", "xhigh": "high"},
        schema_const=False,
        max_call_id=64,
    ),
    "ollama": Quirks(
        limit="max_tokens",
        effort_words={"max": "high", "xhigh": "high"},
        thoughts_back="reasoning",
        documents=False,
        max_call_id=64,
    ),
    "lmstudio": Quirks(
        limit="max_tokens",
        effort_words={"max": "high", "xhigh": "high"},
        documents=False,
        max_call_id=64,
    ),
    "llamacpp": Quirks(
        limit="max_tokens",
        effort="none",
        thoughts_back="reasoning_content",
        documents=False,
        max_call_id=64,
    ),
    "vllm": Quirks(
        effort_words={"max": "high", "xhigh": "high"},
        thoughts_back="reasoning",
        documents=False,
        max_call_id=64,
    ),
}

# The services at hosts that a user may have set without naming the service.
_HOSTS: tuple[tuple[str, str], ...] = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure"),
    ("openrouter.ai", "openrouter"),
    ("mistral.ai", "mistral"),
    ("deepseek.com", "deepseek"),
    ("moonshot.", "moonshot"),
    ("kimi.com", "moonshot"),
    ("xiaomimimo.com", "mimo"),
    ("z.ai", "zai"),
    ("bigmodel.cn", "zai"),
    ("minimax", "minimax"),
    ("dashscope", "dashscope"),
    ("api.x.ai", "xai"),
    ("groq.com", "groq"),
    ("together.", "together"),
    ("generativelanguage.googleapis.com", "gemini"),
)


def find_quirks(service: str, base_url: str, overrides: Mapping[str, Any] | None = None) -> Quirks:
    """Return the quirks of a service by its name, or else by its address.

    Raise `UserError` if an override is invalid.
    """
    row = QUIRKS.get(service) or QUIRKS.get(_service_at(base_url)) or Quirks()
    if not overrides:
        return row
    try:
        checked = msgspec.convert(dict(overrides), Quirks)
    except msgspec.ValidationError as error:
        raise UserError(f"quirks of the service {service or base_url}: {error}") from error
    return replace(row, **{name: getattr(checked, name) for name in overrides})


def _service_at(base_url: str) -> str:
    host = base_url.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    return next((service for part, service in _HOSTS if _is_at(host, part)), "")


def _is_at(host: str, part: str) -> bool:
    """Return whether a host belongs to a domain; a partial name matches the start of a label."""
    if part.endswith(".") or "." not in part:
        return any(label.startswith(part.rstrip(".")) for label in host.split("."))
    return host == part or host.endswith(f".{part}")
