"""Build the body of a Messages API request from a `ModelRequest` and the model's catalog entry.

Owns which fields are sent, how thinking and effort are adapted to a model, and where the cache
marks are placed. Must never mutate its arguments: the next request sends the same history again,
extended.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.core.catalog.models import SAMPLING, USUAL, EffortLevel, Model, is_later
from clew.core.json_object import Json
from clew.core.normalize.prefix import CONTROLS_BETA
from clew.core.normalize.validate import thinking_can_be_on
from clew.providers.base import Adaptive, CacheTtl, ModelRequest, Off, ThinkingBudget

# Why a request can't only warm the cache.
CACHE_OFF = "the prompt cache is off"
BUDGET_SET = "a thinking budget is set"
FORMAT_SET = "an output format is set"

UNKNOWN_MODEL_OUTPUT = 8_192
MIN_BUDGET = 1_024
TASK_BUDGETS = "task-budgets-2026-03-13"
CONTEXT_MANAGEMENT = "context-management-2025-06-27"
DROP_BLOCK = {"prefix_mismatch_behavior": "drop_block"}
UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
LEVELS: tuple[EffortLevel, ...] = ("low", "medium", "high", "xhigh", "max")


class Built(Struct, frozen=True, kw_only=True):
    """A body, the betas that its fields need, and notes about what was adjusted."""

    body: Json
    betas: tuple[str, ...]
    adjusted: tuple[str, ...] = ()


def build(
    request: ModelRequest,
    model: Model,
    *,
    betas_allowed: bool = True,
    api_version: str = USUAL,
    diagnoses: bool = False,
) -> Built:
    """Return the body for this version of the Messages API.

    `diagnoses` says whether to ask the service to compare requests.
    """
    adjusted: list[str] = []
    max_tokens = choose_output_limit(request, model)
    body: Json = {"model": model.id, "max_tokens": max_tokens}
    body |= _thinking(request, model, max_tokens, adjusted)
    is_off = body.get("thinking", {}).get("type") == "disabled"
    body |= _output_config(request, model, adjusted, is_off=is_off)
    asked_for = (*model.betas, *request.betas)
    if request.task_budget_tokens is not None:
        asked_for += (TASK_BUDGETS,)
    if request.thought_binding:
        asked_for += (CONTROLS_BETA,)
    betas = tuple(dict.fromkeys(asked_for)) if betas_allowed else ()
    if request.thought_binding == "drop_block" and betas and "thinking" in body:
        body["thinking"] |= _binding(body["thinking"], model)
    if request.task_budget_tokens is not None and betas_allowed:
        total = {"type": "tokens", "total": request.task_budget_tokens}
        body.setdefault("output_config", {})["task_budget"] = total
    elif request.task_budget_tokens is not None:
        adjusted.append("beta features are off, so the task budget was left out")
    if CONTEXT_MANAGEMENT in betas and body.get("thinking", {}).get("type") in (
        "adaptive",
        "enabled",
    ):
        # Thinking blocks stay in place, so that the cached prefix remains valid.
        body["context_management"] = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    body |= _conversation(request)
    if request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    if request.stop_sequences:
        body["stop_sequences"] = request.stop_sequences
    if request.user_id is not None:
        body["metadata"] = {"user_id": request.user_id}
    if diagnoses and request.compares_with is not None:
        body["diagnostics"] = {"previous_message_id": request.compares_with or None}
    if request.warms:
        body["max_tokens"] = 0
    elif request.stream:
        body["stream"] = True
    if request.extra:
        body |= _extra(request.extra, api_version, adjusted)
    return Built(body=body, betas=betas, adjusted=tuple(adjusted))


def without_conflict(request: ModelRequest, model: Model) -> ModelRequest:
    """Return the request, without thinking if the service would reject its thinking budget.

    The service rejects a budget in the middle of a round of tool calls if the round began without
    thinking, or if its thinking was lost.
    """
    body = _thinking(request, model, choose_output_limit(request, model), [])
    is_budget = body.get("thinking", {}).get("type") == "enabled"
    if is_budget and not thinking_can_be_on(request.messages):
        return replace(request, thinking=Off())
    return request


def why_not_warm(request: ModelRequest, model: Model) -> str:
    """Return why the service would reject a request that only warms the cache for this prefix.

    Return an empty string if it would not.
    """
    if request.cache is None:
        return CACHE_OFF
    body = build(request, model).body
    if body.get("thinking", {}).get("type") == "enabled":
        return BUDGET_SET
    if "format" in body.get("output_config", {}):
        return FORMAT_SET
    choice = (request.tool_choice or {}).get("type")
    return f"tool_choice is {choice}" if choice in ("any", "tool") else ""


def _extra(extra: Json, api_version: str, adjusted: list[str]) -> Json:
    """Return the extra fields of the request that this API version supports.

    Later versions have no sampling parameters. Note in `adjusted` which were left out.
    """
    removed = [name for name in SAMPLING if name in extra and is_later(api_version)]
    if removed:
        fields = ", ".join(removed)
        adjusted.append(f"left out {fields}, which API version {api_version} does not support")
    return {name: value for name, value in extra.items() if name not in removed}


def build_count(
    request: ModelRequest, model: Model, *, betas_allowed: bool = True, api_version: str = USUAL
) -> Built:
    """Return the body of a request that only counts tokens."""
    built = build(request, model, betas_allowed=betas_allowed, api_version=api_version)
    counted = ("model", "system", "messages", "tools", "tool_choice", "thinking")
    body = {name: built.body[name] for name in counted if name in built.body}
    return Built(body=body, betas=built.betas, adjusted=built.adjusted)


def choose_output_limit(request: ModelRequest, model: Model) -> int:
    """Return the `max_tokens` to send."""
    wanted = request.max_tokens or model.default_output or UNKNOWN_MODEL_OUTPUT
    return wanted if model.max_output is None else min(wanted, model.max_output)


def _thinking(request: ModelRequest, model: Model, max_tokens: int, adjusted: list[str]) -> Json:
    modes = model.thinking
    thinking = request.thinking
    if thinking is None:
        # A model without a catalog entry uses its own default.
        thinking = _default_thinking(modes or ())
    if thinking is None:
        return {}
    if isinstance(thinking, Off):
        return _no_thinking(model, adjusted)
    if isinstance(thinking, ThinkingBudget) and (modes is None or "enabled" in modes):
        return _budget(thinking, max_tokens, adjusted)
    if modes is not None and "adaptive" not in modes:
        if "enabled" in modes:
            return _budget(
                ThinkingBudget(tokens=max_tokens, display=thinking.display), max_tokens, []
            )
        adjusted.append(f"{model.name} does not support thinking, so thinking was left out")
        return {}
    if isinstance(thinking, ThinkingBudget):
        adjusted.append(
            f"{model.name} does not support a thinking budget, so the budget was left out"
        )
    return {"thinking": _shown({"type": "adaptive"}, thinking)}


def _default_thinking(modes: tuple[str, ...]) -> Adaptive | ThinkingBudget | None:
    if "adaptive" in modes:
        return Adaptive()
    return ThinkingBudget(tokens=2**31) if "enabled" in modes else None


def _no_thinking(model: Model, adjusted: list[str]) -> Json:
    modes = model.thinking
    if modes is None or "disabled" in modes:
        return {"thinking": {"type": "disabled"}}
    if "between_tools" in modes:
        adjusted.append(f"{model.name} still thinks between tool calls")
        return {"thinking": {"type": "between_tools"}}
    if modes:
        adjusted.append(f"{model.name} always uses thinking")
    return {}


def _budget(budget: ThinkingBudget, max_tokens: int, adjusted: list[str]) -> Json:
    """Return thinking with a budget below `max_tokens`, or no thinking if no budget fits.

    Note in `adjusted` that it was left out.
    """
    tokens = max(MIN_BUDGET, min(budget.tokens, max_tokens - 1))
    if tokens >= max_tokens:
        adjusted.append(
            f"max_tokens {max_tokens} is too small for thinking, so thinking was left out"
        )
        return {}
    return {"thinking": _shown({"type": "enabled", "budget_tokens": tokens}, budget)}


def _binding(thinking: Json, model: Model) -> Json:
    """Return the option for handling mismatched thinking blocks, if the model supports it."""
    thinks = thinking["type"] in ("adaptive", "enabled")
    return {"block_binding": DROP_BLOCK} if thinks and model.binds_thinking is not False else {}


def _shown(thinking: Json, thinking_mode: Adaptive | ThinkingBudget) -> Json:
    return (
        thinking if thinking_mode.display is None else thinking | {"display": thinking_mode.display}
    )


def _output_config(
    request: ModelRequest, model: Model, adjusted: list[str], *, is_off: bool
) -> Json:
    config: Json = {}
    if request.effort is not None:
        effort = fitting_effort(request.effort, model)
        most = model.effort_without_thinking if is_off else None
        if effort is not None and most is not None:
            effort = LEVELS[min(LEVELS.index(effort), LEVELS.index(most))]
        if effort is not None:
            config["effort"] = effort
        if effort != request.effort:
            adjusted.append(
                f"{model.name} does not support effort {request.effort}; using {effort or 'none'}"
            )
    if request.output_format is not None:
        config["format"] = request.output_format
    return {"output_config": config} if config else {}


def fitting_effort(effort: EffortLevel, model: Model) -> EffortLevel | None:
    """Return the highest supported effort level up to the requested one, or None."""
    if model.effort is None:
        return effort
    below = LEVELS[: LEVELS.index(effort) + 1]
    return next((level for level in reversed(below) if level in model.effort), None)


def _conversation(request: ModelRequest) -> Json:
    """Return tools, system and messages in the order in which the service caches them."""
    out: Json = {}
    mark = _mark(request.cache)
    if request.tools:
        out["tools"] = request.tools
    system = request.system
    if isinstance(system, str):
        system = [{"type": "text", "text": system}] if system else None
    if system:
        out["system"] = _marked_system(system, mark)
    out["messages"] = _marked_messages(request.messages, request.unshared_tail, mark)
    return out


def _mark(cache: CacheTtl | None) -> Json | None:
    if cache is None:
        return None
    return {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": "1h"}


def _marked_system(system: list[Json], mark: Json | None) -> list[Json]:
    """Mark the last two blocks: the part shared by all sessions, and the part of this session."""
    if mark is None or any("cache_control" in block for block in system):
        return system
    return [*system[:-2], *(block | {"cache_control": mark} for block in system[-2:])]


def _marked_messages(messages: list[Json], unshared: int, mark: Json | None) -> list[Json]:
    """Mark the last block of the last shared message, so that the mark moves with each turn."""
    if mark is None:
        return messages
    for i in range(len(messages) - 1 - unshared, -1, -1):
        content = _marked_content(messages[i].get("content"), mark)
        if content is not None:
            return [*messages[:i], messages[i] | {"content": content}, *messages[i + 1 :]]
    return messages


def _marked_content(content: Any, mark: Json) -> list[Json] | None:
    if isinstance(content, str):
        return [{"type": "text", "text": content, "cache_control": mark}] if content else None
    blocks: list[Json] = content or []
    for i in range(len(blocks) - 1, -1, -1):
        if blocks[i].get("type") not in UNMARKABLE:
            return [*blocks[:i], blocks[i] | {"cache_control": mark}, *blocks[i + 1 :]]
    return None
