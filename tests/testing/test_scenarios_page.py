"""docs/extending/scenarios.md shows scenarios that are read, and names every key there is."""

import re
from pathlib import Path

import pytest

from clew.testing.scenario import (
    Defaults,
    Scenario,
    ScriptedAnswer,
    ScriptedBlock,
    ScriptedFault,
    Send,
    Shape,
    TextCondition,
    ToolResultCondition,
    When,
    parse,
)

PAGE = Path(__file__).parents[2].joinpath("docs", "extending", "scenarios.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_is_a_scenario(number: int) -> None:
    assert parse(EXAMPLES[number].encode(), f"example-{number}.yaml").answers


@pytest.mark.parametrize(
    "shape",
    [
        Scenario,
        Defaults,
        ScriptedAnswer,
        ScriptedBlock,
        ScriptedFault,
        Send,
        When,
        ToolResultCondition,
        TextCondition,
    ],
)
def test_every_key_stands_on_the_page(shape: type[Shape]) -> None:
    words = set(re.findall(r"[a-z_0-9]+", PAGE))
    assert set(shape.__struct_encode_fields__) <= words
