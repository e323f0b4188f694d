"""The preferences for all requests and retries, from environment variables and settings.

An invalid value is listed in `problems` and has no effect. It is never silently replaced.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.limits import ModelLimits
from clew.providers.base import CacheTtl, Effort, ModelRequest, Off, Thinking, ThinkingBudget
from clew.providers.retry import RetryPolicy
from clew.system.config.environment import Environment
from clew.system.config.flags import find_flag_state
from clew.system.config.layers import Layer, order_layers
from clew.system.config.settings import read_number, read_switch, read_text

EFFORTS: tuple[Effort, ...] = get_args(Effort)


class Preferences(Struct, frozen=True, kw_only=True):
    """Preferences for requests. `None` means that nothing was set."""

    max_tokens: int | None = None
    thinking: Thinking | None = None
    effort: Effort | None = None
    # The highest effort that the settings allow.
    most_effort: Effort | None = None
    cache: CacheTtl | None = "5m"
    policy: RetryPolicy = RetryPolicy()
    problems: tuple[str, ...] = ()


def read_preferences(environment: Environment, settings: Mapping[str, Any]) -> Preferences:
    """Read the preferences. A variable overrides the setting with the same meaning."""
    text = environment.text("effort") or read_text(settings, "effortLevel")
    effort = next((level for level in EFFORTS if level == text), None)
    warning = f"effort must be one of {', '.join(EFFORTS)}, got {text!r}; using the model's default"
    return Preferences(
        max_tokens=environment.number("max_output_tokens") or None,
        thinking=_thinking(environment, settings),
        effort=effort,
        most_effort=next((x for x in EFFORTS if x == read_text(settings, "maxEffortLevel")), None),
        cache=_cache(environment),
        policy=_policy(environment),
        problems=(warning,) if text and effort is None else (),
    )


def read_model_limits(layers: Iterable[Layer]) -> ModelLimits:
    """Return the models that the settings allow and deny.

    The list with the highest precedence is used alone. In managed settings, a value of the wrong
    type allows only the default model, because the intended restriction is unknown.
    """
    allowed: tuple[str, ...] | None = None
    denied: list[str] = []
    is_unclear = is_exact = binds_default = False
    for layer in order_layers(layers):
        entries = layer.data.get("availableModels")
        is_managed = layer.scope == "managed"
        if allowed is None and (isinstance(entries, list) or (entries is not None and is_managed)):
            allowed = _list_texts(entries)
        if is_managed:
            out = layer.data.get("deniedModels")
            denied += _list_texts(out)
            is_unclear = is_unclear or not isinstance(out, list | None)
            is_exact = is_exact or read_text(layer.data, "availableModelsMatch") == "exact"
            binds_default = binds_default or bool(read_switch(layer.data, "enforceAvailableModels"))
    return ModelLimits(
        allowed=() if is_unclear else allowed,
        denied=tuple(denied),
        is_exact=is_exact,
        binds_default=bool(allowed) and (binds_default or is_exact),
    )


def _list_texts(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else ()
    return tuple(text for text in texts if isinstance(text, str) and text.strip())


def wants_threads(environment: Environment, settings: Mapping[str, Any]) -> bool:
    """Return whether services may store conversations in message threads.

    This concerns data storage, so a "no" from either the variable or the settings is final,
    including a "no" from an administrator.
    """
    state = find_flag_state("threads", settings, environment)
    if environment.text("message_threads") is None:
        return state.is_on
    is_off = not state.is_on and state.source != "default"
    return not is_off and environment.switch("message_threads")


def _thinking(environment: Environment, settings: Mapping[str, Any]) -> Thinking | None:
    tokens = environment.number("max_thinking_tokens")
    if tokens is None:
        tokens = read_number(settings, "maxThinkingTokens")
    if tokens is None and read_switch(settings, "alwaysThinkingEnabled") is False:
        tokens = 0
    if tokens is None:
        return None
    return ThinkingBudget(tokens=tokens) if tokens else Off()


def _cache(environment: Environment) -> CacheTtl | None:
    if environment.switch("cache_disabled"):
        return None
    return "1h" if environment.switch("cache_1h") else "5m"


def _policy(environment: Environment) -> RetryPolicy:
    usual = RetryPolicy()
    retries, budget_ms = environment.number("max_retries"), environment.number("retry_budget_ms")
    return replace(
        usual,
        # A retry is an attempt after the first one.
        max_attempts=usual.max_attempts if retries is None else retries + 1,
        counts_overloads=environment.source("max_retries") is not None,
        budget_s=usual.budget_s if budget_ms is None else budget_ms / 1000,
        unattended=environment.switch("unattended"),
    )


def limit_effort(effort: Effort | None, most: Effort | None) -> Effort | None:
    """Return the effort, lowered to the highest one allowed; None is the model's default."""
    if most is None:
        return effort
    # Models use "high" by default.
    chosen = effort or "high"
    return most if EFFORTS.index(chosen) > EFFORTS.index(most) else effort


def apply_preferences(request: ModelRequest, preferences: Preferences) -> ModelRequest:
    """Return the request, with the preferences filled in wherever the request specifies nothing."""
    return replace(
        request,
        max_tokens=request.max_tokens or preferences.max_tokens,
        thinking=request.thinking or preferences.thinking,
        effort=limit_effort(request.effort or preferences.effort, preferences.most_effort),
        cache=preferences.cache if request.cache == "5m" else request.cache,
    )
