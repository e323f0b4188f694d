"""Hints about misspelled names."""

from clew.core.nearest import find_nearest, suggest_nearest


def test_the_most_similar_known_name_is_found() -> None:
    assert find_nearest("permissons", ["model", "permissions", "permission"]) == "permissions"
    assert find_nearest("modell", iter(["model"]), cutoff=0.9) == "model"


def test_the_only_name_that_begins_so_is_meant() -> None:
    services = ["anthropic", "openai", "openrouter"]
    assert find_nearest("openr", services) == "openrouter"
    # Several begin so: the most similar one.
    assert find_nearest("ope", services) == "openai"
    assert find_nearest("an", services) is None


def test_nothing_similar_gives_no_name_and_no_hint() -> None:
    assert find_nearest("zzz", ["model"]) is None
    assert suggest_nearest("zzz", ["model"]) == ""


def test_a_hint_quotes_the_name() -> None:
    assert suggest_nearest("modell", ["model"]) == ' (did you mean "model"?)'
