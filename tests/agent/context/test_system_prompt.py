"""The system prompt: small, the same every time, and matching the available tools."""

import pytest

from clew.agent.context.system_prompt import GUIDANCE, agent_prompt, system_prompt
from tests.requirements import requirement

ALL = [name for name, _ in GUIDANCE]


def text(model: str = "claude-opus-5-5", *tools: str) -> str:
    return "\n\n".join(block["text"] for block in system_prompt(model, tools))


@requirement("R116", "R117", "W12")
def test_it_is_the_same_bytes_whatever_the_order_of_tools_and_holds_no_fact_of_the_day() -> None:
    assert system_prompt("claude-opus-5-5", ALL) == system_prompt("claude-opus-5-5", set(ALL))
    assert system_prompt("claude-opus-5-5", ALL) == system_prompt("claude-sonnet-5-5", ALL)


def test_it_is_lean() -> None:
    assert len(text("claude-haiku-4-5", *ALL).encode()) <= 6_000


@requirement("C2", "W33")
def test_tools_are_not_listed_in_it_but_guided_where_they_are_there() -> None:
    assert "Read a file before" in text("x", "Read")
    assert "Grep" not in text("x", "Read")


@requirement("R116")
@pytest.mark.parametrize(
    ("model", "word"), [("claude-haiku-4-5", "one step"), ("openai/gpt-5", "Continue until")]
)
def test_a_family_of_models_hears_what_it_needs(model: str, word: str) -> None:
    assert word in text(model)
    assert "# For this model" not in text("claude-opus-5-5")


def test_a_user_may_replace_it_or_add_to_it() -> None:
    def words(**more: str) -> list[str]:
        return [block["text"] for block in system_prompt("x", ALL, **more)]

    assert words(instead="be a pirate") == ["be a pirate"]
    assert words(instead="") == []
    assert words(extra="and rhyme")[-1] == "and rhyme"
    assert len(words(extra="and rhyme")) == 3
    assert "in Welsh" in "".join(words(language="Welsh"))


def test_an_agent_is_told_its_own_words_and_how_its_tools_are_used() -> None:
    first, second = agent_prompt("You look.", ["Read"])
    assert first == {"type": "text", "text": "You look."}
    assert "Read" in second["text"]
    assert len(agent_prompt(" ", [])) == 1


def test_a_style_stands_where_else_is_said_how_to_speak() -> None:
    usual, terse = (
        "\n".join(block["text"] for block in system_prompt("m", ["Read"], style=style))
        for style in ("", "Say little.")
    )
    assert "# Communication\n\nSay little." in terse
    assert "Say little." not in usual
    other = system_prompt("m", ["Read"], style="You write poems.", keeps_work=False)
    assert len("".join(b["text"] for b in other)) < len(terse)


def test_attribution_is_a_section_of_its_own() -> None:
    blocks = system_prompt("x", ("Bash",), attribution="Add a trailer.")
    assert "# Attribution\n\nAdd a trailer." in "\n\n".join(block["text"] for block in blocks)
