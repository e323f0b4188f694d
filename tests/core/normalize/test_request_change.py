"""Descriptions of changes at the beginning of a request."""

from typing import Any

import pytest

from clew.core.ledger.cache_miss import CachedParts, describe_change
from clew.core.normalize.prefix import SYSTEM
from clew.core.normalize.target import MARK

Json = dict[str, Any]


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "description": name, **more}


def message(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def beginning(
    *names: str,
    model: str = "m",
    system: str = "s",
    messages: tuple[Json, ...] = (),
    more: tuple[Json, ...] = (),
) -> CachedParts:
    tools = [*map(tool, names), *more]
    return CachedParts(model=model, tools=tools, system=system, messages=messages)


ONE = message("user", "one")
TWO = message("assistant", "two")
SAID = (ONE, TWO)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (beginning("A"), beginning("A"), ""),
        (beginning(messages=(ONE,)), beginning(messages=SAID), ""),
        (beginning(), beginning(model="n"), "the model changed from m to n"),
        (beginning("A"), beginning("A", "B"), "tools: B added"),
        (beginning("A", "B"), beginning("A"), "tools: B removed"),
        (beginning("A"), beginning(more=(tool("A", x=1),)), "tools: A changed"),
        (
            beginning("A", "X"),
            beginning("B", "C", "D", "E", "X", more=(tool("F"),)),
            "tools: B, C, D and 2 more added; A removed",
        ),
        (beginning("A", "B"), beginning("B", "A"), "the order of the tools changed"),
        (beginning("A"), beginning("A", more=(tool("B", **{MARK: True}),)), ""),
        (beginning(), beginning(system="t"), SYSTEM),
        (
            beginning(messages=SAID),
            beginning(messages=(message("user", "1"), TWO)),
            "message 1 of 2 changed (user)",
        ),
        (
            beginning(messages=(ONE, TWO, message("user", "x"))),
            beginning(messages=SAID),
            "the conversation is shorter: 2 messages instead of 3",
        ),
        (beginning(messages=(ONE,)), beginning(messages=(message("user", "one", "more"),)), ""),
        (
            beginning(messages=({"role": "user", "content": "one"},)),
            beginning(messages=(message("user", "one", "more"),)),
            "",
        ),
        (
            beginning(messages=(ONE,)),
            beginning(messages=(TWO,)),
            "message 1 of 1 changed (assistant)",
        ),
    ],
)
def test_the_first_part_that_changed_is_named(
    before: CachedParts, after: CachedParts, words: str
) -> None:
    assert describe_change(before, after) == words
