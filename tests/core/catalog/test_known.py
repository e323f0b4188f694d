"""The generated table of other services' models, and what is read from its sources."""

from decimal import Decimal

import pytest

from clew.core.catalog.known import SHIPPED, KnownModels, read_line, with_updates
from clew.core.catalog.known_models import LINES
from clew.core.catalog.litellm import as_columns, per_million, read_models, write_lines

FACTS = {
    "litellm_provider": "openai",
    "mode": "chat",
    "max_input_tokens": 1000,
    "max_output_tokens": 100,
    "input_cost_per_token": 2e-06,
    "output_cost_per_token": 1e-05,
    "cache_read_input_token_cost": 2e-07,
    "input_cost_per_token_above_272k_tokens": 4e-06,
    "output_cost_per_token_above_272k_tokens": 1.5e-05,
    "supports_vision": True,
    "supports_function_calling": True,
    "supports_reasoning": True,
    "supports_xhigh_reasoning_effort": True,
    "deprecation_date": "2028-01-01",
}


def test_every_shipped_line_can_be_read() -> None:
    lines = LINES.strip().split("\n")
    assert len(lines) > 1000
    assert lines == sorted(set(lines))
    for line in lines:
        model = read_line(line)
        assert model is not None, line
        assert model.prices == () or model.prices[0].rates.input >= 0


def test_a_model_is_found_with_and_without_its_date() -> None:
    found = SHIPPED.find("openai", "gpt-6-sol")
    assert found is not None
    (price,) = found.prices
    assert (price.rates.input, price.rates.output) == (Decimal(2), Decimal(10))
    assert price.rates.cache_read == Decimal("0.2")
    assert price.for_prompt(300_000).output == Decimal(15)
    assert (found.images, found.pdfs, found.tools) == (True, True, True)
    assert SHIPPED.find("openai", "gpt-6-sol-2026-10-01") == found
    assert SHIPPED.find("openai", "gpt-6") is None
    assert "gpt-6-sol" in SHIPPED.names("openai")
    assert with_updates(" \n") is SHIPPED


def test_what_a_line_does_not_state_stays_unknown() -> None:
    model = read_line("openai/m")
    assert model is not None
    assert (model.context_window, model.images, model.tools, model.prices) == (None, None, None, ())
    assert read_line("openai/m\tmany") is None
    assert read_line("openai/m\t1\t2\tx\ty") is None
    plain = read_line("openai/m\t10\t5\t1\t2\t\t\t\t\t\t\tita")
    assert plain is not None
    assert (plain.images, plain.tools, plain.thinking) == (False, False, ())
    assert plain.prices[0].rates.cache_read == 1, "cached tokens cost what others cost"
    assert KnownModels("").names("openai") == []


def test_litellms_facts_become_columns() -> None:
    columns = as_columns(FACTS)
    assert columns["input_price"] == "2"
    assert columns["long_above"] == "272000"
    assert columns["abilities"] == "ITA"
    assert columns["effort"] == "lmhx"
    assert per_million(None) == ""
    assert as_columns({"supports_vision": False})["abilities"] == "i"
    models = {
        "openai/gpt-a": FACTS,
        "gpt-b": FACTS | {"mode": "embedding"},
        "ft:gpt-c": FACTS,
        "gpt-d": FACTS | {"litellm_provider": "other"},
        "gpt-e": FACTS | {"max_input_tokens": "many"},
        "gpt\tf": FACTS,
        "gpt-g": "not an object",
    }
    assert [name for name, _ in read_models(models, "openai")] == ["gpt-a", "gpt\tf"]
    (line,) = write_lines(models)
    assert line.startswith(
        "openai/gpt-a\t1000\t100\t2\t10\t0.2\t\t272000\t4\t15\t\tITA\tlmhx\t2028"
    )


@pytest.mark.parametrize("name", ["gpt-6-sol", "gpt-6-luna", "gpt-5.5"])
def test_prices_agree_with_another_source(name: str) -> None:
    from genai_prices.data import providers

    (openai,) = [p for p in providers if p.id == "openai"]
    (model,) = [m for m in openai.models if m.id == name]
    found = SHIPPED.find("openai", name)
    assert found is not None
    assert found.prices[0].rates.input == model.prices.input_mtok.base  # type: ignore[union-attr]
