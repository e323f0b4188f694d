"""Which calls run in the read-only sandbox, and what happens if the sandbox is unavailable."""

from typing import Any

import pytest

from clew.agent.calls import BoundCall
from clew.agent.toolset import decide
from clew.permissions.decision import Allow, Ask, Decision, Effect, Finding, make_decision

BASH = {"name": "Bash", "input": {"command": "ls"}}


class Walls:
    """A toolset whose read-only sandbox is available, or turns out not to be."""

    def __init__(self, *, stands: bool = True, is_known: bool = False) -> None:
        self.has_walls = stands or not is_known
        self._stands = stands
        self.tries = 0
        self.lacks = False

    async def look_up(self) -> bool:
        lacked, self.lacks = self.lacks, False
        return lacked

    async def can_confine(self) -> bool:
        self.tries += 1
        self.has_walls = self._stands
        return self._stands


def finding(effect: Effect, *, asks: bool = False) -> Decision:
    return make_decision(
        [Finding(subject="x", verdict="ask" if asks else "allow", reason="r", effect=effect)]
    )


@pytest.mark.parametrize(
    ("block", "decision", "tries", "confined"),
    [
        (BASH, finding("look"), 1, True),
        (BASH | {"name": "Monitor"}, finding("look"), 1, True),
        # No rule and no user allowed it, so it needs a sandbox that works.
        (BASH, finding("change"), 1, False),
        (BASH, finding("unknown"), 0, False),
        (BASH, finding("look", asks=True), 0, False),
        (BASH | {"name": "Read"}, finding("look"), 0, False),
        (BASH | {"name": "PowerShell"}, finding("look"), 0, False),
    ],
)
async def test_a_shell_that_only_looks_and_was_not_asked_about_is_confined(
    block: dict[str, Any], decision: Decision, tries: int, confined: bool
) -> None:
    walls = Walls()
    assert await decide(walls, BoundCall(block=block), lambda _: decision) == (decision, confined)
    assert walls.tries == tries


@pytest.mark.parametrize("effect", ["look", "change"])
async def test_where_no_wall_stands_after_all_the_call_is_judged_again(effect: Effect) -> None:
    walls = Walls(stands=False)
    judged: list[bool] = []

    def judge(_: BoundCall) -> Decision:
        judged.append(walls.has_walls)
        return finding(effect, asks=not walls.has_walls)

    decision, is_confined = await decide(walls, BoundCall(block=BASH), judge)
    assert (isinstance(decision, Ask), is_confined, judged) == (True, False, [True, False])
    # From then on it is known.
    assert not (await decide(walls, BoundCall(block=BASH), judge))[1]
    assert walls.tries == 1


async def test_where_none_stands_what_is_allowed_all_the_same_runs_without() -> None:
    walls = Walls(stands=False, is_known=True)
    decision, is_confined = await decide(walls, BoundCall(block=BASH), lambda _: finding("look"))
    assert (isinstance(decision, Allow), is_confined, walls.tries) == (True, False, 0)


async def test_what_a_decision_could_not_know_is_looked_up_and_the_call_judged_again() -> None:
    walls = Walls()
    walls.lacks = True
    decision, is_confined = await decide(
        walls, BoundCall(block=BASH), lambda _: finding("look", asks=walls.lacks)
    )
    assert (isinstance(decision, Allow), is_confined) == (True, True)


HIDDEN = Finding(
    subject=".", verdict="ask", reason="r", nature="guard", effect="look", is_hidden=True
)
OUTSIDE = Finding(subject="/x", verdict="ask", reason="r", effect="look")


@pytest.mark.parametrize(
    ("others", "confined"),
    [
        ([], True),
        ([OUTSIDE], True),
        ([Finding(subject="/k", verdict="ask", reason="r", nature="guard", effect="look")], False),
        ([Finding(subject="rm", verdict="ask", reason="r", effect="change")], False),
        ([Finding(subject="make", verdict="allow", reason="r")], False),
        ([Finding(subject="x", verdict="deny", reason="r", effect="look")], False),
    ],
)
async def test_what_asks_for_a_denied_file_alone_is_confined_after_a_yes_too(
    others: list[Finding], confined: bool
) -> None:
    decision = make_decision([HIDDEN, *others])
    assert await decide(Walls(), BoundCall(block=BASH), lambda _: decision) == (decision, confined)
    assert (await decide(Walls(), BoundCall(block=BASH), lambda _: make_decision([OUTSIDE])))[
        1
    ] is False
    assert (await decide(Walls(stands=False), BoundCall(block=BASH), lambda _: decision))[
        1
    ] is False
