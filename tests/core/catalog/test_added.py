"""Models from the user's settings extend the catalog; an invalid entry is reported and left out."""

import pytest

from clew.core.catalog.added import load_models, with_models
from clew.core.catalog.lookup import CATALOG


def test_a_user_adds_a_model_and_names_it() -> None:
    catalog, problems = with_models(
        CATALOG,
        {
            "qwen3-coder": {
                "aliases": ["Qwen"],
                "contextWindow": 262144,
                "maxOutput": 65536,
                "images": False,
                "price": {"input": "0.2", "output": 0.8, "cacheWrite5m": 0},
            },
            "my-gateway-opus": {"like": "opus", "name": "Ours"},
        },
    )
    assert problems == []
    qwen = catalog.find("qwen")
    assert qwen is not None
    assert (qwen.id, qwen.context_window, qwen.images, qwen.pdfs) == (
        "qwen3-coder",
        262144,
        False,
        None,
    )
    assert str(qwen.prices[0].rates.input) == "0.2"
    assert qwen.prices[0].rates.cache_write_5m == 0
    ours = catalog.find("my-gateway-opus")
    opus = CATALOG.find("opus")
    assert ours is not None
    assert opus is not None
    assert (ours.id, ours.name, ours.prices) == ("my-gateway-opus", "Ours", opus.prices)
    assert CATALOG.find("qwen") is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"contextwindow": 1}, "contextwindow"),
        ({"contextWindow": "many"}, "contextWindow"),
        ({"price": {"input": 1}}, "output"),
        ({"price": {"input": "cheap", "output": 1}}, "only non-negative numbers"),
        ({"price": {"input": -1, "output": 1}}, "only non-negative numbers"),
        ({"price": {"input": "NaN", "output": 1}}, "only non-negative numbers"),
        ({"effort": ["huge"]}, "effort"),
        ({"like": "claude-opus-9"}, "claude-opus-9"),
        ("not an object", "object"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_and_the_others_stand(
    facts: object, said: str
) -> None:
    catalog, problems = with_models(CATALOG, {"broken": facts, "fine": {"contextWindow": 1000}})
    assert len(problems) == 1
    assert problems[0].startswith("models.broken: ")
    assert said in problems[0]
    assert catalog.find("broken") is None
    assert catalog.find("fine") is not None


def test_settings_that_describe_models_make_a_catalog_with_them() -> None:
    assert load_models({}) == (CATALOG, ())
    assert load_models({"models": 3}) == (CATALOG, ())
    catalog, problems = load_models({"models": {"mine": {"contextWindow": 1000}, "odd": 3}})
    assert catalog.entry("mine").context_window == 1000
    assert len(problems) == 1
