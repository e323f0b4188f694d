"""A model is found by each of its names, and never by a name that only resembles them."""

import ast
import importlib.util
from pathlib import Path

import pytest

from clew.core.catalog.lookup import CATALOG, plain_id


def test_every_model_the_official_client_names_has_an_entry() -> None:
    spec = importlib.util.find_spec("anthropic")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    source = Path(spec.submodule_search_locations[0]) / "types" / "model_param.py"
    ids = {
        node.value
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.Constant) and str(node.value).startswith("claude-")
    }
    assert len(ids) > 15
    assert {i for i in ids if CATALOG.find(i) is None} == set()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("Claude-Opus-5-5", "claude-opus-5-5"),
    ],
)  # fmt: skip
def test_dates_and_platforms_are_seen_through_and_the_request_keeps_them(
    name: str, plain: str
) -> None:
    assert plain_id(name) == plain
    found = CATALOG.find(name)
    assert found is not None
    assert found.id == name
    assert found.known


def test_a_word_stands_for_the_newest_of_its_family() -> None:
    for word in ("fable", "opus", "sonnet", "haiku", "OPUS", " haiku "):
        found = CATALOG.find(word)
        assert found is not None
        assert found.family == word.strip().lower()
        assert found.id == CATALOG.aliases[word.strip().lower()]
    assert CATALOG.find("claude-opus-4-0") is not None


@pytest.mark.parametrize("name", ["claude-opus-9", "claude-opus-5-5-turbo", "gpt-6", "", "opus-5"])
def test_a_name_that_only_resembles_one_is_unknown(name: str) -> None:
    assert CATALOG.find(name) is None
    entry = CATALOG.entry(name)
    assert entry.id == name
    assert not entry.known
    assert (entry.context_window, entry.max_output, entry.prices) == (None, None, ())


def test_the_million_suffix_widens_the_window_only_where_a_beta_does() -> None:
    widened = CATALOG.find("claude-sonnet-4-5[1m]")
    assert widened is not None
    assert (widened.id, widened.context_window) == ("claude-sonnet-4-5", 1_000_000)
    assert "context-1m-2025-08-07" in widened.betas
    plain = CATALOG.find("sonnet[1m]")
    assert plain == CATALOG.find("sonnet")
    assert CATALOG.entry("qwen[1m]").id == "qwen"


def test_entries_hold_together() -> None:
    for model in CATALOG.models:
        assert model.known
        assert model.max_output is not None
        assert model.default_output is not None
        assert 0 < model.default_output <= model.max_output
        assert [p.since for p in model.prices] == sorted(p.since for p in model.prices)
        assert set(model.effort or ()) <= {"low", "medium", "high", "xhigh", "max"}
    assert len({m.id for m in CATALOG.models}) == len(CATALOG.models)
