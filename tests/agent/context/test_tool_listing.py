"""Names of tools that can be loaded: announced once, and again when they change."""

from clew.agent.context.facts import Fact, find_listed_tools, grouped, make_tool_listing_fact
from clew.core.messages import factories
from clew.core.normalize.tokens import estimate_text_tokens


def entry(fact: Fact | None) -> dict[str, object]:
    assert fact is not None
    return factories.make_attachment(fact.payload, uuid="u", at="now", rendered=fact.rendered)


def test_what_was_told_is_not_told_again() -> None:
    first = entry(make_tool_listing_fact((), ("b", "a")))
    assert find_listed_tools([first]) == {"a", "b"}
    assert make_tool_listing_fact(find_listed_tools([first]), ("a", "b")) is None


def test_a_change_says_what_is_new_and_what_is_gone() -> None:
    first = entry(make_tool_listing_fact((), ("a", "b")))
    change = make_tool_listing_fact(find_listed_tools([first]), ("b", "c"))
    assert change is not None
    assert change.rendered == ("Tools that ToolSearch can load:\nc\nTools no longer available:\na",)
    assert find_listed_tools([first, entry(change)]) == {"b", "c"}


def test_a_listing_that_someone_else_wrote_oddly_names_nothing() -> None:
    odd = [{"type": "attachment", "attachment": {"type": "deferred_tools_delta", "addedNames": 3}}]
    assert find_listed_tools([*odd, {"type": "attachment", "attachment": None}]) == set()


def test_a_hundred_tools_of_five_servers_cost_less_than_a_thousand_tokens() -> None:
    names = [f"mcp__server{n % 5}__create_pull_request_{n}" for n in range(100)]
    fact = make_tool_listing_fact((), names)
    assert fact is not None
    assert estimate_text_tokens(fact.rendered[0]) < 1000
    assert grouped(["x", "mcp__a__b", "mcp__a__c"]) == ["x", "mcp__a__* where * is one of: b, c"]
