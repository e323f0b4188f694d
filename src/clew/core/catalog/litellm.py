"""Convert litellm's data about the models of clew's services to lines of the model table.

litellm's `model_prices_and_context_window.json` has one object per model. Missing facts stay
empty. The columns are described in `known`.
"""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from clew.core.catalog.known import COLUMNS
from clew.core.json_object import Json

# Each service, with its name in litellm's data.
PROVIDERS = {
    "openai": "openai", "gemini": "gemini", "openrouter": "openrouter", "mistral": "mistral",
    "deepseek": "deepseek", "moonshot": "moonshot", "zai": "zai", "minimax": "minimax",
    "xai": "xai", "groq": "groq", "together": "together_ai", "azure": "azure",
    "converse": "bedrock_converse",
}  # fmt: skip
# Deployments in other regions, which have different prices.
REGIONS = ("ft:", "us/", "eu/", "global/", "global-standard/", "container")
ABILITIES = {
    "i": "supports_vision", "p": "supports_pdf_input", "t": "supports_function_calling",
    "a": "supports_reasoning",
}  # fmt: skip
LEVELS = {"x": "supports_xhigh_reasoning_effort", "M": "supports_max_reasoning_effort"}
MILLION = Decimal(1_000_000)


def plain(number: Decimal) -> str:
    """Format a number with at most six decimals."""
    return f"{number.quantize(Decimal('0.000001')).normalize():f}"


def per_million(cost: Any) -> str:
    return "" if cost is None else plain(Decimal(repr(cost)) * MILLION)


def as_columns(facts: dict[str, Any]) -> dict[str, str]:
    above = next(
        (
            k
            for k in facts
            if k.startswith("input_cost_per_token_above_") and k.endswith("k_tokens")
        ),
        "",
    )
    suffix = above.removeprefix("input_cost_per_token")
    letters = "".join(
        letter.upper() if facts[member] else letter
        for letter, member in ABILITIES.items()
        if facts.get(member) is not None
    )
    reasons = facts.get("supports_reasoning") is True
    efforts = (
        "lmh" + "".join(c for c, member in LEVELS.items() if facts.get(member)) if reasons else ""
    )
    window, output = facts.get("max_input_tokens"), facts.get("max_output_tokens")
    columns = {
        "window": str(int(window)) if window else "",
        "output": str(int(output)) if output else "",
        "input_price": per_million(facts.get("input_cost_per_token")),
        "output_price": per_million(facts.get("output_cost_per_token")),
        "read_price": per_million(facts.get("cache_read_input_token_cost")),
        "write_price": per_million(facts.get("cache_creation_input_token_cost")),
        "abilities": letters,
        "effort": efforts,
        "retired": facts.get("deprecation_date") or "",
    }
    if above:
        thousands = suffix.removeprefix("_above_").removesuffix("k_tokens")
        columns |= {
            "long_above": f"{thousands}000",
            "long_input": per_million(facts.get(above)),
            "long_output": per_million(facts.get(f"output_cost_per_token{suffix}")),
            "long_read": per_million(facts.get(f"cache_read_input_token_cost{suffix}")),
        }
    return columns


def read_models(models: Json, provider: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a provider's chat models: ID and columns."""
    for key, facts in models.items():
        if not isinstance(facts, dict) or facts.get("litellm_provider") != provider:
            continue
        name = key.removeprefix(f"{provider}/")
        if facts.get("mode") not in ("chat", "responses") or name.startswith(REGIONS):
            continue
        try:
            yield name, as_columns(facts)
        except (InvalidOperation, TypeError, ValueError):
            continue


def write_line(full_name: str, facts: dict[str, str]) -> str:
    """Return a model's line in the table."""
    return "\t".join([full_name, *(facts.get(column, "") for column in COLUMNS[1:])]).rstrip("\t")


def write_lines(models: Json) -> list[str]:
    """Return the table lines for the models of all services."""
    return [
        write_line(f"{service}/{name}", facts)
        for service, provider in PROVIDERS.items()
        for name, facts in read_models(models, provider)
        if "\t" not in name and name.isprintable()
    ]
